/* SPDX-License-Identifier: Apache-2.0 */
/* A part of a tensor keeps its pages from the time at which it comes to the time at which it goes: a stay.
   Stays at different times share pages. Pages need not be neighbours, so that no room is lost between
   tensors: it is enough if at any time there are as many pages as are wanted. But the step repeats, so the
   part that is there over the step's end begins the step with the pages that it ended with:

       page 0   |==a==|      |====b=====|      |==a=|      a is there over the end: it takes its page first
       page 1   |  c       |  d   |   e     |           for c to e, page 0 is free up to a's next begin, and
       page 2   | static |      f           |           page 2 once nothing static is there

   The step's time is cut open where the fewest bytes are there over the cut. The stays over the cut, and what
   lies at static addresses, reserve their pages. All other stays follow in the order of their begins. Each
   takes, of the pages that are free, those whose next reservation comes soonest, but not before it ends.

   Free pages hang in a list for the time of their next reservation; a bit a list says whether it has any. So
   a page costs the search of a bit. A tensor has one address as long as none of its parts comes back: at a
   new address the parts that stayed have the pages that they had.

   What holds: no page has two stays, or a stay and something static, at the same time; a stay has all of its
   pages or none. */
#include "planning/swap/addresses/swap_pages.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/offsets/support/sort.h"

#include <string.h>

#define NO_PAGE UINT32_MAX
#define NO_STAY UINT32_MAX

/* A part of a tensor on the device, from a time in the step to one at most a step later. */
typedef struct stay {
    uint64_t begin_ns, end_ns;
    uint32_t page_count;
    uint32_t first_page; /* in `stay_pages`; NO_PAGE: it has none */
} stay_t;

/* A time at which a page is not to be had. */
typedef struct reservation {
    uint64_t begin_ns, end_ns; /* both in the step that begins at the cut */
    uint32_t page;
} reservation_t;

typedef enum event_kind { EVENT_ENDS, EVENT_RESERVED, EVENT_BEGINS } event_kind_t;

/* In the order of time, and at the same time in the order of the kinds. */
typedef struct event {
    uint64_t time_ns;
    event_kind_t kind;
    bool is_stay;
    uint32_t index; /* of the stay or the reservation */
} event_t;

typedef struct pager {
    dao_swap_layout_t *layout;
    const dao_swap_parts_t *parts;
    const dao_swap_step_t *step;
    const dao_swap_decision_t *decisions;
    const dao_swap_timing_t *timing;
    uint32_t page_max;
    stay_t *stays;
    uint32_t stay_count;
    uint32_t *stay_of;    /* of each inactive period: the stay before it */
    uint32_t *stay_pages; /* of all stays, one after the other */
    size_t stay_page_count;
    reservation_t *reservations; /* by page and time, once all are known */
    size_t reservation_count, reservation_capacity;
    size_t *next_reservation; /* of each page; page_max + 1 */
    size_t *reservation_key;  /* of each reservation: the list for its begin */
    event_t *events;
    size_t event_count;
    uint64_t *keys; /* begins of reservations, ascending, each once, and the step's end */
    size_t key_count;
    uint32_t *first_free; /* of each key: a list */
    uint64_t *has_free;   /* a bit a key */
    uint32_t *next_free;  /* of each page */
} pager_t;

static bool is_paged(const pager_t *pager, uint32_t tensor)
{
    return dao_swap_is_paged(pager->step, pager->step->size_bytes[tensor]);
}

static bool is_absent(const pager_t *pager, uint32_t access, uint32_t index)
{
    return dao_swap_is_absent(&pager->step->accesses[access],
                              &pager->decisions[pager->parts->first_inactive[access] + index]);
}

/* ---- stays ---- */

/* Adds the stay of part `index` of a tensor that begins behind the inactive period of access `before`, or one
   that never ends. */
