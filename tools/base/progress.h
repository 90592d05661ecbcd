/* SPDX-License-Identifier: Apache-2.0 */
/* Tells on standard error how far a command is, how fast it goes and how long it will take: nothing during
   the first second, then one line on a terminal that is rewritten, or a line every two seconds elsewhere. A
   process has one, as it has one standard error; what is told before the start or behind the stop goes
   nowhere.

       start    phase "reading x"  add ... add    phase "planning"  add ...    hide, a row    stop */
#ifndef DAO_TOOLS_PROGRESS_H
#define DAO_TOOLS_PROGRESS_H

#include <stdint.h>

/* What a phase counts. */
typedef enum dao_progress_unit {
    DAO_PROGRESS_UNIT_PARTS,
    DAO_PROGRESS_UNIT_BYTES,
    DAO_PROGRESS_UNIT_NS, /* of a time that is given */
} dao_progress_unit_t;

/* Starts telling, and watches Ctrl-C (interrupt.h). A thread that cannot be had only means that nothing is
   told, and that Ctrl-C ends the process as ever. */
void dao_progress_start(void);

/* Ends it, and leaves the line clean. Does nothing where it was not started. */
void dao_progress_stop(void);

/* Begins a phase of `total` parts; 0: nobody knows how many. Of a long name the end is shown. Threads: any.
 */
void dao_progress_phase(const char *name, dao_progress_unit_t unit, uint64_t total);

/* Says what the phase counts, and how much there is of it, once that is known; nothing of it is done. */
void dao_progress_total(dao_progress_unit_t unit, uint64_t total);

/* So much more is done. Threads: any; takes no lock. */
void dao_progress_add(uint64_t count);

/* So much is done in all. Threads: any; takes no lock. */
void dao_progress_set(uint64_t count);

/* Returns how much of the phase is done. */
uint64_t dao_progress_done(void);

/* Takes the line away, before something is printed; it comes back when the phase goes on. */
void dao_progress_hide(void);

#endif
