/* SPDX-License-Identifier: Apache-2.0 */
/* Makes traces from a seed. Sizes are in bytes; "log-uniform" means that every octave is as likely as every
   other.

       a1, a2, a3      last in, first out, one size: 4 KiB 1 deep, 1 MiB 64 deep, 16 MiB 64 deep
       b1k, b10k       1,000 (10,000) live blocks, log-uniform 256 B to 64 MiB; a pair replaces a random one
       b100k           100,000 live blocks, log-uniform 256 B to 16 MiB
       e1k, e100k, e1m as b, with 1,000 to 1,000,000 live blocks of the same sizes: log-uniform 8 to 256 KiB
       c               a training step of 220 layers, 200 times: see train_step()
       cd              the same with a batch of 0.6 to 1.4 times the usual one, another one each step
       bert            a training step of an encoder whose sequences are as long as the longest of a batch:
                       see encoder_step()
       i3              three inferences of decoders that take turns at each operation: see decoder_turn()
       conv            a training step of a small convolutional network, 0.26 GiB: see conv_step()
       kvcat           key and value caches that grow by concatenation, a token at a time: see kv_token()
       kvreq           the same caches, taken whole for each of many requests: see make_kv_requests()
       drift           1,000 live blocks of sizes that drift up to eight times as large and back
       huge            one to three tensors of 20 to 60 % of 16 GiB among 2,000 small ones
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

/* ---- bert: 12 layers of width 768, 32 sequences a batch, of 64 to 512 tokens, in 4 bytes ---- */

enum {
    ENCODER_LAYER_COUNT = 12,
    ENCODER_WIDTH = 768,
    ENCODER_HEAD_COUNT = 12,
    ENCODER_BATCH = 32,
    ENCODER_WORD_COUNT = 30522,
    ENCODER_LENGTH_UNIT = 8,
    ENCODER_LENGTH_LEAST = 64,
    ENCODER_LENGTH_MOST = 512,
    ENCODER_FLOAT_BYTES = 4,
    ENCODER_WEIGHT_COUNT = 12,                                      /* of a layer, biases and norms too */
    ENCODER_SAVED_COUNT = 9,                                        /* activations of a layer */
    ENCODER_COUNT = ENCODER_LAYER_COUNT * ENCODER_WEIGHT_COUNT + 1, /* all weights: the words', then these */
};

/* What an encoder holds. */
typedef struct encoder {
    uint64_t weight_bytes[ENCODER_COUNT];
    uint32_t gradients[ENCODER_COUNT];
    uint32_t saved[ENCODER_LAYER_COUNT][ENCODER_SAVED_COUNT];
} encoder_t;

/* Each weight has two states of the optimizer. */
static void encoder_begin(maker_t *maker, encoder_t *encoder)
{
    static const uint32_t widths[ENCODER_WEIGHT_COUNT][2] = {
        {3, ENCODER_WIDTH}, {3, 1}, {1, ENCODER_WIDTH}, {1, 1}, {1, 1}, {1, 1},
        {4, ENCODER_WIDTH}, {4, 1}, {4, ENCODER_WIDTH}, {1, 1}, {1, 1}, {1, 1}};
    for (size_t i = 0; i < ENCODER_COUNT; i++) {
        const uint32_t *width = widths[(i + ENCODER_WEIGHT_COUNT - 1) % ENCODER_WEIGHT_COUNT];
        uint64_t count = i == 0 ? ENCODER_WORD_COUNT : (uint64_t)width[0] * width[1];
        encoder->weight_bytes[i] = count * ENCODER_WIDTH * ENCODER_FLOAT_BYTES;
        for (size_t k = 0; k < STATE_COUNT; k++) {
            (void)take(maker, encoder->weight_bytes[i]);
        }
    }
}

/* Sizes of what a layer saves for its way back: queries, keys and values; probabilities and their mask; the
   heads' output; a norm; the feed-forward's two; its mask; a norm. */
