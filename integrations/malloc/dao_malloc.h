/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_malloc.so: malloc() of a program that knows nothing of libdao, from its host place:
 *
 *     LD_PRELOAD=libdao_malloc.so PROGRAM
 *
 * Requests of more than 32 KiB (DAO_MALLOC_SMALLEST sets another size) are libdao's, but for a few that
 * docs/malloc.md names; smaller ones and libdao's own are glibc's. The host's limit, statistics, recording
 * and plans hold for them, and the settings of docs/settings.md. With DAO_MALLOC_REPORT=FILE each process but
 * a forked child appends a line of JSON to FILE as it exits. A child that was forked takes all from glibc,
 * and keeps its parent's blocks. Here is what a program calls that knows of it, by a weak symbol or by
 * Python's ctypes.
 */
#ifndef DAO_MALLOC_H
#define DAO_MALLOC_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * Begins and ends a step, as dao_step_begin() and dao_step_end() at the host place: with
 * DAO_STEP_PLAN=offsets in the environment the first step is recorded, and the next ones get each block where a
 * plan has a place for it. Without, they do nothing.
 *
 * @return 0, or a dao_status_t: DAO_ERR_INVALID for an end without a begin, DAO_ERR_FORKED in a child
 *         process, why libdao could not be started.
 *
 * Threads: any. Waits: the end of the first step for the plan. Cost: O(plan's keys).
 */
DAO_API int dao_malloc_step_begin(void);
DAO_API int dao_malloc_step_end(void);

DAO_END_DECLS

#endif
