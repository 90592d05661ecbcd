/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the block around any offset, with the index of first starts or without it. */
#include "allocators/range/range_internal.h"

#define NONE DAO_RANGE_NONE

/* ---- the index of first starts ---- */

static uint32_t page_of(const dao_range_t *range, uint32_t link)
{
    return dao_range_at(range, link)->offset_units >> PAGE_UNIT_SHIFT;
}

static bool page_has_start(const dao_range_t *range, uint32_t page)
{
    return (range->page_words[page / WORD_BITS] >> page % WORD_BITS & 1) != 0;
}

void dao_range_index_add(dao_range_t *range, uint32_t link)
{
    uint32_t page = page_of(range, link);
    if (!page_has_start(range, page) ||
        dao_range_at(range, range->firsts[page])->offset_units > dao_range_at(range, link)->offset_units) {
        range->firsts[page] = link;
        range->page_words[page / WORD_BITS] |= UINT64_C(1) << page % WORD_BITS;
    }
}

void dao_range_index_drop(dao_range_t *range, uint32_t link)
{
    uint32_t page = page_of(range, link);
    if (range->firsts[page] != link || !page_has_start(range, page)) {
        return;
    }
    uint32_t after = dao_range_at(range, link)->after;
    if (after != NONE && page_of(range, after) == page) {
        range->firsts[page] = after;
    } else {
        range->page_words[page / WORD_BITS] &= ~(UINT64_C(1) << page % WORD_BITS);
    }
}

/* Returns the last page up to `page` that a block starts in; page 0 always is one. */
static uint32_t page_with_start(const dao_range_t *range, uint32_t page)
{
    uint32_t word = page / WORD_BITS;
    uint64_t bits = range->page_words[word] & UINT64_MAX >> (WORD_BITS - 1 - page % WORD_BITS);
    while (bits == 0) {
        DAO_ASSERT(word > 0);
        bits = range->page_words[--word];
    }
    return word * WORD_BITS + 63u - (uint32_t)__builtin_clzll(bits);
}

uint32_t dao_range_node_around(const dao_range_t *range, uint32_t offset_units)
{
    uint32_t link = dao_range_first(range);
    if (range->firsts != NULL) {
        link = range->firsts[page_with_start(range, offset_units >> PAGE_UNIT_SHIFT)];
        if (dao_range_at(range, link)->offset_units > offset_units) {
            return dao_range_at(range, link)->before;
        }
    }
    while (offset_units - dao_range_at(range, link)->offset_units >= dao_range_at(range, link)->size_units) {
        link = dao_range_at(range, link)->after;
    }
    return link;
}

dao_range_block_t dao_range_describe(const dao_range_t *range, uint32_t link)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    bool is_free = dao_range_is_free(range, link);
    return (dao_range_block_t){.offset_bytes = (uint64_t)node->offset_units << UNIT_SHIFT,
                               .size_bytes = node->size_units << UNIT_SHIFT,
                               .user = is_free ? 0 : node->user,
                               .id = link,
                               .is_free = is_free,
                               .fence = dao_range_fence_of(range, link)};
}
