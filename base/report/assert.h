/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions of two prices. DAO_ASSERT is cheap and on in every build but release. DAO_ASSERT_HEAVY walks a
   whole structure and is on where DAO_HEAVY_ASSERTS is set: the presets dev, asan and tsan. */
#ifndef DAO_BASE_ASSERT_H
#define DAO_BASE_ASSERT_H

#include <assert.h> /* static_assert alone */
#include <stdnoreturn.h>

/* Prints the condition and aborts. */
noreturn void dao_assert_failed(const char *condition, const char *file, int line);

#if defined(DAO_ASSERTS)
#define DAO_ASSERT(condition) ((condition) ? (void)0 : dao_assert_failed(#condition, __FILE__, __LINE__))
#else
#define DAO_ASSERT(condition) ((void)(0 && (condition)))
#endif

#if defined(DAO_HEAVY_ASSERTS)
#define DAO_ASSERT_HEAVY(condition) DAO_ASSERT(condition)
#else
#define DAO_ASSERT_HEAVY(condition) ((void)(0 && (condition)))
#endif

#endif
