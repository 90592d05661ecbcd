/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * In C, functions that take a place take one of any type: `dao_trim(dao_device_place(0), 0, NULL)`. These
 * macros convert it with dao_place_of(). dao_alloc(), dao_free() and dao_used() pick the function of the type
 * instead, see dao/memory.h.
 *
 * The macros have the functions' own names. `&dao_trim` and `(dao_trim)(place, 0, NULL)` are the functions. A
 * place may be a compound literal: `dao_trim((dao_place_t){DAO_PLACE_KIND_DEVICE, 0}, 0, NULL)`. So may what
 * follows: `dao_tensor_empty(place, DAO_TYPE_F32, 2, (int64_t[]){3, 4}, &tensor)`. Where both are, and for
 * dao_copy() and dao_stream_copy(), arguments that have commas, but for the places, need parentheses.
 */
#ifndef DAO_TYPED_H
#define DAO_TYPED_H

#include <dao/place.h>

#ifndef __cplusplus

/* A place and so many arguments more. One that does not begin as a compound literal does, with parentheses
   and more behind them, is whole, whatever commas follow; of one that does, the count of arguments tells
   whether it was cut at its comma. */
#define DAO_PLACE_WHOLE(place, ...)     dao_place_of(place), __VA_ARGS__
#define DAO_PLACE_CUT(kind, index, ...) dao_place_of(kind, index), __VA_ARGS__
#define DAO_PLACE_COUNTED_1(...)                                                                             \
    DAO_ARG_PICK(__VA_ARGS__, 0, 0, 0, 0, 0, DAO_PLACE_CUT, DAO_PLACE_WHOLE, 0, 0)(__VA_ARGS__)
#define DAO_PLACE_COUNTED_2(...)                                                                             \
    DAO_ARG_PICK(__VA_ARGS__, 0, 0, 0, 0, DAO_PLACE_CUT, DAO_PLACE_WHOLE, 0, 0)(__VA_ARGS__)
#define DAO_PLACE_COUNTED_3(...)                                                                             \
    DAO_ARG_PICK(__VA_ARGS__, 0, 0, 0, DAO_PLACE_CUT, DAO_PLACE_WHOLE, 0, 0)(__VA_ARGS__)
#define DAO_PLACE_COUNTED_4(...)                                                                             \
    DAO_ARG_PICK(__VA_ARGS__, 0, 0, DAO_PLACE_CUT, DAO_PLACE_WHOLE, 0, 0)(__VA_ARGS__)
#define DAO_PLACE_COUNTED_5(...)                                                                             \
    DAO_ARG_PICK(__VA_ARGS__, 0, DAO_PLACE_CUT, DAO_PLACE_WHOLE, 0, 0)(__VA_ARGS__)
#define DAO_PLACE_ARGS_0(...) dao_place_of(__VA_ARGS__)
#define DAO_PLACE_ARGS_1(...) DAO_PLACE_ARGS(DAO_PLACE_COUNTED_1, __VA_ARGS__)
#define DAO_PLACE_ARGS_2(...) DAO_PLACE_ARGS(DAO_PLACE_COUNTED_2, __VA_ARGS__)
#define DAO_PLACE_ARGS_3(...) DAO_PLACE_ARGS(DAO_PLACE_COUNTED_3, __VA_ARGS__)
#define DAO_PLACE_ARGS_4(...) DAO_PLACE_ARGS(DAO_PLACE_COUNTED_4, __VA_ARGS__)
#define DAO_PLACE_ARGS_5(...) DAO_PLACE_ARGS(DAO_PLACE_COUNTED_5, __VA_ARGS__)
#define DAO_PLACE_ARGS(counted, first, ...)                                                                  \
    DAO_PLACE_BY(DAO_BEGINS_PAREN(first), DAO_IS_PAREN(first), counted)(first, __VA_ARGS__)
#define DAO_PLACE_BY(begins, is, counted)  DAO_PLACE_BY_(begins, is, counted)
#define DAO_PLACE_BY_(begins, is, counted) DAO_PLACE_BY_##begins##is(counted)
#define DAO_PLACE_BY_10(counted)           counted
#define DAO_PLACE_BY_11(counted)           DAO_PLACE_WHOLE
#define DAO_PLACE_BY_00(counted)           DAO_PLACE_WHOLE

/* Two places, each with an address, and a size. Where one place was cut, it is the first if that begins as
   a compound literal does: with parentheses, and more behind them. */
#define DAO_COPY_ARGS(...)                                                                                   \
    DAO_ARG_PICK(__VA_ARGS__, 0, DAO_COPY_BOTH, DAO_COPY_ONE, DAO_COPY_NONE, 0, 0, 0, 0)(__VA_ARGS__)
#define DAO_COPY_NONE(dst_place, dst, src_place, src, size_bytes)                                            \
    dao_place_of(dst_place), (dst), dao_place_of(src_place), (src), (size_bytes)