static void encoder_sizes(uint64_t length, uint64_t out_bytes[ENCODER_SAVED_COUNT])
{
    uint64_t row_bytes = length * ENCODER_BATCH * ENCODER_WIDTH * ENCODER_FLOAT_BYTES;
    uint64_t pair_count = length * length * ENCODER_BATCH * ENCODER_HEAD_COUNT;
    const uint64_t bytes[ENCODER_SAVED_COUNT] = {
        3 * row_bytes, pair_count * ENCODER_FLOAT_BYTES, pair_count, row_bytes, row_bytes, 4 * row_bytes,
        4 * row_bytes, row_bytes / ENCODER_FLOAT_BYTES,  row_bytes};
    memcpy(out_bytes, bytes, sizeof(bytes));
}

/* Back through a layer: the gradient of each saved one is made of the one behind it, and weights get theirs
   on the way. Returns the gradient of the layer's input. */
static uint32_t encoder_back(maker_t *maker, encoder_t *encoder, size_t layer, const uint64_t *saved_bytes,
                             uint32_t above)
{
    size_t weight = 1 + (layer + 1) * ENCODER_WEIGHT_COUNT;
    for (size_t i = ENCODER_SAVED_COUNT; i > 0; i--) {
        uint32_t below = take(maker, saved_bytes[i - 1]);
        for (size_t k = 0; k < ENCODER_WEIGHT_COUNT / 6 && i % 3 != 0; k++) {
            weight--;
            encoder->gradients[weight] = take(maker, encoder->weight_bytes[weight]);
        }
        give(maker, above);
        give(maker, encoder->saved[layer][i - 1]);
        above = below;
    }
    DAO_ASSERT(weight == 1 + layer * ENCODER_WEIGHT_COUNT);
    return above;
}

/* A step: sequences of another length each time; forward, what is saved stays; backward; then each weight
   takes a temporary, and its gradient goes. */
static void encoder_step(maker_t *maker, encoder_t *encoder)
{
    uint64_t length =
        ENCODER_LENGTH_UNIT * dao_random_between(&maker->random, ENCODER_LENGTH_LEAST / ENCODER_LENGTH_UNIT,
                                                 ENCODER_LENGTH_MOST / ENCODER_LENGTH_UNIT);
    uint64_t saved_bytes[ENCODER_SAVED_COUNT];
    encoder_sizes(length, saved_bytes);
    for (size_t i = 0; i < ENCODER_LAYER_COUNT; i++) {
        for (size_t k = 0; k < ENCODER_SAVED_COUNT; k++) {
            encoder->saved[i][k] = take(maker, saved_bytes[k]);
            give(maker, take(maker, saved_bytes[k])); /* before a bias or a mask is added */
        }
    }
    uint32_t above = take(maker, saved_bytes[ENCODER_SAVED_COUNT - 1]);
    for (size_t i = ENCODER_LAYER_COUNT; i > 0; i--) {
        above = encoder_back(maker, encoder, i - 1, saved_bytes, above);
    }
    encoder->gradients[0] = take(maker, encoder->weight_bytes[0]);
    give(maker, above);
    for (size_t i = 0; i < ENCODER_COUNT; i++) {
        give(maker, take(maker, encoder->weight_bytes[i]));
        give(maker, encoder->gradients[i]);
    }
}

static void make_encoder(maker_t *maker)
{
    encoder_t encoder = {0};
    encoder_begin(maker, &encoder);
    dao_alloc_trace_steady(maker->trace);
    while (!is_done(maker)) {
        encoder_step(maker, &encoder);
    }
}

/* ---- i3 ---- */

enum {
    DECODER_COUNT = 3,
    DECODER_TURN_COUNT = 8,    /* of a layer */
    DECODER_HALF_BYTES = 2,    /* of a number */
    DECODER_LENGTH_LEAST = 16, /* tokens of a request */
    DECODER_LENGTH_MOST = 2048,
};

/* An inference on its way through a decoder. */
typedef struct decoder {
    uint64_t width, layer_count;
    uint64_t row_bytes;   /* of its request */
    uint64_t turn;        /* from the begin of the request */
    uint32_t rows, other; /* slots: what goes from layer to layer, and the latest besides */
} decoder_t;

