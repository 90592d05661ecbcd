/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the value of an option by its type. A number is read as the unit of its type, compared with the
   limits, and stored in the unit of its field, which is finer for decimals (millionths) and seconds (ns). */
#include "tools/options/option_value.h"

#include "base/numbers/units.h"
#include "base/report/error.h"
#include "tools/base/decimal.h"
#include "tools/options/capacity.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MILLIONTH_PLACES = 6, NANOSECOND_PLACES = 9, NAMES_BYTES = 400, NOUN_BYTES = 24 };

#define NS_PER_SECOND UINT64_C(1000000000)

size_t dao_option_type_size(dao_option_type_t type)
{
    static const size_t sizes[] = {
#define TYPE_SIZE(symbol, field) sizeof(field),
        DAO_OPTION_TYPE_LIST(TYPE_SIZE)
#undef TYPE_SIZE
    };
    return type == DAO_OPTION_TYPE_PARSED ? 0 : sizes[type];
}

uint64_t dao_option_most(const dao_option_t *option)
{
    return option->most == 0 ? UINT64_MAX : option->most;
}

/* Values of the field in one of the option's unit. */
static uint64_t scale_of(const dao_option_t *option)
{
    return option->type == DAO_OPTION_TYPE_DECIMAL   ? DAO_OPTION_MILLIONTHS
           : option->type == DAO_OPTION_TYPE_SECONDS ? NS_PER_SECOND
                                                     : 1;
}

const char *dao_option_limit(const dao_option_t *option, uint64_t limit,
                             char out_text[DAO_OPTION_LIMIT_BYTES])
{
    static const char *const plain[] = {"", NULL};
    static const char *const bytes[] = {"", "KiB", "MiB", "GiB", "TiB", NULL};
    static const char *const times[] = {"ns", "us", "ms", "s", NULL};
    const char *const *unit = option->type == DAO_OPTION_TYPE_BYTES  ? bytes
                              : option->type == DAO_OPTION_TYPE_TIME ? times
                                                                     : plain;
    uint64_t factor = option->type == DAO_OPTION_TYPE_BYTES ? 1024 : 1000;
    for (; unit[1] != NULL && limit > 0 && limit % factor == 0; unit++) {
        limit /= factor;
    }
    (void)snprintf(out_text, DAO_OPTION_LIMIT_BYTES, "%" PRIu64 "%s", limit, *unit);
    return out_text;
}

/* ---- names ---- */

static void join_names(const dao_option_t *option, char out_text[NAMES_BYTES])
{
    size_t length = 0;
    const char *name;
    out_text[0] = '\0';
    for (size_t i = 0; (name = option->name_at(i)) != NULL && length < NAMES_BYTES; i++) {
        const char *comma = i == 0 ? "" : ", ";
        length += (size_t)snprintf(out_text + length, NAMES_BYTES - length, "%s%s", comma, name);
    }
    if (option->prefix != NULL && length < NAMES_BYTES) {
        (void)snprintf(out_text + length, NAMES_BYTES - length, ", %s...", option->prefix);
    }
}

/* What help calls the value, in small letters. */
static void small(const char *value, char out_text[NOUN_BYTES])
{
    size_t length = 0;
    for (; value[length] != '\0' && length + 1 < NOUN_BYTES; length++) {
        out_text[length] = (char)tolower((unsigned char)value[length]);
    }
    out_text[length] = '\0';
}

static dao_status_t read_name(const dao_option_t *option, const char *text, void *settings)
{
    uint32_t *field = (uint32_t *)((char *)settings + option->offset);
    uint32_t count = 0;
    const char *name;
    for (; (name = option->name_at(count)) != NULL; count++) {
        if (strcmp(name, text) == 0) {
            *field = count;
            return DAO_OK;
        }
    }
    size_t prefix_length = option->prefix != NULL ? strlen(option->prefix) : 0;
    if (prefix_length > 0 && strncmp(text, option->prefix, prefix_length) == 0 &&
        text[prefix_length] != '\0') {
        *field = count;
        *(const char **)((char *)settings + option->text_offset) = text;
        return DAO_OK;
    }
    char noun[NOUN_BYTES], names[NAMES_BYTES];
    small(option->value, noun);
    join_names(option, names);
    return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no %s: there are %s", text, noun, names);
}

