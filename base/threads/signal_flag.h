/* SPDX-License-Identifier: Apache-2.0 */
/* A signal that does nothing but set a flag, which a thread asks for. One in a process at a time. */
#ifndef DAO_BASE_SIGNAL_FLAG_H
#define DAO_BASE_SIGNAL_FLAG_H

#include <stdbool.h>

/* Returns the number of a signal by its name, with or without "SIG": USR1, USR2, HUP or WINCH; 0 for any
   other, as those have meanings that a library must not take. */
int dao_signal_number(const char *name);

/* Sets the flag from now on when the signal comes. Returns false if the program handles or ignores it. */
bool dao_signal_flag_begin(int signal_number);

/* The signal does again what it did before, unless the program has taken it meanwhile. */
void dao_signal_flag_end(int signal_number);

/* Returns true if it has come since the last call. */
bool dao_signal_flag_take(void);

#endif
