/* SPDX-License-Identifier: Apache-2.0 */
/* Exact numbers from their text. The reader has checked that the text is a JSON number. */
#include "tools/base/decimal.h"
#include "tools/read/text/json_reader.h"

dao_status_t dao_json_u64(const dao_json_reader_t *reader, uint64_t *out_value)
{
    char quoted[DAO_JSON_QUOTE_BYTES];
    if (reader->token != DAO_JSON_TOKEN_NUMBER) {
        return dao_json_error(reader, "expected a whole number, found %s",
                              dao_json_token_text(reader->token));
    }
    uint64_t value = 0;
    for (const char *at = reader->text; *at != '\0'; at++) {
        if (*at == '-') {
            return dao_json_error(reader, "%s is negative", dao_json_quote(reader->text, quoted));
        }
        if (*at < '0' || *at > '9') {
            return dao_json_error(reader, "%s is not a whole number without fraction or exponent",
                                  dao_json_quote(reader->text, quoted));
        }
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return dao_json_error_at(reader, reader->position, DAO_ERR_OVERFLOW,
                                     "%s is more than 18446744073709551615",
                                     dao_json_quote(reader->text, quoted));
        }
        value = value * 10 + digit;
    }
    *out_value = value;
    return DAO_OK;
}

dao_status_t dao_json_ms_as_ns(const dao_json_reader_t *reader, uint64_t *out_ns)
{
    char quoted[DAO_JSON_QUOTE_BYTES];
    if (reader->token != DAO_JSON_TOKEN_NUMBER) {
        return dao_json_error(reader, "expected milliseconds, found %s", dao_json_token_text(reader->token));
    }
    if (reader->text[0] == '-') {
        return dao_json_error(reader, "a time of %s ms is negative", dao_json_quote(reader->text, quoted));
    }
    if (!dao_decimal_scale(reader->text, 6, out_ns)) {
        return dao_json_error_at(reader, reader->position, DAO_ERR_OVERFLOW, "a time of %s ms is too long",
                                 dao_json_quote(reader->text, quoted));
    }
    return DAO_OK;
}
