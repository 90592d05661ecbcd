/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that tell whose they are: word i of a tensor is base + i * PATTERN_STEP, and the base depends on the
   tensor and on how often it was written. A stale, foreign or shifted word is seen. Fill and check run at the
   speed of memory. */
#ifndef DAO_TOOLS_PATTERN_H
#define DAO_TOOLS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* The base of what `owner` holds after its `version`-th write; version 0 is what it held before the step. */
uint64_t dao_pattern_base(uint64_t owner, uint32_t version);

/* `address` is aligned to 8 bytes; `size_bytes` need not be a multiple. */
void dao_pattern_fill(void *address, size_t size_bytes, uint64_t base);

/* Fills a part of a tensor, from `offset_bytes` on, a multiple of 8, as dao_pattern_fill() fills the
   whole. */
void dao_pattern_fill_part(void *address, uint64_t offset_bytes, size_t size_bytes, uint64_t base);

/* Returns the number of words that differ; a differing tail is one. */
uint64_t dao_pattern_check(const void *address, size_t size_bytes, uint64_t base);

#endif
