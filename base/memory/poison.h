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

/* Bytes that are looked at, and lose their poison, at a time. The sanitizer keeps a byte for eight, in memory
   that exists once it is written, even with what it holds already: what was never poisoned is only looked at.
   And it looks for the first poisoned byte one by one, which is to be short. */
#define DAO_UNPOISON_BYTES ((size_t)4 << 10)

static inline void dao_poison(const void *address, size_t size_bytes)
{
    __asan_poison_memory_region(address, size_bytes);
}

static inline void dao_unpoison(void *address, size_t size_bytes)
{
    for (size_t offset = 0; offset < size_bytes; offset += DAO_UNPOISON_BYTES) {
        size_t left_bytes = size_bytes - offset;
        size_t part_bytes = left_bytes < DAO_UNPOISON_BYTES ? left_bytes : DAO_UNPOISON_BYTES;
        if (__asan_region_is_poisoned((char *)address + offset, part_bytes) != NULL) {
            __asan_unpoison_memory_region((char *)address + offset, part_bytes);
        }
    }
}
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
