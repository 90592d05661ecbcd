/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as files. */
#ifndef DAO_TOOLS_PLAN_WRITE_H
#define DAO_TOOLS_PLAN_WRITE_H

#include "tools/plan/plan_contest.h"

#include <stdio.h>

/**
 * Writes a plan as CSV: `id,lower,upper,size`, `alignment` and `gaps` if there are any, `pool` if one is used
 * or asked for besides the first, `offset`, which is empty for a buffer that is not placed. read_lifetimes.h
 * reads it back with every offset fixed; MiniMalloc's tools read it, too. Of buffers with one id, as a step's
 * temporaries may have, all but the first have their number behind it: `id@7`.
 *
 * @return DAO_OK; DAO_ERR_IO if the file cannot be written; DAO_ERR_INVALID if an id has a line's end, which
 *         such a file cannot hold; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: O(buffers).
 */
DAO_NODISCARD dao_status_t dao_plan_write(const char *path, const dao_plan_input_t *input,
                                          const dao_plan_t *plan);

/* The same into an open file; without a plan, NULL, the offsets are those that the buffers are fixed at. */
DAO_NODISCARD dao_status_t dao_plan_write_lines(FILE *file, const dao_plan_input_t *input,
                                                const dao_plan_t *plan);

/**
 * Draws a plan as SVG: time to the right, offsets upwards, a rectangle a buffer, dark if it lives long; pools
 * lie above each other, each as high as it is used. Of very many buffers the largest are drawn one by one;
 * the others are grey, the darker the more of a place they use.
 *
 * @param title  What is drawn, a line of text.
 * @return DAO_OK; DAO_ERR_IO if the file cannot be written; DAO_ERR_UNSUPPORTED for lives by several clocks;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: O(buffers).
 */
DAO_NODISCARD dao_status_t dao_plan_draw(const char *path, const char *title, const dao_plan_input_t *input,
                                         const dao_plan_t *plan);

#endif