#define DAO_COPY_BOTH(dst_kind, dst_index, dst, src_kind, src_index, src, size_bytes)                        \
    dao_place_of(dst_kind, dst_index), (dst), dao_place_of(src_kind, src_index), (src), (size_bytes)
#define DAO_COPY_FIRST(dst_kind, dst_index, dst, src_place, src, size_bytes)                                 \
    dao_place_of(dst_kind, dst_index), (dst), dao_place_of(src_place), (src), (size_bytes)
#define DAO_COPY_SECOND(dst_place, dst, src_kind, src_index, src, size_bytes)                                \
    dao_place_of(dst_place), (dst), dao_place_of(src_kind, src_index), (src), (size_bytes)
#define DAO_COPY_ONE(first, ...)                                                                             \
    DAO_COPY_ONE_BY(DAO_BEGINS_PAREN(first), DAO_IS_PAREN(first))(first, __VA_ARGS__)
#define DAO_COPY_ONE_BY(begins, is)  DAO_COPY_ONE_BY_(begins, is)
#define DAO_COPY_ONE_BY_(begins, is) DAO_COPY_ONE_##begins##is
#define DAO_COPY_ONE_10              DAO_COPY_FIRST
#define DAO_COPY_ONE_11              DAO_COPY_SECOND
#define DAO_COPY_ONE_00              DAO_COPY_SECOND
#define DAO_BEGINS_PAREN(first)      DAO_HAS_COMMA(DAO_COMMA first)
#define DAO_IS_PAREN(first)          DAO_HAS_COMMA_LATE(DAO_COMMA DAO_NOTHING first())
#define DAO_HAS_COMMA_LATE(...)      DAO_HAS_COMMA(__VA_ARGS__)
#define DAO_HAS_COMMA(...)           DAO_ARG_PICK(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 0, 0)
#define DAO_COMMA(...)               ,
#define DAO_NOTHING(...)

/* Two places and a batch. Without a literal among the places the batch may be one. */
#define DAO_BATCH_ARGS(first, second, ...)                                                                   \
    DAO_BATCH_BY(DAO_BEGINS_PAREN(first), DAO_BEGINS_PAREN(second))(first, second, __VA_ARGS__)
#define DAO_BATCH_BY(first, second)  DAO_BATCH_BY_(first, second)
#define DAO_BATCH_BY_(first, second) DAO_BATCH_BY_##first##second
#define DAO_BATCH_BY_00              DAO_BATCH_WHOLE
#define DAO_BATCH_BY_01              DAO_BATCH_COUNTED
#define DAO_BATCH_BY_10              DAO_BATCH_COUNTED
#define DAO_BATCH_BY_11              DAO_BATCH_COUNTED
#define DAO_BATCH_COUNTED(...)                                                                               \
    DAO_ARG_PICK(__VA_ARGS__, 0, 0, 0, DAO_BATCH_BOTH, DAO_BATCH_ONE, DAO_BATCH_WHOLE, 0, 0)(__VA_ARGS__)
#define DAO_BATCH_WHOLE(dst_place, src_place, ...)                                                           \
    dao_place_of(dst_place), dao_place_of(src_place), __VA_ARGS__
#define DAO_BATCH_BOTH(dst_kind, dst_index, src_kind, src_index, batch)                                      \
    dao_place_of(dst_kind, dst_index), dao_place_of(src_kind, src_index), (batch)
#define DAO_BATCH_FIRST(dst_kind, dst_index, src_place, batch)                                               \
    dao_place_of(dst_kind, dst_index), dao_place_of(src_place), (batch)
#define DAO_BATCH_SECOND(dst_place, src_kind, src_index, batch)                                              \
    dao_place_of(dst_place), dao_place_of(src_kind, src_index), (batch)
#define DAO_BATCH_ONE(first, ...)                                                                            \
    DAO_BATCH_ONE_BY(DAO_BEGINS_PAREN(first), DAO_IS_PAREN(first))(first, __VA_ARGS__)
#define DAO_BATCH_ONE_BY(begins, is)  DAO_BATCH_ONE_BY_(begins, is)
#define DAO_BATCH_ONE_BY_(begins, is) DAO_BATCH_ONE_##begins##is
#define DAO_BATCH_ONE_10              DAO_BATCH_FIRST
#define DAO_BATCH_ONE_11              DAO_BATCH_SECOND
#define DAO_BATCH_ONE_00              DAO_BATCH_SECOND

/* dao/async.h */
#define dao_alloc_async(...)   dao_alloc_async(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_free_async(...)    dao_free_async(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_record_stream(...) dao_record_stream(DAO_PLACE_ARGS_2(__VA_ARGS__))

/* dao/lease.h */
#define dao_lease_begin(...) dao_lease_begin(DAO_PLACE_ARGS_1(__VA_ARGS__))

