/* SPDX-License-Identifier: Apache-2.0 */
/* Internal errors: what cannot happen and has. Builds with assertions end at once. Others count it, which
   dao_stats_get() shows, go on, and log it where no lock is held. */
#ifndef DAO_BASE_INTERNAL_ERROR_H
#define DAO_BASE_INTERNAL_ERROR_H

#include <dao/status.h>

/* For a call that can only succeed, as the caller owns what it is about. */
#define DAO_MUST(status) dao_must((status), #status, __FILE__, __LINE__)

/* The same for a free of what the caller owns, which the place's own trouble may prevent: damage that
   hardening finds, and a backend that refuses. The place keeps the block then, and tells of it. */
#define DAO_MUST_FREE(status) dao_must_free((status), #status, __FILE__, __LINE__)

/* Counts an internal error and keeps what is to be logged; does not end the process. Threads: any; with any
   lock. `what` and `file` are string literals. */
void dao_internal_error_note(dao_status_t status, const char *what, const char *file, int line);

/* Returns the number of internal errors of this process. */
uint64_t dao_internal_error_count(void);

/* Logs the internal errors since the last call. Without a lock. */
void dao_internal_errors_log(void);

/* Forgets all of them: for the tests of this. */
void dao_internal_errors_clear(void);

/* As the macros say. */
void dao_must_fail(dao_status_t status, const char *what, const char *file, int line);

static inline void dao_must(dao_status_t status, const char *what, const char *file, int line)
{
    if (__builtin_expect(status != DAO_OK, 0)) {
        dao_must_fail(status, what, file, line);
    }
}

static inline void dao_must_free(dao_status_t status, const char *what, const char *file, int line)
{
    if (status == DAO_ERR_FOREIGN_POINTER || status == DAO_ERR_INTERIOR_POINTER ||
        status == DAO_ERR_DOUBLE_FREE || status == DAO_ERR_NOT_YOURS || status == DAO_ERR_WRONG_PLACE ||
        status == DAO_ERR_UNSUPPORTED || status == DAO_ERR_INVALID) {
        dao_must_fail(status, what, file, line);
    }
}

#endif
