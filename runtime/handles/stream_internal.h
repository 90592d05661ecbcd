/* SPDX-License-Identifier: Apache-2.0 */
/* What handles/native.c needs of streams. */
#ifndef DAO_RUNTIME_STREAM_INTERNAL_H
#define DAO_RUNTIME_STREAM_INTERNAL_H

#include "runtime/device/runtime.h"

/* Returns the handle that a handle stands for: NULL may be a stream of the device's own. */
void *dao_stream_native_on(const dao_runtime_t *runtime, void *native);

/* As dao_stream_create(), on a runtime that the caller holds, whether or not the library was finalized.
   `noun` says in the report of what is left whose stream it is; it is static. */
DAO_NODISCARD dao_status_t dao_stream_create_on(dao_runtime_t *runtime, const char *noun,
                                                dao_stream_t **out_stream);

/* As dao_stream_adopt(), on a runtime that is healthy. */
DAO_NODISCARD dao_status_t dao_stream_adopt_on(dao_runtime_t *runtime, void *native,
                                               dao_stream_t **out_stream);

/* Gives up one owner of an adopted stream, and ends the stream if it was the last: see dao_stream_end(). */
void dao_stream_disown(dao_stream_t *stream, bool is_idle);

#endif
