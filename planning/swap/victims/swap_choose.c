/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which parts leave the device, and when.

   Kernels are played one after the other at a clock. The links' calendars and the list of free bytes reach
   into the past. When kernel k needs memory, a part that was last used long before k leaves as of then. Its
   copy out takes the earliest time at which the link is free after its last write. What k loads comes as soon
   as the link is free after that. So everything that follows from a decision happens as early as
   possible, as with hindsight.

       need of kernel k  ->  free bytes, those that are free first
                         ->  else victims: of the `choice_count` parts with the furthest next use the first
                             whose memory is there by the time the copy in could begin; if there is none, the
                             one whose memory is there first

   After each kernel the same is done for the reads of the next `lead_kernels` kernels, in order, as long as
   it does no harm: only parts that are used later may leave for it, and memory for the outputs of the kernels
   in between is kept.

   Resident parts hang in a list for the kernel of their next use, so the furthest ones are found by walking
   the lists backwards. What the current kernel uses is in no list. Where a variant weighs, parts that would
   have to be copied out hang in lists of their own: of the victims from both the one leaves whose room lasts
   longer for the time that its copies take of the links. Parts smaller than SMALL_BYTES leave only where all
   else has, and hang in lists of their own: there may be many of them.

   The calendars are needed because a victim's memory is of use only after its copy out has ended. In logical
   time that end is known when the victim is chosen. The rules "furthest goes", "do no harm" and "first
   opportunity" are those of Cao, Felten, Karlin and Li (1995). */
#include "planning/swap/victims/swap_choose.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/swap/times/swap_link.h"
#include "planning/swap/times/swap_room.h"

#include <string.h>

#define SMALL_BYTES ((uint64_t)256 << 10)
#define NO_PART     UINT32_MAX
#define PLAY_WORK   10u /* an access of a part, once: some 100 ns; a look at a part is 1 */

typedef struct part_state {
    uint64_t ready_ns;       /* its bytes are there */
    uint64_t used_ns;        /* its last use has ended */
    dao_swap_interval_t out; /* no copy out since its last write begins or ends earlier */
    uint64_t saved_ns;       /* the host's copy is valid from then on */
    uint64_t access_time;    /* kernels before its last use, over all steps */
    uint64_t size_bytes;
    uint64_t out_ns;        /* a copy out alone */
    uint32_t access;        /* its last use */
    uint32_t before, after; /* in the list of its next use's kernel */
    bool is_resident;
    bool is_saved;
    bool is_listed;
} part_state_t;

/* A list a kernel of parts whose next use is there. */
typedef struct lists {
    uint32_t *first;  /* kernel_count: NO_PART if there is none */
    uint64_t *listed; /* a bit a kernel: its list has a part */
} lists_t;

/* Where copies out may find a hole. */
typedef struct out_hole {
    uint64_t from_ns;    /* no hole is before it that any part on the device could use */
    uint64_t book_count; /* when that was seen */
} out_hole_t;

#define HOLE_COUNT 64u

typedef struct pass {
    const dao_swap_parts_t *parts;
    const dao_swap_step_t *step;
    const dao_swap_variant_t *variant;
    dao_swap_link_t link;
    dao_swap_room_t room;
    part_state_t *states;
    lists_t large, small;   /* of parts of SMALL_BYTES and more, and of smaller ones */
    lists_t dirty;          /* of large ones that are not saved, where the variant weighs */
    uint64_t *listed_bytes; /* kernel_count + 1: a tree of sums of the parts in the lists */
    /* Bytes of outputs up to a kernel less what died before it; row i of 2 x kernel_count: the most of 2^i
       kernels. */
    int64_t *demand;
    int64_t *demand_after;        /* kernel_count: the same after what dies in the kernel */
    uint64_t *end_ns;             /* kernel_count: of each kernel, its last end */
    out_hole_t holes[HOLE_COUNT]; /* of 2^i ns and more */
    uint64_t book_count;          /* of copies on the link */
    uint64_t look_count;          /* of parts that were looked at as victims */
    dao_swap_decision_t *decisions;
    uint64_t record_step;
    uint64_t time;     /* kernels before the current one, over all steps */
    uint64_t clock_ns; /* end of the kernel before */
    uint64_t planned;  /* copies in are planned up to here: a kernel over all steps */
    bool failed;       /* no host memory, or cancelled */
} pass_t;