static void add_stay(pager_t *pager, uint32_t before, uint32_t index, bool is_endless)
{
    const dao_swap_step_t *step = pager->step;
    const uint32_t *first_inactive = pager->parts->first_inactive;
    int64_t period_ns = (int64_t)pager->timing->step_ns, since_ns = 0;
    uint32_t tensor = step->accesses[before].tensor, access = before;
    int64_t begin_ns = is_endless ? 0 : pager->timing->moments[first_inactive[before] + index].taken_ns;
    int64_t end_ns = period_ns;
    do {
        since_ns += dao_swap_steps_to_next(step, access) * period_ns;
        access = step->accesses[access].next;
        pager->stay_of[first_inactive[access] + index] = pager->stay_count;
    } while (is_endless ? access != before : !is_absent(pager, access, index));
    if (!is_endless) {
        end_ns = since_ns + pager->timing->moments[first_inactive[access] + index].free_ns;
    }
    DAO_ASSERT(begin_ns < end_ns && end_ns - begin_ns <= period_ns);
    uint64_t size = dao_swap_part_size(pager->parts, pager->parts->first[tensor] + index);
    stay_t *stay = &pager->stays[pager->stay_count++];
    stay->begin_ns = dao_modulo(begin_ns, (uint64_t)period_ns);
    stay->end_ns = stay->begin_ns + (uint64_t)(end_ns - begin_ns);
    stay->page_count = (uint32_t)(size / pager->step->page_bytes);
    stay->first_page = NO_PAGE;
    pager->stay_page_count += stay->page_count;
}

static void list_stays(pager_t *pager)
{
    const dao_swap_step_t *step = pager->step;
    for (uint32_t tensor = 0; tensor < step->tensor_count; tensor++) {
        uint32_t first = step->first_access[tensor];
        uint32_t count = pager->parts->first[tensor + 1] - pager->parts->first[tensor];
        for (uint32_t index = 0; first != DAO_SWAP_NONE && is_paged(pager, tensor) && index < count;
             index++) {
            uint32_t access = first;
            bool ever_goes = false;
            do {
                if (is_absent(pager, access, index)) {
                    add_stay(pager, access, index, false);
                    ever_goes = true;
                }
                access = step->accesses[access].next;
            } while (access != first);
            if (!ever_goes) {
                add_stay(pager, first, index, true);
            }
        }
    }
}

/* ---- the cut ---- */

/* Sorts the numbers of elements by their keys; equal ones stay in their order. False: no host memory. */
static bool sort_keys(dao_plan_key_t *keys, size_t count)
{
    dao_plan_key_t *scratch = dao_host_calloc(count + 1, sizeof(*scratch));
    dao_plan_work_t work = dao_plan_work_unlimited();
    if (scratch != NULL) {
        dao_plan_sort_keys(keys, scratch, count, &work);
    }
    dao_host_free(scratch);
    return scratch != NULL;
}

#define KIND_BITS 2u /* of a key, below the time */

/* Sorts events, in which those of reservations come before those of stays, and both by their numbers. */
static bool sort_events(event_t *events, size_t count)
{
    dao_plan_key_t *keys = dao_host_calloc(count + 1, sizeof(*keys));
    event_t *unsorted = dao_host_calloc(count + 1, sizeof(*unsorted));
    bool ok = keys != NULL && unsorted != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        keys[i] = (dao_plan_key_t){events[i].time_ns << KIND_BITS | (uint64_t)events[i].kind, (uint32_t)i};
        unsorted[i] = events[i];
    }
    ok = ok && sort_keys(keys, count);
    for (size_t i = 0; ok && i < count; i++) {
        events[i] = unsorted[keys[i].value];
    }
    dao_host_free(keys);
    dao_host_free(unsorted);
    return ok;
}

