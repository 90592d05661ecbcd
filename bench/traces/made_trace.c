/* SPDX-License-Identifier: Apache-2.0 */
/* Makes traces from a seed. Sizes are in bytes; "log-uniform" means that every octave is as likely as every
   other.

       a1, a2, a3      last in, first out, one size: 4 KiB 1 deep, 1 MiB 64 deep, 16 MiB 64 deep
       b1k, b10k       1,000 (10,000) live blocks, log-uniform 256 B to 64 MiB; a pair replaces a random one
       b100k           100,000 live blocks, log-uniform 256 B to 16 MiB
       c               a training step of 220 layers, 200 times: see train_step()
       cd              the same with a batch of 0.6 to 1.4 times the usual one, another one each step
       d               60 % log-uniform 512 B to 1 MiB, 32 % 2 to 64 MiB and 8 % 64 to 512 MiB, both
                       log-uniform in units of 2 MiB; they live for 1 to 16 allocations (70 %), 100 to 1,500
                       (25 %), 2,000 to 14,000 (5 %)
       fleet           50,000 live blocks of the host, sizes as servers ask malloc() for, up to 32 KiB: see
                       fleet_size(); a pair replaces a random one */
#include "bench/traces/made_trace.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "tools/model/random.h"

#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* Pairs of a trace unless its table says otherwise: 14 rounds of 20,000 and one to warm up. */
#define PAIR_COUNT 300000u

typedef struct kind kind_t;

/* A trace while it is made. The first failure stays; what comes after it does nothing. */
typedef struct maker {
    dao_alloc_trace_t *trace;
    const kind_t *kind;
    uint64_t random;
    uint64_t live_count; /* for b */
    uint64_t pair_count;
    dao_status_t status;
} maker_t;

struct kind {
    const char *name;
    void (*make)(maker_t *maker);
    uint64_t live_count; /* a: depth; b: live blocks */
    uint64_t least_bytes;
    uint64_t most_bytes;
    uint64_t pair_count;
    bool has_batches;                   /* c: the batch changes from step to step */
    uint64_t (*size)(uint64_t *random); /* b: NULL is log-uniform */
};

static uint32_t take(maker_t *maker, uint64_t size_bytes)
{
    uint32_t slot = 0;
    if (maker->status == DAO_OK) {
        maker->status = dao_alloc_trace_take(maker->trace, size_bytes, &slot);
    }
    return slot;
}

static void give(maker_t *maker, uint32_t slot)
{
    if (maker->status == DAO_OK) {
        maker->status = dao_alloc_trace_give(maker->trace, slot);
    }
}

static bool is_done(const maker_t *maker)
{
    return maker->status != DAO_OK || maker->trace->pair_count >= maker->pair_count;
}

enum { LIFO_DEPTH_MAX = 64 };

static void make_lifo(maker_t *maker)
{
    uint32_t slots[LIFO_DEPTH_MAX];
    size_t depth = (size_t)maker->kind->live_count;
    while (!is_done(maker)) {
        for (size_t i = 0; i < depth; i++) {
            slots[i] = take(maker, maker->kind->most_bytes);
        }
        for (size_t i = depth; i > 0; i--) {
            give(maker, slots[i - 1]);
        }
    }
}

/* Requests for up to 32 KiB, per thousand and octave: means of seven programs of Google's fleet, as
   fleetbench publishes them. */
static uint64_t fleet_size(uint64_t *random)
{
    static const uint32_t shares[] = {111, 234, 295, 161, 82, 51,
                                      25,  12,  17,  10,  1,  1}; /* to 16 bytes, 32 .. */
    uint64_t rest = dao_random_below(random, 1000);
    uint64_t most_bytes = 16;
    for (size_t i = 0; rest >= shares[i]; i++) {
        rest -= shares[i];
        most_bytes *= 2;
    }
    return dao_random_between(random, most_bytes / 2 + 1, most_bytes);
}

static uint64_t random_size(maker_t *maker)
{
    const kind_t *kind = maker->kind;
    return kind->size != NULL ? kind->size(&maker->random)
                              : dao_random_log(&maker->random, kind->least_bytes, kind->most_bytes);
}

/* The slots are numbered in order, and the one that was emptied is filled again. */
static void make_random(maker_t *maker)
{
    DAO_ASSERT(maker->live_count > 0);
    for (uint64_t i = 0; i < maker->live_count; i++) {
        (void)take(maker, random_size(maker));
    }
    dao_alloc_trace_steady(maker->trace);
    while (!is_done(maker)) {
        give(maker, (uint32_t)dao_random_below(&maker->random, maker->live_count));
        (void)take(maker, random_size(maker));
    }
}

