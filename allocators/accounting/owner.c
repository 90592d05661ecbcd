/* SPDX-License-Identifier: Apache-2.0 */
/* One list has the owners and their texts: DAO_BLOCK_OWNER_LIST. */
#include "allocators/accounting/owner.h"

const char *dao_block_owner_text(dao_block_owner_t owner)
{
    switch (owner) {
#define OWNER_CASE(number, name, text, end)                                                                  \
    case DAO_BLOCK_OWNER_##name:                                                                             \
        return text;
        DAO_BLOCK_OWNER_LIST(OWNER_CASE)
#undef OWNER_CASE
    }
    return "unknown";
}

const char *dao_block_owner_end(dao_block_owner_t owner)
{
    switch (owner) {
#define OWNER_CASE(number, name, text, end)                                                                  \
    case DAO_BLOCK_OWNER_##name:                                                                             \
        return end;
        DAO_BLOCK_OWNER_LIST(OWNER_CASE)
#undef OWNER_CASE
    }
    return "its owner";
}
