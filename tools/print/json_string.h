/* SPDX-License-Identifier: Apache-2.0 */
/* Strings for json-c, which escapes what has to be and hands on bytes that are no UTF-8. */
#ifndef DAO_TOOLS_JSON_STRING_H
#define DAO_TOOLS_JSON_STRING_H

#include <json-c/json.h>

/* Returns a string in which a byte that is no UTF-8 is U+FFFD; the caller owns it. NULL: no memory. */
struct json_object *dao_json_string(const char *text);

#endif