static uint32_t log2_of(size_t value)
{
    return 31 - (uint32_t)__builtin_clz((uint32_t)value);
}

static bool allocate_lists(lists_t *lists, size_t kernel_count)
{
    return (lists->first = dao_host_calloc(kernel_count, sizeof(*lists->first))) != NULL &&
           (lists->listed = dao_host_calloc(kernel_count / 64 + 1, sizeof(*lists->listed))) != NULL;
}

static void free_lists(lists_t *lists)
{
    dao_host_free(lists->first);
    dao_host_free(lists->listed);
}

static bool allocate(pass_t *pass)
{
    size_t kernels = pass->step->kernel_count;
    return (pass->states = dao_host_calloc(pass->parts->count + 1, sizeof(*pass->states))) != NULL &&
           allocate_lists(&pass->large, kernels) && allocate_lists(&pass->small, kernels) &&
           allocate_lists(&pass->dirty, kernels) &&
           (pass->listed_bytes = dao_host_calloc(kernels + 1, sizeof(*pass->listed_bytes))) != NULL &&
           (pass->demand = dao_host_calloc(2 * kernels * (log2_of(kernels) + 1), sizeof(*pass->demand))) !=
               NULL &&
           (pass->demand_after = dao_host_calloc(kernels, sizeof(*pass->demand_after))) != NULL &&
           (pass->end_ns = dao_host_calloc(kernels, sizeof(*pass->end_ns))) != NULL;
}

static void release(pass_t *pass)
{
    dao_swap_link_finish(&pass->link);
    dao_swap_room_finish(&pass->room);
    dao_host_free(pass->states);
    free_lists(&pass->large);
    free_lists(&pass->small);
    free_lists(&pass->dirty);
    dao_host_free(pass->listed_bytes);
    dao_host_free(pass->demand);
    dao_host_free(pass->demand_after);
    dao_host_free(pass->end_ns);
}

/* What outputs take and dying tensors leave, whatever the plan. */
static void sum_demand(pass_t *pass)
{
    const dao_swap_step_t *step = pass->step;
    uint32_t n = step->kernel_count;
    DAO_ASSERT(n > 0);
    int64_t sum = 0;
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t k = i % n;
        int64_t dying = 0;
        for (uint32_t t = step->kernel_access[k]; t < step->kernel_access[k + 1]; t++) {
            int64_t size = (int64_t)step->size_bytes[step->accesses[t].tensor];
            sum += step->accesses[t].reads ? 0 : size;
            dying += step->accesses[t].inactive_is_live ? 0 : size;
        }
        pass->demand[i] = sum;
        sum -= dying;
        pass->demand_after[k] = i < n ? sum : pass->demand_after[k];
    }
    for (uint32_t level = 1; level <= log2_of(n); level++) {
        const int64_t *half = pass->demand + (size_t)(level - 1) * 2 * n;
        int64_t *row = pass->demand + (size_t)level * 2 * n;
        for (uint32_t i = 0; i < 2 * n; i++) {
            uint32_t other = i + (1u << (level - 1));
            row[i] = other < 2 * n && half[other] > half[i] ? half[other] : half[i];
        }
    }
}

static uint32_t next_kernel(const pass_t *pass, uint32_t part)
{
    return pass->step->accesses[pass->step->accesses[pass->states[part].access].next].kernel;
}

/* Kernels before the part's next use, over all steps. */
static uint64_t next_time(const pass_t *pass, uint32_t part)
{
    return pass->states[part].access_time + pass->step->accesses[pass->states[part].access].inactive_length;
}

/* Adds to the sum of the bytes in a kernel's list; unsigned wrap-around takes them away. */
static void add_listed(pass_t *pass, uint32_t kernel, uint64_t size_bytes)
{
    for (uint32_t i = kernel + 1; i <= pass->step->kernel_count; i += i & (0 - i)) {
        pass->listed_bytes[i] += size_bytes;
    }
}

/* Bytes in the lists of the kernels before `kernel`. */
static uint64_t listed_below(const pass_t *pass, uint32_t kernel)
{
    uint64_t sum = 0;
    for (uint32_t i = kernel; i > 0; i -= i & (0 - i)) {
        sum += pass->listed_bytes[i];
    }
    return sum;
}