static void decoder_begin(maker_t *maker, decoder_t *decoder)
{
    uint64_t length = dao_random_between(&maker->random, DECODER_LENGTH_LEAST, DECODER_LENGTH_MOST);
    decoder->row_bytes = length * decoder->width * DECODER_HALF_BYTES;
    decoder->turn = 0;
    decoder->rows = take(maker, decoder->row_bytes);
}

/* The next operation of an inference: its output is taken, then its input is given back. Of a layer these are
   queries, keys and values; the heads; their projection; the sum with what went in; the feed-forward, wide,
   twice, and back; the sum again. Behind the last layer a new request begins. */
static void decoder_turn(maker_t *maker, decoder_t *decoder)
{
    static const uint64_t widths[DECODER_TURN_COUNT] = {3, 1, 1, 1, 4, 4, 1, 1};
    uint64_t turn = decoder->turn++ % DECODER_TURN_COUNT;
    uint32_t output = take(maker, widths[turn] * decoder->row_bytes);
    if (turn % 4 != 0) {
        give(maker, decoder->other);
    }
    decoder->other = output;
    if (turn % 4 == 3) {
        give(maker, decoder->rows);
        decoder->rows = output;
    }
    if (decoder->turn == DECODER_TURN_COUNT * decoder->layer_count) {
        give(maker, decoder->rows);
        decoder_begin(maker, decoder);
    }
}

static void make_inferences(maker_t *maker)
{
    static const uint64_t weight_widths[] = {3, 1, 4, 4}; /* of a layer, times the square of the width */
    decoder_t decoders[DECODER_COUNT] = {{.width = 768, .layer_count = 12},
                                         {.width = 1024, .layer_count = 24},
                                         {.width = 2048, .layer_count = 24}};
    for (size_t i = 0; i < DECODER_COUNT; i++) {
        for (size_t k = 0; k < 4 * decoders[i].layer_count; k++) {
            (void)take(maker,
                       weight_widths[k % 4] * decoders[i].width * decoders[i].width * DECODER_HALF_BYTES);
        }
    }
    for (size_t i = 0; i < DECODER_COUNT; i++) {
        decoder_begin(maker, &decoders[i]);
    }
    dao_alloc_trace_steady(maker->trace);
    while (!is_done(maker)) {
        decoder_turn(maker, &decoders[dao_random_below(&maker->random, DECODER_COUNT)]);
    }
}

/* ---- conv: 16 layers in four stages; half as wide an image and twice the channels in each next one ---- */

enum {
    CONV_LAYER_COUNT = 16,
    CONV_STAGE_LAYER_COUNT = 4,
    CONV_CHANNEL_COUNT = 64, /* of the first stage */
    CONV_IMAGE_WIDTH = 56,
    CONV_BATCH = 5,
    CONV_KERNEL_COUNT = 9, /* weights of a channel for a channel */
    CONV_STATISTIC_COUNT = 4,
};

/* What a layer keeps for its way back: the output of the convolution, the normalized one, and means and
   variances of the batch. */
typedef struct conv_layer {
    uint64_t weight_bytes, channel_bytes, image_bytes;
    uint32_t images[2], statistics[CONV_STATISTIC_COUNT], gradient;
} conv_layer_t;

static void conv_begin(maker_t *maker, conv_layer_t *layers)
{
    uint64_t before_count = 3; /* red, green, blue */
    for (size_t i = 0; i < CONV_LAYER_COUNT; i++) {
        uint64_t stage = i / CONV_STAGE_LAYER_COUNT;
        uint64_t channel_count = (uint64_t)CONV_CHANNEL_COUNT << stage;
        uint64_t width = CONV_IMAGE_WIDTH >> stage;
        layers[i].channel_bytes = channel_count * ENCODER_FLOAT_BYTES;
        layers[i].weight_bytes = layers[i].channel_bytes * before_count * CONV_KERNEL_COUNT;
        layers[i].image_bytes = layers[i].channel_bytes * width * width * CONV_BATCH;
        before_count = channel_count;
        for (size_t k = 0; k < STATE_COUNT - 1; k++) { /* the weights and their momentum */
            (void)take(maker, layers[i].weight_bytes);
            (void)take(maker, layers[i].channel_bytes);
        }
    }
}

