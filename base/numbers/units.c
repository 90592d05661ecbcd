/* SPDX-License-Identifier: Apache-2.0 */
/* All arithmetic is in integers, so results are exact and the same everywhere. */
#include "base/numbers/units.h"

#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct unit {
    const char *text;
    uint64_t factor;
} unit_t;

#define KIB UINT64_C(1024)
#define KB  UINT64_C(1000)

/* Of bytes, upper and lower case are one. A letter alone is a power of 1024, as in GNU's tools. */
static const unit_t byte_units[] = {
    {"", 1},
    {"B", 1},
    {"K", KIB},
    {"M", KIB *KIB},
    {"G", KIB *KIB *KIB},
    {"T", KIB *KIB *KIB *KIB},
    {"KB", KB},
    {"MB", KB *KB},
    {"GB", KB *KB *KB},
    {"TB", KB *KB *KB *KB},
    {"KiB", KIB},
    {"MiB", KIB *KIB},
    {"GiB", KIB *KIB *KIB},
    {"TiB", KIB *KIB *KIB *KIB},
    {"Ki", KIB},
    {"Mi", KIB *KIB},
    {"Gi", KIB *KIB *KIB},
    {"Ti", KIB *KIB *KIB *KIB},
    {NULL, 0},
};

static const unit_t time_units[] = {{"", 1},        {"ns", 1},         {"us", KB},
                                    {"ms", KB *KB}, {"s", KB *KB *KB}, {NULL, 0}};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "12.5": whole = 12, fraction = 5, fraction_scale = 10. Digits of the fraction beyond the 18th are
   dropped. */
typedef struct decimal {
    uint64_t whole;
    uint64_t fraction;
    uint64_t fraction_scale;
    bool overflows;
} decimal_t;

/* Returns what follows the number, or NULL if the text does not start with one. */
static const char *read_decimal(const char *text, decimal_t *out)
{
    *out = (decimal_t){0, 0, 1, false};
    if (!is_digit(*text)) {
        return NULL;
    }
    for (; is_digit(*text); text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        out->overflows = out->overflows || out->whole > (UINT64_MAX - digit) / 10;
        out->whole = out->whole * 10 + digit;
    }
    if (*text != '.') {
        return text;
    }
    text++;
    if (!is_digit(*text)) {
        return NULL;
    }
    for (; is_digit(*text); text++) {
        if (out->fraction_scale < UINT64_C(1000000000000000000)) {
            out->fraction = out->fraction * 10 + (uint64_t)(*text - '0');
            out->fraction_scale *= 10;
        }
    }
    return text;
}

static const unit_t *find_unit(const unit_t *units, const char *text, const char *suffix)
{
    size_t length = strlen(text);
    size_t suffix_length = strlen(suffix);
    if (length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0) {
        length -= suffix_length;
    }
    for (const unit_t *unit = units; unit->text != NULL; unit++) {
        bool is_same = units == byte_units ? strncasecmp(unit->text, text, length) == 0
                                           : strncmp(unit->text, text, length) == 0;
        if (strlen(unit->text) == length && is_same) {
            return unit;
        }
    }
    return NULL;
}

/* fraction x factor / scale, rounded down; the product needs up to 100 bits. */
static uint64_t scale_fraction(const decimal_t *number, uint64_t factor)
{
    __extension__ typedef unsigned __int128 wide_t;
    return (uint64_t)((wide_t)number->fraction * factor / number->fraction_scale);
}

static dao_status_t parse(const char *text, const unit_t *units, const char *suffix, const char *allowed,
                          uint64_t *out_value)
{
    decimal_t number;
    const char *rest = text != NULL ? read_decimal(text, &number) : NULL;
    const unit_t *unit = rest != NULL ? find_unit(units, rest, suffix) : NULL;
    if (unit == NULL) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is not a number with a unit; allowed: %s",
                         text != NULL ? text : "NULL", allowed);
    }
    if (unit->factor == 1 && number.fraction_scale > 1) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" has a fraction and no larger unit; allowed: %s", text,
                         allowed);
    }
    uint64_t fraction = scale_fraction(&number, unit->factor);
    if (number.overflows || number.whole > (UINT64_MAX - fraction) / unit->factor) {
        return dao_error(DAO_ERR_OVERFLOW, "\"%.40s\" does not fit 64 bits", text);
    }
    *out_value = number.whole * unit->factor + fraction;
    return DAO_OK;
}

