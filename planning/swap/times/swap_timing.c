/* SPDX-License-Identifier: Apache-2.0 */
/* Plays the step by fixed decisions, with the calendars that choosing victims uses too. Every step does the
   same, so after a few steps the times repeat. Two steps in a row that change no time are a period. If that
   takes too long, the steps are played once more, and each waits for all copies and kernels of the one
   before: then they are alike by necessity.

       after kernel a    parts that leave here: copy out at the earliest, memory free after it
       before kernel b   parts that come back for b: the bytes that are free first, copy in at the earliest
                         outputs: bytes that became free last before the kernel could begin

   Copies in ask for memory in the order of the kernels (b - lead), so each finds what dao_swap_cycle() left
   it.

   Kernels begin in the order of the step, whatever their streams. One begins once that before it has begun,
   its own stream is idle, and other streams have written what it reads, and used what it writes:

       stream 0   |  a  |     |     c     |
       stream 1         |        b        |  d  |      b reads what a wrote; c begins behind b's begin

   So all that an operation waits for begins before it, and one order of begins is right for all streams. On
   the device a stream may be ahead of that.

   What holds: a part that leaves is resident, one that comes back is not; kernels of a stream run one after
   the other; free bytes never exceed the capacity. */
#include "planning/swap/times/swap_timing.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/swap/times/swap_link.h"
#include "planning/swap/times/swap_room.h"

#include <stdlib.h>
#include <string.h>

#define STEP_COUNT_MAX 24u
#define PLAY_WORK      4u /* an access of a part, once: some 40 ns */

typedef struct part_time {
    uint64_t ready_ns;
    uint64_t written_ns;
    uint64_t used_ns; /* all that used it have ended: kept where kernels run beside each other */
    uint64_t saved_ns;
    uint64_t left_ns;           /* its room became free */
    uint64_t inactive_start_ns; /* begin of the step in which its inactive period began */
    uint32_t inactive;          /* the inactive period that it is in */
    bool is_saved;
    bool is_resident;
} part_time_t;

typedef struct player {
    const dao_swap_parts_t *parts;
    const dao_swap_step_t *step;
    const dao_swap_decision_t *decisions;
    dao_swap_timing_t *timing;
    dao_swap_link_t links[2]; /* host, file */
    dao_swap_room_t room;
    part_time_t *times;
    uint32_t *load_first;    /* kernel_count + 1: of each kernel, its part of `loads` */
    uint32_t *loads;         /* inactive periods whose room is taken before a kernel, the most urgent first */
    uint32_t *inactive_part; /* inactive_count */
    uint64_t clock_ns;       /* no kernel begins before it */
    uint64_t idle_ns[DAO_SWAP_COMPUTE_STREAM_MAX]; /* of each compute stream, the end of its last kernel */
    uint64_t start_ns;                             /* of this step */
    uint64_t floor_ns;                             /* no copy begins before it */
    bool is_drained;                               /* a step waits for all copies of the one before */
    bool has_changed;                              /* something was written down that was not there */
    bool failed;                                   /* no host memory, or cancelled */
} player_t;

static bool allocate(player_t *player)
{
    size_t kernels = player->step->kernel_count, decisions = (size_t)player->parts->inactive_count + 1;
    return (player->times = dao_host_calloc((size_t)player->parts->count + 1, sizeof(*player->times))) !=
               NULL &&
           (player->load_first = dao_host_calloc(kernels + 2, sizeof(*player->load_first))) != NULL &&
           (player->loads = dao_host_calloc(decisions, sizeof(*player->loads))) != NULL &&
           (player->inactive_part = dao_host_calloc(decisions, sizeof(*player->inactive_part))) != NULL;
}

static void finish_links(player_t *player)
{
    for (int i = 0; i < 2; i++) {
        dao_swap_link_finish(&player->links[i]);
    }
    dao_swap_room_finish(&player->room);
}

static void release(player_t *player)
{
    finish_links(player);
    dao_host_free(player->times);
    dao_host_free(player->load_first);
    dao_host_free(player->loads);
    dao_host_free(player->inactive_part);
}