/* Bytes of the parts in lists whose next use comes after kernel `time`, within a step after the current
   one. */
static uint64_t listed_bytes_after(const pass_t *pass, uint64_t time)
{
    uint32_t n = pass->step->kernel_count, now = (uint32_t)(pass->time % n), kernel = (uint32_t)(time % n);
    uint64_t until_now = listed_below(pass, now + 1), until_kernel = listed_below(pass, kernel + 1);
    return time - pass->time >= n               ? 0
           : kernel <= now && time > pass->time ? until_now - until_kernel
                                                : listed_below(pass, n) - until_kernel + until_now;
}

static lists_t *lists_of(pass_t *pass, const part_state_t *state)
{
    return state->size_bytes < SMALL_BYTES                    ? &pass->small
           : pass->variant->weighs_copies && !state->is_saved ? &pass->dirty
                                                              : &pass->large;
}

static void list_part(pass_t *pass, uint32_t part)
{
    part_state_t *state = &pass->states[part];
    uint32_t kernel = next_kernel(pass, part);
    lists_t *lists = lists_of(pass, state);
    DAO_ASSERT(!state->is_listed);
    DAO_ASSERT(state->is_resident);
    state->is_listed = true;
    add_listed(pass, kernel, state->size_bytes);
    state->before = NO_PART;
    state->after = lists->first[kernel];
    if (state->after != NO_PART) {
        pass->states[state->after].before = part;
    }
    lists->first[kernel] = part;
    lists->listed[kernel / 64] |= UINT64_C(1) << (kernel % 64);
}

static void unlist_part(pass_t *pass, uint32_t part)
{
    part_state_t *state = &pass->states[part];
    if (!state->is_listed) {
        return;
    }
    uint32_t kernel = next_kernel(pass, part);
    lists_t *lists = lists_of(pass, state);
    DAO_ASSERT(lists->first[kernel] != NO_PART);
    state->is_listed = false;
    add_listed(pass, kernel, 0 - state->size_bytes);
    if (state->after != NO_PART) {
        pass->states[state->after].before = state->before;
    }
    if (state->before != NO_PART) {
        pass->states[state->before].after = state->after;
        return;
    }
    lists->first[kernel] = state->after;
    if (state->after == NO_PART) {
        lists->listed[kernel / 64] &= ~(UINT64_C(1) << (kernel % 64));
    }
}

/* When the part would be copied out. The link's times are only ever taken: each search goes on where the one
   before ended. */
static dao_swap_interval_t find_out(pass_t *pass, uint32_t part)
{
    part_state_t *state = &pass->states[part];
    state->out = dao_swap_link_find(&pass->link, false, state->out.begin_ns, state->size_bytes);
    return state->out;
}

/* When the part would be copied in, from a time on. */
static dao_swap_interval_t find_in(const pass_t *pass, uint32_t part, uint64_t from_ns)
{
    return dao_swap_link_find(&pass->link, true, from_ns, pass->states[part].size_bytes);
}

/* No copy of the part out ends earlier. What has to be copied was written less than a step ago, as each step
   writes it, so no hole before that is of use. */
static uint64_t least_out_ns(pass_t *pass, const part_state_t *state)
{
    uint32_t class = 63 - (uint32_t)__builtin_clzll(state->out_ns | 1);
    out_hole_t *hole = &pass->holes[class];
    if (hole->book_count != pass->book_count) {
        uint64_t first = pass->time + 1; /* kernels, over all steps, without a step's */
        uint64_t from_ns = dao_larger(hole->from_ns, pass->end_ns[first % pass->step->kernel_count]);
        hole->from_ns = dao_swap_link_hole(&pass->link, false, from_ns, (uint64_t)1 << class);
        hole->book_count = pass->book_count;
    }
    return dao_larger(state->out.end_ns, hole->from_ns + state->out_ns);
}

/* When the part's room would be free. */
static uint64_t room_ready(pass_t *pass, uint32_t part)
{
    const part_state_t *state = &pass->states[part];
    uint64_t unused_ns = dao_larger(state->used_ns, state->ready_ns);
    return state->is_saved ? dao_larger(unused_ns, state->saved_ns)
                           : dao_larger(unused_ns, find_out(pass, part).end_ns);
}

