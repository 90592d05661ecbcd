/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that shows the figures of this process. */
#ifndef DAO_RUNTIME_SCOREBOARD_THREAD_H
#define DAO_RUNTIME_SCOREBOARD_THREAD_H

#include <dao/status.h>

/* Ten times a second: who looks each second sees nothing older than a tenth of that. */
#define DAO_SCOREBOARD_PERIOD_NS UINT64_C(100000000)

/* Finds out whether the process is to be watched, DAO_WATCH, and when it writes snapshots. DAO_ERR_INVALID,
   with a message. */
DAO_NODISCARD dao_status_t dao_scoreboard_find(bool *out_is_watched);

/* Makes the page, if the process is watched, and starts the thread, if there is work for it: that writes
   snapshots on a signal, too. What the system refuses is logged: the process goes on without. `backend` is
   static. Threads: the one that starts the library. */
void dao_scoreboard_start(const char *backend, bool is_watched);

/* Ends the thread and takes the page away, if there are any. The thread that stops the library, before it
   takes anything away from calls. */
void dao_scoreboard_stop(void);

/* In a forked child, which has no such thread: closes what it has inherited of the page. */
void dao_scoreboard_forked(void);

/* Returns the descriptor of the page; DAO_NO_DESCRIPTOR: there is none. For tests. */
int dao_scoreboard_descriptor(void);

#endif
