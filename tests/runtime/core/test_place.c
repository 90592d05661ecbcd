/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of places. */
#include <dao/place.h>

#include "tests/support/suite.h"

#include <string.h>

static void every_place_is_written_and_read_back(void)
{
    static const struct {
        dao_place_t place;
        const char *text;
    } cases[] = {
        {{DAO_PLACE_KIND_CPU, 0}, "cpu"},           {{DAO_PLACE_KIND_PINNED, 0}, "pinned:0"},
        {{DAO_PLACE_KIND_PINNED, 1}, "pinned:1"},   {{DAO_PLACE_KIND_DEVICE, 0}, "device:0"},
        {{DAO_PLACE_KIND_DEVICE, 63}, "device:63"}, {{DAO_PLACE_KIND_DEVICE, INT32_MAX}, "device:2147483647"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[DAO_PLACE_TEXT_BYTES];
        CU_ASSERT_STRING_EQUAL(dao_place_format(cases[i].place, text), cases[i].text);
        dao_place_t place = {DAO_PLACE_KIND_CPU, -1};
        CU_ASSERT_EQUAL(dao_place_parse(cases[i].text, &place), DAO_OK);
        CU_ASSERT_TRUE(dao_place_equal(place, cases[i].place));
    }
}

static void pinned_alone_is_pinned_for_device_0(void)
{
    dao_place_t place = {DAO_PLACE_KIND_CPU, -1};
    CU_ASSERT_EQUAL(dao_place_parse("pinned", &place), DAO_OK);
    CU_ASSERT_EQUAL(place.kind, DAO_PLACE_KIND_PINNED);
    CU_ASSERT_EQUAL(place.index, 0);
}

static void anything_else_is_refused_and_writes_nothing(void)
{
    static const char *const texts[] = {
        "",
        "cpu:0",
        "cpu ",
        " cpu",
        "CPU",
        "device",
        "device:",
        "device:-1",
        "device:+1",
        "device:01",
        "device: 1",
        "device:1 ",
        "device:1x",
        "device:0x1",
        "pinned:",
        "pinned1",
        "pinnedx",
        "devic:1",
        "gpu:0",
        "device:2147483648",
        "device:99999999999999999999",
        "device:1:1",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        dao_place_t place = {DAO_PLACE_KIND_PINNED, 77};
        CU_ASSERT_EQUAL(dao_place_parse(texts[i], &place), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(place.kind, DAO_PLACE_KIND_PINNED);
        CU_ASSERT_EQUAL(place.index, 77);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), texts[i]));
    }
    dao_place_t place;
    CU_ASSERT_EQUAL(dao_place_parse(NULL, &place), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_place_parse("cpu", NULL), DAO_ERR_INVALID);
}

static void a_place_that_is_none_is_still_written(void)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_place_t unknown_kind = {(dao_place_kind_t)9, INT32_MIN};
    dao_place_t negative = {DAO_PLACE_KIND_DEVICE, INT32_MIN};
    dao_place_t second_host = {DAO_PLACE_KIND_CPU, 3};
    CU_ASSERT_STRING_EQUAL(dao_place_format(unknown_kind, text), "?:-2147483648");
    CU_ASSERT_STRING_EQUAL(dao_place_format(negative, text), "device:-2147483648");
    CU_ASSERT_STRING_EQUAL(dao_place_format(second_host, text), "cpu:3");
}

static void typed_places_become_places(void)
{
    CU_ASSERT_EQUAL(dao_place_of(dao_cpu_place()).kind, DAO_PLACE_KIND_CPU);
    CU_ASSERT_EQUAL(dao_place_of(dao_pinned_place(3)).kind, DAO_PLACE_KIND_PINNED);
    CU_ASSERT_EQUAL(dao_place_of(dao_device_place(4)).index, 4);
    CU_ASSERT_TRUE(
        dao_place_equal(dao_place_of(dao_place_of(dao_device_place(4))), dao_place_of(dao_device_place(4))));
}

static CU_TestInfo tests[] = {
    {"every place is written and read back", every_place_is_written_and_read_back},
    {"pinned alone is pinned for device 0", pinned_alone_is_pinned_for_device_0},
    {"anything else is refused and writes nothing", anything_else_is_refused_and_writes_nothing},
    {"a place that is none is still written", a_place_that_is_none_is_still_written},
    {"typed places become places", typed_places_become_places},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"place", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