/* The kernel before which the room of an away part is taken again, and whether that is in the step in which
   the inactive period begins. */
static uint32_t load_kernel(const dao_swap_step_t *step, const dao_swap_access_t *one,
                            const dao_swap_decision_t *decision, bool *out_same_step)
{
    uint32_t kernel = one->kernel + one->inactive_length - decision->lead;
    *out_same_step = kernel < step->kernel_count;
    return *out_same_step ? kernel : kernel - step->kernel_count;
}

/* Sorts the away inactive periods by the kernel before which they end; those of a kernel by their lead. */
static void sort_loads(player_t *player)
{
    const dao_swap_step_t *step = player->step;
    bool same_step;
    for (int round = 0; round < 2; round++) { /* counts, then places */
        for (uint32_t i = 0; i < step->access_count; i++) {
            uint32_t tensor = step->accesses[i].tensor;
            for (uint32_t part = player->parts->first[tensor]; part < player->parts->first[tensor + 1];
                 part++) {
                uint32_t g = player->parts->first_inactive[i] + part - player->parts->first[tensor];
                player->inactive_part[g] = part;
                if (!player->decisions[g].is_away) {
                    continue;
                }
                uint32_t kernel = load_kernel(step, &step->accesses[i], &player->decisions[g], &same_step);
                if (round == 0) {
                    player->load_first[kernel + 2]++;
                } else {
                    player->loads[player->load_first[kernel + 1]++] = g;
                }
            }
        }
        for (uint32_t k = 0; round == 0 && k <= step->kernel_count; k++) {
            player->load_first[k + 1] += player->load_first[k];
        }
    }
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        for (uint32_t i = player->load_first[k] + 1; i < player->load_first[k + 1]; i++) {
            uint32_t g = player->loads[i], at = i;
            for (; at > player->load_first[k] &&
                   player->decisions[player->loads[at - 1]].lead > player->decisions[g].lead;
                 at--) {
                player->loads[at] = player->loads[at - 1];
            }
            player->loads[at] = g;
        }
    }
}

/* Writes a time down, as of the begin of a step. */
static void note(player_t *player, int64_t *out_time, uint64_t time_ns, uint64_t start_ns)
{
    int64_t since = (int64_t)time_ns - (int64_t)start_ns;
    player->has_changed = player->has_changed || *out_time != since;
    *out_time = since;
}

/* Books a copy at the earliest after `from_ns`. */
static dao_swap_interval_t book(player_t *player, dao_swap_link_t *link, bool is_in, uint64_t from_ns,
                                uint64_t size_bytes)
{
    dao_swap_interval_t time =
        dao_swap_link_find(link, is_in, dao_larger(from_ns, player->floor_ns), size_bytes);
    player->failed = !dao_swap_link_book(link, is_in, &time) || player->failed;
    return time;
}

/* A part leaves once all that used it have ended. */
static void leave(player_t *player, uint32_t part, const dao_swap_decision_t *decision, uint64_t used_ns)
{
    part_time_t *time = &player->times[part];
    dao_swap_link_t *link = &player->links[decision->is_file ? 1 : 0];
    dao_swap_moment_t *moment = &player->timing->moments[time->inactive];
    DAO_ASSERT(time->is_resident);
    uint64_t size = dao_swap_part_size(player->parts, part), free_ns = used_ns;
    if (decision->is_away && !time->is_saved) {
        dao_swap_interval_t out =
            book(player, link, false, time->written_ns, dao_swap_part_content(player->parts, part));
        time->saved_ns = out.end_ns;
        time->is_saved = true;
        moment->is_out = true;
        note(player, &moment->out_begin_ns, out.begin_ns, time->inactive_start_ns);
        note(player, &moment->out_end_ns, out.end_ns, time->inactive_start_ns);
    }
    free_ns = decision->is_away ? dao_larger(free_ns, time->saved_ns) : free_ns;
    player->failed = !dao_swap_room_give(&player->room, free_ns, size) || player->failed;
    time->is_resident = false;
    time->left_ns = free_ns;
    note(player, &moment->free_ns, free_ns, time->inactive_start_ns);
}

