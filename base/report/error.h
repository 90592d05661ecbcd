/* SPDX-License-Identifier: Apache-2.0 */
/* The last error of each thread: status, vendor's code, and a message that names the place, the request, the
   limit and what to do. */
#ifndef DAO_BASE_ERROR_H
#define DAO_BASE_ERROR_H

#include "base/report/format.h"

#include <dao/status.h>

/* Size of a message with its closing zero; longer messages are cut. */
#define DAO_ERROR_MESSAGE_BYTES 1024

/* Stores a failure as this thread's last error and returns `status`, which is not DAO_OK:
   `return dao_error(DAO_ERR_INVALID, "size is %zu", size);`. The vendor's code becomes 0. */
DAO_PRINTF(2, 3) dao_status_t dao_error(dao_status_t status, const char *format, ...);

/* dao_error() for an argument that must not be NULL: DAO_ERR_INVALID. */
dao_status_t dao_error_null(const char *function, const char *argument);

/* Returns DAO_OK if `size_bytes` bytes at `address` end in the address space, else DAO_ERR_INVALID. */
DAO_NODISCARD dao_status_t dao_error_unless_range(const char *function, const void *address,
                                                  size_t size_bytes);

/* dao_error() for a callback of the program that was handed text and answered `status`. */
dao_status_t dao_error_refused(const char *function, dao_status_t status);

/* As dao_error(), with the vendor's own code. */
DAO_PRINTF(3, 4) dao_status_t dao_error_vendor(dao_status_t status, int vendor_code, const char *format, ...);

/* Puts text in front of this thread's message and keeps the codes: "step 3: copy failed". */
DAO_PRINTF(1, 2) void dao_error_prefix(const char *format, ...);

/* Notes that it was the limit of a tag that refused: what this thread's last error is about, until its next
   one. The other functions here keep it where they keep the status. */
void dao_error_note_tag(uint32_t tag);
uint32_t dao_error_tag(void); /* 0: none */

/* A failure kept for later, or for another thread to report. */
typedef struct dao_error_record {
    dao_status_t status;
    int vendor_code;
    uint32_t tag; /* of dao_error_note_tag() */
    char message[DAO_ERROR_MESSAGE_BYTES];
} dao_error_record_t;

/* Copies this thread's last error into a record, with `status` as its code. */
void dao_error_save(dao_error_record_t *record, dao_status_t status);

/* Makes a record this thread's last error and returns its status. */
dao_status_t dao_error_restore(const dao_error_record_t *record);

/* clang-tidy sees one file at a time; this is what it has to know of the functions above. */
#if defined(__clang_analyzer__) && !defined(DAO_ERROR_IS_DEFINED_HERE)
#define dao_error(status, ...)             ((void)dao_error(status, __VA_ARGS__), (status))
#define dao_error_null(function, argument) ((void)dao_error_null(function, argument), DAO_ERR_INVALID)
#define dao_error_vendor(status, vendor_code, ...)                                                           \
    ((void)dao_error_vendor(status, vendor_code, __VA_ARGS__), (status))
#define dao_error_save(record, code) (dao_error_save(record, code), (void)((record)->status = (code)))
#define dao_error_restore(record)    ((void)dao_error_restore(record), (record)->status)
#endif

#endif
