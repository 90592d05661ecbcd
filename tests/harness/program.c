/* SPDX-License-Identifier: Apache-2.0 */
/* Reads programs. The bytes of a config, one choice each:

       0 place and pages   1 strategy   2, 3 hardening and who asks for it   4 step plan   5 its details
       6 small_bytes   7 limits   8 first bytes and segments   9 tags   10 capacity of the device   11 log

   What the headers forbid together is left out: the choice that stands later gives way. */
#include "tests/harness/program.h"

#include "base/numbers/random.h"

#include <assert.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

const char *harness_call_text(harness_call_t call)
{
    static const char *const texts[] = {
#define HARNESS_CALL_TEXT(symbol, text, weight) text,
        HARNESS_CALL_LIST(HARNESS_CALL_TEXT)
#undef HARNESS_CALL_TEXT
    };
    return call < HARNESS_CALL_COUNT ? texts[call] : "no call";
}

#define HARNESS_CALL_SUM(symbol, text, weight) +(weight)
static_assert(0 HARNESS_CALL_LIST(HARNESS_CALL_SUM) <= 256, "each call has bytes: take some from ALLOC");
#undef HARNESS_CALL_SUM

/* Which call a byte stands for: each has as many bytes as its weight says. */
static harness_call_t call_of(uint8_t byte)
{
    static const uint8_t weights[] = {
#define HARNESS_CALL_WEIGHT(symbol, text, weight) weight,
        HARNESS_CALL_LIST(HARNESS_CALL_WEIGHT)
#undef HARNESS_CALL_WEIGHT
    };
    static uint8_t calls[256];
    static bool is_filled; /* HARNESS_ALLOC, which is 0, has what the weights leave */
    for (uint32_t call = 0, at = 0; !is_filled && call < HARNESS_CALL_COUNT; call++) {
        for (uint32_t i = 0; i < weights[call] && at < 256; i++) {
            calls[at++] = (uint8_t)call;
        }
    }
    is_filled = true;
    return (harness_call_t)calls[byte];
}

static void read_place(const uint8_t *bytes, harness_config_t *config)
{
    static const dao_place_t places[] = {{DAO_PLACE_KIND_DEVICE, 0},
                                         {DAO_PLACE_KIND_DEVICE, 0},
                                         {DAO_PLACE_KIND_PINNED, 0},
                                         {DAO_PLACE_KIND_CPU, 0}};
    config->place = places[bytes[0] % 4];
    bool is_device = config->place.kind == DAO_PLACE_KIND_DEVICE;
    uint32_t pages = bytes[0] / 4 % 8;
    config->hides_pages = pages == 1;
    config->place_config.no_page_mapping = is_device && pages == 2;
    config->place_config.memory_pool = is_device && pages == 3;
    config->place_config.strategy = (dao_strategy_t)(bytes[1] % 16 < 6 ? bytes[1] % 16 : 0);
    config->library.device_strategy = bytes[1] / 16 == 15 ? DAO_STRATEGY_BEST_FIT : DAO_STRATEGY_DEFAULT;
}

static void read_hardening(const uint8_t *bytes, harness_config_t *config)
{
    uint32_t flags = bytes[2] % 4 == 0 ? bytes[2] / 4 % 32 : 0;
    if (bytes[3] % 4 == 0) {
        config->library.hardening = flags; /* all places */
        config->place_config.hardening = bytes[3] / 4 % 4 == 0 ? DAO_HARDENING_NONE : 0;
    } else {
        config->place_config.hardening = flags;
    }
    config->library.quarantine_bytes = (bytes[3] / 64u + 1) * 256 * KIB;
}

static void read_step_plan(const uint8_t *bytes, harness_config_t *config)
{
    dao_step_plan_config_t *plan = &config->place_config.step_plan;
    uint32_t mode = bytes[4] % 8;
    plan->mode = mode < 4 ? (dao_step_plan_mode_t)mode : DAO_STEP_PLAN_DEFAULT;
    if (plan->mode < DAO_STEP_PLAN_OFFSETS) {
        return;
    }
    plan->defers_frees = (bytes[4] & 8) != 0;
    plan->uses_tags = (bytes[4] & 16) != 0;
    plan->records_time = (bytes[4] & 32) != 0;
    plan->smallest_bytes = (bytes[4] & 64) != 0 ? 4 * KIB : 0;
    plan->margin = bytes[5] % 4;
    plan->allocation_count = (bytes[5] & 4) != 0 ? 4 : 256;
    plan->max_count = (bytes[5] & 8) != 0 ? 2 : 0;
    plan->start_step = bytes[5] / 64;
    plan->work_limit = KIB;
}

static void read_sizes(const uint8_t *bytes, harness_config_t *config)
{
    static const size_t small_bytes[] = {0, 256, KIB, 4 * KIB, 32 * KIB};
    dao_place_config_t *place = &config->place_config;
    bool is_fit = place->strategy == DAO_STRATEGY_DEFAULT || place->strategy == DAO_STRATEGY_GOOD_FIT ||
                  place->strategy == DAO_STRATEGY_BEST_FIT;
    bool takes_blocks = place->strategy == DAO_STRATEGY_SIZE_CLASS || place->strategy == DAO_STRATEGY_SYSTEM;
    if (is_fit && config->place.kind == DAO_PLACE_KIND_DEVICE) {
        place->small_bytes = small_bytes[bytes[6] % 16 < 5 ? bytes[6] % 16 : 0];
    }
    place->limit_bytes = bytes[7] % 8 == 1 ? (1u + bytes[7] / 8 % 8) * 2 * MIB : 0;
    config->library.host_limit_bytes = bytes[7] % 8 == 2 ? (1u + bytes[7] / 8 % 8) * 2 * MIB : 0;
    if (!takes_blocks && bytes[8] % 8 == 1) {
        place->segment_bytes = 256 * KIB << bytes[8] / 8 % 4;
    }
    if (!takes_blocks && bytes[8] % 8 == 2 && place->limit_bytes == 0 &&
        config->library.host_limit_bytes == 0) {
        place->initial_bytes = (1u + bytes[8] / 8 % 4) * 512 * KIB;
    }
    config->tag_limit_bytes = bytes[9] % 8 == 1 ? (1u + bytes[9] / 8) * 16 * KIB : 0;
}

