/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * In C, functions that take a place take one of any type: `dao_trim(dao_device_place(0), 0, NULL)`. These
 * macros convert it with dao_place_of(). dao_alloc(), dao_free() and dao_used() pick the function of the type
 * instead, see dao/memory.h.
 *
 * The macros have the functions' own names. `&dao_trim` and `(dao_trim)(place, 0, NULL)` are the functions. A
 * place that is a compound literal needs parentheses around it.
 */
#ifndef DAO_TYPED_H
#define DAO_TYPED_H

#include <dao/place.h>

#ifndef __cplusplus

/* dao/async.h */
#define dao_alloc_async(place, ...)   dao_alloc_async(dao_place_of(place), __VA_ARGS__)
#define dao_free_async(place, ...)    dao_free_async(dao_place_of(place), __VA_ARGS__)
#define dao_record_stream(place, ...) dao_record_stream(dao_place_of(place), __VA_ARGS__)

/* dao/lease.h */
#define dao_lease_begin(place, ...) dao_lease_begin(dao_place_of(place), __VA_ARGS__)

/* dao/memory.h */
#define dao_copy(dst_place, dst, src_place, src, size_bytes)                                                 \
    dao_copy(dao_place_of(dst_place), (dst), dao_place_of(src_place), (src), (size_bytes))
#define dao_alloc_with(place, ...)          dao_alloc_with(dao_place_of(place), __VA_ARGS__)
#define dao_trim(place, ...)                dao_trim(dao_place_of(place), __VA_ARGS__)
#define dao_limit_set(place, ...)           dao_limit_set(dao_place_of(place), __VA_ARGS__)
#define dao_memory_create(place, ...)       dao_memory_create(dao_place_of(place), __VA_ARGS__)
#define dao_memory_from_pointer(place, ...) dao_memory_from_pointer(dao_place_of(place), __VA_ARGS__)

/* dao/observe.h */
#define dao_events_start(place, ...)    dao_events_start(dao_place_of(place), __VA_ARGS__)
#define dao_events_stop(place)          dao_events_stop(dao_place_of(place))
#define dao_events_read(place, ...)     dao_events_read(dao_place_of(place), __VA_ARGS__)
#define dao_snapshot_create(place, ...) dao_snapshot_create(dao_place_of(place), __VA_ARGS__)
#define dao_block_query(place, ...)     dao_block_query(dao_place_of(place), __VA_ARGS__)
#define dao_stats_tree_walk(place, ...) dao_stats_tree_walk(dao_place_of(place), __VA_ARGS__)
#define dao_hardening_check(place)      dao_hardening_check(dao_place_of(place))

/* dao/place.h */
#define dao_place_format(place, ...) dao_place_format(dao_place_of(place), __VA_ARGS__)

/* dao/place_config.h */
#define dao_place_configure(place, ...) dao_place_configure(dao_place_of(place), __VA_ARGS__)

/* dao/pressure.h */
#define dao_pressure_callback_add(place, ...) dao_pressure_callback_add(dao_place_of(place), __VA_ARGS__)
#define dao_pressure_wait_set(place, ...)     dao_pressure_wait_set(dao_place_of(place), __VA_ARGS__)

/* dao/segment.h */
#define dao_segment_callback_add(place, ...) dao_segment_callback_add(dao_place_of(place), __VA_ARGS__)

/* dao/step_plan.h */
#define dao_step_begin(place)               dao_step_begin(dao_place_of(place))
#define dao_step_end(place)                 dao_step_end(dao_place_of(place))
#define dao_step_plan_enable(place, ...)    dao_step_plan_enable(dao_place_of(place), __VA_ARGS__)
#define dao_step_plan_wait(place, ...)      dao_step_plan_wait(dao_place_of(place), __VA_ARGS__)
#define dao_step_plan_reset(place)          dao_step_plan_reset(dao_place_of(place))
#define dao_step_plan_save(place, ...)      dao_step_plan_save(dao_place_of(place), __VA_ARGS__)
#define dao_step_plan_load(place, ...)      dao_step_plan_load(dao_place_of(place), __VA_ARGS__)
#define dao_step_plan_stats_get(place, ...) dao_step_plan_stats_get(dao_place_of(place), __VA_ARGS__)
#define dao_step_plan_walk(place, ...)      dao_step_plan_walk(dao_place_of(place), __VA_ARGS__)

/* dao/share.h */
#define dao_memory_create_shared(place, ...) dao_memory_create_shared(dao_place_of(place), __VA_ARGS__)
#define dao_memory_import(place, ...)        dao_memory_import(dao_place_of(place), __VA_ARGS__)

/* dao/stats.h */
#define dao_stats_get(place, ...)    dao_stats_get(dao_place_of(place), __VA_ARGS__)
#define dao_stats_reset_peaks(place) dao_stats_reset_peaks(dao_place_of(place))

/* dao/tag.h */
#define dao_tag_stats_get(place, ...) dao_tag_stats_get(dao_place_of(place), __VA_ARGS__)
#define dao_tag_limit_set(place, ...) dao_tag_limit_set(dao_place_of(place), __VA_ARGS__)
#define dao_tag_walk(place, ...)      dao_tag_walk(dao_place_of(place), __VA_ARGS__)

/* dao/tensor.h */
#define dao_tensor_empty(place, ...) dao_tensor_empty(dao_place_of(place), __VA_ARGS__)
#define dao_tensor_zeros(place, ...) dao_tensor_zeros(dao_place_of(place), __VA_ARGS__)

/* dao/stream.h */
#define dao_stream_copy(stream, dst_place, dst, src_place, src, size_bytes)                                  \
    dao_stream_copy((stream), dao_place_of(dst_place), (dst), dao_place_of(src_place), (src), (size_bytes))

#endif

#endif
