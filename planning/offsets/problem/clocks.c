/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes by vector clocks become times.

   Buffer i may share bytes with a later j if end_i <= begin_j in every component. Let known_j be the join
   (the greatest of each component) of all ends that are before begin_j. Then end_i <= begin_j if and only if
   end_i <= known_j, and two buffers with the same past have the same known.

   Where all knowns form a chain, each below the next, buffers are intervals on it. A buffer begins at its
   known and ends at the first one that knows its end. Where they do not, a part of them that is a chain gives
   intervals that overlap too often, which is safe. Then the clocks themselves tell the rest.

   The ends that are before begin_j are found in chains of ends: in each chain they come first. Ends of one
   thread are always a chain, so there are about as many chains as threads. */
#include "base/report/error.h"
#include "planning/offsets/problem/rows.h"
#include "planning/offsets/support/sort.h"

#include <string.h>

bool dao_plan_clock_is_before(const uint32_t *end_clock, const uint32_t *begin_clock, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (end_clock[i] > begin_clock[i]) {
            return false;
        }
    }
    return true;
}

/* A clock that is below another one has a smaller sum. */
static uint64_t sum_of(const uint32_t *clock, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += clock[i];
    }
    return sum;
}

void dao_plan_clocks_to_sums(const dao_plan_problem_t *problem, uint64_t *begin_times, uint64_t *end_times,
                             dao_plan_work_t *work)
{
    uint32_t width = problem->clock_count;
    dao_plan_pass_t pass = {.count = problem->buffer_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            begin_times[i] = sum_of(problem->begin_clocks + i * width, width);
            end_times[i] = sum_of(problem->end_clocks + i * width, width);
        }
    }
}

typedef struct linearizer {
    const dao_plan_problem_t *problem;
    dao_plan_work_t *work;
    uint32_t count;
    uint32_t width;       /* components of a clock */
    uint32_t *known;      /* one clock a buffer */
    dao_plan_key_t *keys; /* buffers by the sum of a clock */
    dao_plan_key_t *scratch;
    uint32_t *next;  /* of an end in its chain, then: ends in the order of their chains */
    uint32_t *lasts; /* of a chain */
    uint32_t *firsts;
    uint32_t chain_count;
} linearizer_t;

static const uint32_t *end_of(const linearizer_t *linearizer, uint32_t buffer)
{
    return linearizer->problem->end_clocks + (size_t)buffer * linearizer->width;
}

static const uint32_t *begin_of(const linearizer_t *linearizer, uint32_t buffer)
{
    return linearizer->problem->begin_clocks + (size_t)buffer * linearizer->width;
}

static uint32_t *known_of(const linearizer_t *linearizer, uint32_t buffer)
{
    return linearizer->known + (size_t)buffer * linearizer->width;
}

static void sort_by_sum(const linearizer_t *linearizer, const uint32_t *clocks)
{
    dao_plan_pass_t pass = {.count = linearizer->count};
    while (dao_plan_pass_next(&pass, linearizer->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            linearizer->keys[i].key = sum_of(clocks + i * linearizer->width, linearizer->width);
            linearizer->keys[i].value = (uint32_t)i;
        }
    }
    dao_plan_sort_keys(linearizer->keys, linearizer->scratch, linearizer->count, linearizer->work);
}

/* The first chain that an end is not below; behind the last one a new one. `lasts[c]` is the last end of
   chain c. */
static uint32_t find_chain(const linearizer_t *linearizer, uint32_t end)
{
    uint32_t chain = 0;
    while (chain < linearizer->chain_count &&
           !dao_plan_clock_is_before(end_of(linearizer, linearizer->lasts[chain]), end_of(linearizer, end),
                                     linearizer->width)) {
        chain++;
    }
    return chain;
}

/* Assigns each end its chain, in `scratch`. With many chains a single end takes long. */
static void find_chains(linearizer_t *linearizer)
{
    sort_by_sum(linearizer, linearizer->problem->end_clocks);
    for (uint32_t i = 0; i < linearizer->count && !dao_plan_work_is_cancelled(linearizer->work); i++) {
        uint32_t end = linearizer->keys[i].value;
        uint32_t chain = find_chain(linearizer, end);
        linearizer->work->used += 1 + chain;
        linearizer->chain_count += chain == linearizer->chain_count ? 1 : 0;
        linearizer->lasts[chain] = end;
        linearizer->scratch[i] = (dao_plan_key_t){.key = chain, .value = end};
    }
}

static void make_chains(linearizer_t *linearizer)
{
    find_chains(linearizer);
    dao_plan_pass_copy(linearizer->keys, linearizer->scratch, linearizer->count * sizeof(*linearizer->keys),
                       linearizer->work);
    dao_plan_sort_keys(linearizer->keys, linearizer->scratch, linearizer->count,
                       linearizer->work); /* stable: chains one after the other, each in order */
    dao_plan_pass_t pass = {.count = linearizer->count};
    while (dao_plan_pass_next(&pass, linearizer->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            linearizer->next[i] = linearizer->keys[i].value;
            if (i == 0 || linearizer->keys[i].key != linearizer->keys[i - 1].key) {
                linearizer->firsts[linearizer->keys[i].key] = (uint32_t)i;
            }
        }
    }
    linearizer->firsts[linearizer->chain_count] = linearizer->count;
}

