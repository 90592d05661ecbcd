/* Status codes' names and texts, and each thread's last error. */
#define _GNU_SOURCE
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local dao_error_record_t last_error;

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
    return last_error.status;
}

const char *dao_last_message(void)
{
    return last_error.message;
}

int dao_last_vendor_code(void)
{
    return last_error.vendor_code;
}

static void set_message(const char *format, va_list arguments)
{
    char message[DAO_ERROR_MESSAGE_BYTES]; /* an argument may be the old message */
    (void)vsnprintf(message, sizeof(message), format, arguments);
    memcpy(last_error.message, message, sizeof(message));
}

dao_status_t dao_error(dao_status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_message(format, arguments);
    va_end(arguments);
    last_error.status = status;
    last_error.vendor_code = 0;
    return status;
}

dao_status_t dao_error_vendor(dao_status_t status, int vendor_code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_message(format, arguments);
    va_end(arguments);
    last_error.status = status;
    last_error.vendor_code = vendor_code;
    return status;
}

void dao_error_prefix(const char *format, ...)
{
    char prefix[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(prefix, sizeof(prefix), format, arguments);
    va_end(arguments);
    size_t prefix_length = strlen(prefix);
    size_t room = sizeof(last_error.message) - 1 - prefix_length;
    size_t message_length = strnlen(last_error.message, room);
    memmove(last_error.message + prefix_length, last_error.message, message_length);
    last_error.message[prefix_length + message_length] = '\0';
    memcpy(last_error.message, prefix, prefix_length);
}

void dao_error_save(dao_error_record_t *record, dao_status_t status)
{
    *record = last_error;
    record->status = status;
}

dao_status_t dao_error_restore(const dao_error_record_t *record)
{
    last_error = *record;
    return record->status;
}