static void come_back(player_t *player, uint32_t inactive_index)
{
    uint32_t part = player->inactive_part[inactive_index];
    part_time_t *time = &player->times[part];
    if (time->is_resident) {
        return; /* the first step begins with it */
    }
    dao_swap_link_t *link = &player->links[player->decisions[inactive_index].is_file ? 1 : 0];
    uint64_t size = dao_swap_part_size(player->parts, part);
    DAO_ASSERT(time->inactive == inactive_index);
    DAO_ASSERT(player->decisions[inactive_index].is_away);
    uint64_t room_ns = dao_swap_room_take_first(&player->room, size);
    dao_swap_interval_t in =
        book(player, link, true, dao_larger(room_ns, dao_larger(time->saved_ns, time->left_ns)),
             dao_swap_part_content(player->parts, part));
    dao_swap_moment_t *moment = &player->timing->moments[inactive_index];
    time->ready_ns = in.end_ns;
    time->is_resident = true;
    note(player, &moment->taken_ns, in.begin_ns, time->inactive_start_ns);
    note(player, &moment->in_end_ns, time->ready_ns, time->inactive_start_ns);
}

/* When kernels of other streams no longer use what a kernel writes, and have written what it reads. */
static uint64_t behind_others(const player_t *player, uint32_t kernel, uint64_t begin_ns)
{
    const dao_swap_step_t *step = player->step;
    for (uint32_t t = step->kernel_access[kernel]; t < step->kernel_access[kernel + 1]; t++) {
        uint32_t tensor = step->accesses[t].tensor;
        for (uint32_t part = player->parts->first[tensor]; part < player->parts->first[tensor + 1]; part++) {
            const part_time_t *time = &player->times[part];
            begin_ns = dao_larger(begin_ns, step->accesses[t].writes ? time->used_ns : time->written_ns);
        }
    }
    return begin_ns;
}

/* Room for a kernel's outputs, and the time at which all that it uses is there, and no longer in use where it
   writes. */
static uint64_t kernel_begin(player_t *player, uint32_t kernel, uint64_t least_ns)
{
    const dao_swap_step_t *step = player->step;
    uint64_t begin_ns = least_ns;
    for (uint32_t t = step->kernel_access[kernel]; t < step->kernel_access[kernel + 1]; t++) {
        uint32_t tensor = step->accesses[t].tensor;
        for (uint32_t part = player->parts->first[tensor]; part < player->parts->first[tensor + 1]; part++) {
            part_time_t *time = &player->times[part];
            if (!time->is_resident) {
                DAO_ASSERT(!step->accesses[t].reads);
                time->ready_ns =
                    dao_swap_room_take_last(&player->room, dao_swap_part_size(player->parts, part), least_ns);
            }
            begin_ns = dao_larger(begin_ns, time->ready_ns);
        }
    }
    return step->runs_beside ? behind_others(player, kernel, begin_ns) : begin_ns;
}

static void use_parts(player_t *player, uint32_t access, uint64_t begin_ns, uint64_t end_ns)
{
    const dao_swap_access_t *one = &player->step->accesses[access];
    bool runs_beside = player->step->runs_beside;
    for (uint32_t part = player->parts->first[one->tensor]; part < player->parts->first[one->tensor + 1];
         part++) {
        part_time_t *time = &player->times[part];
        if (!time->is_resident) { /* an output */
            note(player, &player->timing->moments[time->inactive].taken_ns, begin_ns,
                 time->inactive_start_ns);
        }
        time->is_resident = true;
        time->inactive = player->parts->first_inactive[access] + part - player->parts->first[one->tensor];
        time->inactive_start_ns = player->start_ns;
        uint64_t used_ns = end_ns;
        if (runs_beside) {
            time->used_ns = used_ns = dao_larger(time->used_ns, end_ns);
        }
        if (one->writes) {
            time->written_ns = end_ns;
            time->is_saved = false;
        }
        const dao_swap_decision_t *decision = &player->decisions[time->inactive];
        if (!one->inactive_is_live || decision->is_away) {
            leave(player, part, decision, used_ns);
        }
    }
}