/* The number of ends of a chain that are before a clock. */
static uint32_t chain_before(const linearizer_t *linearizer, uint32_t chain, const uint32_t *clock)
{
    uint32_t low = linearizer->firsts[chain], high = linearizer->firsts[chain + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (dao_plan_clock_is_before(end_of(linearizer, linearizer->next[middle]), clock,
                                     linearizer->width)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - linearizer->firsts[chain];
}

static void join_known(const linearizer_t *linearizer, uint32_t buffer)
{
    uint32_t *known = known_of(linearizer, buffer);
    for (uint32_t chain = 0; chain < linearizer->chain_count; chain++) {
        uint32_t before = chain_before(linearizer, chain, begin_of(linearizer, buffer));
        const uint32_t *last =
            before == 0 ? NULL : end_of(linearizer, linearizer->next[linearizer->firsts[chain] + before - 1]);
        for (uint32_t i = 0; last != NULL && i < linearizer->width; i++) {
            known[i] = known[i] > last[i] ? known[i] : last[i];
        }
    }
}

/* Takes knowns that form a chain, greedily by their sums, into `lasts`. Returns their count; whether these
   are all. */
static uint32_t choose_chain(const linearizer_t *linearizer, bool *out_are_all)
{
    uint32_t count = 0;
    *out_are_all = true;
    sort_by_sum(linearizer, linearizer->known);
    for (uint32_t i = 0; i < linearizer->count && !dao_plan_work_is_cancelled(linearizer->work); i++) {
        uint32_t buffer = linearizer->keys[i].value;
        const uint32_t *last = count == 0 ? NULL : known_of(linearizer, linearizer->lasts[count - 1]);
        if (last != NULL &&
            !dao_plan_clock_is_before(last, known_of(linearizer, buffer), linearizer->width)) {
            *out_are_all = false;
        } else if (last == NULL ||
                   memcmp(last, known_of(linearizer, buffer), linearizer->width * sizeof(*last)) != 0) {
            linearizer->lasts[count++] = buffer;
        }
    }
    return count;
}

/* The last one of the chosen chain that a begin knows. */
static uint32_t number_begin(const linearizer_t *linearizer, uint32_t chosen_count, const uint32_t *clock)
{
    uint32_t low = 0, high = chosen_count - 1; /* the first one knows nothing, which every begin does */
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (dao_plan_clock_is_before(known_of(linearizer, linearizer->lasts[middle]), clock,
                                     linearizer->width)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* The first one of the chosen chain that knows an end; their count if none does. */
static uint32_t number_end(const linearizer_t *linearizer, uint32_t chosen_count, const uint32_t *clock)
{
    uint32_t low = 0, high = chosen_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (dao_plan_clock_is_before(clock, known_of(linearizer, linearizer->lasts[middle]),
                                     linearizer->width)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static dao_status_t linearizer_init(linearizer_t *linearizer, dao_plan_memory_t *memory)
{
    size_t count = linearizer->count;
    linearizer->known = dao_plan_memory_alloc(memory, count * linearizer->width, sizeof(*linearizer->known));
    linearizer->keys = dao_plan_memory_alloc(memory, count, sizeof(*linearizer->keys));
    linearizer->scratch = dao_plan_memory_alloc(memory, count, sizeof(*linearizer->scratch));
    linearizer->next = dao_plan_memory_alloc(memory, count, sizeof(*linearizer->next));
    linearizer->lasts = dao_plan_memory_alloc(memory, count, sizeof(*linearizer->lasts));
    linearizer->firsts = dao_plan_memory_alloc(memory, count + 1, sizeof(*linearizer->firsts));
    bool is_complete = linearizer->known != NULL && linearizer->keys != NULL && linearizer->scratch != NULL &&
                       linearizer->next != NULL && linearizer->lasts != NULL && linearizer->firsts != NULL;
    return is_complete
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the clocks of %zu buffers", count);
}

static void linearizer_finish(linearizer_t *linearizer, dao_plan_memory_t *memory)
{
    dao_plan_memory_free(memory, linearizer->known);
    dao_plan_memory_free(memory, linearizer->keys);
    dao_plan_memory_free(memory, linearizer->scratch);
    dao_plan_memory_free(memory, linearizer->next);
    dao_plan_memory_free(memory, linearizer->lasts);
    dao_plan_memory_free(memory, linearizer->firsts);
}

dao_status_t dao_plan_clocks_to_times(const dao_plan_problem_t *problem, dao_plan_memory_t *memory,
                                      uint64_t *begin_times, uint64_t *end_times, bool *out_is_exact,
                                      dao_plan_work_t *work)
{
    linearizer_t linearizer = {.problem = problem,
                               .work = work,
                               .count = (uint32_t)problem->buffer_count,
                               .width = problem->clock_count};
    *out_is_exact = true;
    if (linearizer.count == 0) {
        return DAO_OK;
    }
    dao_status_t status = linearizer_init(&linearizer, memory);
    if (status == DAO_OK) {
        make_chains(&linearizer);
        for (uint32_t i = 0; i < linearizer.count && !dao_plan_work_is_cancelled(work); i++) {
            join_known(&linearizer, i);
            work->used += linearizer.chain_count;
        }
        uint32_t chosen_count = choose_chain(&linearizer, out_is_exact);
        for (uint32_t i = 0; i < linearizer.count && !dao_plan_work_is_cancelled(work); i++) {
            work->used++;
            begin_times[i] = number_begin(&linearizer, chosen_count, begin_of(&linearizer, i));
            end_times[i] = number_end(&linearizer, chosen_count, end_of(&linearizer, i));
        }
    }
    linearizer_finish(&linearizer, memory);
    return status;
}
