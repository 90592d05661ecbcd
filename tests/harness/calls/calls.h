/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a program: each is made if what it needs is there, and its answer is compared with the
   model's. A function returns true if it has called the library. */
#ifndef DAO_TESTS_HARNESS_CALLS_CALLS_H
#define DAO_TESTS_HARNESS_CALLS_CALLS_H

#include "tests/harness/model.h"

typedef bool (*harness_call_func_t)(model_t *model, const harness_op_t *op);

/* calls_memory.c */
bool call_alloc(model_t *model, const harness_op_t *op);
bool call_alloc_with(model_t *model, const harness_op_t *op);
bool call_alloc_async(model_t *model, const harness_op_t *op);
bool call_free(model_t *model, const harness_op_t *op);
bool call_free_async(model_t *model, const harness_op_t *op);
bool call_record_stream(model_t *model, const harness_op_t *op);
bool call_copy(model_t *model, const harness_op_t *op);

/* calls_wrong.c */
bool call_free_wrong(model_t *model, const harness_op_t *op);

/* calls_stream.c */
bool call_work(model_t *model, const harness_op_t *op);
bool call_stream_fill(model_t *model, const harness_op_t *op);
bool call_stream_copy(model_t *model, const harness_op_t *op);
bool call_stream_copy_batch(model_t *model, const harness_op_t *op);
bool call_run(model_t *model, const harness_op_t *op);
bool call_stream_create(model_t *model, const harness_op_t *op);
bool call_stream_adopt(model_t *model, const harness_op_t *op);
bool call_stream_destroy(model_t *model, const harness_op_t *op);
bool call_stream_synchronize(model_t *model, const harness_op_t *op);
bool call_device_synchronize(model_t *model, const harness_op_t *op);
bool call_event_create(model_t *model, const harness_op_t *op);
bool call_event_destroy(model_t *model, const harness_op_t *op);
bool call_event_record(model_t *model, const harness_op_t *op);
bool call_event_query(model_t *model, const harness_op_t *op);
bool call_event_synchronize(model_t *model, const harness_op_t *op);
bool call_event_elapsed(model_t *model, const harness_op_t *op);
bool call_stream_wait_event(model_t *model, const harness_op_t *op);

/* calls_handle.c */
bool call_memory_create(model_t *model, const harness_op_t *op);
bool call_memory_from_pointer(model_t *model, const harness_op_t *op);
bool call_memory_sub_range(model_t *model, const harness_op_t *op);
bool call_memory_retain(model_t *model, const harness_op_t *op);
bool call_memory_release(model_t *model, const harness_op_t *op);
bool call_tensor_empty(model_t *model, const harness_op_t *op);
bool call_tensor_zeros(model_t *model, const harness_op_t *op);
bool call_tensor_from_memory(model_t *model, const harness_op_t *op);
bool call_tensor_view(model_t *model, const harness_op_t *op);
bool call_tensor_release(model_t *model, const harness_op_t *op);
bool call_dlpack_export(model_t *model, const harness_op_t *op);
bool call_dlpack_import(model_t *model, const harness_op_t *op);
bool call_share(model_t *model, const harness_op_t *op);

/* calls_lease.c */
bool call_lease_begin(model_t *model, const harness_op_t *op);
bool call_lease_commit(model_t *model, const harness_op_t *op);
bool call_lease_cancel(model_t *model, const harness_op_t *op);
bool call_lease_enter(model_t *model, const harness_op_t *op);
bool call_lease_leave(model_t *model, const harness_op_t *op);
bool call_lease_retain(model_t *model, const harness_op_t *op);
bool call_lease_release(model_t *model, const harness_op_t *op);

/* calls_place.c */
bool call_trim(model_t *model, const harness_op_t *op);
bool call_limit_set(model_t *model, const harness_op_t *op);
bool call_host_limit_set(model_t *model, const harness_op_t *op);
bool call_tag_set_current(model_t *model, const harness_op_t *op);
bool call_tag_limit_set(model_t *model, const harness_op_t *op);
bool call_configure(model_t *model, const harness_op_t *op);
bool call_events(model_t *model, const harness_op_t *op);
bool call_snapshot(model_t *model, const harness_op_t *op);
bool call_block_query(model_t *model, const harness_op_t *op);
bool call_stats_reset(model_t *model, const harness_op_t *op);
bool call_hardening_check(model_t *model, const harness_op_t *op);
bool call_pressure(model_t *model, const harness_op_t *op);
bool call_segment(model_t *model, const harness_op_t *op);
bool call_host_register(model_t *model, const harness_op_t *op);
bool call_address_place(model_t *model, const harness_op_t *op);
bool call_stream_query(model_t *model, const harness_op_t *op);
bool call_place_register(model_t *model, const harness_op_t *op);
bool call_peer(model_t *model, const harness_op_t *op);

/* calls_step.c */
bool call_step_begin(model_t *model, const harness_op_t *op);
bool call_step_end(model_t *model, const harness_op_t *op);
bool call_step_key_set(model_t *model, const harness_op_t *op);
bool call_step_enable(model_t *model, const harness_op_t *op);
bool call_step_reset(model_t *model, const harness_op_t *op);
bool call_step_save_load(model_t *model, const harness_op_t *op);
bool call_step_stats(model_t *model, const harness_op_t *op);

/* calls_executor.c */
bool call_executor_create(model_t *model, const harness_op_t *op);
bool call_executor_push(model_t *model, const harness_op_t *op);
bool call_executor_step(model_t *model, const harness_op_t *op);
bool call_executor_sync(model_t *model, const harness_op_t *op);
bool call_executor_destroy(model_t *model, const harness_op_t *op);
bool call_managed_create(model_t *model, const harness_op_t *op);
bool call_managed_create_from(model_t *model, const harness_op_t *op);
bool call_managed_write(model_t *model, const harness_op_t *op);
bool call_managed_view(model_t *model, const harness_op_t *op);
bool call_managed_read(model_t *model, const harness_op_t *op);
bool call_managed_pin(model_t *model, const harness_op_t *op);
bool call_managed_release(model_t *model, const harness_op_t *op);
bool call_command_list(model_t *model, const harness_op_t *op);
bool call_command_list_plan(model_t *model, const harness_op_t *op);

/* calls_process.c */
bool call_fork(model_t *model, const harness_op_t *op);
bool call_finalize(model_t *model, const harness_op_t *op);

/* ---- what calls share ---- */

/* The place that a call is about: mostly the program's subject. */
dao_place_t call_place(const model_t *model, const harness_op_t *op);

/* The size that it asks for: mostly small, now and then 0, above the device, or no size at all. */
size_t call_size(const harness_op_t *op);

/* What a call in stream order answers for a place and a stream: DAO_OK if they go together. */
dao_status_t call_order_status(dao_place_t place, uint32_t slot);

/* The slot of a stream that is there, of device 0; now and then MODEL_STREAM_OTHER. */
uint32_t call_stream_slot(model_t *model, uint32_t number);

/* Waits for the work on a block; slots of streams. */
void call_settle(model_t *model, const model_block_t *block);

/* Queues work of the program on a block: it checks and changes a lane. */
void call_queue_work(model_t *model, model_block_t *block, uint32_t slot);

/* Ends the executor, if there is one, and its tensors. */
void call_executor_end(model_t *model);

/* Starts the library as a program's config says; false where a fault stands against it. */
bool harness_start(model_t *model);

/* Frees and releases all that a model has, in its thread; the library goes on. */
void harness_release(model_t *model);

/* Ends it, with or without its blocks and handles, and checks that nothing is left. */
void harness_stop(model_t *model);

#endif
