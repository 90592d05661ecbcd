/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints of what a search has tried, so that it does not try the same again. */
#ifndef DAO_PLANNING_SWAP_FINGERPRINT_H
#define DAO_PLANNING_SWAP_FINGERPRINT_H

#include <stdint.h>

/* Fingerprints begin with it. */
#define DAO_SWAP_FINGERPRINT_NONE UINT64_C(0xcbf29ce484222325)

/* Adds a word to a fingerprint: FNV-1a, a word at a time, its upper half folded in. */
static inline uint64_t dao_swap_fingerprint_mix(uint64_t fingerprint, uint64_t word)
{
    static const uint64_t prime = UINT64_C(0x100000001b3);
    fingerprint = (fingerprint ^ word) * prime;
    return fingerprint ^ (fingerprint >> 32);
}

#endif
