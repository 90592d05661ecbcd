/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers with a sign, exactly. */
#ifndef DAO_TOOLS_SIGNED_NUMBER_H
#define DAO_TOOLS_SIGNED_NUMBER_H

#include "tools/base/decimal.h"

typedef struct dao_signed_number {
    uint64_t magnitude;
    bool is_negative;
} dao_signed_number_t;

/* Reads a number as JSON writes it. False: it is not whole, or does not fit 64 bits. */
static inline bool dao_signed_number_read(const char *text, dao_signed_number_t *out_number)
{
    out_number->is_negative = text[0] == '-';
    text += out_number->is_negative ? 1 : 0;
    for (const char *digit = text; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9') {
            return false;
        }
    }
    return dao_decimal_scale(text, 0, &out_number->magnitude);
}

#endif
