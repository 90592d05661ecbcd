/* SPDX-License-Identifier: Apache-2.0 */
/* A step is played kernel by kernel. Where memory lacks, the tensor leaves whose

       price / (bytes x time to its next use)

   is least. Its price is the time to make its content again, with what has left around it, or the time of its
   copies times a factor, whichever is less; that says how it leaves. With the time since its last use, and
   no copies, these are the rules of DTR (Kirisame et al., ICLR'21).

   Where a tensor is, at each moment between two runs:

       ABSENT    it has no content that a kernel still reads
       PRESENT   on the device; it counts against the capacity
       MOVED     it left by a copy, to the host as far as its limit goes, then to the file. In the longer step
                 it lives on: the plan of copies decides about it anew
       GIVEN_UP  its content is to be made again before its next use; its room in the longer step ends

   A run needs its inputs, which may be given up or absent themselves: those are made first, the same way.
   Outputs of a repeated run that have left too are taken over, the others are scratch. A content that is
   changed in place is made again from its first write on, in a tensor of its own.

   What is given up right behind its kernel may be made of the same inputs as before, if the rule is holding
   and what has to be kept for it beyond its last use is less: those inputs are held. A weight's gradient,
   say, is made of two activations that may be smaller, and the optimizer reads it after other weights have
   changed, of which the activations could not be made again.

   What holds: used_bytes is the sum of the PRESENT tensors and of scratch, at most the capacity; what
   `present` lists of each is as when its next use was noted last; a tensor that lives on into the next step
   is never given up, and always is itself; what is held is not written meanwhile, and goes once nothing holds
   or reads it. A tensor that was ever moved keeps its slot in its tier for the whole step, as in plans of
   copies; no tier has more slots than its limit. */
#include "planning/recompute/play/recompute_play.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_tier.h"

#include <string.h>

/* Repeated runs of a step, in runs of it: with more the rule is hopeless. */
#define RUNS_PER_KERNEL_MAX 4u

/* Kernels that making a content again may take. With more it is not given up. */
#define CHAIN_MAX 64u

#define PRICE_NONE 1e300

typedef enum where {
    WHERE_ABSENT = 0,
    WHERE_PRESENT = 1,
    WHERE_MOVED = 2,
    WHERE_GIVEN_UP = 3,
} where_t;

typedef enum tier {
    TIER_NONE = 0,
    TIER_HOST = 1,
    TIER_FILE = 2,
} tier_t;

#define TIER_COUNT 3

typedef struct tensor {
    where_t where;
    uint32_t content;           /* access that wrote it; DAO_SWAP_NONE: no kernel did */
    uint32_t instance;          /* tensor of the draft */
    uint32_t next;              /* access that comes; DAO_SWAP_NONE: none reads the content any more */
    uint32_t pins;              /* of runs that are being prepared */
    uint32_t holds;             /* of contents given up that it is held for */
    uint64_t used_ns;           /* when it was last used */
    uint64_t next_ns;           /* when `next` runs, in the step without repeated runs */
    tier_t slot;                /* where it has a slot */
    double move_ns[TIER_COUNT]; /* price of its copies; PRICE_NONE: it may not move there */
    double own_ns;              /* of the kernel that made its content; PRICE_NONE: that is not made again */
    uint32_t listed;            /* place among the present ones */
    bool lives_on;
} tensor_t;

/* What is on the device, with what a victim is looked for by: most are none at the first look. */
typedef struct present {
    uint32_t tensor;
    double least_ns; /* no price is below */
    double bytes;
    uint64_t next_ns; /* that of the tensor */
} present_t;

struct dao_recompute_play {
    const dao_recompute_contents_t *contents;
    const dao_recompute_reach_t *reach;
    const dao_swap_step_t *step;
    dao_recompute_draft_t *draft;
    const dao_recompute_rule_t *rule;
    tensor_t *tensors;
    present_t *present;
    uint32_t present_count;
    uint32_t *mapped;  /* of each access of a run that is being prepared: tensor of the draft */
    uint32_t *visited; /* of each content: the last price that it counted in */
    uint32_t visit;
    bool *given_up;  /* of each access: what it left was given up behind it */
    bool *holds;     /* of each content: it was given up, and its inputs are held for it */
    uint32_t kernel; /* that is to run next */
    uint64_t used_bytes, now_ns;
    uint64_t slots_left[TIER_COUNT]; /* bytes; those of a tier without a limit are not counted down */
    uint64_t runs_left;
};

