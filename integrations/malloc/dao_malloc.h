/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_malloc.so: malloc() of a program that knows nothing of libdao, from its host place:
 *
 *     LD_PRELOAD=libdao_malloc.so PROGRAM
 *
 * Requests of more than 32 KiB (DAO_MALLOC_SMALLEST sets another size) go to libdao, but for a few that
 * docs/malloc.md names; smaller ones and libdao's own go to glibc. The host place's limit, statistics,
 * recording and step plans apply, and the settings of docs/settings.md. With DAO_MALLOC_REPORT=FILE each
 * process, except forked children, appends a line of JSON to FILE as it exits. A forked child allocates from
 * glibc alone and keeps its parent's blocks. Programs call the functions below through a weak symbol or
 * Python's ctypes.
 */
#ifndef DAO_MALLOC_H
#define DAO_MALLOC_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * Begin and end a step, as dao_step_begin() and dao_step_end() for the host place. With DAO_STEP_PLAN=offsets
 * in the environment the first step is recorded, and the blocks of later ones get their planned addresses.
 * Without it they do nothing.
 *
 * @return 0, or a dao_status_t: DAO_ERR_INVALID for an end without a begin; DAO_ERR_FORKED in a forked child;
 *         the status of a failed start of libdao.
 *
 * Threads: any. Waits: the end of the first step for the plan. Cost: O(plan's keys).
 */
DAO_API int dao_malloc_step_begin(void);
DAO_API int dao_malloc_step_end(void);

DAO_END_DECLS

#endif
