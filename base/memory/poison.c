/* SPDX-License-Identifier: Apache-2.0 */
/* AddressSanitizer keeps a byte for eight, its shadow, where zero is no poison. Shadow is memory that exists
   once it is touched, even to be read: of a large mapping, of which little was used, it is given back in
   whole pages, which are zeros then, and only what shares a page of shadow with others is looked at. Of a
   small one all is looked at: the next poison would have to ask for those pages again. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/memory/poison.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes that are looked at, and lose their poison, at a time: what was never poisoned is only looked at. The
   sanitizer looks for the first poisoned byte one by one, which is to be short. */
#define PART_BYTES ((size_t)4 << 10)

/* Of more bytes than these the shadow is given back. */
#define LOOKED_AT_BYTES_MAX ((size_t)512 << 10)

static void unpoison_parts(char *address, size_t size_bytes)
{
    for (size_t offset = 0; offset < size_bytes; offset += PART_BYTES) {
        size_t left_bytes = size_bytes - offset;
        size_t part_bytes = left_bytes < PART_BYTES ? left_bytes : PART_BYTES;
        if (__asan_region_is_poisoned(address + offset, part_bytes) != NULL) {
            __asan_unpoison_memory_region(address + offset, part_bytes);
        }
    }
}

void dao_unpoison(void *address, size_t size_bytes)
{
    if (size_bytes <= LOOKED_AT_BYTES_MAX) {
        unpoison_parts(address, size_bytes);
        return;
    }
    size_t scale = 0;
    size_t shadow = 0;
    __asan_get_shadow_mapping(&scale, &shadow);
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE) << scale; /* that a page of shadow stands for */
    char *bytes = address;
    size_t before_bytes = (page_bytes - (uintptr_t)address % page_bytes) % page_bytes;
    size_t pages_bytes = (size_bytes - before_bytes) / page_bytes * page_bytes;
    uintptr_t first = (((uintptr_t)address + before_bytes) >> scale) + shadow;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the sanitizer says where its shadow is by a number */
    if (madvise((void *)first, pages_bytes >> scale, MADV_DONTNEED) != 0) {
        unpoison_parts(bytes, size_bytes);
        return;
    }
    size_t behind = before_bytes + pages_bytes;
    unpoison_parts(bytes, before_bytes);
    unpoison_parts(bytes + behind, size_bytes - behind);
}