/* The inactive period in which the part is now; NULL where the decisions of this step are not kept. */
static dao_swap_decision_t *recorded_decision(const pass_t *pass, uint32_t part)
{
    const part_state_t *state = &pass->states[part];
    uint32_t index = part - pass->parts->first[pass->parts->tensor[part]];
    return state->access_time / pass->step->kernel_count == pass->record_step
               ? &pass->decisions[pass->parts->first_inactive[state->access] + index]
               : NULL;
}

/* Lets a part leave, as of its last use. */
static void evict(pass_t *pass, uint32_t part)
{
    part_state_t *state = &pass->states[part];
    dao_swap_decision_t *decision = recorded_decision(pass, part);
    uint64_t free_ns = room_ready(pass, part);
    DAO_ASSERT(state->is_resident && state->is_listed);
    unlist_part(pass, part);
    if (!state->is_saved) {
        dao_swap_interval_t out = find_out(pass, part);
        pass->failed = !dao_swap_link_book(&pass->link, false, &out) || pass->failed;
        pass->book_count++;
        state->saved_ns = out.end_ns;
        state->is_saved = true;
    }
    state->is_resident = false;
    pass->failed = !dao_swap_room_give(&pass->room, free_ns, state->size_bytes) || pass->failed;
    pass->planned = next_time(pass, part) < pass->planned ? next_time(pass, part) : pass->planned;
    if (decision != NULL) {
        decision->is_away = true;
    }
}

/* The kernel with a list that is the last one at or before `kernel`, down to `lowest`; NO_PART if there is
   none. */
static uint32_t listed_before(const lists_t *lists, uint32_t kernel, uint32_t lowest)
{
    uint64_t word = lists->listed[kernel / 64] & (UINT64_MAX >> (63 - kernel % 64));
    uint32_t at = kernel / 64;
    while (word == 0) {
        if (at == lowest / 64) {
            return NO_PART;
        }
        word = lists->listed[--at];
    }
    uint32_t found = at * 64 + 63 - (uint32_t)__builtin_clzll(word);
    return found >= lowest ? found : NO_PART;
}

/* A search for a victim among the parts of some lists whose next use comes after kernel `after_time`. */
typedef struct victim_search {
    const lists_t *lists;
    uint64_t deadline_ns;
    uint64_t best_ready_ns;
    uint32_t best;
    uint32_t left; /* parts to look at */
    bool is_done;
} victim_search_t;

static void look_at_list(pass_t *pass, uint32_t kernel, victim_search_t *search)
{
    for (uint32_t part = search->lists->first[kernel]; part != NO_PART && !search->is_done;
         part = pass->states[part].after) {
        const part_state_t *state = &pass->states[part];
        pass->look_count++;
        uint64_t least_ns = dao_larger(state->used_ns, state->is_saved ? 0 : least_out_ns(pass, state));
        if (search->best == NO_PART || least_ns < search->best_ready_ns) {
            uint64_t ready_ns = room_ready(pass, part);
            DAO_ASSERT(ready_ns >= least_ns);
            if (search->best == NO_PART || ready_ns < search->best_ready_ns) {
                search->best = part;
                search->best_ready_ns = ready_ns;
            }
            search->is_done = ready_ns <= search->deadline_ns;
        }
        search->is_done = search->is_done || --search->left == 0;
    }
}

/* Walks the lists of the kernels `high` down to `low`. */
static void look_between(pass_t *pass, uint32_t high, uint32_t low, victim_search_t *search)
{
    uint32_t kernel = listed_before(search->lists, high, low);
    while (kernel != NO_PART && !search->is_done) {
        look_at_list(pass, kernel, search);
        kernel = kernel > low ? listed_before(search->lists, kernel - 1, low) : NO_PART;
    }
}

/* When kernel `time`, after the current one, would begin if nothing made it wait. */
static uint64_t expected_ns(const pass_t *pass, uint64_t time)
{
    const uint64_t *time_before = pass->step->time_before;
    uint32_t n = pass->step->kernel_count;
    uint32_t kernel = (uint32_t)(time % n), next = (uint32_t)(pass->time % n) + 1;
    return pass->clock_ns + time_before[kernel] - time_before[next] + (kernel < next ? time_before[n] : 0);
}