/* ---- places ---- */

static uint64_t size_of(const dao_recompute_play_t *play, uint32_t tensor)
{
    return play->step->size_bytes[tensor];
}

static void leave(dao_recompute_play_t *play, uint32_t index, where_t where)
{
    tensor_t *tensor = &play->tensors[index];
    bool is_lost = where != WHERE_MOVED && tensor->content != DAO_SWAP_NONE && !tensor->lives_on;
    if (is_lost && play->rule->judge != NULL) {
        play->rule->judge->left(play->rule->judge->user, tensor->content);
    }
    if (tensor->where == WHERE_PRESENT) {
        present_t last = play->present[--play->present_count];
        play->present[tensor->listed] = last;
        play->tensors[last.tensor].listed = tensor->listed;
        play->used_bytes -= size_of(play, index);
    }
    tensor->where = where;
}

/* The tier that a tensor is moved to; TIER_NONE: none has room. */
static tier_t tier_for(const dao_recompute_play_t *play, uint32_t index)
{
    tier_t tier = play->tensors[index].slot;
    for (int i = TIER_HOST; tier == TIER_NONE && i < TIER_COUNT; i++) {
        tier = play->slots_left[i] >= size_of(play, index) ? (tier_t)i : TIER_NONE;
    }
    return tier;
}

static void take_slot(dao_recompute_play_t *play, uint32_t index)
{
    tensor_t *tensor = &play->tensors[index];
    tier_t tier = tier_for(play, index);
    DAO_ASSERT(tier != TIER_NONE);
    if (tensor->slot == TIER_NONE && play->slots_left[tier] != UINT64_MAX) {
        play->slots_left[tier] -= size_of(play, index);
    }
    tensor->slot = tier;
}

/* Drops what no kernel reads any more. */
static void drop_if_done(dao_recompute_play_t *play, uint32_t index)
{
    const tensor_t *tensor = &play->tensors[index];
    if (tensor->pins == 0 && tensor->holds == 0 && tensor->next == DAO_SWAP_NONE && !tensor->lives_on) {
        leave(play, index, WHERE_ABSENT);
    }
}

/* Returns true if a kernel from `until` on reads a content. */
static bool is_read_until(const dao_recompute_play_t *play, uint32_t content, uint32_t until)
{
    return play->step->accesses[content].kernel + play->contents->length[content] >= until;
}

/* Returns true if an input lives on, and no kernel before `until` writes it anew. */
static bool lives_on_until(const dao_recompute_play_t *play, uint32_t access, uint32_t until)
{
    return dao_recompute_lives_on(play->step, play->step->accesses[access].tensor) &&
           dao_recompute_overwritten_at(play->step, access) > until;
}

/* Returns the bytes of what is kept beyond its last use if what a kernel has just written is given up and
   made again of the same inputs; UINT64_MAX: it cannot be. */
static uint64_t held_bytes(const dao_recompute_play_t *play, uint32_t access)
{
    const dao_swap_step_t *step = play->step;
    uint32_t kernel = step->accesses[access].kernel,
             until = step->accesses[step->accesses[access].next].kernel;
    uint64_t sum_bytes = 0;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint32_t content = one->reads ? dao_recompute_found(play->contents, i) : DAO_SWAP_NONE;
        if (!one->reads || lives_on_until(play, i, until)) {
            continue;
        }
        if (one->writes || content == DAO_SWAP_NONE || content > i ||
            play->reach->kept_end[content] <= until) {
            return UINT64_MAX;
        }
        sum_bytes += is_read_until(play, content, until) ? 0 : size_of(play, one->tensor);
    }
    return sum_bytes;
}

bool dao_recompute_play_may_hold(const dao_recompute_play_t *play, uint32_t access)
{
    const dao_swap_access_t *one = &play->step->accesses[access];
    return one->writes && !one->reads && one->inactive_is_live && one->next > access &&
           play->contents->is_repeatable[one->kernel] && !dao_recompute_lives_on(play->step, one->tensor) &&
           held_bytes(play, access) < size_of(play, one->tensor);
}

/* Keeps what a content is made of. */
static void hold_inputs(dao_recompute_play_t *play, uint32_t content)
{
    const dao_swap_step_t *step = play->step;
    uint32_t kernel = step->accesses[content].kernel;
    play->holds[content] = true;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        play->tensors[step->accesses[i].tensor].holds += step->accesses[i].reads ? 1 : 0;
    }
}

