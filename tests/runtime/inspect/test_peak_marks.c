/* SPDX-License-Identifier: Apache-2.0 */
/* Peaks since marks: each mark has its own, at each kind of place, whatever others read and reset. */
#include <dao/dao.h>

#include "tests/support/blocks.h"
#include "tests/support/five_places.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <string.h>

#define MARKS 4

static dao_stats_t stats_of(dao_place_t place)
{
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(place, &stats), DAO_OK);
    return stats;
}

static uint64_t mark_at(dao_place_t place)
{
    uint64_t mark = 0;
    CU_ASSERT_EQUAL_FATAL(dao_peak_mark_add(place, &mark), DAO_OK);
    CU_ASSERT_NOT_EQUAL(mark, 0);
    return mark;
}

static dao_peaks_t peaks_since(uint64_t mark)
{
    dao_peaks_t peaks = {0};
    CU_ASSERT_EQUAL(dao_peak_mark_get(mark, &peaks), DAO_OK);
    return peaks;
}

static void a_mark_has_the_most_since_it_was_set(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        void *before = take(places[i], 8 * MIB);
        uint64_t early = mark_at(places[i]), used_bytes = stats_of(places[i]).used_bytes;
        CU_ASSERT_EQUAL(peaks_since(early).used_bytes, used_bytes);
        CU_ASSERT_EQUAL(dao_free(places[i], take(places[i], 4 * MIB)), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(places[i], before), DAO_OK);
        uint64_t late = mark_at(places[i]);
        CU_ASSERT_EQUAL(dao_free(places[i], take(places[i], 2 * MIB)), DAO_OK);
        dao_peaks_t since_early = peaks_since(early), since_late = peaks_since(late);
        CU_ASSERT_EQUAL(since_early.used_bytes, used_bytes + 4 * MIB);
        CU_ASSERT_EQUAL(since_late.used_bytes, used_bytes - 8 * MIB + 2 * MIB);
        CU_ASSERT_TRUE(since_late.requested_bytes <= since_late.used_bytes &&
                       since_late.used_bytes <= since_late.reserved_bytes);
        CU_ASSERT_EQUAL(dao_peak_mark_remove(early), DAO_OK);
        CU_ASSERT_EQUAL(peaks_since(late).used_bytes, since_late.used_bytes); /* reading changes nothing */
        CU_ASSERT_EQUAL(dao_peak_mark_remove(late), DAO_OK);
    }
}

/* The program's own peaks and a mark's know nothing of each other. */
static void marks_and_the_peaks_of_a_place_are_apart(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_stats_reset_peaks(places[i]), DAO_OK);
        uint64_t used_bytes = stats_of(places[i]).used_bytes, mark;
        CU_ASSERT_EQUAL(dao_free(places[i], take(places[i], 6 * MIB)), DAO_OK);
        mark = mark_at(places[i]);
        CU_ASSERT_EQUAL(dao_free(places[i], take(places[i], 1 * MIB)), DAO_OK);
        dao_stats_t stats = stats_of(places[i]);
        CU_ASSERT_EQUAL(stats.peak_used_bytes, used_bytes + 6 * MIB);
        CU_ASSERT_TRUE(stats.peak_requested_bytes >= 6 * MIB &&
                       stats.peak_reserved_bytes >= stats.peak_used_bytes);
        CU_ASSERT_EQUAL(peaks_since(mark).used_bytes, used_bytes + 1 * MIB);
        CU_ASSERT_EQUAL(dao_stats_reset_peaks(places[i]), DAO_OK);
        CU_ASSERT_EQUAL(stats_of(places[i]).peak_used_bytes, used_bytes);
        CU_ASSERT_EQUAL(peaks_since(mark).used_bytes, used_bytes + 1 * MIB);
        dao_peaks_t moved = {0};
        CU_ASSERT_EQUAL(dao_peak_mark_move(mark, &moved), DAO_OK);
        CU_ASSERT_EQUAL(peaks_since(mark).requested_bytes, stats_of(places[i]).requested_bytes);
        CU_ASSERT_EQUAL(moved.used_bytes, used_bytes + 1 * MIB);
        CU_ASSERT_EQUAL(peaks_since(mark).used_bytes, used_bytes);
        CU_ASSERT_EQUAL(dao_peak_mark_remove(mark), DAO_OK);
        CU_ASSERT_EQUAL(stats_of(places[i]).peak_used_bytes, used_bytes);
    }
}

