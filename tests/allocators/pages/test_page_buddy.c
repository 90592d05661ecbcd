/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of pages, against a slow model: all small page counts through, then at random. */
#include "allocators/pages/page_buddy.h"
#include "base/report/fault.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

#define MODEL_PAGES 300u

/* The order of the run that begins at a page, or -1. */
typedef struct model {
    uint32_t page_count;
    int order[MODEL_PAGES];
    bool used[MODEL_PAGES];
} model_t;

static dao_page_buddy_t *buddy;

static void buddy_create(uint32_t page_count)
{
    CU_ASSERT_EQUAL_FATAL(dao_page_buddy_create(page_count, &buddy), DAO_OK);
}

static void buddy_destroy(void)
{
    dao_page_buddy_destroy(buddy);
    buddy = NULL;
}

static uint32_t take(uint32_t order)
{
    uint32_t page = UINT32_MAX;
    CU_ASSERT_EQUAL(dao_page_buddy_alloc(buddy, order, &page), DAO_OK);
    CU_ASSERT_EQUAL(page % (1u << order), 0);
    CU_ASSERT_TRUE(dao_page_buddy_is_valid(buddy));
    return page;
}

static void give(uint32_t page, uint32_t order)
{
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, page, order), DAO_OK);
    CU_ASSERT_TRUE(dao_page_buddy_is_valid(buddy));
}

static void free_merges_with_its_buddy(void)
{
    buddy_create(4);
    uint32_t low = take(0), high = take(0);
    CU_ASSERT_EQUAL(low ^ high, 1);
    give(low, 0);
    CU_ASSERT_EQUAL(dao_page_buddy_largest_free_order(buddy), 1);
    CU_ASSERT_TRUE(dao_page_buddy_is_free_run(buddy, low));
    CU_ASSERT_FALSE(dao_page_buddy_is_free_run(buddy, high));
    CU_ASSERT_FALSE(dao_page_buddy_is_free_run(buddy, 4));
    give(high, 0);
    CU_ASSERT_TRUE(dao_page_buddy_is_free_run(buddy, 0));
    CU_ASSERT_FALSE(dao_page_buddy_is_free_run(buddy, 1)); /* inside the merged run */
    CU_ASSERT_EQUAL(dao_page_buddy_page_count(buddy), 4);
    CU_ASSERT_EQUAL(dao_page_buddy_largest_free_order(buddy), 2);
    CU_ASSERT_EQUAL(dao_page_buddy_free_count(buddy), 4);
    buddy_destroy();
}

static void bad_frees_are_told_apart(void)
{
    buddy_create(11);
    uint32_t run = take(2);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, run + 1, 0), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, run + 3, 2), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, run, 1), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, run, 99), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, 11, 0), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, UINT32_MAX, 0), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, 10, 0), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_page_buddy_split(buddy, 10, 0), DAO_ERR_DOUBLE_FREE);
    give(run, 2);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, run, 2), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, run + 1, 0), DAO_ERR_DOUBLE_FREE);
    buddy_destroy();
}

static void a_split_run_is_given_back_page_by_page(void)
{
    buddy_create(8);
    uint32_t run = take(3);
    CU_ASSERT_EQUAL(dao_page_buddy_split(buddy, run, 3), DAO_OK);
    CU_ASSERT_TRUE(dao_page_buddy_is_valid(buddy));
    for (uint32_t i = 0; i < 8; i++) {
        give(i * 3 % 8, 0);
    }
    CU_ASSERT_EQUAL(dao_page_buddy_largest_free_order(buddy), 3);
    buddy_destroy();
}