/* A content has been made again, or is not missed any more. */
static void let_go(dao_recompute_play_t *play, uint32_t content)
{
    const dao_swap_step_t *step = play->step;
    uint32_t kernel = step->accesses[content].kernel;
    if (!play->holds[content]) {
        return;
    }
    play->holds[content] = false;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        if (step->accesses[i].reads) {
            play->tensors[step->accesses[i].tensor].holds--;
            drop_if_done(play, step->accesses[i].tensor);
        }
    }
}

/* A tensor that is still to be read leaves. */
static void give_way(dao_recompute_play_t *play, uint32_t index, where_t where)
{
    if (where == WHERE_GIVEN_UP) {
        play->given_up[play->contents->previous[play->tensors[index].next]] = true;
    } else {
        take_slot(play, index);
    }
    leave(play, index, where);
}

/* Lists what a tensor costs at least, and when it is used next. */
static void list_price(dao_recompute_play_t *play, uint32_t index)
{
    const tensor_t *tensor = &play->tensors[index];
    double least_ns = tensor->own_ns;
    for (int i = 0; i < TIER_COUNT; i++) {
        least_ns = tensor->move_ns[i] < least_ns ? tensor->move_ns[i] : least_ns;
    }
    play->present[tensor->listed] =
        (present_t){index, least_ns, (double)size_of(play, index), tensor->next_ns};
}

/* Its room has been made. */
static void arrive(dao_recompute_play_t *play, uint32_t index)
{
    tensor_t *tensor = &play->tensors[index];
    DAO_ASSERT(tensor->where != WHERE_PRESENT);
    tensor->where = WHERE_PRESENT;
    tensor->listed = play->present_count;
    tensor->used_ns = play->now_ns;
    play->present_count++;
    list_price(play, index);
    play->used_bytes += size_of(play, index);
}

/* ---- victims ---- */

/* Returns true if a content is there before kernel `until` without being made. */
static bool is_there(const dao_recompute_play_t *play, uint32_t tensor, uint32_t content, uint32_t until)
{
    const tensor_t *one = &play->tensors[tensor];
    if (one->lives_on) {
        return true;
    }
    bool is_kept = one->content == content && (one->where == WHERE_PRESENT || one->where == WHERE_MOVED);
    return is_kept && (one->holds > 0 || (one->next != DAO_SWAP_NONE && is_read_until(play, content, until)));
}

/* Returns the time to make a content before kernel `until` with all that has to be made for it, or some time
   above the limit. `left` counts kernels down; each counts once. */
static double making_ns(dao_recompute_play_t *play, uint32_t content, uint32_t until, uint32_t *left,
                        double limit_ns)
{
    const dao_swap_step_t *step = play->step;
    uint32_t kernel = step->accesses[content].kernel;
    double sum_ns = (double)step->problem->kernels[kernel].time_ns;
    if (play->visited[content] == play->visit) {
        return 0;
    }
    play->visited[content] = play->visit;
    if (play->rule->is_own_cost) {
        return sum_ns;
    }
    if (*left == 0) {
        return PRICE_NONE;
    }
    (*left)--;
    for (uint32_t i = step->kernel_access[kernel]; sum_ns <= limit_ns && i < step->kernel_access[kernel + 1];
         i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint32_t found = one->reads ? dao_recompute_found(play->contents, i) : DAO_SWAP_NONE;
        if (one->reads && (one->writes || !is_there(play, one->tensor, found, until))) {
            sum_ns += making_ns(play, found, until, left, limit_ns - sum_ns);
        }
    }
    return sum_ns;
}

/* Returns true if the content of a tensor can be made again for its next use. */
static bool may_give_up(const dao_recompute_play_t *play, const tensor_t *tensor)
{
    return !tensor->lives_on && tensor->next != DAO_SWAP_NONE && tensor->content != DAO_SWAP_NONE &&
           play->reach->made_end[tensor->content] > play->step->accesses[tensor->next].kernel;
}