/* The part of some lists that should leave; NO_PART if none may. Next uses lie within a step after the
   current kernel, so the furthest one is in the list of the current kernel itself, then backwards around the
   step's end. */
static uint32_t choose_from(pass_t *pass, const lists_t *lists, uint64_t after_time, uint64_t deadline_ns)
{
    uint32_t n = pass->step->kernel_count, now = (uint32_t)(pass->time % n);
    uint64_t lowest = after_time + 1 - pass->time; /* distance of the nearest list: 1 .. n */
    victim_search_t search = {
        .lists = lists, .deadline_ns = deadline_ns, .best = NO_PART, .left = pass->variant->choice_count};
    if (lowest > n) {
        return NO_PART;
    }
    uint64_t first = now + lowest; /* the nearest list, over the step's end or not */
    if (first > n) {
        look_between(pass, now, (uint32_t)(first - n), &search);
    } else {
        look_between(pass, now, 0, &search);
        if (!search.is_done && first < n) {
            look_between(pass, n - 1, (uint32_t)first, &search);
        }
    }
    return search.best;
}

/* Byte times ns for which the part's room is there, for each ns of the links that its copies take. */
static double worth_of(const pass_t *pass, uint32_t part)
{
    const part_state_t *state = &pass->states[part];
    uint64_t in_ns = dao_swap_copy_ns(&pass->step->problem->host, true, state->size_bytes);
    uint64_t until_ns = expected_ns(pass, next_time(pass, part)) - pass->clock_ns;
    return (double)state->size_bytes * (double)until_ns /
           (double)(in_ns + (state->is_saved ? 0 : state->out_ns) + 1);
}

/* The part that should leave; NO_PART if none may. */
static uint32_t choose_victim(pass_t *pass, uint64_t after_time, uint64_t deadline_ns)
{
    uint32_t clean = choose_from(pass, &pass->large, after_time, deadline_ns);
    uint32_t dirty =
        pass->variant->weighs_copies ? choose_from(pass, &pass->dirty, after_time, deadline_ns) : NO_PART;
    if (clean != NO_PART && dirty != NO_PART) {
        return worth_of(pass, dirty) > worth_of(pass, clean) ? dirty : clean;
    }
    uint32_t victim = clean != NO_PART ? clean : dirty;
    return victim != NO_PART ? victim : choose_from(pass, &pass->small, after_time, deadline_ns);
}

/* Makes bytes free, by parts whose next use comes after kernel `after_time`. False if that is not possible:
   some may have left. */
static bool make_room(pass_t *pass, uint64_t size_bytes, uint64_t after_time, uint64_t deadline_ns)
{
    while (pass->room.size_bytes < size_bytes) {
        uint32_t victim = choose_victim(pass, after_time, deadline_ns);
        if (victim == NO_PART) {
            return false;
        }
        evict(pass, victim);
    }
    return true;
}

/* By when room is useful: before that the link is taken, or the copy would end before its kernel can
   start. */
static uint64_t room_deadline(const pass_t *pass, uint32_t part, uint64_t use_ns)
{
    dao_swap_interval_t in = find_in(pass, part, pass->states[part].saved_ns);
    uint64_t length_ns = in.end_ns - in.begin_ns;
    return dao_larger(in.begin_ns, use_ns > length_ns ? use_ns - length_ns : 0);
}

/* Brings a part in, for which there is room. */
static void load(pass_t *pass, uint32_t part)
{
    part_state_t *state = &pass->states[part];
    uint64_t room_ns = dao_swap_room_take_first(&pass->room, state->size_bytes);
    dao_swap_interval_t in = find_in(pass, part, dao_larger(room_ns, state->saved_ns));
    pass->failed = !dao_swap_link_book(&pass->link, true, &in) || pass->failed;
    pass->book_count++;
    state->ready_ns = in.end_ns;
    state->is_resident = true;
}

/* Bytes that the outputs of the kernels after the current one, up to `time`, need beyond what dies there. */
static uint64_t reserved_bytes(const pass_t *pass, uint64_t time)
{
    uint32_t n = pass->step->kernel_count, now = (uint32_t)(pass->time % n);
    uint32_t count = (uint32_t)(time - pass->time), level = 31 - (uint32_t)__builtin_clz(count);
    const int64_t *highest = pass->demand + (size_t)level * 2 * n;
    int64_t a = highest[now + 1], b = highest[now + 1 + count - (1u << level)];
    int64_t rise = (a > b ? a : b) - pass->demand_after[now];
    return rise > 0 ? (uint64_t)rise : 0;
}