/* ---- numbers ---- */

static bool is_unit_type(dao_option_type_t type)
{
    return type == DAO_OPTION_TYPE_BYTES || type == DAO_OPTION_TYPE_RATE || type == DAO_OPTION_TYPE_TIME;
}

static dao_status_t out_of_range(const dao_option_t *option, const char *text)
{
    char low[DAO_OPTION_LIMIT_BYTES], high[DAO_OPTION_LIMIT_BYTES];
    const char *least = dao_option_limit(option, option->least, low);
    const char *most = dao_option_limit(option, dao_option_most(option), high);
    if (is_unit_type(option->type)) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is not from %s to %s", text, least, most);
    }
    const char *noun = option->noun != NULL                      ? option->noun
                       : option->type == DAO_OPTION_TYPE_SECONDS ? "number of seconds"
                                                                 : "number";
    bool is_above_zero = option->type == DAO_OPTION_TYPE_SECONDS; /* of which 0 is none, whatever the least */
    return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no %s from %s to %s", text, noun,
                     is_above_zero ? "0.000000001" : least, most);
}

/* Reads digits, perhaps with a point. Returns false if the text is something else, or too large. */
static bool read_decimal(const char *text, int places, uint64_t *out_value)
{
    return dao_decimal_is_plain(text) && (places > 0 || strchr(text, '.') == NULL) &&
           dao_decimal_scale(text, places, out_value);
}

static dao_status_t read_number(const dao_option_t *option, const char *text, uint64_t *out_value)
{
    switch (option->type) {
    case DAO_OPTION_TYPE_BYTES:
        return dao_units_parse_bytes(text, out_value);
    case DAO_OPTION_TYPE_RATE:
        return dao_units_parse_rate(text, out_value);
    case DAO_OPTION_TYPE_TIME:
        return dao_units_parse_time(text, out_value);
    case DAO_OPTION_TYPE_DECIMAL:
        return read_decimal(text, MILLIONTH_PLACES, out_value) ? DAO_OK : out_of_range(option, text);
    case DAO_OPTION_TYPE_SECONDS:
        return read_decimal(text, NANOSECOND_PLACES, out_value) && *out_value > 0
                   ? DAO_OK
                   : out_of_range(option, text);
    default:
        return read_decimal(text, 0, out_value) ? DAO_OK : out_of_range(option, text);
    }
}

static dao_status_t read_in_range(const dao_option_t *option, const char *text, uint64_t *field)
{
    uint64_t value = 0, scale = scale_of(option);
    dao_status_t status = read_number(option, text, &value);
    if (status != DAO_OK) {
        return status;
    }
    if (value == 0 && option->least > 0 && is_unit_type(option->type)) {
        return dao_error(DAO_ERR_INVALID, "0 is nothing; leave it out for what holds without it");
    }
    bool is_below = value < option->least * scale;
    bool is_above = value / scale > dao_option_most(option) ||
                    (value / scale == dao_option_most(option) && value % scale != 0);
    if (is_below || is_above) {
        return out_of_range(option, text);
    }
    *field = value;
    return DAO_OK;
}

dao_status_t dao_option_read(const dao_option_t *option, const char *text, void *settings)
{
    void *field = (char *)settings + option->offset;
    switch (option->type) {
    case DAO_OPTION_TYPE_FLAG:
        *(bool *)field = true;
        return DAO_OK;
    case DAO_OPTION_TYPE_TEXT:
    case DAO_OPTION_TYPE_PATH:
        *(const char **)field = text;
        return DAO_OK;
    case DAO_OPTION_TYPE_NAME:
        return read_name(option, text, settings);
    case DAO_OPTION_TYPE_CAPACITY:
        return dao_capacity_parse(text, field);
    case DAO_OPTION_TYPE_PARSED:
        return option->parse(text, field);
    default:
        return read_in_range(option, text, field);
    }
}
