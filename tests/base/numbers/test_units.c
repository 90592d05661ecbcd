/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units: exact where they are whole, rounded down where they are not, and refused with words
   otherwise. */
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/text/printable.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef dao_status_t (*parse_t)(const char *text, uint64_t *out_value);

#define UNTOUCHED UINT64_C(0x5555555555555555)

static void gives(parse_t parse, const char *text, uint64_t expected)
{
    uint64_t value = UNTOUCHED;
    dao_status_t status = parse(text, &value);
    if (status != DAO_OK || value != expected) {
        (void)printf("    \"%s\": %s, %" PRIu64 " instead of %" PRIu64 "\n", text, dao_status_name(status),
                     value, expected);
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
    CU_ASSERT_EQUAL(value, expected);
}

static void refuses(parse_t parse, const char *text, dao_status_t expected)
{
    uint64_t value = UNTOUCHED;
    dao_status_t status = parse(text, &value);
    if (status != expected) {
        (void)printf("    \"%s\": %s instead of %s\n", text, dao_status_name(status),
                     dao_status_name(expected));
    }
    CU_ASSERT_EQUAL(status, expected);
    CU_ASSERT_EQUAL(dao_last_status(), expected);
    CU_ASSERT_EQUAL(value, UNTOUCHED);
    char shown[64];
    (void)snprintf(shown, sizeof(shown), "%s", text);
    dao_make_printable(shown); /* as all messages are */
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), shown));
}

static void every_unit_of_bytes_is_exact(void)
{
    gives(dao_units_parse_bytes, "0", 0);
    gives(dao_units_parse_bytes, "17", 17);
    gives(dao_units_parse_bytes, "17B", 17);
    gives(dao_units_parse_bytes, "3kB", 3000);
    gives(dao_units_parse_bytes, "3KB", 3000);
    gives(dao_units_parse_bytes, "3MB", 3000000);
    gives(dao_units_parse_bytes, "3GB", UINT64_C(3000000000));
    gives(dao_units_parse_bytes, "3TB", UINT64_C(3000000000000));
    gives(dao_units_parse_bytes, "3KiB", 3072);
    gives(dao_units_parse_bytes, "64MiB", UINT64_C(64) << 20);
    gives(dao_units_parse_bytes, "4GiB", UINT64_C(4) << 30);
    gives(dao_units_parse_bytes, "64TiB", UINT64_C(64) << 40);
    gives(dao_units_parse_bytes, "007", 7);
    gives(dao_units_parse_bytes, "9007199254740993", UINT64_C(9007199254740993)); /* no double holds it */
}

static void people_write_units_in_many_ways(void)
{
    gives(dao_units_parse_bytes, "8G", UINT64_C(8) << 30);
    gives(dao_units_parse_bytes, "8g", UINT64_C(8) << 30);
    gives(dao_units_parse_bytes, "8Gi", UINT64_C(8) << 30);
    gives(dao_units_parse_bytes, "8gib", UINT64_C(8) << 30);
    gives(dao_units_parse_bytes, "8gb", UINT64_C(8000000000));
    gives(dao_units_parse_bytes, "1.5k", 1536);
    gives(dao_units_parse_bytes, "7b", 7);
    gives(dao_units_parse_bytes, "2t", UINT64_C(2) << 40);
    gives(dao_units_parse_rate, "50gb/s", UINT64_C(50000000000));
    refuses(dao_units_parse_rate, "50gb/S", DAO_ERR_INVALID);
    refuses(dao_units_parse_time, "3MS", DAO_ERR_INVALID); /* not a mega of seconds either */
    refuses(dao_units_parse_time, "3K", DAO_ERR_INVALID);
}

static void every_unit_of_time_is_exact(void)
{
    gives(dao_units_parse_time, "0", 0);
    gives(dao_units_parse_time, "17", 17);
    gives(dao_units_parse_time, "17ns", 17);
    gives(dao_units_parse_time, "10us", 10000);
    gives(dao_units_parse_time, "2ms", 2000000);
    gives(dao_units_parse_time, "3s", UINT64_C(3000000000));
    refuses(dao_units_parse_time, "3MB", DAO_ERR_INVALID);
    refuses(dao_units_parse_time, "3min", DAO_ERR_INVALID);
    refuses(dao_units_parse_bytes, "3s", DAO_ERR_INVALID);
}

static void a_count_is_digits_alone(void)
{
    gives(dao_units_parse_count, "0", 0);
    gives(dao_units_parse_count, "64", 64);
    gives(dao_units_parse_count, "18446744073709551615", UINT64_MAX);
    refuses(dao_units_parse_count, "18446744073709551616", DAO_ERR_OVERFLOW);
    refuses(dao_units_parse_count, "", DAO_ERR_INVALID);
    refuses(dao_units_parse_count, "-1", DAO_ERR_INVALID);
    refuses(dao_units_parse_count, "1.5", DAO_ERR_INVALID);
    refuses(dao_units_parse_count, "1k", DAO_ERR_INVALID);
}

