/* SPDX-License-Identifier: Apache-2.0 */
/* When will the plan need this part of the arena next? A table over the offsets of a script's entries, made
   once for each script. Not thread-safe for making; any thread may ask. */
#ifndef DAO_PLANNING_OUTLOOK_H
#define DAO_PLANNING_OUTLOOK_H

#include "planning/steps/script.h"

/* Stretches that the arena is cut into. */
#define DAO_OUTLOOK_STRETCH_COUNT 256u

typedef struct dao_outlook {
    const dao_script_t *script; /* borrowed */
    uint64_t stretch_bytes;
    uint32_t *firsts;  /* where the entries of each stretch begin in `entries`; one more at the end */
    uint32_t *entries; /* of each stretch those that lie in it, in order of their begin */
} dao_outlook_t;

/* DAO_ERR_NO_HOST_MEMORY: it is all zero. */
DAO_NODISCARD dao_status_t dao_outlook_init(dao_outlook_t *outlook, const dao_script_t *script);
void dao_outlook_finish(dao_outlook_t *outlook); /* zeroed memory is allowed */

/* Gives the size of the largest entry that begins in [from, until) and lies in [offset, offset + size): what
   would be in its way. 0: the stretch is idle. UINT64_MAX where too many entries would have to be looked at.
   */
uint64_t dao_outlook_harm(const dao_outlook_t *outlook, uint64_t offset_bytes, uint64_t size_bytes,
                          uint32_t from, uint32_t until);

#endif