static void play_kernel(player_t *player, uint32_t kernel)
{
    const dao_swap_step_t *step = player->step;
    for (uint32_t i = player->load_first[kernel]; i < player->load_first[kernel + 1]; i++) {
        come_back(player, player->loads[i]);
    }
    const dao_swap_kernel_t *one = &step->problem->kernels[kernel];
    uint64_t least_ns = dao_larger(player->clock_ns, player->idle_ns[one->stream]);
    uint64_t begin_ns = kernel_begin(player, kernel, least_ns);
    uint64_t end_ns = begin_ns + dao_larger(one->time_ns, 1); /* lives have a length */
    DAO_ASSERT(begin_ns >= least_ns);
    player->idle_ns[one->stream] = end_ns;
    player->clock_ns = step->runs_beside ? begin_ns + 1 : end_ns;
    note(player, &player->timing->kernel_begin_ns[kernel], begin_ns, player->start_ns);
    for (uint32_t t = step->kernel_access[kernel]; t < step->kernel_access[kernel + 1]; t++) {
        use_parts(player, t, begin_ns, end_ns);
    }
}

/* What the first step begins with: the parts that stay or have come back over the step's end. */
static void begin(player_t *player, uint64_t capacity_bytes)
{
    const dao_swap_step_t *step = player->step;
    uint64_t free_bytes = capacity_bytes;
    memset(player->times, 0, player->parts->count * sizeof(*player->times));
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        for (uint32_t part = player->parts->first[one->tensor];
             one->next <= i && part < player->parts->first[one->tensor + 1]; part++) {
            uint32_t g = player->parts->first_inactive[i] + part - player->parts->first[one->tensor];
            const dao_swap_decision_t *decision = &player->decisions[g];
            bool same_step = true;
            bool is_there = one->inactive_is_live &&
                            (!decision->is_away || (load_kernel(step, one, decision, &same_step), same_step));
            player->times[part] = (part_time_t){.inactive = g, .is_saved = true, .is_resident = is_there};
            free_bytes -= is_there ? dao_swap_part_size(player->parts, part) : 0;
        }
    }
    DAO_ASSERT(free_bytes <= capacity_bytes); /* what dao_swap_cycle() made good fits */
    dao_swap_link_init(&player->links[0], &step->problem->host);
    dao_swap_link_init(&player->links[1], &step->problem->file);
    dao_swap_room_init(&player->room);
    player->clock_ns = player->floor_ns = 0;
    memset(player->idle_ns, 0, sizeof(player->idle_ns));
    player->failed = free_bytes > 0 && !dao_swap_room_give(&player->room, 0, free_bytes);
}

/* The end of all copies and kernels so far. */
static uint64_t all_end(const player_t *player)
{
    uint64_t end_ns = player->clock_ns;
    for (int i = 0; i < 2; i++) {
        end_ns = dao_larger(end_ns, dao_swap_link_end(&player->links[i]));
    }
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX; i++) {
        end_ns = dao_larger(end_ns, player->idle_ns[i]);
    }
    return end_ns;
}

/* Plays steps until they repeat. False if they do not within STEP_COUNT_MAX, or host memory ran out. */
static bool play_steps(player_t *player)
{
    uint32_t unchanged = 0;
    for (uint32_t s = 0; s < STEP_COUNT_MAX && unchanged < 2 && !player->failed; s++) {
        if (player->is_drained) {
            player->floor_ns = player->clock_ns = all_end(player);
        }
        uint64_t start_ns = player->clock_ns, step_ns = start_ns - player->start_ns;
        player->start_ns = start_ns;
        player->has_changed = player->timing->step_ns != step_ns;
        player->timing->step_ns = step_ns;
        for (uint32_t k = 0; k < player->step->kernel_count && !player->failed; k++) {
            play_kernel(player, k);
            player->failed = player->failed || dao_swap_is_cancelled(player->step->cancel);
        }
        dao_swap_add_work(player->step, PLAY_WORK * player->parts->inactive_count);
        unchanged = player->has_changed ? 0 : unchanged + 1;
    }
    return unchanged == 2 && !player->failed;
}