/* dao/memory.h */
#define dao_copy(...)                dao_copy(DAO_COPY_ARGS(__VA_ARGS__))
#define dao_alloc_with(...)          dao_alloc_with(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_trim(...)                dao_trim(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_limit_set(...)           dao_limit_set(DAO_PLACE_ARGS_1(__VA_ARGS__))
#define dao_memory_create(...)       dao_memory_create(DAO_PLACE_ARGS_3(__VA_ARGS__))
#define dao_memory_from_pointer(...) dao_memory_from_pointer(DAO_PLACE_ARGS_5(__VA_ARGS__))

/* dao/observe.h */
#define dao_events_start(...)    dao_events_start(DAO_PLACE_ARGS_1(__VA_ARGS__))
#define dao_events_stop(...)     dao_events_stop(DAO_PLACE_ARGS_0(__VA_ARGS__))
#define dao_events_read(...)     dao_events_read(DAO_PLACE_ARGS_4(__VA_ARGS__))
#define dao_snapshot_create(...) dao_snapshot_create(DAO_PLACE_ARGS_1(__VA_ARGS__))
#define dao_block_query(...)     dao_block_query(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_stats_tree_walk(...) dao_stats_tree_walk(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_hardening_check(...) dao_hardening_check(DAO_PLACE_ARGS_0(__VA_ARGS__))

/* dao/place.h */
#define dao_place_format(...) dao_place_format(DAO_PLACE_ARGS_1(__VA_ARGS__))

/* dao/place_config.h */
#define dao_place_configure(...) dao_place_configure(DAO_PLACE_ARGS_1(__VA_ARGS__))

/* dao/pressure.h */
#define dao_pressure_callback_add(...) dao_pressure_callback_add(DAO_PLACE_ARGS_3(__VA_ARGS__))
#define dao_pressure_wait_set(...)     dao_pressure_wait_set(DAO_PLACE_ARGS_1(__VA_ARGS__))

/* dao/segment.h */
#define dao_segment_callback_add(...) dao_segment_callback_add(DAO_PLACE_ARGS_3(__VA_ARGS__))

/* dao/step_plan.h */
#define dao_step_begin(...)          dao_step_begin(DAO_PLACE_ARGS_0(__VA_ARGS__))
#define dao_step_end(...)            dao_step_end(DAO_PLACE_ARGS_0(__VA_ARGS__))
#define dao_step_plan_enable(...)    dao_step_plan_enable(DAO_PLACE_ARGS_1(__VA_ARGS__))
#define dao_step_plan_wait(...)      dao_step_plan_wait(DAO_PLACE_ARGS_1(__VA_ARGS__))
#define dao_step_plan_reset(...)     dao_step_plan_reset(DAO_PLACE_ARGS_0(__VA_ARGS__))
#define dao_step_plan_save(...)      dao_step_plan_save(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_step_plan_load(...)      dao_step_plan_load(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_step_plan_stats_get(...) dao_step_plan_stats_get(DAO_PLACE_ARGS_1(__VA_ARGS__))
#define dao_step_plan_walk(...)      dao_step_plan_walk(DAO_PLACE_ARGS_2(__VA_ARGS__))

/* dao/share.h */
#define dao_memory_create_shared(...) dao_memory_create_shared(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_memory_import(...)        dao_memory_import(DAO_PLACE_ARGS_2(__VA_ARGS__))

/* dao/stats.h */
#define dao_peak_mark_add(...)     dao_peak_mark_add(DAO_PLACE_ARGS_1(__VA_ARGS__))
#define dao_stats_get(...)         dao_stats_get(DAO_PLACE_ARGS_1(__VA_ARGS__))
#define dao_stats_reset_peaks(...) dao_stats_reset_peaks(DAO_PLACE_ARGS_0(__VA_ARGS__))

/* dao/tag.h */
#define dao_tag_stats_get(...) dao_tag_stats_get(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_tag_limit_set(...) dao_tag_limit_set(DAO_PLACE_ARGS_2(__VA_ARGS__))
#define dao_tag_walk(...)      dao_tag_walk(DAO_PLACE_ARGS_2(__VA_ARGS__))

/* dao/tensor.h */
#define dao_tensor_empty(...) dao_tensor_empty(DAO_PLACE_ARGS_4(__VA_ARGS__))
#define dao_tensor_zeros(...) dao_tensor_zeros(DAO_PLACE_ARGS_4(__VA_ARGS__))

/* dao/stream.h */
#define dao_stream_copy(stream, ...)       dao_stream_copy((stream), DAO_COPY_ARGS(__VA_ARGS__))
#define dao_stream_copy_batch(stream, ...) dao_stream_copy_batch((stream), DAO_BATCH_ARGS(__VA_ARGS__))

#endif

#endif
