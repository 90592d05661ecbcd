/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of status codes, and each thread's last error.

   The message lies on the heap, from a thread's first error until the thread ends. A thread-local array would
   not fit: a library loaded into a running program has a few hundred bytes for all of its thread-local
   variables (base/threads/thread_local.h). Without memory for it, the status's text is the message. */
#define _GNU_SOURCE
#define DAO_ERROR_IS_DEFINED_HERE
#include "base/report/error.h"

#include "base/text/printable.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local dao_status_t last_status;
static _Thread_local int last_vendor_code;
static _Thread_local uint32_t last_tag;  /* whose limit refused; 0: none */
static _Thread_local char *last_message; /* DAO_ERROR_MESSAGE_BYTES, or NULL */

static pthread_once_t message_once = PTHREAD_ONCE_INIT;
static pthread_key_t message_key; /* frees the message as its thread ends */
static bool has_message_key;

static void message_free(void *buffer)
{
    last_message = NULL;
    free(buffer);
}

static void message_key_create(void)
{
    has_message_key = pthread_key_create(&message_key, message_free) == 0;
}

/* The library is unloaded: threads that live on must not call into it as they end. */
__attribute__((destructor)) static void message_key_delete(void)
{
    if (has_message_key) {
        has_message_key = false;
        (void)pthread_key_delete(message_key);
    }
}

/* Returns the buffer of this thread's message, or NULL without memory. It bypasses the fault points, which
   cause the errors reported here. */
static char *message_buffer(void)
{
    if (last_message == NULL) {
        (void)pthread_once(&message_once, message_key_create);
        char *buffer = has_message_key ? calloc(1, DAO_ERROR_MESSAGE_BYTES) : NULL;
        if (buffer != NULL && pthread_setspecific(message_key, buffer) != 0) {
            free(buffer);
            buffer = NULL;
        }
        last_message = buffer;
    }
    return last_message;
}

/* Copies a message, cut where it has to be. Calls that must leave the last error as it is do so each time. */
static void message_copy(char *out_message, const char *message)
{
    size_t length = strnlen(message, DAO_ERROR_MESSAGE_BYTES - 1);
    memcpy(out_message, message, length);
    out_message[length] = '\0';
}

/* Makes a text this thread's message, as one line of UTF-8. Every message passes here. */
static void message_set(const char *message)
{
    bool is_empty_still = message[0] == '\0' && last_message == NULL;
    char *buffer = is_empty_still ? NULL : message_buffer();
    if (buffer != NULL) {
        message_copy(buffer, message);
        dao_make_printable(buffer); /* it may hold names that the program chose, or end inside a character */
    }
}

const char *dao_version(void)
{
    return DAO_VERSION_STRING;
}

const char *dao_status_name(dao_status_t status)
{
    switch (status) {
#define DAO_STATUS_CASE(number, name, text)                                                                  \
    case DAO_##name:                                                                                         \
        return "DAO_" #name;
        DAO_STATUS_LIST(DAO_STATUS_CASE)
#undef DAO_STATUS_CASE
    }
    return "DAO_ERR_UNKNOWN";
}

const char *dao_status_text(dao_status_t status)
{
    switch (status) {
#define DAO_STATUS_CASE(number, name, text)                                                                  \
    case DAO_##name:                                                                                         \
        return text;
        DAO_STATUS_LIST(DAO_STATUS_CASE)
#undef DAO_STATUS_CASE
    }
    return "unknown status";
}

dao_status_t dao_last_status(void)
{
    return last_status;
}

const char *dao_last_message(void)
{
    if (last_message != NULL) {
        return last_message;
    }
    return last_status != DAO_OK ? dao_status_text(last_status) : "";
}

int dao_last_vendor_code(void)
{
    return last_vendor_code;
}

static void set_message(const char *format, va_list arguments)
{
    char message[DAO_ERROR_MESSAGE_BYTES]; /* an argument may be the current message */
    (void)vsnprintf(message, sizeof(message), format, arguments);
    message_set(message);
}

dao_status_t dao_error(dao_status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_message(format, arguments);
    va_end(arguments);
    last_status = status;
    last_vendor_code = 0;
    last_tag = 0;
    return status;
}

dao_status_t dao_error_null(const char *function, const char *argument)
{
    return dao_error(DAO_ERR_INVALID, "%s: %s is NULL", function, argument);
}

dao_status_t dao_error_unless_range(const char *function, const void *address, size_t size_bytes)
{
    return size_bytes <= UINTPTR_MAX - (uintptr_t)address
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "%s: %zu bytes at %p do not end in the address space", function,
                           size_bytes, address);
}

dao_status_t dao_error_refused(const char *function, dao_status_t status)
{
    return dao_error(status, "%s: the program's function that takes the text answered %s: %s", function,
                     dao_status_name(status), dao_status_text(status));
}

dao_status_t dao_error_vendor(dao_status_t status, int vendor_code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_message(format, arguments);
    va_end(arguments);
    last_status = status;
    last_vendor_code = vendor_code;
    last_tag = 0;
    return status;
}

void dao_error_prefix(const char *format, ...)
{
    char message[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof(message)) {
        (void)snprintf(message + length, sizeof(message) - (size_t)length, "%s", dao_last_message());
    }
    message_set(message);
}

void dao_error_note_tag(uint32_t tag)
{
    last_tag = tag;
}

uint32_t dao_error_tag(void)
{
    return last_tag;
}

void dao_error_save(dao_error_record_t *record, dao_status_t status)
{
    record->status = status;
    record->vendor_code = last_vendor_code;
    record->tag = last_tag;
    message_copy(record->message, dao_last_message());
}

dao_status_t dao_error_restore(const dao_error_record_t *record)
{
    last_status = record->status;
    last_vendor_code = record->vendor_code;
    last_tag = record->tag;
    message_set(record->message);
    return record->status;
}
