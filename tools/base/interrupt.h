/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C while a command works; a second one ends it at once, whatever the mode. */
#ifndef DAO_TOOLS_INTERRUPT_H
#define DAO_TOOLS_INTERRUPT_H

#include <dao/api.h>

#include <stdbool.h>

typedef enum dao_interrupt_mode {
    DAO_INTERRUPT_ENDS, /* whoever watches ends the process */
    DAO_INTERRUPT_ASKS, /* the command ends with what it has found so far */
} dao_interrupt_mode_t;

/* From here on Ctrl-C only sets a mark; until dao_interrupt_unwatch(). Where it is ignored, it stays so. */
void dao_interrupt_watch(dao_interrupt_mode_t mode);
void dao_interrupt_unwatch(void);

/* Returns the mode that was set last. Threads: any. */
dao_interrupt_mode_t dao_interrupt_mode(void);

/* Returns true if it was pressed since. Threads: any. */
bool dao_interrupt_is_asked(void);

/* Has dao_interrupt_end(), and a signal that ends the process, remove a file that is not whole yet; borrowed
   until the next call. NULL: none. */
void dao_interrupt_remove(const char *path);

/* Ends the process as Ctrl-C does where nobody watches. */
void dao_interrupt_end(void);

#endif
