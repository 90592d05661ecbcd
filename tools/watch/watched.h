/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that show their figures (DAO_WATCH=1), and looks at them. Nothing is written to a process, and
   nothing in it waits. */
#ifndef DAO_TOOLS_WATCHED_H
#define DAO_TOOLS_WATCHED_H

#include "runtime/scoreboard/scoreboard.h"

#include <sys/types.h>

/* Most processes that are found. */
#define DAO_WATCHED_COUNT_MAX 256

enum { DAO_WATCHED_COMMAND_BYTES = 32 };

/* A process and its page. */
typedef struct dao_watched {
    pid_t pid;
    char command[DAO_WATCHED_COMMAND_BYTES]; /* as the system names it, printable */
    int folder; /* /proc/PID: stays this process's, whoever has its number next */
    const void *page;
    size_t page_bytes;
} dao_watched_t;

/* Checks a number of a process as text, which may be NULL; there need not be such a process.
   DAO_ERR_INVALID. */
DAO_NODISCARD dao_status_t dao_watched_check(const char *pid_text);

/* Finds a process by its number as text; NULL: the only one that shows its figures. DAO_ERR_INVALID,
   DAO_ERR_IO, with a message that says what to do. */
DAO_NODISCARD dao_status_t dao_watched_open(const char *pid_text, dao_watched_t *out_watched);
void dao_watched_close(dao_watched_t *watched);

/* Returns true while the process lives. */
bool dao_watched_lives(const dao_watched_t *watched);

/* Reads the latest figures, waiting for the first if need be. As dao_scoreboard_read(). */
DAO_NODISCARD dao_status_t dao_watched_read(const dao_watched_t *watched, dao_scoreboard_header_t *out_header,
                                            dao_scores_t *out_scores);

#endif
