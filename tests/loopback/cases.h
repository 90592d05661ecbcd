/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls have come in this process, and by which errors each was made to fail. The driver locks. */
#ifndef DAO_TESTS_LOOPBACK_CASES_H
#define DAO_TESTS_LOOPBACK_CASES_H

#include <stddef.h>

/* Notes that a call has come; its name is static. */
void loopback_cases_note(const char *call);

/* Notes that it was made to fail. */
void loopback_cases_note_failure(const char *call, int error);

/* Gives the number of pairs of a call that has come and one of the errors that it was not made to fail with,
   and names them on the standard output. *out_count: the pairs that there were. */
long loopback_cases_missing(const int *errors, size_t error_count, long *out_count);

#endif
