/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots that the library writes to files by itself: when a request is refused (DAO_ON_OOM), and on a
   signal (DAO_SNAPSHOT_SIGNAL). */
#ifndef DAO_RUNTIME_SNAPSHOT_FILE_H
#define DAO_RUNTIME_SNAPSHOT_FILE_H

#include "allocators/allocator.h"

/* Refusals of a process that are written, where the file's name has a number: a program that goes on after
   them may be refused for ever. */
#define DAO_SNAPSHOT_REFUSAL_COUNT_MAX 16

/* Reads both settings. DAO_ERR_INVALID, with a message. Threads: the one that starts the library. */
DAO_NODISCARD dao_status_t dao_snapshot_file_find(void);

/* Begins and ends to take the signal, if there is one. A signal that the program has a handler for stays the
   program's. */
void dao_snapshot_signal_begin(void);
void dao_snapshot_signal_end(void);

/* Returns true if a signal is taken: somebody has to ask for it. */
bool dao_snapshot_signal_is_on(void);

/* Returns true once for the signals that have come since the last call. */
bool dao_snapshot_signal_take(void);

/* Writes the snapshot of a place that the last signal asked for. Called without a lock. */
void dao_snapshot_signal_write(dao_place_t place, dao_allocator_t *allocator);

/* A request was refused for good: writes a snapshot of the place, if that is wanted and was not done too
   often. The thread's last error stays. Called without a lock. */
void dao_snapshot_note_refusal(dao_place_t place, dao_allocator_t *allocator);

#endif