static void a_rate_may_end_in_a_second(void)
{
    gives(dao_units_parse_rate, "50GB/s", UINT64_C(50000000000));
    gives(dao_units_parse_rate, "50GB", UINT64_C(50000000000));
    gives(dao_units_parse_rate, "1.5GiB/s", UINT64_C(3) << 29);
    gives(dao_units_parse_rate, "7/s", 7);
    gives(dao_units_parse_rate, "7", 7);
    gives(dao_units_parse_rate, "7B/s", 7);
    gives(dao_units_parse_rate, "2TiB/s", UINT64_C(2) << 40);
    refuses(dao_units_parse_rate, "/s", DAO_ERR_INVALID);
    refuses(dao_units_parse_rate, "1GB/s/s", DAO_ERR_INVALID);
    refuses(dao_units_parse_rate, "1GB/", DAO_ERR_INVALID);
    refuses(dao_units_parse_rate, "1GB/h", DAO_ERR_INVALID);
    refuses(dao_units_parse_rate, "1GB /s", DAO_ERR_INVALID);
    refuses(dao_units_parse_bytes, "1GB/s", DAO_ERR_INVALID);
    refuses(dao_units_parse_time, "1s/s", DAO_ERR_INVALID);
}

static void fractions_are_rounded_down(void)
{
    gives(dao_units_parse_bytes, "1.5GiB", UINT64_C(3) << 29);
    refuses(dao_units_parse_bytes, "1.5", DAO_ERR_INVALID);
    refuses(dao_units_parse_bytes, "0.999B", DAO_ERR_INVALID);
    refuses(dao_units_parse_time, "0.5", DAO_ERR_INVALID);
    gives(dao_units_parse_bytes, "0.3KiB", 307); /* 307.2 */
    gives(dao_units_parse_bytes, "0.1MB", 100000);
    gives(dao_units_parse_bytes, "2.50kB", 2500);
    gives(dao_units_parse_bytes, "1.000000000001TB", UINT64_C(1000000000001));
    gives(dao_units_parse_bytes, "1.0000000000009TB", UINT64_C(1000000000000));
    gives(dao_units_parse_bytes, "0.9999999999999999999999TiB", (UINT64_C(1) << 40) - 1);
    gives(dao_units_parse_bytes, "1.00000000000000000000000000000000000000009kB", 1000);
    gives(dao_units_parse_time, "2.9999us", 2999);
    gives(dao_units_parse_time, "0.000000001s", 1);
    refuses(dao_units_parse_bytes, ".5GB", DAO_ERR_INVALID);
    refuses(dao_units_parse_bytes, "5.GB", DAO_ERR_INVALID);
    refuses(dao_units_parse_bytes, "5.", DAO_ERR_INVALID);
    refuses(dao_units_parse_bytes, "1.2.3", DAO_ERR_INVALID);
    refuses(dao_units_parse_bytes, "1,5GB", DAO_ERR_INVALID);
}

static void the_largest_value_fits_and_the_next_does_not(void)
{
    gives(dao_units_parse_bytes, "18446744073709551615", UINT64_MAX);
    refuses(dao_units_parse_bytes, "18446744073709551615.9", DAO_ERR_INVALID);
    gives(dao_units_parse_bytes, "18446744073709551.615kB", UINT64_MAX);
    gives(dao_units_parse_bytes, "16777215TiB", UINT64_MAX - (UINT64_C(1) << 40) + 1);
    gives(dao_units_parse_time, "18446744073.709551615s", UINT64_MAX);
    refuses(dao_units_parse_bytes, "18446744073709551616", DAO_ERR_OVERFLOW);
    refuses(dao_units_parse_bytes, "18446744073709551.616kB", DAO_ERR_OVERFLOW);
    refuses(dao_units_parse_bytes, "18446744073709552kB", DAO_ERR_OVERFLOW);
    refuses(dao_units_parse_bytes, "16777216TiB", DAO_ERR_OVERFLOW);
    refuses(dao_units_parse_bytes, "36893488147419103232", DAO_ERR_OVERFLOW); /* 2^65: wraps to 0 */
    refuses(dao_units_parse_bytes, "99999999999999999999999999999999GB", DAO_ERR_OVERFLOW);
    refuses(dao_units_parse_rate, "16777216TiB/s", DAO_ERR_OVERFLOW);
    refuses(dao_units_parse_time, "18446744073.709551616s", DAO_ERR_OVERFLOW);
}

static void nothing_but_a_plain_number_is_read(void)
{
    static const char *const texts[] = {
        "",   " ",  "B",    "GiB", "x",   "+1",    "-1",  "-0",  "+1GiB", "1e9",   "1E3",   "1e3MB", "0x10",
        " 1", "1 ", "1 GB", "1\t", "1\n", "1GiBB", "1BB", "inf", "nan",   "1_000", "1'000", "1GBx",  "--1",
    };
    parse_t parsers[] = {dao_units_parse_bytes, dao_units_parse_rate, dao_units_parse_time};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (size_t j = 0; j < sizeof(parsers) / sizeof(parsers[0]); j++) {
            refuses(parsers[j], texts[i], DAO_ERR_INVALID);
        }
    }
}

