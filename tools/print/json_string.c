/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/print/json_string.h"

#include "base/memory/host.h"
#include "base/text/utf8.h"

#include <string.h>

struct json_object *dao_json_string(const char *text)
{
    const char *character = NULL;
    size_t length = 0, count;
    for (const char *at = text; (count = dao_utf8_next(&at, &character)) > 0;) {
        length += count;
    }
    char *whole = dao_host_calloc(length + 1, 1);
    if (whole == NULL) {
        return NULL;
    }
    for (char *to = whole; (count = dao_utf8_next(&text, &character)) > 0; to += count) {
        memcpy(to, character, count);
    }
    struct json_object *string = json_object_new_string(whole);
    dao_host_free(whole);
    return string;
}
