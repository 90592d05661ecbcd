/* SPDX-License-Identifier: Apache-2.0 */
/* Counted handles: the reference count they share, and protection from stale pointers.

   A dead handle is not freed at once. The latest DAO_HANDLE_REST_COUNT of them stay, with a count of 0. So a
   release too many, or a retain from zero, finds the count of 0 instead of other memory. That is best effort:
   older handles are gone. */
#ifndef DAO_RUNTIME_HANDLE_H
#define DAO_RUNTIME_HANDLE_H

#include <dao/status.h>

#include <stdatomic.h>

/* Dead handles that rest before their memory is given back. */
#define DAO_HANDLE_REST_COUNT 64

/* The first member of every counted handle. */
typedef struct dao_handle {
    _Atomic uint32_t reference_count;
} dao_handle_t;

/* Adds a reference. `noun` is for the message. DAO_ERR_INVALID for NULL, a count of 0, and a count that is
   full. */
dao_status_t dao_handle_retain(dao_handle_t *handle, const char *noun);

/* Drops a reference; *out_is_last says whether it was the last one. DAO_ERR_INVALID for a count of 0. */
dao_status_t dao_handle_release(dao_handle_t *handle, const char *noun, bool *out_is_last);

/* Lays a dead handle to rest; frees the one that rested longest. It was taken with dao_host_calloc(). */
void dao_handle_bury(dao_handle_t *handle);

#endif