/* A layer forward: a workspace of a multiple of its image, which the way of computing decides. */
static void conv_forward(maker_t *maker, conv_layer_t *layer)
{
    uint32_t workspace = take(maker, layer->image_bytes * dao_random_between(&maker->random, 1, 4));
    layer->images[0] = take(maker, layer->image_bytes);
    give(maker, workspace);
    for (size_t k = 0; k < CONV_STATISTIC_COUNT; k++) {
        layer->statistics[k] = take(maker, layer->channel_bytes);
    }
    layer->images[1] = take(maker, layer->image_bytes);
}

/* Returns the gradient of the layer's input. */
static uint32_t conv_back(maker_t *maker, conv_layer_t *layer, uint64_t below_bytes, uint32_t above)
{
    uint32_t normal = take(maker, layer->image_bytes);
    give(maker, above);
    give(maker, layer->images[1]);
    for (size_t k = 0; k < CONV_STATISTIC_COUNT; k++) {
        give(maker, layer->statistics[k]);
    }
    uint32_t workspace = take(maker, layer->weight_bytes + layer->image_bytes);
    uint32_t below = take(maker, below_bytes);
    layer->gradient = take(maker, layer->weight_bytes);
    give(maker, workspace);
    give(maker, normal);
    give(maker, layer->images[0]);
    return below;
}

static void conv_step(maker_t *maker, conv_layer_t *layers)
{
    uint32_t input = take(maker, layers[0].image_bytes);
    for (size_t i = 0; i < CONV_LAYER_COUNT; i++) {
        conv_forward(maker, &layers[i]);
    }
    uint32_t above = take(maker, layers[CONV_LAYER_COUNT - 1].image_bytes);
    for (size_t i = CONV_LAYER_COUNT; i > 0; i--) {
        above = conv_back(maker, &layers[i - 1], layers[i >= 2 ? i - 2 : 0].image_bytes, above);
    }
    give(maker, above);
    give(maker, input);
    for (size_t i = 0; i < CONV_LAYER_COUNT; i++) {
        give(maker, layers[i].gradient);
    }
}

static void make_conv(maker_t *maker)
{
    conv_layer_t layers[CONV_LAYER_COUNT] = {0};
    conv_begin(maker, layers);
    dao_alloc_trace_steady(maker->trace);
    while (!is_done(maker)) {
        conv_step(maker, layers);
    }
}

/* ---- kvcat, kvreq: a decoder of 24 layers of width 1024, in halves ---- */

enum {
    KV_LAYER_COUNT = 24,
    KV_CACHE_COUNT = 2 * KV_LAYER_COUNT, /* keys and values */
    KV_WIDTH = 1024,
    KV_LENGTH_LEAST = 64, /* tokens of a prompt */
    KV_LENGTH_MOST = 1024,
    KV_ANSWER_MOST = 512, /* tokens of an answer */
    KV_BATCH_MOST = 8,    /* prompts that are answered together */
    KV_REQUEST_COUNT = 24 /* live at once */
};

/* The caches of a request, or of several that are answered together. */
typedef struct kv {
    uint64_t row_bytes; /* of a token, in one cache */
    uint64_t length;    /* in tokens */
    uint64_t rest;      /* tokens that are still to be answered */
    uint32_t caches[KV_CACHE_COUNT];
} kv_t;

static void kv_take(maker_t *maker, kv_t *kv, uint64_t length)
{
    for (size_t i = 0; i < KV_CACHE_COUNT; i++) {
        kv->caches[i] = take(maker, length * kv->row_bytes);
    }
}

