/* SPDX-License-Identifier: Apache-2.0 */
/* The signal of a write beyond the limit of file sizes (`ulimit -f`), which ends a process. Held back while
   the library writes a file that the program did not ask for: the write fails with EFBIG instead. */
#ifndef DAO_BASE_SIZE_SIGNAL_H
#define DAO_BASE_SIZE_SIGNAL_H

#include <stdbool.h>

/* A hold of the calling thread. Its fields are this file's own. */
typedef struct dao_size_signal {
    bool is_held; /* not where sizes have no limit */
    bool was_pending;
    bool was_blocked;
} dao_size_signal_t;

/* Holds it back from this thread until dao_size_signal_release(). Keeps errno. */
void dao_size_signal_hold(dao_size_signal_t *signal);

/* Ends the hold. A signal of this thread's own writes is dropped; one that was there before stays. Keeps
   errno. */
void dao_size_signal_release(const dao_size_signal_t *signal);

#endif