/* Several marks and resets, against a model that sees each allocation. */
static void marks_agree_with_a_model(void)
{
    uint64_t random = dao_test_seed("marks", 20261124);
    const dao_place_t place = places[PLACE_COUNT - 1], other = places[0];
    uint64_t marks[MARKS], most[MARKS], own, base_bytes;
    void *blocks[16] = {NULL};
    CU_ASSERT_EQUAL(dao_stats_reset_peaks(place), DAO_OK);
    own = base_bytes = stats_of(place).used_bytes;
    for (int m = 0; m < MARKS; m++) {
        marks[m] = mark_at(place);
        most[m] = base_bytes;
    }
    uint64_t elsewhere = mark_at(other), elsewhere_bytes = stats_of(other).used_bytes;
    for (int i = 0; i < 2000; i++) {
        size_t slot = dao_random_next(&random) % 16, m = dao_random_next(&random) % MARKS;
        if (blocks[slot] != NULL) {
            CU_ASSERT_EQUAL(dao_free(place, blocks[slot]), DAO_OK);
            blocks[slot] = NULL;
        } else {
            blocks[slot] = take(place, (1 + dao_random_next(&random) % 32) * 64 * KIB);
        }
        uint64_t used_bytes = stats_of(place).used_bytes;
        own = used_bytes > own ? used_bytes : own;
        for (int k = 0; k < MARKS; k++) {
            most[k] = used_bytes > most[k] ? used_bytes : most[k];
        }
        switch (dao_random_next(&random) % 8) {
        case 0:
            CU_ASSERT_EQUAL(dao_peak_mark_move(marks[m], NULL), DAO_OK);
            most[m] = used_bytes;
            break;
        case 1:
            CU_ASSERT_EQUAL(dao_stats_reset_peaks(place), DAO_OK);
            own = used_bytes;
            break;
        case 2:
            CU_ASSERT_EQUAL(dao_peak_mark_remove(marks[m]), DAO_OK);
            marks[m] = mark_at(place);
            most[m] = used_bytes;
            break;
        default:
            CU_ASSERT_EQUAL(peaks_since(marks[m]).used_bytes, most[m]);
            CU_ASSERT_EQUAL(stats_of(place).peak_used_bytes, own);
        }
    }
    CU_ASSERT_EQUAL(peaks_since(elsewhere).used_bytes, elsewhere_bytes);
    for (int m = 0; m < MARKS; m++) {
        CU_ASSERT_EQUAL(dao_peak_mark_remove(marks[m]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_peak_mark_remove(elsewhere), DAO_OK);
    for (int i = 0; i < 16; i++) {
        CU_ASSERT_EQUAL(dao_free(place, blocks[i]), DAO_OK);
    }
}

static void wrong_calls_change_nothing(void)
{
    const dao_place_t none = {DAO_PLACE_KIND_DEVICE, 9}, bad = {(dao_place_kind_t)7, 0};
    uint64_t mark = mark_at(places[0]), marks[DAO_PEAK_MARK_COUNT_MAX], other = 77;
    dao_peaks_t peaks = {.used_bytes = 77};
    CU_ASSERT_EQUAL(dao_free(places[0], take(places[0], 3 * MIB)), DAO_OK);
    uint64_t used_bytes = peaks_since(mark).used_bytes;
    CU_ASSERT_EQUAL(dao_peak_mark_add(places[0], NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_peak_mark_add(none, &other), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_peak_mark_add(bad, &other), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_peak_mark_get(mark, NULL), DAO_ERR_INVALID);
    const uint64_t wrong[] = {0, mark + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        CU_ASSERT_EQUAL(dao_peak_mark_get(wrong[i], &peaks), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_peak_mark_move(wrong[i], &peaks), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_peak_mark_remove(wrong[i]), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_peak_mark_remove: there is no mark"));
    }
    CU_ASSERT_EQUAL(peaks.used_bytes, 77);
    int count = 0;
    while (count < DAO_PEAK_MARK_COUNT_MAX - 1) {
        marks[count++] = mark_at(places[0]);
    }
    CU_ASSERT_EQUAL(dao_peak_mark_add(places[0], &other), DAO_ERR_TOO_MANY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "remove one with dao_peak_mark_remove()"));
    CU_ASSERT_EQUAL(other, 77);
    CU_ASSERT_EQUAL(peaks_since(mark).used_bytes, used_bytes);
    while (count > 0) {
        CU_ASSERT_EQUAL(dao_peak_mark_remove(marks[--count]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_peak_mark_remove(mark), DAO_OK);
    CU_ASSERT_EQUAL(dao_peak_mark_remove(mark), DAO_ERR_INVALID);
}

/* A mark of a place that was not used yet counts from its first block on; none outlives dao_finalize(). */
static void marks_end_with_the_library(void)
{
    dao_peaks_t peaks = {.used_bytes = 77};
    CU_ASSERT_EQUAL(places_stop(), 0);
    CU_ASSERT_EQUAL(places_start(), 0);
    uint64_t mark = mark_at(places[PLACE_COUNT - 1]);
    CU_ASSERT_EQUAL(peaks_since(mark).used_bytes, 0);
    CU_ASSERT_EQUAL(dao_free(places[PLACE_COUNT - 1], take(places[PLACE_COUNT - 1], 3 * MIB)), DAO_OK);
    CU_ASSERT_EQUAL(peaks_since(mark).used_bytes, 3 * MIB);
    CU_ASSERT_EQUAL(places_stop(), 0);
    CU_ASSERT_EQUAL(dao_peak_mark_get(mark, &peaks), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_peak_mark_remove(mark), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(places_start(), 0);
    CU_ASSERT_EQUAL(dao_peak_mark_get(mark, &peaks), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(peaks.used_bytes, 77);
    CU_ASSERT_EQUAL(stats_of(places[PLACE_COUNT - 1]).peak_used_bytes, 0);
}

enum { THREADS = 4, ROUNDS = 300 };

/* Has 1 MiB, and 5 MiB for a moment, after which its own mark has seen at least these. */
static void *use_a_mark(void *user)
{
    size_t *wrong_count = user;
    const dao_place_t place = places[PLACE_COUNT - 1];
    uint64_t mark = 0;
    *wrong_count += dao_peak_mark_add(place, &mark) != DAO_OK;
    for (int i = 0; i < ROUNDS; i++) {
        dao_peaks_t peaks = {0}, moved = {0};
        void *small = dao_alloc(place, 1 * MIB), *large = dao_alloc(place, 4 * MIB);
        *wrong_count += dao_free(place, large) != DAO_OK;
        *wrong_count += dao_peak_mark_get(mark, &peaks) != DAO_OK || peaks.used_bytes < 5 * MIB;
        *wrong_count += dao_peak_mark_move(mark, &moved) != DAO_OK || moved.used_bytes < peaks.used_bytes;
        *wrong_count += i % 16 == 0 && dao_stats_reset_peaks(place) != DAO_OK;
        *wrong_count += dao_peak_mark_get(mark, &peaks) != DAO_OK || peaks.used_bytes < 1 * MIB;
        *wrong_count += dao_free(place, small) != DAO_OK;
    }
    *wrong_count += dao_peak_mark_remove(mark) != DAO_OK;
    return NULL;
}

static void threads_miss_no_peak(void)
{
    pthread_t threads[THREADS];
    size_t wrong_counts[THREADS] = {0};
    for (int t = 0; t < THREADS; t++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[t], NULL, use_a_mark, &wrong_counts[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        CU_ASSERT_EQUAL(wrong_counts[t], 0);
    }
}

static CU_TestInfo tests[] = {
    {"a mark has the most since it was set", a_mark_has_the_most_since_it_was_set},
    {"marks and the peaks of a place are apart", marks_and_the_peaks_of_a_place_are_apart},
    {"marks agree with a model", marks_agree_with_a_model},
    {"wrong calls change nothing", wrong_calls_change_nothing},
    {"marks end with the library", marks_end_with_the_library},
    {"threads miss no peak", threads_miss_no_peak},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"peak marks", places_start, places_stop, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