static void kv_give(maker_t *maker, const kv_t *kv)
{
    for (size_t i = 0; i < KV_CACHE_COUNT; i++) {
        give(maker, kv->caches[i]);
    }
}

/* A prompt of some length, of which the answer's is not known. */
static void kv_begin(maker_t *maker, kv_t *kv, uint64_t batch)
{
    kv->row_bytes = (uint64_t)KV_WIDTH * DECODER_HALF_BYTES * batch;
    kv->length = dao_random_between(&maker->random, KV_LENGTH_LEAST, KV_LENGTH_MOST);
    kv->rest = dao_random_between(&maker->random, 1, KV_ANSWER_MOST);
}

/* A token more: in each layer queries, keys and values are taken, the two caches are copied to ones that are
   a token longer, and the scores of all tokens are taken and go. */
static void kv_token(maker_t *maker, kv_t *kv)
{
    kv->length++;
    kv->rest--;
    for (size_t i = 0; i < KV_CACHE_COUNT; i += 2) {
        uint32_t row = take(maker, 3 * kv->row_bytes);
        for (size_t k = i; k < i + 2; k++) {
            uint32_t longer = take(maker, kv->length * kv->row_bytes);
            give(maker, kv->caches[k]);
            kv->caches[k] = longer;
        }
        give(maker, take(maker, kv->length * kv->row_bytes / KV_WIDTH * 16)); /* heads */
        give(maker, row);
    }
}

static void make_kv_concatenated(maker_t *maker)
{
    kv_t kv;
    for (size_t i = 0; i < KV_LAYER_COUNT; i++) {
        (void)take(maker, (uint64_t)12 * KV_WIDTH * KV_WIDTH * DECODER_HALF_BYTES); /* weights */
    }
    dao_alloc_trace_steady(maker->trace);
    while (!is_done(maker)) {
        kv_begin(maker, &kv, dao_random_between(&maker->random, 1, KV_BATCH_MOST));
        kv_take(maker, &kv, kv.length);
        while (kv.rest > 0 && !is_done(maker)) {
            kv_token(maker, &kv);
        }
        kv_give(maker, &kv);
    }
}

/* Each request takes its caches for the longest answer that it may get; the requests end in any order. */
static void make_kv_requests(maker_t *maker)
{
    kv_t requests[KV_REQUEST_COUNT];
    for (size_t i = 0; i < KV_REQUEST_COUNT; i++) {
        kv_begin(maker, &requests[i], 1);
        kv_take(maker, &requests[i], requests[i].length + KV_ANSWER_MOST);
    }
    dao_alloc_trace_steady(maker->trace);
    while (!is_done(maker)) {
        kv_t *kv = &requests[dao_random_below(&maker->random, KV_REQUEST_COUNT)];
        kv_give(maker, kv);
        kv_begin(maker, kv, 1);
        kv_take(maker, kv, kv->length + KV_ANSWER_MOST);
    }
}

/* ---- drift, huge ---- */

enum { DRIFT_PERIOD = 100000, DRIFT_MOST = 7 /* times as much more, in the middle of a period */ };

static void make_drifting(maker_t *maker)
{
    DAO_ASSERT(maker->live_count > 0);
    for (uint64_t i = 0; i < maker->live_count; i++) {
        (void)take(maker, random_size(maker));
    }
    dao_alloc_trace_steady(maker->trace);
    for (uint64_t time = 0; !is_done(maker); time = (time + 1) % DRIFT_PERIOD) {
        uint64_t part = time < DRIFT_PERIOD / 2 ? time : DRIFT_PERIOD - time;
        give(maker, (uint32_t)dao_random_below(&maker->random, maker->live_count));
        uint64_t size_bytes = random_size(maker);
        (void)take(maker, size_bytes + size_bytes * DRIFT_MOST * part / (DRIFT_PERIOD / 2));
    }
}

enum { HUGE_COUNT = 3, HUGE_SMALL_COUNT = 2000, HUGE_LIFE_MOST = 2000 /* pairs of small ones */ };

#define HUGE_DEVICE_BYTES ((uint64_t)16 << 30)

