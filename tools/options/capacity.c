/* SPDX-License-Identifier: Apache-2.0 */
/* Percentages are exact: a percentage is a whole number of millionths of a percent. */
#include "tools/options/capacity.h"

#include "base/numbers/units.h"
#include "base/report/error.h"

#include <string.h>

/* Millionths of a percent in the whole. */
#define WHOLE UINT64_C(100000000)

/* The largest percentage, in millionths. */
#define MOST (WHOLE * 100)

static dao_status_t not_a_percentage(const char *text)
{
    return dao_error(DAO_ERR_INVALID,
                     "\"%.40s\" is no percentage from 0.000001%% to 10000%%; write it such as 50%% or 180MiB",
                     text);
}

static dao_status_t parse_percent(const char *text, size_t length, uint64_t *out_millionths)
{
    uint64_t value = 0;
    int decimals = -1; /* before the point */
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.' && decimals < 0 && i > 0 && i + 1 < length) {
            decimals = 0;
        } else if (text[i] >= '0' && text[i] <= '9' && decimals < 6 && value <= MOST) {
            value = value * 10 + (uint64_t)(text[i] - '0');
            decimals += decimals >= 0 ? 1 : 0;
        } else {
            return not_a_percentage(text);
        }
    }
    for (int i = decimals < 0 ? 0 : decimals; i < 6 && value <= MOST; i++) {
        value *= 10;
    }
    if (value == 0 || value > MOST) {
        return not_a_percentage(text);
    }
    *out_millionths = value;
    return DAO_OK;
}

dao_status_t dao_capacity_parse(const char *text, uint64_t peak_bytes, uint64_t *out_bytes)
{
    size_t length = strlen(text);
    if (length == 0 || text[length - 1] != '%') {
        dao_status_t status = dao_units_parse_bytes(text, out_bytes);
        return status != DAO_ERR_INVALID
                   ? status
                   : dao_error(status,
                               "\"%.40s\" is neither a percentage of the peak nor a size; write it such "
                               "as 50%% or 180MiB; units are B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
                               text);
    }
    uint64_t millionths = 0;
    dao_status_t status = parse_percent(text, length - 1, &millionths);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t wholes = peak_bytes / WHOLE;
    uint64_t rest = peak_bytes % WHOLE * millionths / WHOLE;
    if (wholes > (UINT64_MAX - rest) / millionths) {
        return dao_error(DAO_ERR_OVERFLOW, "%.40s of the peak is more than 2^64 bytes", text);
    }
    *out_bytes = wholes * millionths + rest;
    return DAO_OK;
}
