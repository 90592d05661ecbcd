/* SPDX-License-Identifier: Apache-2.0 */
/* What the passes of swap planning work on: a step, its parts and their decisions. */
#ifndef DAO_TESTS_SUPPORT_SWAP_PASS_H
#define DAO_TESTS_SUPPORT_SWAP_PASS_H

#include "planning/swap/step/swap_parts.h"
#include "tests/support/models/swap_steps.h"

typedef struct swap_pass {
    dao_swap_step_t step;
    dao_swap_parts_t parts;
    dao_swap_decision_t *decisions; /* one an inactive period of a part; all zero: everything stays */
    uint64_t *kernel_bytes;         /* scratch, one a kernel */
    uint64_t least_bytes,
        peak_bytes; /* of capacities: for the largest kernel, and with which nothing moves */
} swap_pass_t;

/* Makes a step ready, with all of the problem's memory. Failures are the test's. */
void swap_pass_begin(swap_pass_t *pass, const swap_step_box_t *box, uint64_t part_bytes);
void swap_pass_end(swap_pass_t *pass);

/* Fills a box with a random step whose host link has a speed. Alignments divide `part_bytes`. */
void swap_pass_random(swap_step_box_t *box, uint64_t *random);

#endif
