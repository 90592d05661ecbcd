/* SPDX-License-Identifier: Apache-2.0 */
/* What sanitizers cannot see by themselves: AddressSanitizer is told which bytes of the library's own
   mappings nobody may touch, MemorySanitizer that bytes which came with moved pages were written. Where a
   build has no such sanitizer, nothing happens. Both go by addresses, not by pages: bytes that are touched
   through another mapping, or by a device, are not seen. */
#ifndef DAO_BASE_POISON_H
#define DAO_BASE_POISON_H

#include <stddef.h>

#if defined(DAO_POISONS)
#include <sanitizer/asan_interface.h>

static inline void dao_poison(const void *address, size_t size_bytes)
{
    __asan_poison_memory_region(address, size_bytes);
}

/* Takes the poison from bytes, few or a whole mapping of which little was ever used: it costs no more than
   what was poisoned. */
void dao_unpoison(void *address, size_t size_bytes);
#else
static inline void dao_poison(const void *address, size_t size_bytes)
{
    (void)address;
    (void)size_bytes;
}

static inline void dao_unpoison(void *address, size_t size_bytes)
{
    (void)address;
    (void)size_bytes;
}
#endif

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define DAO_HAS_MEMORY_SANITIZER
#include <sanitizer/msan_interface.h>
#endif
#endif

/* These bytes came from the system: pages that lay elsewhere before or are new, of zeros, or what io_uring
   has read. */
static inline void dao_system_has_written(const void *address, size_t size_bytes)
{
#if defined(DAO_HAS_MEMORY_SANITIZER)
    __msan_unpoison(address, size_bytes);
#else
    (void)address;
    (void)size_bytes;
#endif
}

#endif