/* A network's layer: sizes in bytes, at a batch of 1. */
typedef struct layer {
    uint64_t parameter_bytes;
    uint64_t activation_bytes;
    uint64_t workspace_bytes;
    uint32_t activation; /* slots while they are live */
    uint32_t gradient;
} layer_t;

enum {
    LAYER_COUNT = 220,
    STATE_COUNT = 3, /* a layer's parameters and two states of the optimizer: 660 blocks for good */
    INPUT_COUNT = 5, /* of a step: the batch, its labels, masks, the loss and a scalar; each a pair */
};

static uint64_t scaled(uint64_t size_bytes, double batch)
{
    return (uint64_t)((double)size_bytes * batch);
}

static void forward(maker_t *maker, layer_t *layers, double batch)
{
    for (size_t i = 0; i < LAYER_COUNT; i++) {
        layers[i].activation = take(maker, scaled(layers[i].activation_bytes, batch));
        give(maker, take(maker, scaled(layers[i].workspace_bytes, batch)));
    }
}

/* Each layer makes the gradient of its input from that of its output, then that one and its activation go. */
static void backward(maker_t *maker, layer_t *layers, double batch)
{
    uint32_t above = take(maker, scaled(layers[LAYER_COUNT - 1].activation_bytes, batch));
    for (size_t i = LAYER_COUNT; i > 0; i--) {
        layer_t *layer = &layers[i - 1];
        uint32_t workspace = take(maker, scaled(layer->workspace_bytes, batch));
        uint32_t below = take(maker, scaled(layers[i >= 2 ? i - 2 : 0].activation_bytes, batch));
        layer->gradient = take(maker, layer->parameter_bytes);
        give(maker, workspace);
        give(maker, above);
        give(maker, layer->activation);
        above = below;
    }
    give(maker, above);
}

static void optimize(maker_t *maker, const layer_t *layers)
{
    for (size_t i = 0; i < LAYER_COUNT; i++) {
        uint32_t first = take(maker, layers[i].parameter_bytes);
        give(maker, take(maker, layers[i].parameter_bytes));
        give(maker, first);
        give(maker, layers[i].gradient);
    }
}

/* 1,546 pairs: a layer has an activation, a workspace forward, one backward, two gradients and two
   temporaries of the optimizer. Activations and workspaces grow with the batch, parameters do not. */
static void train_step(maker_t *maker, layer_t *layers, double batch)
{
    static const uint64_t input_bytes[INPUT_COUNT] = {38 * MIB, 4 * KIB, 256 * KIB, 4, 4};
    uint32_t inputs[INPUT_COUNT];
    for (size_t i = 0; i < INPUT_COUNT; i++) {
        inputs[i] = take(maker, input_bytes[i] > 4 ? scaled(input_bytes[i], batch) : input_bytes[i]);
    }
    forward(maker, layers, batch);
    backward(maker, layers, batch);
    optimize(maker, layers);
    for (size_t i = INPUT_COUNT; i > 0; i--) {
        give(maker, inputs[i - 1]);
    }
}

static void make_training(maker_t *maker)
{
    layer_t layers[LAYER_COUNT] = {0};
    for (size_t i = 0; i < LAYER_COUNT; i++) {
        layers[i].parameter_bytes = dao_random_log(&maker->random, KIB, 16 * MIB);
        layers[i].activation_bytes = dao_random_log(&maker->random, 2 * MIB, 32 * MIB);
        layers[i].workspace_bytes = dao_random_log(&maker->random, 64 * KIB, 16 * MIB);
        for (size_t k = 0; k < STATE_COUNT; k++) {
            (void)take(maker, layers[i].parameter_bytes);
        }
    }
    dao_alloc_trace_steady(maker->trace);
    while (!is_done(maker)) {
        double batch = maker->kind->has_batches ? 0.6 + 0.8 * dao_random_unit(&maker->random) : 1.0;
        train_step(maker, layers, batch);
    }
}

enum {
    LIFE_MAX = 14000, /* in allocations */
    MIXED_UNIT_BYTES = 2 << 20,
};

/* Blocks by the allocation at which they go, modulo LIFE_MAX + 1: chains of slots, 0 is none and slots count
   from 1. */