/* Notes the next use of a tensor, and what does not change until then. */
static void look_ahead(dao_recompute_play_t *play, uint32_t index, uint32_t next)
{
    const dao_swap_step_t *step = play->step;
    const dao_swap_tier_t *const tiers[TIER_COUNT] = {NULL, &step->problem->host, &step->problem->file};
    tensor_t *tensor = &play->tensors[index];
    uint64_t bytes = size_of(play, index), step_ns = step->time_before[step->kernel_count];
    tensor->next = next;
    tensor->next_ns = 2 * step_ns;
    if (next != DAO_SWAP_NONE) {
        uint32_t kernel = step->accesses[next].kernel;
        tensor->next_ns = step->time_before[kernel] + (kernel < play->kernel ? step_ns : 0);
    }
    tensor->own_ns = PRICE_NONE;
    if (may_give_up(play, tensor)) {
        tensor->own_ns = (double)step->problem->kernels[step->accesses[tensor->content].kernel].time_ns;
    }
    for (int i = 0; i < TIER_COUNT; i++) {
        bool has_tier = tiers[i] != NULL && tiers[i]->in_bytes_per_second != 0;
        tensor->move_ns[i] = PRICE_NONE;
        if (has_tier && play->rule->move_price >= 0) {
            bool is_written = tensor->content != DAO_SWAP_NONE;
            tensor->move_ns[i] = play->rule->move_price *
                                 (double)(dao_swap_copy_ns(tiers[i], true, bytes) +
                                          (is_written ? dao_swap_copy_ns(tiers[i], false, bytes) : 0));
        }
    }
    if (tensor->where == WHERE_PRESENT) {
        list_price(play, index);
    }
}

/* Returns the price of a victim, and how it would leave. `move_ns`: if it moves. Above the limit the price
   may be too low. */
static double price_of(dao_recompute_play_t *play, const tensor_t *tensor, double move_ns, double limit_ns,
                       where_t *out_where)
{
    double again_ns = PRICE_NONE;
    if (tensor->own_ns <= move_ns && tensor->own_ns < PRICE_NONE) {
        uint32_t left = CHAIN_MAX;
        play->visit++;
        again_ns = making_ns(play, tensor->content, play->step->accesses[tensor->next].kernel, &left,
                             move_ns < limit_ns ? move_ns : limit_ns);
    }
    *out_where = again_ns <= move_ns ? WHERE_GIVEN_UP : WHERE_MOVED;
    return again_ns <= move_ns ? again_ns : move_ns;
}

/* Returns what the price of a tensor is divided by. */
static double weight_of(const dao_recompute_play_t *play, const present_t *one)
{
    uint64_t step_now_ns = play->step->time_before[play->kernel];
    uint64_t ahead_ns = one->next_ns > step_now_ns ? one->next_ns - step_now_ns : 0;
    uint64_t time_ns = play->rule->is_stale ? play->now_ns - play->tensors[one->tensor].used_ns : ahead_ns;
    return (play->rule->is_sizeless ? 1 : one->bytes) * ((double)time_ns + 1);
}

/* The same as find_victim() by a judge. */
static uint32_t find_judged(dao_recompute_play_t *play)
{
    const dao_recompute_judge_t *judge = play->rule->judge;
    double least = PRICE_NONE;
    uint32_t victim = DAO_SWAP_NONE;
    for (uint32_t i = 0; i < play->present_count; i++) {
        uint32_t index = play->present[i].tensor;
        const tensor_t *tensor = &play->tensors[index];
        if (tensor->pins != 0 || tensor->own_ns >= PRICE_NONE) {
            continue;
        }
        double score =
            judge->score(judge->user, tensor->content, size_of(play, index), play->now_ns - tensor->used_ns);
        if (score < least) {
            least = score;
            victim = index;
        }
    }
    return victim;
}

/* Finds the tensor that leaves first; DAO_SWAP_NONE: none may. */
static uint32_t find_victim(dao_recompute_play_t *play, where_t *out_where)
{
    double least = PRICE_NONE;
    uint32_t victim = DAO_SWAP_NONE;
    if (play->rule->judge != NULL) {
        *out_where = WHERE_GIVEN_UP;
        return find_judged(play);
    }
    for (uint32_t i = 0; i < play->present_count; i++) {
        const present_t *one = &play->present[i];
        const tensor_t *tensor = &play->tensors[one->tensor];
        double weight = weight_of(play, one);
        if (one->least_ns + 1 >= least * weight || tensor->pins != 0) {
            continue; /* most end here, without a look at what has left around them */
        }
        where_t where;
        double move_ns = tensor->move_ns[tier_for(play, one->tensor)];
        double price = price_of(play, tensor, move_ns, least * weight, &where);
        if (price < PRICE_NONE && (price + 1) / weight < least) {
            least = (price + 1) / weight;
            victim = one->tensor;
            *out_where = where;
        }
    }
    return victim;
}

