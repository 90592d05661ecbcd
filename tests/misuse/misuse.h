/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of misuse. Each runs in a process of its own, calls the library wrongly, and says what it has to
   answer; the tables of all files are run by test_misuse.c. */
#ifndef DAO_TESTS_MISUSE_H
#define DAO_TESTS_MISUSE_H

#include <dao/dao.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define MISUSE_DEVICE_BYTES (64 * MIB)

typedef struct misuse_case {
    const char *name;
    void (*run)(void);
    const char *environment; /* NAME=VALUE, or NULL */
    dao_status_t end;        /* the answer of dao_finalize() after it */
    const char *says;        /* a part of what the process writes to standard error, or NULL */
    const char *reported; /* what AddressSanitizer, which ends the process, calls it; NULL: it does not end */
} misuse_case_t;

/* The tables, closed by an empty name. */
extern const misuse_case_t misuse_memory_cases[];
extern const misuse_case_t misuse_handle_cases[];
extern const misuse_case_t misuse_stream_cases[];
extern const misuse_case_t misuse_executor_cases[];
extern const misuse_case_t misuse_plan_cases[];
extern const misuse_case_t misuse_process_cases[];
extern const misuse_case_t misuse_poison_cases[]; /* none where there is no AddressSanitizer */

extern const dao_place_t misuse_host, misuse_pinned, misuse_device, misuse_other;

/* Starts the library with two small devices, and a block at each place of the first that nothing may touch.
 */
void misuse_begin(void);

/* What a call has to leave as it is, before and after it. Without misuse_begin() nothing is compared. */
void misuse_before(void);
void misuse_after(const char *call, int line, dao_status_t status, dao_status_t expected, const char *text);

/* Ends the process with a message unless a condition holds. */
void misuse_need(bool holds, const char *call, int line);

#define NEED(condition) misuse_need((condition), #condition, __LINE__)

/* The call has to answer a status, keep a message with a text for the thread, and change nothing. */
#define REFUSED(call, expected, text)      MISUSE_CALL(#call, (call), (expected), (text))
#define REFUSED_VOID(call, expected, text) MISUSE_CALL(#call, ((call), dao_last_status()), (expected), (text))

/* The same for a call that answers a pointer. */
#define REFUSED_NULL(call, expected, text)                                                                   \
    MISUSE_CALL(#call, (call) != NULL ? DAO_OK : dao_last_status(), (expected), (text))

#define MISUSE_CALL(name, answer, expected, text)                                                            \
    do {                                                                                                     \
        misuse_before();                                                                                     \
        dao_status_t status_ = (answer);                                                                     \
        misuse_after((name), __LINE__, status_, (expected), (text));                                         \
    } while (0)

#endif