/* The begin of a stay over which the fewest pages are there. False: no host memory. */
static bool find_cut(pager_t *pager, uint64_t *out_cut_ns)
{
    uint64_t period_ns = pager->timing->step_ns, pages = 0, least = UINT64_MAX, cut_ns = 0;
    size_t count = 0;
    for (uint32_t i = 0; i < pager->stay_count; i++) {
        const stay_t *stay = &pager->stays[i];
        pages += stay->end_ns > period_ns || stay->begin_ns == 0 ? stay->page_count : 0;
        pager->events[count++] = (event_t){stay->end_ns % period_ns, EVENT_ENDS, true, i};
        pager->events[count++] = (event_t){stay->begin_ns, EVENT_BEGINS, true, i};
    }
    if (!sort_events(pager->events, count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const event_t *event = &pager->events[i];
        const stay_t *stay = &pager->stays[event->index];
        if (event->kind == EVENT_ENDS) {
            pages -= event->time_ns == 0 ? 0 : stay->page_count;
        } else {
            if (pages < least) {
                least = pages;
                cut_ns = event->time_ns;
            }
            pages += event->time_ns == 0 ? 0 : stay->page_count;
        }
    }
    *out_cut_ns = cut_ns;
    return true;
}

/* Lets times begin at the cut. */
static void cut(pager_t *pager, uint64_t cut_ns)
{
    uint64_t period_ns = pager->timing->step_ns;
    for (uint32_t i = 0; i < pager->stay_count; i++) {
        stay_t *stay = &pager->stays[i];
        uint64_t length_ns = stay->end_ns - stay->begin_ns;
        stay->begin_ns = (stay->begin_ns + period_ns - cut_ns) % period_ns;
        stay->end_ns = stay->begin_ns + length_ns;
    }
}

/* ---- reservations ---- */

static bool reserve_once(pager_t *pager, uint32_t page, uint64_t begin_ns, uint64_t end_ns)
{
    if (begin_ns >= end_ns) {
        return true;
    }
    if (pager->reservation_count == pager->reservation_capacity) {
        size_t capacity = 2 * pager->reservation_capacity + 64;
        reservation_t *grown = dao_host_realloc(pager->reservations, capacity, sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        pager->reservations = grown;
        pager->reservation_capacity = capacity;
    }
    pager->reservations[pager->reservation_count++] = (reservation_t){begin_ns, end_ns, page};
    return true;
}

/* Reserves a page for a time that may reach over the cut. */
static bool reserve(pager_t *pager, uint32_t page, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t period_ns = pager->timing->step_ns;
    return end_ns <= period_ns ? reserve_once(pager, page, begin_ns, end_ns)
                               : reserve_once(pager, page, begin_ns, period_ns) &&
                                     reserve_once(pager, page, 0, end_ns - period_ns);
}

static bool reserve_static(pager_t *pager, const dao_swap_span_t *spans, size_t span_count, uint64_t cut_ns)
{
    uint64_t period_ns = pager->timing->step_ns, page_bytes = pager->step->page_bytes;
    for (size_t i = 0; i < span_count; i++) {
        uint64_t begin_ns = (spans[i].begin_ns + period_ns - cut_ns) % period_ns;
        uint64_t end_ns = begin_ns + spans[i].end_ns - spans[i].begin_ns;
        for (uint64_t page = spans[i].begin_bytes / page_bytes; page * page_bytes < spans[i].end_bytes;
             page++) {
            if (!reserve(pager, (uint32_t)page, begin_ns, end_ns)) {
                return false;
            }
        }
    }
    return true;
}

/* Sorts reservations by page and time. */
static bool sort_reservations(pager_t *pager)
{
    size_t count = pager->reservation_count;
    dao_plan_key_t *keys = dao_host_calloc(count + 1, sizeof(*keys));
    reservation_t *sorted = dao_host_calloc(count + 1, sizeof(*sorted));
    bool ok = keys != NULL && sorted != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        keys[i] = (dao_plan_key_t){pager->reservations[i].begin_ns, (uint32_t)i};
    }
    ok = ok && sort_keys(keys, count);
    for (size_t i = 0; ok && i < count; i++) {
        keys[i].key = pager->reservations[keys[i].value].page;
    }
    ok = ok && sort_keys(keys, count);
    for (size_t i = 0; ok && i < count; i++) {
        sorted[i] = pager->reservations[keys[i].value];
    }
    dao_host_free(keys);
    dao_host_free(ok ? pager->reservations : sorted);
    pager->reservations = ok ? sorted : pager->reservations;
    pager->reservation_capacity = ok ? count + 1 : pager->reservation_capacity;
    return ok;
}

/* Sorts reservations, and joins those of a page that overlap or touch. False: no host memory. */
static bool join_reservations(pager_t *pager)
{
    size_t count = 0;
    if (pager->reservation_count == 0) {
        return true;
    }
    if (!sort_reservations(pager)) {
        return false;
    }
    for (size_t i = 0; i < pager->reservation_count; i++) {
        const reservation_t next = pager->reservations[i];
        reservation_t *last = count > 0 ? &pager->reservations[count - 1] : NULL;
        if (last != NULL && last->page == next.page && next.begin_ns <= last->end_ns) {
            last->end_ns = next.end_ns > last->end_ns ? next.end_ns : last->end_ns;
        } else {
            pager->reservations[count++] = next;
        }
    }
    pager->reservation_count = count;
    return true;
}

static void find_first_reservations(pager_t *pager)
{
    size_t at = 0;
    for (uint32_t page = 0; page <= pager->page_max; page++) {
        while (at < pager->reservation_count && pager->reservations[at].page < page) {
            at++;
        }
        pager->next_reservation[page] = at;
    }
}

/* Returns true if a page is free for a stay over the cut. */
static bool is_free_over_cut(const pager_t *pager, uint32_t page, const stay_t *stay)
{
    uint64_t wrapped_ns = stay->end_ns - pager->timing->step_ns;
    for (size_t i = pager->next_reservation[page]; i < pager->next_reservation[page + 1]; i++) {
        const reservation_t *reservation = &pager->reservations[i];
        if (reservation->begin_ns < wrapped_ns || reservation->end_ns > stay->begin_ns) {
            return false;
        }
    }
    return true;
}

/* Gives pages to the stays over the cut: all of them are there at the same time, so that none shares a page.
   Pages that nothing static uses come last in the arena, and are taken from there. */
static bool reserve_over_cut(pager_t *pager)
{
    uint32_t free_end = pager->page_max;
    for (uint32_t i = 0; i < pager->stay_count; i++) {
        stay_t *stay = &pager->stays[i];
        if (stay->end_ns <= pager->timing->step_ns) {
            continue;
        }
        uint32_t *pages = pager->stay_pages + pager->stay_page_count, count = 0;
        uint32_t end = free_end;
        for (; count < stay->page_count && end > 0; end--) {
            if (is_free_over_cut(pager, end - 1, stay)) {
                pages[count++] = end - 1;
            }
        }
        if (count < stay->page_count) {
            continue;
        }
        free_end = end; /* pages above that are not free for this one are left to those that come and go */
        stay->first_page = (uint32_t)pager->stay_page_count;
        pager->stay_page_count += count;
    }
    for (uint32_t i = 0; i < pager->stay_count; i++) {
        const stay_t *stay = &pager->stays[i];
        for (uint32_t p = 0; stay->first_page != NO_PAGE && p < stay->page_count; p++) {
            if (!reserve(pager, pager->stay_pages[stay->first_page + p], stay->begin_ns, stay->end_ns)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- those that come and go ---- */

/* The list for pages whose next reservation begins at `time_ns`, or the first one behind that. */
static size_t find_key(const pager_t *pager, uint64_t time_ns)
{
    size_t low = 0, high = pager->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pager->keys[middle] < time_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void free_page(pager_t *pager, uint32_t page)
{
    size_t at = pager->next_reservation[page];
    bool is_reserved = at < pager->reservation_count && pager->reservations[at].page == page;
    size_t key = is_reserved ? pager->reservation_key[at] : pager->key_count - 1;
    pager->next_free[page] = pager->first_free[key];
    pager->first_free[key] = page;
    pager->has_free[key / 64] |= UINT64_C(1) << (key % 64);
}

/* Takes a free page whose next reservation is at `key` or later, as soon as there is one. */
static uint32_t take_page(pager_t *pager, size_t key)
{
    size_t word = key / 64, words = pager->key_count / 64 + 1;
    uint64_t bits = pager->has_free[word] & (UINT64_MAX << (key % 64));
    while (bits == 0) {
        if (++word == words) {
            return NO_PAGE;
        }
        bits = pager->has_free[word];
    }
    key = word * 64 + (size_t)__builtin_ctzll(bits);
    uint32_t page = pager->first_free[key];
    pager->first_free[key] = pager->next_free[page];
    if (pager->first_free[key] == NO_PAGE) {
        pager->has_free[word] &= ~(UINT64_C(1) << (key % 64));
    }
    return page;
}

static void begin_stay(pager_t *pager, stay_t *stay)
{
    uint32_t *pages = pager->stay_pages + pager->stay_page_count, count = 0;
    size_t key = find_key(pager, stay->end_ns);
    DAO_ASSERT(key < pager->key_count);
    while (count < stay->page_count) {
        uint32_t page = take_page(pager, key);
        if (page == NO_PAGE) {
            while (count > 0) {
                free_page(pager, pages[--count]);
            }
            return;
        }
        pages[count++] = page;
    }
    stay->first_page = (uint32_t)pager->stay_page_count;
    pager->stay_page_count += count;
}

static void handle_event(pager_t *pager, const event_t *event)
{
    if (event->is_stay) {
        stay_t *stay = &pager->stays[event->index];
        if (event->kind == EVENT_BEGINS) {
            begin_stay(pager, stay);
        }
        for (uint32_t p = 0; event->kind == EVENT_ENDS && stay->first_page != NO_PAGE && p < stay->page_count;
             p++) {
            free_page(pager, pager->stay_pages[stay->first_page + p]);
        }
        return;
    }
    const reservation_t *reservation = &pager->reservations[event->index];
    if (event->kind == EVENT_ENDS) {
        pager->next_reservation[reservation->page] = (size_t)event->index + 1;
        free_page(pager, reservation->page);
        return;
    }
    size_t key = pager->reservation_key[event->index]; /* all that hang there are reserved now */
    pager->first_free[key] = NO_PAGE;
    pager->has_free[key / 64] &= ~(UINT64_C(1) << (key % 64));
}

static bool prepare_sweep(pager_t *pager)
{
    size_t count = 0;
    uint64_t period_ns = pager->timing->step_ns;
    dao_host_free(pager->events);
    pager->events =
        dao_host_calloc(2 * (pager->stay_count + pager->reservation_count) + 1, sizeof(*pager->events));
    pager->keys = dao_host_calloc(pager->reservation_count + 1, sizeof(*pager->keys));
    pager->reservation_key = dao_host_calloc(pager->reservation_count + 1, sizeof(*pager->reservation_key));
    if (pager->events == NULL || pager->keys == NULL || pager->reservation_key == NULL) {
        return false;
    }
    for (size_t i = 0; i < pager->reservation_count; i++) {
        const reservation_t *reservation = &pager->reservations[i];
        pager->events[count++] = (event_t){reservation->end_ns, EVENT_ENDS, false, (uint32_t)i};
        pager->events[count++] = (event_t){reservation->begin_ns, EVENT_RESERVED, false, (uint32_t)i};
    }
    for (uint32_t i = 0; i < pager->stay_count; i++) {
        const stay_t *stay = &pager->stays[i];
        if (stay->end_ns <= period_ns) {
            pager->events[count++] = (event_t){stay->end_ns, EVENT_ENDS, true, i};
            pager->events[count++] = (event_t){stay->begin_ns, EVENT_BEGINS, true, i};
        }
    }
    pager->event_count = count;
    if (!sort_events(pager->events, count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const event_t *event = &pager->events[i];
        if (event->kind != EVENT_RESERVED) {
            continue;
        }
        if (pager->key_count == 0 || pager->keys[pager->key_count - 1] != event->time_ns) {
            pager->keys[pager->key_count++] = event->time_ns;
        }
        pager->reservation_key[event->index] = pager->key_count - 1;
    }
    pager->keys[pager->key_count++] = period_ns;
    pager->first_free = dao_host_calloc(pager->key_count, sizeof(*pager->first_free));
    pager->has_free = dao_host_calloc(pager->key_count / 64 + 1, sizeof(*pager->has_free));
    if (pager->first_free == NULL || pager->has_free == NULL) {
        return false;
    }
    memset(pager->first_free, 0xff, pager->key_count * sizeof(*pager->first_free));
    return true;
}

/* Gives pages to all stays that are not there over the cut. */
static bool sweep(pager_t *pager)
{
    if (!prepare_sweep(pager)) {
        return false;
    }
    for (uint32_t page = pager->page_max; page-- > 0;) {
        free_page(pager, page);
    }
    for (size_t i = 0; i < pager->event_count; i++) {
        handle_event(pager, &pager->events[i]);
    }
    return true;
}

/* ---- addresses ---- */

/* Returns true if some part of a tensor is not there in the inactive period behind an access. */
static bool any_goes(const pager_t *pager, uint32_t access)
{
    uint32_t tensor = pager->step->accesses[access].tensor;
    for (uint32_t i = 0; i < pager->parts->first[tensor + 1] - pager->parts->first[tensor]; i++) {
        if (is_absent(pager, access, i)) {
            return true;
        }
    }
    return false;
}

/* Gives a tensor an address that is valid for an access, and maps the pages of its parts there. */
static void map(pager_t *pager, uint32_t access)
{
    dao_swap_layout_t *layout = pager->layout;
    uint32_t tensor = pager->step->accesses[access].tensor;
    uint32_t count = pager->parts->first[tensor + 1] - pager->parts->first[tensor];
    dao_swap_residency_t *residency = &layout->residencies[layout->residency_count++];
    *residency = (dao_swap_residency_t){
        .tensor = tensor, .first_access = access, .address_bytes = layout->page_count * layout->page_bytes};
    for (uint32_t i = 0; i < count; i++) {
        const stay_t *stay = &pager->stays[pager->stay_of[pager->parts->first_inactive[access] + i]];
        for (uint32_t p = 0; stay->first_page != NO_PAGE && p < stay->page_count; p++) {
            layout->pages[layout->page_count++] = pager->stay_pages[stay->first_page + p];
        }
        residency->address_bytes = stay->first_page == NO_PAGE ? DAO_SWAP_NOWHERE : residency->address_bytes;
    }
}

/* The pages that all addresses take, at most. */
static size_t count_mappings(const pager_t *pager)
{
    const dao_swap_step_t *step = pager->step;
    size_t sum = 1;
    for (uint32_t i = 0; i < step->access_count; i++) {
        uint32_t tensor = step->accesses[i].tensor;
        bool is_first = i == step->first_access[tensor];
        sum += is_paged(pager, tensor) && (is_first || any_goes(pager, i))
                   ? step->size_bytes[tensor] / step->page_bytes
                   : 0;
    }
    return sum;
}

static bool map_all(pager_t *pager)
{
    const dao_swap_step_t *step = pager->step;
    dao_swap_layout_t *layout = pager->layout;
    if ((layout->pages = dao_host_calloc(count_mappings(pager), sizeof(*layout->pages))) == NULL) {
        return false;
    }
    layout->page_bytes = step->page_bytes;
    uint32_t first_residency = layout->residency_count;
    for (uint32_t tensor = 0; tensor < step->tensor_count; tensor++) {
        uint32_t first = step->first_access[tensor], access = first;
        if (first == DAO_SWAP_NONE || !is_paged(pager, tensor)) {
            continue;
        }
        do { /* the first access behind an inactive period in which something goes; else any */
            bool goes = any_goes(pager, access);
            access = step->accesses[access].next;
            if (goes) {
                break;
            }
        } while (access != first);
        first = access;
        map(pager, access);
        do {
            layout->residency_of[access] = layout->residency_count - 1;
            bool goes = any_goes(pager, access);
            access = step->accesses[access].next;
            if (goes && access != first) {
                map(pager, access);
            }
        } while (access != first);
    }
    for (uint32_t i = 0; i < layout->page_count; i++) {
        uint64_t end = ((uint64_t)layout->pages[i] + 1) * layout->page_bytes;
        layout->arena_bytes = end > layout->arena_bytes ? end : layout->arena_bytes;
    }
    layout->paged_begin =
        (layout->arena_bytes + layout->page_bytes - 1) / layout->page_bytes * layout->page_bytes;
    for (uint32_t i = first_residency; i < layout->residency_count; i++) {
        if (layout->residencies[i].address_bytes != DAO_SWAP_NOWHERE) {
            layout->residencies[i].address_bytes += layout->paged_begin;
        }
    }
    return true;
}

static void count_unplaced(pager_t *pager)
{
    for (uint32_t i = 0; i < pager->stay_count; i++) {
        if (pager->stays[i].first_page == NO_PAGE) {
            pager->layout->unplaced_count++;
            pager->layout->unplaced_bytes += pager->stays[i].page_count * pager->step->page_bytes;
        }
    }
}

static bool allocate(pager_t *pager)
{
    size_t inactive_count = (size_t)pager->parts->inactive_count + 1;
    pager->stays = dao_host_calloc(inactive_count, sizeof(*pager->stays));
    pager->stay_of = dao_host_calloc(inactive_count, sizeof(*pager->stay_of));
    pager->next_reservation = dao_host_calloc((size_t)pager->page_max + 1, sizeof(*pager->next_reservation));
    pager->next_free = dao_host_calloc((size_t)pager->page_max + 1, sizeof(*pager->next_free));
    if (pager->stays == NULL || pager->stay_of == NULL || pager->next_reservation == NULL ||
        pager->next_free == NULL) {
        return false;
    }
    list_stays(pager);
    pager->stay_pages = dao_host_calloc(pager->stay_page_count + 1, sizeof(*pager->stay_pages));
    pager->events = dao_host_calloc(2 * (size_t)pager->stay_count + 1, sizeof(*pager->events));
    pager->stay_page_count = 0;
    return pager->stay_pages != NULL && pager->events != NULL;
}

static void release(pager_t *pager)
{
    dao_host_free(pager->stays);
    dao_host_free(pager->stay_of);
    dao_host_free(pager->stay_pages);
    dao_host_free(pager->reservations);
    dao_host_free(pager->next_reservation);
    dao_host_free(pager->reservation_key);
    dao_host_free(pager->events);
    dao_host_free(pager->keys);
    dao_host_free(pager->first_free);
    dao_host_free(pager->has_free);
    dao_host_free(pager->next_free);
}

dao_status_t dao_swap_pages_find(dao_swap_layout_t *layout, const dao_swap_parts_t *parts,
                                 const dao_swap_decision_t *decisions, const dao_swap_timing_t *timing,
                                 const dao_swap_span_t *spans, size_t span_count, uint32_t page_max)
{
    pager_t pager = {.layout = layout,
                     .parts = parts,
                     .step = parts->step,
                     .decisions = decisions,
                     .timing = timing,
                     .page_max = page_max};
    uint64_t cut_ns = 0;
    bool ok = allocate(&pager) && find_cut(&pager, &cut_ns);
    if (ok) {
        cut(&pager, cut_ns);
        ok = reserve_static(&pager, spans, span_count, cut_ns) && join_reservations(&pager);
    }
    if (ok) {
        find_first_reservations(&pager);
        ok = reserve_over_cut(&pager) && join_reservations(&pager);
    }
    if (ok) {
        find_first_reservations(&pager);
        ok = sweep(&pager) && map_all(&pager);
    }
    if (ok) {
        count_unplaced(&pager);
    }
    release(&pager);
    return ok ? DAO_OK : dao_swap_step_give_up(parts->step);
}