dao_status_t dao_swap_time(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                           const dao_swap_decision_t *decisions, dao_swap_timing_t *timing)
{
    player_t player = {.parts = parts, .step = parts->step, .decisions = decisions, .timing = timing};
    player.failed = !allocate(&player);
    if (!player.failed) {
        sort_loads(&player);
        memset(timing->moments, 0, parts->inactive_count * sizeof(*timing->moments));
        begin(&player, capacity_bytes);
        if (!play_steps(&player) && !player.failed) {
            finish_links(&player);
            player.is_drained = true;
            begin(&player, capacity_bytes);
            bool repeats = play_steps(&player);
            DAO_ASSERT(repeats || player.failed);
            (void)repeats;
        }
    }
    bool failed = player.failed;
    release(&player);
    return failed ? dao_swap_step_give_up(parts->step) : DAO_OK;
}

dao_status_t dao_swap_timing_init(dao_swap_timing_t *timing, const dao_swap_parts_t *parts)
{
    size_t kernels = parts->step->kernel_count;
    *timing = (dao_swap_timing_t){0};
    if ((timing->moments = dao_host_calloc((size_t)parts->inactive_count + 1, sizeof(*timing->moments))) ==
            NULL ||
        (timing->kernel_begin_ns = dao_host_calloc(kernels, sizeof(*timing->kernel_begin_ns))) == NULL) {
        dao_swap_timing_finish(timing);
        return dao_swap_step_give_up(parts->step);
    }
    return DAO_OK;
}

void dao_swap_timing_finish(dao_swap_timing_t *timing)
{
    dao_host_free(timing->moments);
    dao_host_free(timing->kernel_begin_ns);
    *timing = (dao_swap_timing_t){0};
}

/* ---- later copies in ---- */

/* A copy of a stream that has copies in. */
typedef struct stream_copy {
    int64_t begin_ns; /* in the step */
    int64_t length_ns;
    int64_t latest_end_ns; /* counted from the same step; INT64_MIN: it stays where it is */
    int64_t step_ns;       /* its step, after the one in which the inactive period began, in ns */
    uint32_t inactive;
} stream_copy_t;

static int compare_copies(const void *left, const void *right)
{
    const stream_copy_t *a = left, *b = right;
    if (a->begin_ns != b->begin_ns) {
        return a->begin_ns < b->begin_ns ? -1 : 1;
    }
    return (a->inactive > b->inactive) - (a->inactive < b->inactive);
}

static stream_copy_t stream_copy_at(int64_t begin_ns, int64_t end_ns, int64_t period_ns, uint32_t inactive)
{
    int64_t steps = begin_ns >= 0 ? begin_ns / period_ns : -((period_ns - 1 - begin_ns) / period_ns);
    return (stream_copy_t){.begin_ns = begin_ns - steps * period_ns,
                           .length_ns = end_ns - begin_ns,
                           .latest_end_ns = INT64_MIN,
                           .step_ns = steps * period_ns,
                           .inactive = inactive};
}

/* Lists the copies of a tier's IN stream in the order of their times. */
static size_t list_stream(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                          const dao_swap_timing_t *timing, bool is_file, stream_copy_t *copies)
{
    const dao_swap_step_t *step = parts->step;
    int64_t period_ns = (int64_t)timing->step_ns;
    bool has_out =
        (is_file ? step->problem->file.duplex : step->problem->host.duplex) == DAO_SWAP_DUPLEX_HALF;
    size_t count = 0;
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        int64_t use_ns =
            timing->kernel_begin_ns[step->accesses[one->next].kernel] + (one->next <= i ? period_ns : 0);
        for (uint32_t g = parts->first_inactive[i]; g < parts->first_inactive[i + 1]; g++) {
            const dao_swap_moment_t *moment = &timing->moments[g];
            if (!decisions[g].is_away || decisions[g].is_file != is_file) {
                continue;
            }
            copies[count] = stream_copy_at(moment->taken_ns, moment->in_end_ns, period_ns, g);
            copies[count].latest_end_ns = use_ns - copies[count].step_ns;
            count++;
            if (has_out && moment->is_out) {
                copies[count++] = stream_copy_at(moment->out_begin_ns, moment->out_end_ns, period_ns, g);
            }
        }
    }
    qsort(copies, count, sizeof(*copies), compare_copies);
    return count;
}