typedef struct deadlines {
    uint32_t first[LIFE_MAX + 1];
    uint32_t next[LIFE_MAX + 1]; /* by slot: no more blocks than that are live at once */
} deadlines_t;

static uint64_t mixed_size(uint64_t *random)
{
    uint64_t percent = dao_random_below(random, 100);
    if (percent < 60) {
        return dao_random_log(random, 512, MIB);
    }
    return MIXED_UNIT_BYTES *
           (percent < 92 ? dao_random_log(random, 1, 33) : dao_random_log(random, 32, 257));
}

static uint64_t mixed_life(uint64_t *random)
{
    uint64_t percent = dao_random_below(random, 100);
    return percent < 70   ? dao_random_between(random, 1, 16)
           : percent < 95 ? dao_random_between(random, 100, 1500)
                          : dao_random_between(random, 2000, LIFE_MAX);
}

/* One allocation: first those go whose time has come. */
static void mixed_step(maker_t *maker, deadlines_t *deadlines, uint64_t time)
{
    uint32_t *due = &deadlines->first[time % (LIFE_MAX + 1)];
    for (uint32_t slot = *due; slot != 0; slot = deadlines->next[slot - 1]) {
        give(maker, slot - 1);
    }
    *due = 0;
    uint64_t size_bytes = mixed_size(&maker->random);
    uint32_t *last = &deadlines->first[(time + mixed_life(&maker->random)) % (LIFE_MAX + 1)];
    uint32_t slot = take(maker, size_bytes);
    deadlines->next[slot] = *last;
    *last = slot + 1;
}

static void make_mixed(maker_t *maker)
{
    deadlines_t *deadlines = dao_host_calloc(1, sizeof(*deadlines));
    if (deadlines == NULL) {
        maker->status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a trace");
        return;
    }
    uint64_t time = 0;
    for (; time < LIFE_MAX && maker->status == DAO_OK; time++) {
        mixed_step(maker, deadlines, time);
    }
    dao_alloc_trace_steady(maker->trace);
    for (; !is_done(maker); time++) {
        mixed_step(maker, deadlines, time);
    }
    dao_host_free(deadlines);
}

static const kind_t kinds[] = {
    {"a1", make_lifo, 1, 4 * KIB, 4 * KIB, PAIR_COUNT, false, NULL},
    {"a2", make_lifo, 64, MIB, MIB, PAIR_COUNT, false, NULL},
    {"a3", make_lifo, 64, 16 * MIB, 16 * MIB, PAIR_COUNT, false, NULL},
    {"b1k", make_random, 1000, 256, 64 * MIB, PAIR_COUNT, false, NULL},
    {"b10k", make_random, 10000, 256, 64 * MIB, PAIR_COUNT, false, NULL},
    {"b100k", make_random, 100000, 256, 16 * MIB, PAIR_COUNT, false, NULL},
    {"c", make_training, 0, 0, 0, 309000, false, NULL},
    {"cd", make_training, 0, 0, 0, 309000, true, NULL},
    {"d", make_mixed, 0, 0, 0, PAIR_COUNT, false, NULL},
    {"fleet", make_random, 50000, 1, 32 * KIB, PAIR_COUNT, false, fleet_size},
};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

const char *dao_alloc_trace_name(size_t index)
{
    return index < KIND_COUNT ? kinds[index].name : NULL;
}

bool dao_alloc_trace_is_of_host(const char *name)
{
    return strcmp(name, "fleet") == 0;
}

dao_status_t dao_alloc_trace_make(const char *name, const dao_alloc_trace_config_t *config,
                                  dao_alloc_trace_t *out_trace)
{
    const kind_t *kind = NULL;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        kind = strcmp(kinds[i].name, name) == 0 ? &kinds[i] : kind;
    }
    if (kind == NULL) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no trace", name);
    }
    dao_alloc_trace_t trace;
    dao_alloc_trace_init(&trace, name);
    uint32_t share_count = config->share_count == 0 ? 1 : config->share_count;
    maker_t maker = {.trace = &trace,
                     .kind = kind,
                     .random = config->seed,
                     .live_count = (kind->live_count + share_count - 1) / share_count,
                     .pair_count = config->pair_count == 0 ? kind->pair_count : config->pair_count};
    kind->make(&maker);
    if (maker.status != DAO_OK) {
        dao_alloc_trace_finish(&trace);
        return maker.status;
    }
    *out_trace = trace;
    return DAO_OK;
}
