/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C asks a command to end with what it has found so far; a second one ends it at once. */
#ifndef DAO_TOOLS_INTERRUPT_H
#define DAO_TOOLS_INTERRUPT_H

#include <dao/api.h>

#include <stdbool.h>

/* The exit code of what ended so, as shells have it: 128 and the signal's number. */
#define DAO_EXIT_INTERRUPTED 130

/* From here on Ctrl-C only asks; until dao_interrupt_unwatch(). Where it is ignored, it stays so. */
void dao_interrupt_watch(void);
void dao_interrupt_unwatch(void);

/* Returns true if it was pressed since. Threads: any. */
bool dao_interrupt_is_asked(void);

/* Ends the process as Ctrl-C does where nobody watches. */
void dao_interrupt_end(void);

#endif
