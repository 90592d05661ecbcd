/* SPDX-License-Identifier: Apache-2.0 */
/* A file of all allocations and frees of the process (DAO_RECORD), which the command dao reads. */
#ifndef DAO_RUNTIME_RECORDING_H
#define DAO_RUNTIME_RECORDING_H

#include <dao/observe.h>

/* What is to be noted. */
typedef struct dao_noted {
    dao_memory_event_kind_t kind;
    dao_place_t place;
    const void *address;
    size_t size_bytes;
    uint32_t tag;
    uint32_t stream;
    uint64_t ticks; /* when it happened, of dao_ticks() */
} dao_noted_t;

/* Reads the setting, and opens its file with the first start, for the rest of the process. *out_begins says
   that this call did. A file that cannot be had is logged, and nothing is recorded. DAO_ERR_INVALID for what
   is no name, with a message. Threads: the one that starts the library. */
DAO_NODISCARD dao_status_t dao_recording_find(bool *out_begins);

/* Writes an event, if there is a file, by one write of a whole line: what the process has done is in the file
   however it ends. */
void dao_recording_note(const dao_noted_t *noted);

/* Writes that a step of a place begins. */
void dao_recording_note_step(dao_place_t place);

/* Logs once that the file could not be written. Called without a lock. */
void dao_recording_tell(void);

/* In a forked child: the file is the parent's. */
void dao_recording_forked(void);

#endif