/* Brings the parts in that kernel `time`, after the current one, reads, unless that did harm: false. */
static bool load_ahead(pass_t *pass, uint64_t time)
{
    const dao_swap_step_t *step = pass->step;
    uint32_t kernel = (uint32_t)(time % step->kernel_count);
    for (uint32_t t = step->kernel_access[kernel]; t < step->kernel_access[kernel + 1]; t++) {
        uint32_t tensor = step->accesses[t].tensor;
        for (uint32_t part = pass->parts->first[tensor];
             step->accesses[t].reads && part < pass->parts->first[tensor + 1]; part++) {
            if (pass->states[part].is_resident || next_time(pass, part) != time) {
                continue; /* there, or made by a kernel in between */
            }
            uint64_t size = pass->states[part].size_bytes + reserved_bytes(pass, time);
            if (pass->room.size_bytes + listed_bytes_after(pass, time) < size ||
                !make_room(pass, size, time, room_deadline(pass, part, expected_ns(pass, time)))) {
                return false;
            }
            load(pass, part);
            list_part(pass, part);
            dao_swap_decision_t *decision = recorded_decision(pass, part);
            if (decision != NULL) {
                decision->lead = (uint32_t)(time - pass->time - 1);
            }
        }
    }
    return true;
}

static void plan_ahead(pass_t *pass)
{
    uint32_t longest = pass->step->kernel_count - 1;
    uint32_t lead = pass->variant->lead_kernels < longest ? pass->variant->lead_kernels : longest;
    pass->planned = dao_larger(pass->planned, pass->time + 1);
    while (pass->planned <= pass->time + lead && load_ahead(pass, pass->planned)) {
        pass->planned++;
    }
}

/* Room for a part that the kernel at hand reads, or only writes. Returns the time at which it is there. */
static uint64_t bring_part(pass_t *pass, uint32_t part, bool is_read)
{
    part_state_t *state = &pass->states[part];
    if (state->is_resident) {
        return state->ready_ns;
    }
    uint64_t deadline_ns = is_read ? room_deadline(pass, part, pass->clock_ns) : pass->clock_ns;
    bool has_room = make_room(pass, state->size_bytes, pass->time, deadline_ns);
    DAO_ASSERT(has_room);
    (void)has_room;
    if (is_read) {
        load(pass, part);
    } else {
        state->ready_ns = dao_swap_room_take_last(&pass->room, state->size_bytes, pass->clock_ns);
        state->is_resident = true;
    }
    return state->ready_ns;
}

/* Room for what a kernel reads, or for what it only writes. Returns the time at which all of it is there. */
static uint64_t bring_operands(pass_t *pass, uint32_t kernel, bool is_read)
{
    const dao_swap_step_t *step = pass->step;
    uint64_t ready_ns = pass->clock_ns;
    for (uint32_t t = step->kernel_access[kernel]; t < step->kernel_access[kernel + 1]; t++) {
        const dao_swap_access_t *access = &step->accesses[t];
        uint32_t end = access->reads == is_read ? pass->parts->first[access->tensor + 1] : 0;
        for (uint32_t part = pass->parts->first[access->tensor]; part < end; part++) {
            ready_ns = dao_larger(ready_ns, bring_part(pass, part, is_read));
        }
    }
    return ready_ns;
}

/* The kernel has used a part and ends at `end_ns`. */
static void use_part(pass_t *pass, uint32_t access, uint32_t part, uint64_t end_ns)
{
    const dao_swap_access_t *one = &pass->step->accesses[access];
    part_state_t *state = &pass->states[part];
    state->access = access;
    state->access_time = pass->time;
    state->used_ns = end_ns;
    if (one->writes) {
        state->out = (dao_swap_interval_t){end_ns, end_ns};
        state->is_saved = false;
    }
    DAO_ASSERT(state->is_resident && !state->is_listed); /* what a kernel uses cannot leave */
    dao_swap_decision_t *decision = recorded_decision(pass, part);
    if (decision != NULL) {
        *decision = (dao_swap_decision_t){0};
    }
    if (one->inactive_is_live) {
        list_part(pass, part);
        return;
    }
    state->is_resident = false;
    pass->failed = !dao_swap_room_give(&pass->room, end_ns, state->size_bytes) || pass->failed;
}