dao_status_t dao_swap_delay(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                            uint32_t numerator, uint32_t denominator, dao_swap_timing_t *timing)
{
    stream_copy_t *copies = dao_host_calloc(2 * (size_t)parts->inactive_count + 1, sizeof(*copies));
    if (copies == NULL) {
        return dao_swap_step_give_up(parts->step);
    }
    int64_t period_ns = (int64_t)timing->step_ns;
    for (int is_file = 0; is_file < 2 && !dao_swap_is_cancelled(parts->step->cancel); is_file++) {
        size_t count = list_stream(parts, decisions, timing, is_file != 0, copies);
        int64_t limit_ns = INT64_MAX;        /* the begin of the copy behind */
        for (int lap = 1; lap >= 0; lap--) { /* the second round knows what is behind the last copy */
            for (size_t i = count; i-- > 0;) {
                stream_copy_t *copy = &copies[i];
                int64_t begin_ns = copy->begin_ns + lap * period_ns;
                if (copy->latest_end_ns != INT64_MIN) {
                    int64_t end_ns = copy->latest_end_ns + lap * period_ns;
                    int64_t latest_ns = (end_ns < limit_ns ? end_ns : limit_ns) - copy->length_ns;
                    begin_ns = latest_ns > begin_ns ? latest_ns : begin_ns;
                }
                limit_ns = begin_ns;
                if (lap == 0 && copy->latest_end_ns != INT64_MIN) {
                    dao_swap_moment_t *moment = &timing->moments[copy->inactive];
                    DAO_ASSERT(begin_ns >= copy->begin_ns);
                    int64_t later_ns = (begin_ns - copy->begin_ns) / denominator * numerator;
                    moment->taken_ns += later_ns;
                    moment->in_end_ns += later_ns;
                }
            }
        }
    }
    dao_host_free(copies);
    return dao_swap_is_cancelled(parts->step->cancel) ? dao_swap_step_give_up(parts->step) : DAO_OK;
}

/* ---- on demand ---- */

typedef struct demand_pass {
    const dao_swap_parts_t *parts;
    const dao_swap_decision_t *decisions;
    dao_swap_timing_t *timing;
    uint32_t *previous; /* of each access, the one of its tensor before it */
    int64_t *load_begin_ns;
} demand_pass_t;

static bool comes_in(const demand_pass_t *pass, uint32_t access)
{
    return pass->parts->step->accesses[access].previous_inactive_is_live &&
           pass->decisions[pass->previous[access]].is_away;
}

/* A version is copied out in the first inactive period that it is away in. */
static void find_copies_out(const demand_pass_t *pass)
{
    const dao_swap_access_t *accesses = pass->parts->step->accesses;
    for (uint32_t t = 0; t < pass->parts->step->access_count; t++) {
        uint32_t at = t;
        while (accesses[t].writes && accesses[at].inactive_is_live && !pass->decisions[at].is_away &&
               !accesses[accesses[at].next].writes) {
            at = accesses[at].next;
        }
        if (accesses[t].writes && accesses[at].inactive_is_live && pass->decisions[at].is_away) {
            pass->timing->moments[at].is_out = true;
        }
    }
}

/* Copies in what a kernel reads and is away, from `now_ns` on. Returns the end. */
static int64_t load_on_demand(const demand_pass_t *pass, uint32_t kernel, int64_t now_ns)
{
    const dao_swap_step_t *step = pass->parts->step;
    for (uint32_t t = step->kernel_access[kernel]; t < step->kernel_access[kernel + 1]; t++) {
        pass->load_begin_ns[t] = now_ns;
        if (comes_in(pass, t)) {
            bool is_file = pass->decisions[pass->previous[t]].is_file;
            const dao_swap_tier_t *tier = is_file ? &step->problem->file : &step->problem->host;
            now_ns += (int64_t)dao_swap_copy_ns(tier, true, step->size_bytes[step->accesses[t].tensor]);
        }
    }
    return now_ns;
}