/* Every line is written and nobody reads it: at the level debug a program says a lot. */
static void ignore_line(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)message;
    (void)user;
}

static void read_config(const uint8_t *bytes, harness_config_t *config)
{
    memset(config, 0, sizeof(*config));
    config->library.cpu =
        (dao_cpu_config_t){.device_count = 2, .device_bytes = (bytes[10] % 8 == 1 ? 16 : 64) * MIB};
    config->library.log_callback = ignore_line;
    config->library.log_level = bytes[11] % 8 == 1 ? DAO_LOG_LEVEL_DEBUG : DAO_LOG_LEVEL_ERROR;
    read_place(bytes, config);
    read_hardening(bytes, config);
    read_step_plan(bytes, config);
    read_sizes(bytes, config);
}

void harness_decode(const uint8_t *bytes, size_t length, harness_program_t *out_program)
{
    uint8_t config[HARNESS_CONFIG_BYTES] = {0};
    memcpy(config, bytes, length < sizeof(config) ? length : sizeof(config));
    read_config(config, &out_program->config);
    out_program->op_count = 0;
    for (size_t at = sizeof(config); length >= HARNESS_OP_BYTES && at <= length - HARNESS_OP_BYTES &&
                                     out_program->op_count < HARNESS_OP_COUNT_MAX;
         at += HARNESS_OP_BYTES) {
        const uint8_t *op = bytes + at;
        out_program->ops[out_program->op_count++] = (harness_op_t){.call = call_of(op[0]),
                                                                   .thread = op[1] % HARNESS_THREAD_COUNT,
                                                                   .slot = op[2],
                                                                   .other = op[3],
                                                                   .kind = op[4],
                                                                   .small = op[5],
                                                                   .number = (uint16_t)(op[6] << 8 | op[7])};
    }
}

uint32_t harness_call_byte(harness_call_t call)
{
    uint32_t byte = 0;
    while (byte < 256 && call_of((uint8_t)byte) != call) {
        byte++;
    }
    return byte;
}

/* A program of a theme makes every other call from one part of the list: calls that need each other are rare
   together otherwise. */
static void apply_theme(uint64_t *state, uint8_t *ops, uint32_t op_count)
{
    static const harness_call_t themes[][2] = {{HARNESS_EXECUTOR_CREATE, HARNESS_FORK},
                                               {HARNESS_LEASE_BEGIN, HARNESS_TRIM},
                                               {HARNESS_STEP_BEGIN, HARNESS_CONFIGURE},
                                               {HARNESS_MEMORY_CREATE, HARNESS_LEASE_BEGIN},
                                               {HARNESS_CONFIGURE, HARNESS_EXECUTOR_CREATE}};
    uint64_t theme = dao_random_next(state) % 10;
    if (theme >= sizeof(themes) / sizeof(themes[0])) {
        return;
    }
    uint32_t first = harness_call_byte(themes[theme][0]), count = harness_call_byte(themes[theme][1]) - first;
    for (uint32_t i = 0; i < op_count; i++) {
        uint64_t bits = dao_random_next(state);
        if (bits % 2 == 0 && count > 0) {
            ops[i * HARNESS_OP_BYTES] = (uint8_t)(first + bits / 2 % count);
        }
    }
}

/* A hardened place writes whole blocks: three of four large ones are small there, or they take all the
   time. */
static void shrink_hardened(uint64_t *state, uint8_t *bytes, uint32_t op_count)
{
    harness_config_t config = {0};
    read_hardening(bytes, &config);
    if ((config.library.hardening | config.place_config.hardening) == 0) {
        return;
    }
    for (uint32_t i = 0; i < op_count; i++) {
        uint8_t *op = bytes + HARNESS_CONFIG_BYTES + i * HARNESS_OP_BYTES;
        bool is_large = op[5] % 16 >= 2 && op[5] % 16 <= 4; /* see call_size() */
        if (is_large && dao_random_next(state) % 4 != 0) {
            op[5] |= 8;
        }
    }
}

size_t harness_random_bytes(uint64_t seed, uint8_t out_bytes[HARNESS_PROGRAM_BYTES])
{
    uint64_t state = seed;
    (void)dao_random_next(&state);
    uint32_t bits = (uint32_t)dao_random_next(&state); /* in this order with every compiler */
    uint32_t op_count = 1 + bits % (8u << dao_random_next(&state) % 4);
    op_count = op_count > HARNESS_OP_COUNT_MAX ? HARNESS_OP_COUNT_MAX : op_count;
    size_t length = HARNESS_CONFIG_BYTES + op_count * HARNESS_OP_BYTES;
    for (size_t i = 0; i < length; i++) {
        out_bytes[i] = (uint8_t)(dao_random_next(&state) >> 16);
    }
    apply_theme(&state, out_bytes + HARNESS_CONFIG_BYTES, op_count);
    shrink_hardened(&state, out_bytes, op_count);
    return length;
}