static void play_kernel(pass_t *pass)
{
    const dao_swap_step_t *step = pass->step;
    uint32_t kernel = (uint32_t)(pass->time % step->kernel_count);
    uint32_t first = step->kernel_access[kernel], end = step->kernel_access[kernel + 1];
    for (uint32_t t = first; t < end; t++) {
        uint32_t tensor = step->accesses[t].tensor;
        for (uint32_t part = pass->parts->first[tensor]; part < pass->parts->first[tensor + 1]; part++) {
            unlist_part(pass, part);
        }
    }
    uint64_t read_ns = bring_operands(pass, kernel, true); /* first what is loaded */
    uint64_t begin_ns = dao_larger(read_ns, bring_operands(pass, kernel, false));
    DAO_ASSERT(begin_ns >= pass->clock_ns);
    pass->clock_ns = begin_ns + step->problem->kernels[kernel].time_ns;
    pass->end_ns[kernel] = pass->clock_ns;
    for (uint32_t t = first; t < end; t++) {
        uint32_t tensor = step->accesses[t].tensor;
        for (uint32_t part = pass->parts->first[tensor]; part < pass->parts->first[tensor + 1]; part++) {
            use_part(pass, t, part, pass->clock_ns);
        }
    }
    plan_ahead(pass);
    pass->time++;
}

/* All that lives on is in the host as the first step begins. Times count from the step before it. */
static void begin(pass_t *pass, uint64_t capacity_bytes)
{
    const dao_swap_step_t *step = pass->step;
    dao_swap_link_init(&pass->link, &step->problem->host);
    dao_swap_room_init(&pass->room);
    pass->time = pass->planned = step->kernel_count;
    memset(pass->large.first, 0xff, step->kernel_count * sizeof(*pass->large.first));
    memset(pass->small.first, 0xff, step->kernel_count * sizeof(*pass->small.first));
    memset(pass->dirty.first, 0xff, step->kernel_count * sizeof(*pass->dirty.first));
    sum_demand(pass);
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint32_t first = pass->parts->first[one->tensor], end = pass->parts->first[one->tensor + 1];
        for (uint32_t part = first; one->next <= i && part < end; part++) {
            uint64_t size = dao_swap_part_size(pass->parts, part);
            pass->states[part] = (part_state_t){.access = i,
                                                .access_time = one->kernel,
                                                .size_bytes = size,
                                                .out_ns = dao_swap_copy_ns(&step->problem->host, false, size),
                                                .is_saved = true};
        }
    }
    pass->failed = capacity_bytes > 0 && !dao_swap_room_give(&pass->room, 0, capacity_bytes);
}

dao_status_t dao_swap_choose(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                             const dao_swap_variant_t *variant, uint32_t step_count,
                             dao_swap_decision_t *decisions, uint64_t *out_step_ns)
{
    DAO_ASSERT(step_count >= 3);
    uint32_t n = parts->step->kernel_count;
    pass_t pass = {.parts = parts,
                   .step = parts->step,
                   .variant = variant,
                   .decisions = decisions,
                   .record_step = step_count - 1};
    if (!allocate(&pass)) {
        release(&pass);
        return dao_swap_step_give_up(parts->step);
    }
    memset(decisions, 0, parts->inactive_count * sizeof(*decisions));
    begin(&pass, capacity_bytes);
    uint64_t last_ns = 0;
    while (pass.time < (uint64_t)n * (step_count + 1) && !pass.failed) {
        last_ns = pass.time == (uint64_t)n * step_count ? pass.clock_ns : last_ns;
        play_kernel(&pass);
        pass.failed = pass.failed || dao_swap_is_cancelled(parts->step->cancel);
    }
    *out_step_ns = pass.clock_ns - last_ns;
    dao_swap_add_work(parts->step, PLAY_WORK * step_count * parts->inactive_count + pass.look_count);
    bool failed = pass.failed;
    release(&pass);
    return failed ? dao_swap_step_give_up(parts->step) : DAO_OK;
}
