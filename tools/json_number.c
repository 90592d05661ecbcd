/* Exact numbers from their text. The reader has checked that the text is a JSON number. */
#include "tools/json_reader.h"

#include <string.h>

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

/* The exponent behind `e`, cut at a million either way. */
static int64_t read_exponent(const char *text)
{
    int64_t value = 0;
    bool is_negative = *text == '-';
    for (text += *text == '-' || *text == '+'; *text != '\0' && value < 1000000; text++) {
        value = value * 10 + (*text - '0');
    }
    return is_negative ? -value : value;
}

/* A decimal is its digits without the point, and how many of them stand before it. */
dao_status_t dao_json_ms_as_ns(const dao_json_reader_t *reader, uint64_t *out_ns)
{
    char quoted[DAO_JSON_QUOTE_BYTES];
    if (reader->token != DAO_JSON_TOKEN_NUMBER) {
        return dao_json_error(reader, "expected milliseconds, found %s", dao_json_token_text(reader->token));
    }
    if (reader->text[0] == '-') {
        return dao_json_error(reader, "a time of %s ms is negative", dao_json_quote(reader->text, quoted));
    }
    size_t digits_end = strcspn(reader->text, "eE");
    size_t point = strcspn(reader->text, ".eE");
    int64_t whole_digits = (int64_t)point + 6;
    if (reader->text[digits_end] != '\0') {
        whole_digits += read_exponent(reader->text + digits_end + 1);
    }
    uint64_t value = 0;
    int64_t taken = 0;
    size_t at = 0;
    for (; taken < whole_digits && (at < digits_end || value > 0); taken++) {
        at += at < digits_end && reader->text[at] == '.';
        uint64_t digit = at < digits_end ? (uint64_t)(reader->text[at++] - '0') : 0;
        if (value > (UINT64_MAX - 1 - digit) / 10) { /* one is left for rounding */
            return dao_json_error_at(reader, reader->position, DAO_ERR_OVERFLOW,
                                     "a time of %s ms is too long", dao_json_quote(reader->text, quoted));
        }
        value = value * 10 + digit;
    }
    at += at < digits_end && reader->text[at] == '.';
    bool rounds_up = taken == whole_digits && at < digits_end && reader->text[at] >= '5';
    *out_ns = value + (rounds_up ? 1 : 0);
    return DAO_OK;
}
