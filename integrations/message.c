/* SPDX-License-Identifier: Apache-2.0 */
#include "integrations/message.h"

#include <stdarg.h>
#include <stdio.h>

#define MESSAGE_BYTES 512

static _Thread_local char own_message[MESSAGE_BYTES]; /* "": the library's message counts */

int dao_plugin_answer(dao_status_t status)
{
    own_message[0] = '\0';
    return (int)status;
}

int dao_plugin_fail(dao_status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(own_message, sizeof(own_message), format, arguments);
    va_end(arguments);
    return (int)status;
}

const char *dao_plugin_message(void)
{
    return own_message[0] != '\0' ? own_message : dao_last_message();
}