static void the_largest_count_works(void)
{
    buddy_create(1u << DAO_PAGE_BUDDY_ORDER_MAX);
    CU_ASSERT_EQUAL(take(DAO_PAGE_BUDDY_ORDER_MAX), 0);
    CU_ASSERT_EQUAL(dao_page_buddy_largest_free_order(buddy), UINT32_MAX);
    uint32_t page = 5;
    CU_ASSERT_EQUAL(dao_page_buddy_alloc(buddy, 0, &page), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(page, 5);
    give(0, DAO_PAGE_BUDDY_ORDER_MAX);
    buddy_destroy();
}

/* Returns true if 2^order aligned pages are free in the model. */
static bool model_is_free(const model_t *model, uint32_t page, uint32_t order)
{
    for (uint32_t i = page; i < page + (1u << order); i++) {
        if (i >= model->page_count || model->used[i]) {
            return false;
        }
    }
    return true;
}

static bool model_has_room(const model_t *model, uint32_t order)
{
    for (uint32_t page = 0; page < model->page_count; page += 1u << order) {
        if (model_is_free(model, page, order)) {
            return true;
        }
    }
    return false;
}

static void model_set(model_t *model, uint32_t page, uint32_t order, bool used)
{
    memset(&model->used[page], used, 1u << order);
    model->order[page] = used ? (int)order : -1;
}

static void check_against(const model_t *model)
{
    uint32_t free_count = 0;
    for (uint32_t page = 0; page < model->page_count; page++) {
        free_count += !model->used[page];
        if (model->order[page] >= 0) {
            CU_ASSERT_EQUAL(dao_page_buddy_run_order(buddy, page), (uint32_t)model->order[page]);
        }
    }
    CU_ASSERT_EQUAL(dao_page_buddy_free_count(buddy), free_count);
    uint32_t largest = dao_page_buddy_largest_free_order(buddy);
    CU_ASSERT_TRUE(largest == UINT32_MAX ? free_count == 0 : model_has_room(model, largest));
    CU_ASSERT_FALSE(largest < 8 && model_has_room(model, largest + 1));
    CU_ASSERT_TRUE_FATAL(dao_page_buddy_is_valid(buddy));
}

static void model_alloc(model_t *model, uint32_t order)
{
    uint32_t page = 0;
    dao_status_t status = dao_page_buddy_alloc(buddy, order, &page);
    CU_ASSERT_EQUAL(status, model_has_room(model, order) ? DAO_OK : DAO_ERR_LIMIT);
    if (status == DAO_OK) {
        CU_ASSERT_TRUE_FATAL((page & ((1u << order) - 1)) == 0 && model_is_free(model, page, order));
        model_set(model, page, order, true);
    }
}

static void model_free(model_t *model, uint32_t page, uint32_t order)
{
    bool is_run = page < model->page_count && model->order[page] == (int)order;
    CU_ASSERT_EQUAL(dao_page_buddy_free(buddy, page, order) == DAO_OK, is_run);
    if (is_run) {
        model_set(model, page, order, false);
    }
}

static void model_create(model_t *model, uint32_t page_count)
{
    memset(model, 0, sizeof(*model));
    model->page_count = page_count;
    for (uint32_t page = 0; page < MODEL_PAGES; page++) {
        model->order[page] = -1;
    }
    buddy_create(page_count);
    check_against(model);
}

/* Replays a sequence of operations out of five: take orders 0, 1 and 2, free the lowest or the highest
   run. */
static void replay(model_t *model, uint32_t code, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++, code /= 5) {
        uint32_t choice = code % 5;
        if (choice < 3) {
            model_alloc(model, choice);
            continue;
        }
        uint32_t found = UINT32_MAX;
        for (uint32_t page = 0; page < model->page_count; page++) {
            if (model->order[page] >= 0 && (found == UINT32_MAX || choice == 4)) {
                found = page;
            }
        }
        if (found != UINT32_MAX) {
            model_free(model, found, (uint32_t)model->order[found]);
        }
    }
    check_against(model);
}

static void all_short_sequences_on_small_counts_agree_with_the_model(void)
{
    static model_t model;
    for (uint32_t page_count = 1; page_count <= 9; page_count++) {
        for (uint32_t code = 0; code < 5u * 5 * 5 * 5 * 5; code++) {
            model_create(&model, page_count);
            replay(&model, code, 5);
            buddy_destroy();
        }
    }
}

