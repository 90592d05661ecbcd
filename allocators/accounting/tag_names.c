/* SPDX-License-Identifier: Apache-2.0 */
/* The names of tags.

       names     [ - | "weights" | "cache" | "batch" | NULL ... ]     one table for the process, from 1 up

   Each slot goes from NULL to a name once, by compare and swap, and stays. Whoever adds a name looks from
   slot 1 up and tries the first empty slot; if another name got there first it goes on behind it. So all
   names lie without a gap, and two threads that add one name meet at one slot: a name has one tag. Names live
   as long as the process. */
#include "allocators/accounting/tag_names.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <stdatomic.h>
#include <string.h>

static _Atomic(const char *) names[DAO_TAG_COUNT_MAX];

static bool is_name(const char *name)
{
    size_t length = 0;
    while (length < DAO_TAG_NAME_BYTES && name[length] != '\0') {
        if ((unsigned char)name[length] < ' ' || name[length] == 0x7f) {
            return false;
        }
        length++;
    }
    return length > 0 && length < DAO_TAG_NAME_BYTES;
}

/* Looks from *tag on, where no earlier slot has the name: *tag is then its slot, or the first empty one, or
   the end. */
static bool find_name(const char *name, uint32_t *tag)
{
    for (; *tag < DAO_TAG_COUNT_MAX; (*tag)++) {
        const char *other = atomic_load_explicit(&names[*tag], memory_order_acquire);
        if (other == NULL || strcmp(other, name) == 0) {
            return other != NULL;
        }
    }
    return false;
}

dao_status_t dao_tag_names_add(const char *name, uint32_t *out_tag)
{
    if (!is_name(name)) {
        return dao_error(DAO_ERR_INVALID,
                         "a tag's name has 1 to %d bytes and no control characters; this one is \"%.64s\"",
                         DAO_TAG_NAME_BYTES - 1, name);
    }
    uint32_t tag = 1;
    char *own = NULL;
    while (!find_name(name, &tag) && tag < DAO_TAG_COUNT_MAX) {
        own = own != NULL ? own : dao_host_strdup(name);
        if (own == NULL) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tag \"%s\"", name);
        }
        const char *empty = NULL;
        if (atomic_compare_exchange_strong(&names[tag], &empty, own)) {
            own = NULL; /* the table's */
        }
    }
    dao_host_free(own);
    if (tag == DAO_TAG_COUNT_MAX) {
        return dao_error(DAO_ERR_TOO_MANY, "no tag for \"%s\": the process has %u already", name,
                         DAO_TAG_COUNT_MAX - 1);
    }
    *out_tag = tag;
    return DAO_OK;
}

const char *dao_tag_names_get(uint32_t tag)
{
    return tag < DAO_TAG_COUNT_MAX ? atomic_load_explicit(&names[tag], memory_order_acquire) : NULL;
}
