/* SPDX-License-Identifier: Apache-2.0 */
/* The names of tags: whom blocks are counted for. Names belong to the process; what a place has of each tag
   is in tags.h. Threads: any. */
#ifndef DAO_ALLOCATORS_TAG_NAMES_H
#define DAO_ALLOCATORS_TAG_NAMES_H

#include <dao/tag.h>

/* dao_tag_create(). */
DAO_NODISCARD dao_status_t dao_tag_names_add(const char *name, uint32_t *out_tag);

/* Returns a tag's name; NULL for nobody and for a number that is no tag. */
const char *dao_tag_names_get(uint32_t tag);

#endif
