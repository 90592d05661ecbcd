/* SPDX-License-Identifier: Apache-2.0 */
/* Words in blocks of a fixed length, so that the compiler makes vectors of them; a block that differs
   anywhere is looked at again, word by word. */
#include "tools/run/pattern.h"

#include <string.h>

#define PATTERN_STEP UINT64_C(0x9e3779b97f4a7c15)

enum { BLOCK_WORDS = 32 };

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t dao_pattern_base(uint64_t owner, uint32_t version)
{
    return mix(mix(owner + 1) + version);
}

void dao_pattern_fill(void *address, size_t size_bytes, uint64_t base)
{
    uint64_t *words = address;
    size_t word_count = size_bytes / 8;
    size_t i = 0;
    for (; i + BLOCK_WORDS <= word_count; i += BLOCK_WORDS) {
        for (size_t k = 0; k < BLOCK_WORDS; k++) {
            words[i + k] = base + k * PATTERN_STEP;
        }
        base += BLOCK_WORDS * PATTERN_STEP;
    }
    for (; i < word_count; i++, base += PATTERN_STEP) {
        words[i] = base;
    }
    memcpy(words + word_count, &base, size_bytes % 8);
}

void dao_pattern_fill_part(void *address, uint64_t offset_bytes, size_t size_bytes, uint64_t base)
{
    dao_pattern_fill(address, size_bytes, base + offset_bytes / 8 * PATTERN_STEP);
}

uint64_t dao_pattern_check(const void *address, size_t size_bytes, uint64_t base)
{
    const uint64_t *words = address;
    size_t word_count = size_bytes / 8;
    uint64_t differing = 0;
    size_t i = 0;
    for (; i + BLOCK_WORDS <= word_count; i += BLOCK_WORDS) {
        uint64_t any = 0;
        for (size_t k = 0; k < BLOCK_WORDS; k++) {
            any |= words[i + k] ^ (base + k * PATTERN_STEP);
        }
        for (size_t k = 0; any != 0 && k < BLOCK_WORDS; k++) {
            differing += words[i + k] != base + k * PATTERN_STEP;
        }
        base += BLOCK_WORDS * PATTERN_STEP;
    }
    for (; i < word_count; i++, base += PATTERN_STEP) {
        differing += words[i] != base;
    }
    return differing + (memcmp(words + word_count, &base, size_bytes % 8) != 0);
}