/* Lets what goes behind a kernel leave, from its end on. Returns the end of the last copy. */
static int64_t leave_on_demand(const demand_pass_t *pass, uint32_t kernel, int64_t now_ns)
{
    const dao_swap_step_t *step = pass->parts->step;
    for (uint32_t t = step->kernel_access[kernel]; t < step->kernel_access[kernel + 1]; t++) {
        const dao_swap_tier_t *tier =
            pass->decisions[t].is_file ? &step->problem->file : &step->problem->host;
        dao_swap_moment_t *moment = &pass->timing->moments[t];
        if (moment->is_out) {
            moment->out_begin_ns = now_ns;
            now_ns += (int64_t)dao_swap_copy_ns(tier, false, step->size_bytes[step->accesses[t].tensor]);
            moment->out_end_ns = now_ns;
        }
        moment->free_ns = now_ns;
    }
    return now_ns;
}

static void time_on_demand(const demand_pass_t *pass)
{
    const dao_swap_step_t *step = pass->parts->step;
    dao_swap_timing_t *timing = pass->timing;
    int64_t now_ns = 0;
    find_copies_out(pass);
    for (uint32_t k = 0; k < step->kernel_count && !dao_swap_is_cancelled(step->cancel); k++) {
        now_ns = load_on_demand(pass, k, now_ns);
        timing->kernel_begin_ns[k] = now_ns;
        now_ns += (int64_t)dao_larger(step->problem->kernels[k].time_ns, 1);
        now_ns = leave_on_demand(pass, k, now_ns);
    }
    timing->step_ns = (uint64_t)now_ns;
    for (uint32_t t = 0; t < step->access_count; t++) {
        uint32_t next = step->accesses[t].next, kernel = step->accesses[next].kernel;
        int64_t wrap_ns = next <= t ? now_ns : 0;
        bool is_copied = comes_in(pass, next);
        timing->moments[t].taken_ns =
            (is_copied ? pass->load_begin_ns[next] : timing->kernel_begin_ns[kernel]) + wrap_ns;
        timing->moments[t].in_end_ns = is_copied ? timing->kernel_begin_ns[kernel] + wrap_ns : 0;
    }
}

dao_status_t dao_swap_time_on_demand(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                                     dao_swap_timing_t *timing)
{
    const dao_swap_step_t *step = parts->step;
    DAO_ASSERT(parts->part_bytes == 0 && parts->inactive_count == step->access_count);
    demand_pass_t pass = {.parts = parts, .decisions = decisions, .timing = timing};
    pass.previous = dao_host_calloc((size_t)step->access_count + 1, sizeof(*pass.previous));
    pass.load_begin_ns = dao_host_calloc((size_t)step->access_count + 1, sizeof(*pass.load_begin_ns));
    bool ok = pass.previous != NULL && pass.load_begin_ns != NULL;
    memset(timing->moments, 0, parts->inactive_count * sizeof(*timing->moments));
    for (uint32_t t = 0; t < step->access_count && ok; t++) {
        pass.previous[step->accesses[t].next] = t;
    }
    if (ok) {
        time_on_demand(&pass);
        ok = !dao_swap_is_cancelled(step->cancel);
    }
    dao_host_free(pass.previous);
    dao_host_free(pass.load_begin_ns);
    return ok ? DAO_OK : dao_swap_step_give_up(step);
}

void dao_swap_timing_copy(dao_swap_timing_t *to, const dao_swap_timing_t *from, const dao_swap_parts_t *parts)
{
    size_t kernels = parts->step->kernel_count;
    memcpy(to->moments, from->moments, parts->inactive_count * sizeof(*to->moments));
    memcpy(to->kernel_begin_ns, from->kernel_begin_ns, kernels * sizeof(*to->kernel_begin_ns));
    to->step_ns = from->step_ns;
}
