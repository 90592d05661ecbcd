/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls were made in this process, and with which errors each has failed. The driver locks. */
#ifndef DAO_TESTS_LOOPBACK_CASES_H
#define DAO_TESTS_LOOPBACK_CASES_H

#include <stddef.h>

/* Notes a call; its name is static. */
void loopback_cases_note(const char *call);

/* Notes that it failed on request. */
void loopback_cases_note_failure(const char *call, int error);

/* Returns the number of pairs of a call that was made and an error with which it never failed, and prints
   them. *out_count gets the number of all pairs. */
long loopback_cases_missing(const int *errors, size_t error_count, long *out_count);

#endif