/* Makes room for some bytes. */
static bool make_room(dao_recompute_play_t *play, uint64_t bytes)
{
    while (play->used_bytes + bytes > play->rule->capacity_bytes) {
        where_t where;
        uint32_t victim = find_victim(play, &where);
        if (victim == DAO_SWAP_NONE) {
            return false;
        }
        give_way(play, victim, where);
    }
    return true;
}

/* ---- runs ---- */

/* The content that a repeated run is for. */
typedef struct wanted {
    uint32_t content;
    bool is_private;   /* it gets a tensor of its own, as another run changes it in place then */
    uint32_t instance; /* that tensor, written by the run */
} wanted_t;

static bool run_again(dao_recompute_play_t *play, wanted_t *wanted);

/* Sees to it that an input is on the device, and pins it. */
static bool bring(dao_recompute_play_t *play, uint32_t index, uint32_t content)
{
    tensor_t *tensor = &play->tensors[index];
    if (tensor->content != content) {
        return false; /* the reach of contents excludes it */
    }
    if (tensor->where == WHERE_MOVED) {
        if (!make_room(play, size_of(play, index))) {
            return false;
        }
        arrive(play, index);
    }
    wanted_t wanted = {.content = content};
    if (tensor->where != WHERE_PRESENT && (content == DAO_SWAP_NONE || !run_again(play, &wanted))) {
        return false;
    }
    DAO_ASSERT(tensor->where == WHERE_PRESENT);
    tensor->pins++;
    tensor->used_ns = play->now_ns;
    return true;
}

/* Undoes a pin. What no kernel reads any more goes. */
static void unpin(dao_recompute_play_t *play, uint32_t index)
{
    play->tensors[index].pins--;
    drop_if_done(play, index);
}

typedef struct mapping {
    const dao_recompute_play_t *play;
    uint32_t kernel;
} mapping_t;

static uint32_t mapped_operand(const void *user, uint32_t tensor)
{
    const mapping_t *mapping = user;
    const dao_swap_step_t *step = mapping->play->step;
    uint32_t at = step->kernel_access[mapping->kernel];
    while (step->accesses[at].tensor != tensor) {
        at++;
    }
    return mapping->play->mapped[at];
}

static bool emit(dao_recompute_play_t *play, uint32_t kernel, bool is_again)
{
    mapping_t mapping = {play, kernel};
    play->now_ns += play->step->problem->kernels[kernel].time_ns;
    return dao_recompute_draft_add_run(play->draft, kernel, is_again, mapped_operand, &mapping);
}

static bool is_workspace(const dao_recompute_play_t *play, uint32_t tensor)
{
    return tensor >= play->step->problem->tensor_count;
}

/* Prepares an output of a repeated run: scratch at first. */
static bool prepare_again(dao_recompute_play_t *play, uint32_t access, uint64_t *scratch_bytes)
{
    const dao_swap_access_t *one = &play->step->accesses[access];
    if (one->reads && one->writes) {
        wanted_t old = {.content = dao_recompute_found(play->contents, access), .is_private = true};
        if (old.content == DAO_SWAP_NONE || !run_again(play, &old)) {
            return false;
        }
        play->mapped[access] = old.instance; /* its bytes are counted already */
    } else if (!make_room(play, size_of(play, one->tensor))) {
        return false;
    } else {
        play->used_bytes += size_of(play, one->tensor);
        if (!is_workspace(play, one->tensor) &&
            !dao_recompute_draft_add_tensor(play->draft, one->tensor, &play->mapped[access])) {
            return false;
        }
    }
    *scratch_bytes += size_of(play, one->tensor);
    return true;
}

/* Takes over what a repeated run has made and is missed. The rest of its scratch is free. */
static void take_over(dao_recompute_play_t *play, uint32_t kernel, wanted_t *wanted)
{
    const dao_swap_step_t *step = play->step;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        uint32_t index = step->accesses[i].tensor;
        tensor_t *tensor = &play->tensors[index];
        if (!step->accesses[i].writes || is_workspace(play, index)) {
            continue;
        }
        if (wanted->content == i && wanted->is_private) {
            wanted->instance = play->mapped[i];
            play->used_bytes += size_of(play, index);
        } else if (tensor->content == i && (tensor->where == WHERE_GIVEN_UP || wanted->content == i)) {
            arrive(play, index);
            tensor->instance = play->mapped[i];
            tensor->slot = TIER_NONE;
            let_go(play, i);
            if (play->rule->judge != NULL) {
                play->rule->judge->came(play->rule->judge->user, i);
            }
        }
    }
}

