/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that does what a swap schedule says, byte by byte, in any order that its fences allow, and finds
   whatever would go wrong on a real one: a kernel that reads other bytes than it should, two things that
   access the same bytes at the same time, fences that wait for each other, places outside of an arena. */
#ifndef DAO_TESTS_SUPPORT_SWAP_MACHINE_H
#define DAO_TESTS_SUPPORT_SWAP_MACHINE_H

#include <dao/swap.h>

/* Runs some steps in a random order. True if all went well, else a sentence is printed. */
bool swap_machine_run(const dao_swap_problem_t *problem, const dao_swap_schedule_t *schedule,
                      uint32_t step_count, uint64_t *random);

#endif