/* A tensor of 20 to 60 % of the device, or as much as the others leave; none where that is less. */
static uint64_t huge_size(maker_t *maker, uint64_t taken_bytes)
{
    uint64_t least_bytes = HUGE_DEVICE_BYTES / 5;
    uint64_t rest_bytes = HUGE_DEVICE_BYTES - taken_bytes;
    uint64_t most_bytes = rest_bytes < 3 * least_bytes ? rest_bytes : 3 * least_bytes;
    return most_bytes < least_bytes ? 0 : dao_random_between(&maker->random, least_bytes, most_bytes);
}

static void make_huge(maker_t *maker)
{
    uint64_t sizes_bytes[HUGE_COUNT] = {0};
    uint64_t ends[HUGE_COUNT] = {0}; /* when each one goes, in pairs */
    uint32_t slots[HUGE_COUNT] = {0};
    uint32_t small[HUGE_SMALL_COUNT];
    uint64_t taken_bytes = 0;
    for (size_t i = 0; i < HUGE_SMALL_COUNT; i++) {
        small[i] = take(maker, random_size(maker));
    }
    dao_alloc_trace_steady(maker->trace);
    for (uint64_t time = 0; !is_done(maker); time++) {
        for (size_t i = 0; i < HUGE_COUNT; i++) {
            if (time < ends[i]) {
                continue;
            }
            if (sizes_bytes[i] > 0) {
                give(maker, slots[i]);
                taken_bytes -= sizes_bytes[i];
            }
            sizes_bytes[i] = huge_size(maker, taken_bytes);
            if (sizes_bytes[i] > 0) {
                slots[i] = take(maker, sizes_bytes[i]);
                taken_bytes += sizes_bytes[i];
            }
            ends[i] = time + dao_random_between(&maker->random, 1, HUGE_LIFE_MOST);
        }
        size_t i = (size_t)dao_random_below(&maker->random, HUGE_SMALL_COUNT);
        give(maker, small[i]);
        small[i] = take(maker, random_size(maker));
    }
}

static const kind_t kinds[] = {
    {"a1", make_lifo, 1, 4 * KIB, 4 * KIB, PAIR_COUNT, false, NULL},
    {"a2", make_lifo, 64, MIB, MIB, PAIR_COUNT, false, NULL},
    {"a3", make_lifo, 64, 16 * MIB, 16 * MIB, PAIR_COUNT, false, NULL},
    {"b1k", make_random, 1000, 256, 64 * MIB, PAIR_COUNT, false, NULL},
    {"b10k", make_random, 10000, 256, 64 * MIB, PAIR_COUNT, false, NULL},
    {"b100k", make_random, 100000, 256, 16 * MIB, PAIR_COUNT, false, NULL},
    {"e1k", make_random, 1000, 8 * KIB, 256 * KIB, PAIR_COUNT, false, NULL},
    {"e100k", make_random, 100000, 8 * KIB, 256 * KIB, PAIR_COUNT, false, NULL},
    {"e1m", make_random, 1000000, 8 * KIB, 256 * KIB, PAIR_COUNT, false, NULL},
    {"c", make_training, 0, 0, 0, 309000, false, NULL},
    {"cd", make_training, 0, 0, 0, 309000, true, NULL},
    {"bert", make_encoder, 0, 0, 0, PAIR_COUNT, false, NULL},
    {"i3", make_inferences, 0, 0, 0, PAIR_COUNT, false, NULL},
    {"conv", make_conv, 0, 0, 0, PAIR_COUNT, false, NULL},
    {"kvcat", make_kv_concatenated, 0, 0, 0, PAIR_COUNT, false, NULL},
    {"kvreq", make_kv_requests, 0, 0, 0, PAIR_COUNT, false, NULL},
    {"drift", make_drifting, 1000, 16 * KIB, 4 * MIB, PAIR_COUNT, false, NULL},
    {"huge", make_huge, 0, 8 * KIB, MIB, PAIR_COUNT, false, NULL},
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
