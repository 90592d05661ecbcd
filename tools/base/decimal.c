/* SPDX-License-Identifier: Apache-2.0 */
/* A decimal is its digits without the point, and how many of them stand before it. */
#include "tools/base/decimal.h"

#include <string.h>

/* Exponents are cut here, either way: beyond it every number is 0 or too large. */
#define EXPONENT_MAX 1000000

/* The exponent behind `e`. */
static int64_t read_exponent(const char *text)
{
    int64_t value = 0;
    bool is_negative = *text == '-';
    for (text += *text == '-' || *text == '+'; *text != '\0' && value < EXPONENT_MAX; text++) {
        value = value * 10 + (*text - '0');
    }
    return is_negative ? -value : value;
}

bool dao_decimal_scale(const char *text, int places, uint64_t *out_value)
{
    size_t digits_end = strcspn(text, "eE");
    int64_t whole_digits = (int64_t)strcspn(text, ".eE") + places;
    if (text[digits_end] != '\0') {
        whole_digits += read_exponent(text + digits_end + 1);
    }
    uint64_t value = 0;
    int64_t taken = 0;
    size_t at = 0;
    for (; taken < whole_digits && (at < digits_end || value > 0); taken++) {
        at += at < digits_end && text[at] == '.';
        uint64_t digit = at < digits_end ? (uint64_t)(text[at++] - '0') : 0;
        if (value > (UINT64_MAX - 1 - digit) / 10) { /* one is left for rounding */
            return false;
        }
        value = value * 10 + digit;
    }
    at += at < digits_end && text[at] == '.';
    bool rounds_up = taken == whole_digits && at < digits_end && text[at] >= '5';
    *out_value = value + (rounds_up ? 1 : 0);
    return true;
}

bool dao_decimal_is_plain(const char *text)
{
    size_t whole = strspn(text, "0123456789");
    if (whole == 0 || text[whole] == '\0') {
        return whole > 0;
    }
    size_t fraction = strspn(text + whole + 1, "0123456789");
    return text[whole] == '.' && fraction > 0 && text[whole + 1 + fraction] == '\0';
}
