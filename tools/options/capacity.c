/* SPDX-License-Identifier: Apache-2.0 */
/* Percentages are exact: a percentage is a whole number of millionths of a percent. */
#include "tools/options/capacity.h"

#include "base/numbers/units.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdbool.h>
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

dao_status_t dao_capacity_parse(const char *text, dao_capacity_t *out_capacity)
{
    dao_capacity_t capacity = {.millionths = 0};
    size_t length = strlen(text);
    bool is_percentage = length > 0 && text[length - 1] == '%';
    dao_status_t status = is_percentage ? parse_percent(text, length - 1, &capacity.millionths)
                                        : dao_units_parse_bytes(text, &capacity.bytes);
    if (status == DAO_OK) {
        *out_capacity = capacity;
    }
    if (is_percentage || status != DAO_ERR_INVALID) {
        return status;
    }
    return dao_error(status,
                     "\"%.40s\" is neither a percentage of the peak nor a size; write it such "
                     "as 50%% or 180MiB; units are B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, K, M, G, T",
                     text);
}

dao_status_t dao_capacity_resolve(const dao_capacity_t *capacity, uint64_t peak_bytes, uint64_t *out_bytes)
{
    uint64_t millionths = capacity->millionths;
    if (millionths == 0) {
        *out_bytes = capacity->bytes;
        return DAO_OK;
    }
    uint64_t wholes = peak_bytes / WHOLE;
    uint64_t rest = peak_bytes % WHOLE * millionths / WHOLE;
    if (wholes > (UINT64_MAX - rest) / millionths) {
        return dao_error(DAO_ERR_OVERFLOW, "%g%% of the peak is more than 2^64 bytes",
                         (double)millionths / 1e6);
    }
    *out_bytes = wholes * millionths + rest;
    return DAO_OK;
}

dao_status_t dao_capacity_error(uint64_t capacity_bytes, uint64_t least_bytes, uint32_t operator_index,
                                const char *operator_name)
{
    return dao_error(DAO_ERR_KERNEL_TOO_LARGE,
                     "operator %" PRIu32 " \"%.64s\" needs %" PRIu64 " bytes at once for its operands and "
                     "workspace, more than the capacity of %" PRIu64 "; give at least --capacity %" PRIu64,
                     operator_index, operator_name, least_bytes, capacity_bytes, least_bytes);
}

dao_status_t dao_capacity_resolve_for(const dao_capacity_t *capacity, const dao_swap_bound_t *step,
                                      const char *largest_name, uint64_t *out_bytes)
{
    uint64_t capacity_bytes = 0;
    dao_status_t status = dao_capacity_resolve(capacity, step->peak_bytes, &capacity_bytes);
    if (status != DAO_OK) {
        return status;
    }
    if (capacity_bytes < step->least_capacity_bytes) {
        return dao_capacity_error(capacity_bytes, step->least_capacity_bytes, step->least_capacity_kernel,
                                  largest_name);
    }
    *out_bytes = capacity_bytes;
    return DAO_OK;
}
