/* SPDX-License-Identifier: Apache-2.0 */
/* Each part is written behind what is there; the text ends with a zero, however much of it had room. */
#include "tools/print/text_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

dao_text_list_t dao_text_list_begin(char *text, size_t bytes)
{
    text[0] = '\0';
    return (dao_text_list_t){.text = text, .bytes = bytes};
}

void dao_text_list_add(dao_text_list_t *list, const char *format, ...)
{
    size_t used = strlen(list->text);
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(list->text + used, list->bytes - used, "%s", list->count > 0 ? ", " : "");
    used += (size_t)length;
    if (used < list->bytes) {
        (void)vsnprintf(list->text + used, list->bytes - used, format, arguments);
    }
    va_end(arguments);
    list->count++;
}