static void every_count_is_wholly_used_and_merges_again(void)
{
    for (uint32_t page_count = 1; page_count <= 130; page_count++) {
        buddy_create(page_count);
        uint32_t largest = dao_page_buddy_largest_free_order(buddy);
        for (uint32_t i = 0; i < page_count; i++) {
            (void)take(0);
        }
        CU_ASSERT_EQUAL(dao_page_buddy_free_count(buddy), 0);
        for (uint32_t i = 0; i < page_count; i++) {
            give(i % 2 == 0 ? i / 2 : page_count - 1 - i / 2, 0);
        }
        CU_ASSERT_EQUAL(dao_page_buddy_largest_free_order(buddy), largest);
        CU_ASSERT_EQUAL(1u << largest, 1u << (31 - __builtin_clz(page_count)));
        buddy_destroy();
    }
}

static void random_operations_agree_with_the_model(void)
{
    uint64_t seed = dao_test_seed("buddy", 2);
    static model_t model;
    for (size_t round = 0; round < 20; round++) {
        model_create(&model, 1 + (uint32_t)(dao_random_next(&seed) % MODEL_PAGES));
        for (size_t i = 0; i < 1000; i++) {
            uint32_t order = (uint32_t)(dao_random_next(&seed) % 6);
            uint32_t page = (uint32_t)(dao_random_next(&seed) % model.page_count);
            if (dao_random_next(&seed) % 3 == 0) {
                model_alloc(&model, order);
            } else {
                model_free(&model, page, model.order[page] >= 0 ? (uint32_t)model.order[page] : order);
            }
            check_against(&model);
        }
        buddy_destroy();
    }
}

/* Pages of the search of all states. There are f(k) of 2^k pages: f(0) = 2, f(k + 1) = f(k)^2 + 1. */
#if defined(DAO_HEAVY_ASSERTS) || defined(TEST_HAS_SANITIZER) /* all pages are looked at, or slowly */
#define STATE_ORDER 3u
#define STATE_COUNT 677u
#else
#define STATE_ORDER 4u
#define STATE_COUNT 458330u
#endif
#define STATE_PAGES (1u << STATE_ORDER)

/* Creates a buddy whose used runs are the model's. While all other pages are used, the run that is free is
   the one that an allocation gets. */
static bool state_create(const model_t *model)
{
    uint32_t page = 0;
    bool holds = dao_page_buddy_create(STATE_PAGES, &buddy) == DAO_OK &&
                 dao_page_buddy_alloc(buddy, STATE_ORDER, &page) == DAO_OK &&
                 dao_page_buddy_split(buddy, 0, STATE_ORDER) == DAO_OK;
    for (uint32_t begin = 0; begin < STATE_PAGES; begin++) {
        uint32_t length = model->order[begin] > 0 ? 1u << model->order[begin] : 0;
        for (uint32_t i = 0; i < length; i++) {
            holds = holds && dao_page_buddy_free(buddy, begin + i, 0) == DAO_OK;
        }
        holds =
            holds &&
            (length == 0 ||
             (dao_page_buddy_alloc(buddy, (uint32_t)model->order[begin], &page) == DAO_OK && page == begin));
    }
    for (uint32_t i = 0; i < STATE_PAGES; i++) {
        holds = holds && (model->used[i] || dao_page_buddy_free(buddy, i, 0) == DAO_OK);
    }
    return holds;
}

/* Whether the buddy has the model's used runs, and free runs as long as can be. */
static bool state_holds(const model_t *model)
{
    uint32_t free_count = 0;
    bool holds = dao_page_buddy_is_valid(buddy);
    for (uint32_t page = 0; page < STATE_PAGES; page++) {
        free_count += !model->used[page];
        holds = holds && (model->order[page] < 0 ||
                          (dao_page_buddy_run_order(buddy, page) == (uint32_t)model->order[page] &&
                           !dao_page_buddy_is_free_run(buddy, page)));
    }
    uint32_t largest = dao_page_buddy_largest_free_order(buddy), most = UINT32_MAX;
    for (uint32_t order = 0; order <= STATE_ORDER; order++) {
        most = model_has_room(model, order) ? order : most;
    }
    return holds && largest == most && dao_page_buddy_free_count(buddy) == free_count;
}