dao_status_t dao_units_parse_bytes(const char *text, uint64_t *out_bytes)
{
    return parse(text, byte_units, "", "bytes, or with kB, MB, GB, TB, KiB, MiB, GiB, TiB", out_bytes);
}

dao_status_t dao_units_parse_rate(const char *text, uint64_t *out_bytes_per_second)
{
    return parse(text, byte_units, "/s", "bytes a second, or with kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s",
                 out_bytes_per_second);
}

dao_status_t dao_units_parse_time(const char *text, uint64_t *out_ns)
{
    return parse(text, time_units, "", "nanoseconds, or with us, ms, s", out_ns);
}

/* Returns the least value that is shown in units[i], i > 0. A little less would round to 1000.0, or 1024.0,
   of the unit below. */
static uint64_t shown_from(const unit_t *units, size_t i)
{
    uint64_t before = units[i - 1].factor;
    return before == 1 ? units[i].factor : units[i].factor - before / 20;
}

dao_status_t dao_units_parse_count(const char *text, uint64_t *out_count)
{
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text)) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no whole number", text);
    }
    return dao_units_parse_bytes(text, out_count);
}

dao_status_t dao_units_parse_switch(const char *text, uint64_t *out_value)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is neither 0 nor 1", text);
    }
    *out_value = text[0] == '1' ? 1 : 0;
    return DAO_OK;
}

/* Writes one decimal, rounded half up, in the largest unit that leaves at least 1. */
static const char *format(uint64_t value, const unit_t *units, size_t unit_count, const char *suffix,
                          char *out_text)
{
    size_t i = unit_count - 1;
    while (i > 0 && value < shown_from(units, i)) {
        i--;
    }
    if (units[i].factor == 1) {
        (void)snprintf(out_text, DAO_UNITS_TEXT_BYTES, "%" PRIu64 " %s%s", value, units[i].text, suffix);
        return out_text;
    }
    uint64_t factor = units[i].factor; /* ten times which is below 2^64 */
    DAO_ASSERT(factor > 0);
    uint64_t tenth_count = value / factor * 10 + (value % factor * 10 + factor / 2) / factor;
    (void)snprintf(out_text, DAO_UNITS_TEXT_BYTES, "%" PRIu64 ".%" PRIu64 " %s%s", tenth_count / 10,
                   tenth_count % 10, units[i].text, suffix);
    return out_text;
}

static const unit_t shown_bytes[] = {{"B", 1},
                                     {"KiB", KIB},
                                     {"MiB", KIB *KIB},
                                     {"GiB", KIB *KIB *KIB},
                                     {"TiB", KIB *KIB *KIB *KIB},
                                     {"PiB", KIB *KIB *KIB *KIB *KIB},
                                     {"EiB", KIB *KIB *KIB *KIB *KIB *KIB}};
static const unit_t shown_rates[] = {
    {"B", 1}, {"kB", KB}, {"MB", KB *KB}, {"GB", KB *KB *KB}, {"TB", KB *KB *KB *KB}};
static const unit_t shown_times[] = {{"ns", 1}, {"us", KB}, {"ms", KB *KB}, {"s", KB *KB *KB}};

const char *dao_units_format_bytes(uint64_t bytes, char out_text[DAO_UNITS_TEXT_BYTES])
{
    return format(bytes, shown_bytes, sizeof(shown_bytes) / sizeof(shown_bytes[0]), "", out_text);
}

const char *dao_units_format_rate(uint64_t bytes_per_second, char out_text[DAO_UNITS_TEXT_BYTES])
{
    return format(bytes_per_second, shown_rates, sizeof(shown_rates) / sizeof(shown_rates[0]), "/s",
                  out_text);
}

const char *dao_units_format_time(uint64_t ns, char out_text[DAO_UNITS_TEXT_BYTES])
{
    return format(ns, shown_times, sizeof(shown_times) / sizeof(shown_times[0]), "", out_text);
}
