/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of places: KIND or KIND:INDEX, such as "cpu", "pinned:1", "device:2". */
#include <dao/place.h>

#include "base/report/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *dao_place_format(dao_place_t place, char out_text[DAO_PLACE_TEXT_BYTES])
{
    const char *kind = place.kind == DAO_PLACE_KIND_PINNED   ? "pinned"
                       : place.kind == DAO_PLACE_KIND_DEVICE ? "device"
                       : place.kind == DAO_PLACE_KIND_CPU    ? "cpu"
                                                             : "?";
    if (place.kind == DAO_PLACE_KIND_CPU && place.index == 0) {
        (void)snprintf(out_text, DAO_PLACE_TEXT_BYTES, "cpu");
    } else {
        (void)snprintf(out_text, DAO_PLACE_TEXT_BYTES, "%s:%" PRId32, kind, place.index);
    }
    return out_text;
}

/* Reads ":INDEX", all of it: decimal digits, no sign, no leading zero but for 0 itself. */
static bool parse_index(const char *text, int32_t *out_index)
{
    if (text[0] != ':' || text[1] == '\0' || (text[1] == '0' && text[2] != '\0')) {
        return false;
    }
    int64_t index = 0;
    for (const char *digit = text + 1; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9') {
            return false;
        }
        index = index * 10 + (*digit - '0');
        if (index > INT32_MAX) {
            return false;
        }
    }
    *out_index = (int32_t)index;
    return true;
}

/* Returns what follows a prefix, or NULL if the text begins otherwise. */
static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

dao_status_t dao_place_parse(const char *text, dao_place_t *out_place)
{
    if (text == NULL || out_place == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_place_parse: %s is NULL", text == NULL ? "text" : "out_place");
    }
    dao_place_t place = {DAO_PLACE_KIND_CPU, 0};
    const char *rest = NULL;
    if (strcmp(text, "cpu") == 0) {
        *out_place = place;
        return DAO_OK;
    }
    if ((rest = after(text, "pinned")) != NULL) {
        place.kind = DAO_PLACE_KIND_PINNED;
    } else if ((rest = after(text, "device")) != NULL) {
        place.kind = DAO_PLACE_KIND_DEVICE;
    }
    bool is_short = rest != NULL && rest[0] == '\0' && place.kind == DAO_PLACE_KIND_PINNED;
    if (rest == NULL || (!is_short && !parse_index(rest, &place.index))) {
        return dao_error(DAO_ERR_INVALID, "\"%.64s\" is not a place; write cpu, pinned:INDEX or device:INDEX",
                         text);
    }
    *out_place = place;
    return DAO_OK;
}
