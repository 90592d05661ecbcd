/* SPDX-License-Identifier: Apache-2.0 */
/* Which sanitizer this build has, and how much of its rounds a test runs under it: the one place that knows.

   A build with assertions runs every round, and lets every call fail, but where a test takes larger steps of
   its own, which are larger still under a sanitizer. One without, as it is installed, has the same code and
   the same seeds: a part of them shows whether the compiler changed what it does. AddressSanitizer is to see
   every path with a failure on it, at several times the price: a part of the rounds, and every third call. A
   build that counts which lines run is as slow, but lets every call fail: that is what it counts.
   ThreadSanitizer looks for two threads that touch the same thing without an order between them; a path has
   the same pairs of threads whichever of its calls fails, so that a stride through the calls shows as much,
   and half of the others' rounds. MemorySanitizer, beside the others, takes the same stride.

   ThreadSanitizer has nothing to see where an executor has no thread of its own, a *still* one in virtual
   time: cases with such alone, where they take long, are left out there (TEST_STILL).

   Where tests have all structures of an executor walked after each kernel, builds without a sanitizer do so,
   with the same seeds: a walk is most of such a run there, and only reads what the executor's thread wrote.
 */
#ifndef DAO_TESTS_SUPPORT_SANITIZER_H
#define DAO_TESTS_SUPPORT_SANITIZER_H

/* gcc defines a macro, clang has a feature. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_HAS_THREAD_SANITIZER
#elif __has_feature(address_sanitizer)
#define TEST_HAS_ADDRESS_SANITIZER
#elif __has_feature(memory_sanitizer)
#define TEST_HAS_MEMORY_SANITIZER
#endif
#elif defined(__SANITIZE_THREAD__)
#define TEST_HAS_THREAD_SANITIZER
#elif defined(__SANITIZE_ADDRESS__)
#define TEST_HAS_ADDRESS_SANITIZER
#endif

#if defined(TEST_HAS_THREAD_SANITIZER) || defined(TEST_HAS_ADDRESS_SANITIZER) ||                             \
    defined(TEST_HAS_MEMORY_SANITIZER)
#define TEST_HAS_SANITIZER
enum { TEST_WALKS = 0 };
#else
enum { TEST_WALKS = 1 };
#endif

#if defined(TEST_HAS_THREAD_SANITIZER)
enum { TEST_STILL = 0 };
#else
enum { TEST_STILL = 1 };
#endif

#if defined(TEST_HAS_THREAD_SANITIZER)
enum { TEST_ROUNDS_DIVISOR = 8, TEST_CALL_STEP = 29 }; /* a prime: no loop of a test has such a period */
#elif defined(TEST_HAS_MEMORY_SANITIZER)
enum { TEST_ROUNDS_DIVISOR = 4, TEST_CALL_STEP = 29 };
#elif defined(TEST_HAS_ADDRESS_SANITIZER)
enum { TEST_ROUNDS_DIVISOR = 4, TEST_CALL_STEP = 3 };
#elif defined(TEST_COUNTS_LINES)
enum { TEST_ROUNDS_DIVISOR = 4, TEST_CALL_STEP = 1 };
#elif !defined(DAO_ASSERTS)
enum { TEST_ROUNDS_DIVISOR = 4, TEST_CALL_STEP = 3 };
#else
enum { TEST_ROUNDS_DIVISOR = 1, TEST_CALL_STEP = 1 };
#endif

/* The rounds of this build, of those that a plain one runs; at least one. */
#define TEST_ROUNDS(count) ((count) > TEST_ROUNDS_DIVISOR ? (count) / TEST_ROUNDS_DIVISOR : 1)

#endif