/* Returns what a free has to answer in a state. */
static dao_status_t free_status(const model_t *model, uint32_t page, uint32_t order)
{
    return !model->used[page]                 ? DAO_ERR_DOUBLE_FREE
           : model->order[page] == (int)order ? DAO_OK
                                              : DAO_ERR_INTERIOR_POINTER;
}

/* Makes each call in a state, and looks at the state behind it. */
static bool answers_every_call(const model_t *model)
{
    bool holds = state_create(model) && state_holds(model);
    model_t after = *model;
    for (uint32_t order = 0; order <= STATE_ORDER; order++) {
        uint32_t got = 0;
        dao_status_t status = dao_page_buddy_alloc(buddy, order, &got);
        holds = holds && status == (model_has_room(model, order) ? DAO_OK : DAO_ERR_LIMIT);
        if (status == DAO_OK && holds) {
            holds = got % (1u << order) == 0 && model_is_free(model, got, order);
            model_set(&after, got, order, true);
            holds = holds && state_holds(&after) && dao_page_buddy_free(buddy, got, order) == DAO_OK;
            model_set(&after, got, order, false);
        }
        for (uint32_t page = 0; page < STATE_PAGES; page++) {
            dao_status_t wanted = free_status(model, page, order);
            holds = holds && dao_page_buddy_free(buddy, page, order) == wanted;
            if (wanted == DAO_OK && holds) {
                model_set(&after, page, order, false);
                holds = state_holds(&after);
                model_set(&after, page, order, true);
                buddy_destroy();
                holds = holds && state_create(model);
            }
        }
    }
    holds = holds && state_holds(model);
    buddy_destroy();
    return holds;
}

/* Goes through all states whose runs before a page are the model's. Returns how many do not hold. */
static uint32_t search_states(model_t *model, uint32_t page, uint32_t *count)
{
    if (page == STATE_PAGES) {
        ++*count;
        return answers_every_call(model) ? 0 : 1;
    }
    uint32_t wrong = search_states(model, page + 1, count); /* it is free */
    for (uint32_t order = 0; page % (1u << order) == 0 && page + (1u << order) <= STATE_PAGES; order++) {
        model_set(model, page, order, true);
        wrong += search_states(model, page + (1u << order), count);
        model_set(model, page, order, false);
    }
    return wrong;
}

static void every_state_answers_every_call(void)
{
    static model_t model;
    model.page_count = STATE_PAGES;
    memset(model.order, -1, sizeof(model.order)); /* no run */
    uint32_t count = 0;
    CU_ASSERT_EQUAL(search_states(&model, 0, &count), 0);
    CU_ASSERT_EQUAL(count, STATE_COUNT);
    printf("%u states of %u pages\n", count, STATE_PAGES);
}

#if defined(DAO_FAULTS)

static void a_lack_of_memory_creates_nothing(void)
{
    for (uint64_t n = 0; n < 4; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        CU_ASSERT_EQUAL(dao_page_buddy_create(100, &buddy), DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
        CU_ASSERT_PTR_NULL(buddy);
    }
}

#endif

static CU_TestInfo tests[] = {
    {"free merges with its buddy", free_merges_with_its_buddy},
    {"bad frees are told apart", bad_frees_are_told_apart},
    {"a split run is given back page by page", a_split_run_is_given_back_page_by_page},
    {"the largest count works", the_largest_count_works},
    {"all short sequences on small counts agree with the model",
     all_short_sequences_on_small_counts_agree_with_the_model},
    {"every count is wholly used and merges again", every_count_is_wholly_used_and_merges_again},
    {"random operations agree with the model", random_operations_agree_with_the_model},
    {"every state answers every call", every_state_answers_every_call},
#if defined(DAO_FAULTS)
    {"a lack of memory creates nothing", a_lack_of_memory_creates_nothing},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"buddy", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
