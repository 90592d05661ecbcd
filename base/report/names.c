/* SPDX-License-Identifier: Apache-2.0 */
#include "base/report/names.h"

#include "base/report/error.h"

#include <stdio.h>
#include <string.h>

/* Size of the list of names in a message; a longer list is cut. */
#define LIST_BYTES_MAX 160

const char *dao_name_of(const dao_named_t *names, int value)
{
    for (; names->name != NULL; names++) {
        if (names->value == value) {
            return names->name;
        }
    }
    return "unknown";
}

dao_status_t dao_name_parse(const dao_named_t *names, const char *noun, const char *text, int *out_value)
{
    if (text == NULL || out_value == NULL) {
        return dao_error(DAO_ERR_INVALID, "the text, or the place for the %s that it names, is NULL", noun);
    }
    char list[LIST_BYTES_MAX] = "";
    for (size_t length = 0; names->name != NULL; names++) {
        if (strcmp(names->name, text) == 0) {
            *out_value = names->value;
            return DAO_OK;
        }
        if (length < sizeof(list)) {
            length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s", length == 0 ? "" : ", ",
                                       names->name);
        }
    }
    return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no %s: there are %s", text, noun, list);
}