/* Prepares the operands of a repeated run. */
static bool prepare_run(dao_recompute_play_t *play, uint32_t kernel, uint64_t *scratch_bytes)
{
    const dao_swap_step_t *step = play->step;
    bool is_ready = true;
    for (uint32_t i = step->kernel_access[kernel]; is_ready && i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        if (one->reads && !one->writes) {
            is_ready = bring(play, one->tensor, dao_recompute_found(play->contents, i));
        }
    }
    for (uint32_t i = step->kernel_access[kernel]; is_ready && i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        if (one->writes) {
            is_ready = prepare_again(play, i, scratch_bytes);
        } else {
            play->mapped[i] = play->tensors[one->tensor].instance;
        }
    }
    return is_ready;
}

/* Runs the kernel of a content again. A failure ends the play, so that nothing has to be undone. */
static bool run_again(dao_recompute_play_t *play, wanted_t *wanted)
{
    const dao_swap_step_t *step = play->step;
    uint32_t kernel = step->accesses[wanted->content].kernel;
    uint64_t scratch_bytes = 0;
    if (play->runs_left == 0) {
        return false;
    }
    play->runs_left--;
    if (!prepare_run(play, kernel, &scratch_bytes) || !emit(play, kernel, true)) {
        return false;
    }
    play->used_bytes -= scratch_bytes;
    take_over(play, kernel, wanted);
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        if (step->accesses[i].reads && !step->accesses[i].writes) {
            unpin(play, step->accesses[i].tensor);
        }
    }
    return true;
}

/* ---- first runs ---- */

/* Sees to it that the operands of a kernel are there, and pins them. */
static bool prepare_first(dao_recompute_play_t *play, uint32_t kernel)
{
    const dao_swap_step_t *step = play->step;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        if (one->reads && !bring(play, one->tensor, dao_recompute_found(play->contents, i))) {
            return false;
        }
    }
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        tensor_t *tensor = &play->tensors[one->tensor];
        if (!one->reads) {
            tensor->instance = one->tensor;
            if (tensor->where != WHERE_PRESENT) {
                if (!make_room(play, size_of(play, one->tensor))) {
                    return false;
                }
                arrive(play, one->tensor);
            }
            tensor->pins++;
        }
        bool is_changed = one->reads && one->writes && tensor->content != DAO_SWAP_NONE && !tensor->lives_on;
        if (is_changed && play->rule->judge != NULL) {
            play->rule->judge->left(play->rule->judge->user, tensor->content);
        }
        tensor->content = one->writes ? i : tensor->content;
        play->mapped[i] = tensor->instance;
    }
    return true;
}

/* The kernel has run: its operands look ahead to their next uses. */
static void finish_first(dao_recompute_play_t *play, uint32_t kernel, const bool *is_given_up)
{
    const dao_swap_step_t *step = play->step;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        tensor_t *tensor = &play->tensors[one->tensor];
        look_ahead(play, one->tensor, one->inactive_is_live ? one->next : DAO_SWAP_NONE);
        tensor->used_ns = play->now_ns;
    }
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        uint32_t index = step->accesses[i].tensor;
        if (is_given_up == NULL || !is_given_up[i] || play->tensors[index].where != WHERE_PRESENT) {
            continue;
        }
        if (play->rule->is_holding && dao_recompute_play_may_hold(play, i)) {
            hold_inputs(play, i);
            give_way(play, index, WHERE_GIVEN_UP);
        } else if (may_give_up(play, &play->tensors[index])) {
            give_way(play, index, WHERE_GIVEN_UP);
        }
    }
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        unpin(play, step->accesses[i].tensor);
    }
}

static uint64_t slots_of(const dao_swap_tier_t *tier)
{
    return tier->in_bytes_per_second == 0 ? 0 : tier->limit_bytes != 0 ? tier->limit_bytes : UINT64_MAX;
}

/* All that lives on begins beside the device, or on it, if nothing may move. It has no slot before it leaves:
   the plan may keep it. False: it is too much. */