static void no_text_is_refused(void)
{
    uint64_t value = UNTOUCHED;
    CU_ASSERT_EQUAL(dao_units_parse_bytes(NULL, &value), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_units_parse_rate(NULL, &value), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_units_parse_time(NULL, &value), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(value, UNTOUCHED);
}

static void a_refusal_says_what_is_allowed(void)
{
    refuses(dao_units_parse_bytes, "12 parsecs", DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "MiB"));
    refuses(dao_units_parse_rate, "12 parsecs", DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "GB/s"));
    refuses(dao_units_parse_time, "12 parsecs", DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "ms"));
}

typedef const char *(*format_t)(uint64_t value, char out_text[DAO_UNITS_TEXT_BYTES]);

static void shows(format_t format, uint64_t value, const char *expected)
{
    char text[DAO_UNITS_TEXT_BYTES];
    memset(text, 'x', sizeof(text));
    CU_ASSERT_PTR_EQUAL(format(value, text), text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memchr(text, '\0', sizeof(text)));
    if (strcmp(text, expected) != 0) {
        (void)printf("    %" PRIu64 ": \"%s\" instead of \"%s\"\n", value, text, expected);
    }
    CU_ASSERT_STRING_EQUAL(text, expected);
}

static void texts_are_for_people(void)
{
    shows(dao_units_format_bytes, 0, "0 B");
    shows(dao_units_format_bytes, 999, "999 B");
    shows(dao_units_format_bytes, 1023, "1023 B");
    shows(dao_units_format_bytes, 1024, "1.0 KiB");
    shows(dao_units_format_bytes, 1280, "1.3 KiB"); /* half up */
    shows(dao_units_format_bytes, 362281164, "345.5 MiB");
    shows(dao_units_format_bytes, UINT64_C(8) << 30, "8.0 GiB");
    shows(dao_units_format_bytes, UINT64_C(5) << 39, "2.5 TiB");
    shows(dao_units_format_bytes, UINT64_MAX, "16.0 EiB");
    shows(dao_units_format_rate, UINT64_C(8000000000), "8.0 GB/s");
    shows(dao_units_format_rate, 12, "12 B/s");
    shows(dao_units_format_rate, UINT64_MAX, "18446744.1 TB/s");
    shows(dao_units_format_time, 0, "0 ns");
    shows(dao_units_format_time, 850, "850 ns");
    shows(dao_units_format_time, 1500, "1.5 us");
    shows(dao_units_format_time, 2900000, "2.9 ms");
    shows(dao_units_format_time, UINT64_C(90000000000), "90.0 s");
    shows(dao_units_format_time, UINT64_MAX, "18446744073.7 s");
}

static void rounding_reaches_the_next_unit(void)
{
    shows(dao_units_format_bytes, 1048524, "1023.9 KiB");
    shows(dao_units_format_bytes, 1048525, "1.0 MiB");
    shows(dao_units_format_bytes, (UINT64_C(1) << 40) - 1, "1.0 TiB");
    shows(dao_units_format_rate, 999949, "999.9 kB/s");
    shows(dao_units_format_rate, 999999999, "1.0 GB/s");
    shows(dao_units_format_time, 999999, "1.0 ms");
    shows(dao_units_format_time, 999999999, "1.0 s");
}

static void switches_are_off_or_on(void)
{
    gives(dao_units_parse_switch, "0", 0);
    gives(dao_units_parse_switch, "1", 1);
    refuses(dao_units_parse_switch, "", DAO_ERR_INVALID);
    refuses(dao_units_parse_switch, "2", DAO_ERR_INVALID);
    refuses(dao_units_parse_switch, "on", DAO_ERR_INVALID);
}

static CU_TestInfo tests[] = {
    {"every unit of bytes is exact", every_unit_of_bytes_is_exact},
    {"people write units in many ways", people_write_units_in_many_ways},
    {"every unit of time is exact", every_unit_of_time_is_exact},
    {"a count is digits alone", a_count_is_digits_alone},
    {"a rate may end in a second", a_rate_may_end_in_a_second},
    {"fractions are rounded down", fractions_are_rounded_down},
    {"the largest value fits and the next does not", the_largest_value_fits_and_the_next_does_not},
    {"nothing but a plain number is read", nothing_but_a_plain_number_is_read},
    {"no text is refused", no_text_is_refused},
    {"a refusal says what is allowed", a_refusal_says_what_is_allowed},
    {"texts are for people", texts_are_for_people},
    {"rounding reaches the next unit", rounding_reaches_the_next_unit},
    {"switches are off or on", switches_are_off_or_on},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"units", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