static bool begin(dao_recompute_play_t *play)
{
    const dao_swap_step_t *step = play->step;
    play->slots_left[TIER_NONE] = 0;
    play->slots_left[TIER_HOST] = slots_of(&step->problem->host);
    play->slots_left[TIER_FILE] = slots_of(&step->problem->file);
    memset(play->tensors, 0, step->tensor_count * sizeof(*play->tensors));
    memset(play->given_up, 0, step->access_count * sizeof(*play->given_up));
    memset(play->holds, 0, step->access_count * sizeof(*play->holds));
    play->present_count = 0;
    play->used_bytes = play->now_ns = 0;
    play->kernel = 0;
    play->runs_left = (uint64_t)RUNS_PER_KERNEL_MAX * step->kernel_count;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        uint32_t first = step->first_access[t];
        tensor_t *tensor = &play->tensors[t];
        tensor->instance = t;
        tensor->content = tensor->next = DAO_SWAP_NONE;
        if (first != DAO_SWAP_NONE && dao_recompute_lives_on(step, t)) {
            tensor->lives_on = true;
            tensor->where = WHERE_MOVED;
            tensor->content = dao_recompute_found(play->contents, first);
            look_ahead(play, t, step->accesses[first].previous_inactive_is_live ? first : DAO_SWAP_NONE);
            if (play->rule->move_price < 0 && step->accesses[first].previous_inactive_is_live) {
                arrive(play, t);
            }
        }
    }
    dao_recompute_draft_clear(play->draft);
    return play->used_bytes <= play->rule->capacity_bytes;
}

bool dao_recompute_play_run(dao_recompute_play_t *play, const dao_recompute_rule_t *rule,
                            const bool *is_given_up)
{
    play->rule = rule;
    if (!begin(play)) {
        return false;
    }
    for (uint32_t k = 0; k < play->step->kernel_count; k++) {
        play->kernel = k;
        if (!prepare_first(play, k) || !emit(play, k, false)) {
            return false;
        }
        play->kernel = k + 1;
        finish_first(play, k, is_given_up);
    }
    return true;
}

bool dao_recompute_play_may_give_up(const dao_recompute_play_t *play, uint32_t access)
{
    const dao_swap_access_t *one = &play->step->accesses[access];
    return one->writer != DAO_SWAP_NONE && one->writer <= access && one->inactive_is_live &&
           one->next > access && !dao_recompute_lives_on(play->step, one->tensor) &&
           play->reach->made_end[one->writer] > play->step->accesses[one->next].kernel;
}

const bool *dao_recompute_play_given_up(const dao_recompute_play_t *play)
{
    return play->given_up;
}

dao_status_t dao_recompute_play_create(const dao_recompute_contents_t *contents,
                                       const dao_recompute_reach_t *reach, dao_recompute_draft_t *draft,
                                       dao_recompute_play_t **out_play)
{
    size_t tensors = (size_t)contents->step->tensor_count + 1;
    size_t accesses = (size_t)contents->step->access_count + 1;
    dao_recompute_play_t *play = dao_host_calloc(1, sizeof(*play));
    if (play != NULL) {
        *play = (dao_recompute_play_t){.contents = contents,
                                       .reach = reach,
                                       .step = contents->step,
                                       .draft = draft,
                                       .tensors = dao_host_calloc(tensors, sizeof(*play->tensors)),
                                       .present = dao_host_calloc(tensors, sizeof(*play->present)),
                                       .mapped = dao_host_calloc(accesses, sizeof(*play->mapped)),
                                       .visited = dao_host_calloc(accesses, sizeof(*play->visited)),
                                       .given_up = dao_host_calloc(accesses, sizeof(*play->given_up)),
                                       .holds = dao_host_calloc(accesses, sizeof(*play->holds))};
    }
    if (play == NULL || play->tensors == NULL || play->present == NULL || play->mapped == NULL ||
        play->visited == NULL || play->given_up == NULL || play->holds == NULL) {
        dao_recompute_play_destroy(play);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to play a step");
    }
    *out_play = play;
    return DAO_OK;
}

void dao_recompute_play_destroy(dao_recompute_play_t *play)
{
    if (play != NULL) {
        dao_host_free(play->tensors);
        dao_host_free(play->present);
        dao_host_free(play->mapped);
        dao_host_free(play->visited);
        dao_host_free(play->given_up);
        dao_host_free(play->holds);
        dao_host_free(play);
    }
}
