/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that run again: plans that use them are made and followed, and whatever happens to a step of such a
   plan, no content is lost or stale. Contents are hashes of the kernel and of all bytes of its inputs as this
   run finds them, so that a run on anything else than the first one read shows in all that comes of it. */
#include "backends/sim/sim.h"
#include "base/numbers/random.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/learned/step_learner.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <dao/command_list.h>
#include <dao/dao.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 6, UNIT = 4096, STEPS = 12, SEEDS = TEST_ROUNDS(4), OPERANDS_MAX = 6 };
enum { THREAD_SEEDS = TEST_ROUNDS(2), PATIENCE = 3000 };
enum { KERNEL_NS = 4000, LINK_BYTES_PER_S = 200000000, CAPACITY = 17 * UNIT };

/* ---- contents ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A content is known by one word: all others follow from it. */
static void fill(unsigned char *bytes, size_t size_bytes, uint64_t word)
{
    for (size_t i = 0; i < size_bytes; i += sizeof(word)) {
        uint64_t at = word + i * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(bytes + i, &at, sizeof(at));
    }
}

/* The word of a content, or of another one if a single byte is wrong. */
static uint64_t word_of(const unsigned char *bytes, size_t size_bytes)
{
    uint64_t first, difference = 0;
    memcpy(&first, bytes, sizeof(first));
    for (size_t i = 0; i < size_bytes; i += sizeof(first)) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof(word));
        difference |= word ^ (first + i * UINT64_C(0x9e3779b97f4a7c15));
    }
    return first ^ mix(difference) * (difference != 0);
}

static uint64_t blank_word(size_t size_bytes)
{
    unsigned char *bytes = calloc(1, size_bytes);
    uint64_t word = bytes != NULL ? word_of(bytes, size_bytes) : 0;
    free(bytes);
    return word;
}

/* ---- a program whose contents a model knows ---- */

typedef struct value {
    dao_managed_t *handle;
    size_t size_bytes;
    uint64_t word; /* by the model, once all that was pushed has run */
} value_t;

typedef struct kernel {
    uint64_t name_word;
    uint32_t count;
    size_t sizes[OPERANDS_MAX];
    dao_access_t accesses[OPERANDS_MAX];
    bool fails_again;
    bool fails_at_once;
} kernel_t;

static dao_executor_t *executor;
static value_t weights[LAYERS], activations[LAYERS + 1], means[LAYERS], gradients[LAYERS + 1];
static _Atomic int64_t open_count; /* kernels whose drop was not called */
static bool fails_again;           /* kernels that are pushed now do when they run again */
static bool fails_at_once;         /* a kernel that is pushed now does when it is due */
static dao_command_list_t *list;   /* what the step is pushed to; NULL: to the executor */
static uint32_t flags;
static bool is_virtual;
static bool peeks;     /* what a list has discarded is read */
static bool is_zeroed; /* tensors are, at their first touch */

static uint64_t output_word(uint64_t input_word, uint32_t output)
{
    return mix(input_word + output + 1);
}

static void run(unsigned char *const *bytes, void *user)
{
    kernel_t *kernel = user;
    uint64_t word = kernel->name_word;
    for (uint32_t i = 0; i < kernel->count; i++) {
        word =
            kernel->accesses[i] != DAO_ACCESS_WRITE ? mix(word ^ word_of(bytes[i], kernel->sizes[i])) : word;
    }
    for (uint32_t i = 0; i < kernel->count; i++) {
        if (kernel->accesses[i] != DAO_ACCESS_READ) {
            fill(bytes[i], kernel->sizes[i], output_word(word, i));
        }
    }
    free(kernel);
}

static dao_status_t launch(const dao_launch_t *launch, void *user)
{
    const kernel_t *kernel = user;
    device_operand_t operands[OPERANDS_MAX];
    if (launch->is_again ? kernel->fails_again : kernel->fails_at_once) {
        return DAO_ERR_BACKEND;
    }
    dao_status_t status = is_virtual ? dao_sim_stream_work(launch->stream->backend, KERNEL_NS) : DAO_OK;
    kernel_t *job = status == DAO_OK ? malloc(sizeof(*job)) : NULL;
    if (job == NULL) {
        return status != DAO_OK ? status : DAO_ERR_NO_HOST_MEMORY;
    }
    *job = *kernel;
    for (uint32_t i = 0; i < kernel->count; i++) {
        operands[i] = (device_operand_t){{DAO_PLACE_KIND_DEVICE, launch->device_index},
                                         launch->addresses[i],
                                         kernel->sizes[i],
                                         kernel->accesses[i]};
    }
    status = device_launch(launch->stream, operands, kernel->count, run, job);
    if (status != DAO_OK) {
        free(job);
    }
    return status;
}

static void drop(void *user)
{
    free(user);
    open_count--;
}

/* Pushes a kernel whose operands are NULL from some place on; the accesses are a letter each: r, w, u. */
static dao_status_t push(const char *name, bool is_repeatable, const char *accesses, value_t *const *values)
{
    kernel_t *kernel = calloc(1, sizeof(*kernel));
    dao_operand_t operands[OPERANDS_MAX];
    if (kernel == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    kernel->fails_again = fails_again;
    kernel->fails_at_once = fails_at_once;
    for (const char *c = name; *c != '\0'; c++) {
        kernel->name_word = mix(kernel->name_word + (unsigned char)*c);
    }
    uint32_t count = (uint32_t)strlen(accesses);
    kernel->count = count;
    uint64_t word = kernel->name_word;
    for (uint32_t i = 0; i < count; i++) {
        kernel->sizes[i] = values[i]->size_bytes;
        kernel->accesses[i] = accesses[i] == 'r'   ? DAO_ACCESS_READ
                              : accesses[i] == 'w' ? DAO_ACCESS_WRITE
                                                   : DAO_ACCESS_READ_WRITE;
        operands[i] = (dao_operand_t){values[i]->handle, kernel->accesses[i]};
        word = kernel->accesses[i] != DAO_ACCESS_WRITE ? mix(word ^ values[i]->word) : word;
    }
    dao_kernel_t pushed = {.name = name,
                           .launch = launch,
                           .user = kernel,
                           .drop = drop,
                           .operands = operands,
                           .operand_count = count,
                           .workspace_bytes = 256,
                           .flags = is_repeatable ? flags : 0};
    open_count++;
    dao_status_t status =
        list != NULL ? dao_command_list_push(list, &pushed) : dao_executor_push(executor, &pushed);
    if (status != DAO_OK) {
        drop(kernel);
        return status;
    }
    for (uint32_t i = 0; i < count; i++) { /* the kernel is the queue's now */
        values[i]->word = accesses[i] != 'r' ? output_word(word, i) : values[i]->word;
    }
    return DAO_OK;
}

/* Unless it is there. */
static dao_status_t create(value_t *value, size_t size_bytes)
{
    if (value->handle != NULL) {
        return DAO_OK;
    }
    value->size_bytes = size_bytes;
    dao_managed_config_t config = {.size_bytes = size_bytes, .zero_first_touch = is_zeroed};
    return dao_managed_create(executor, &config, &value->handle);
}

static void release(value_t *value)
{
    (void)dao_managed_release(value->handle);
    value->handle = NULL;
}

/* Its content is not needed any more. A list's tensors stay. */
static void give_up(value_t *value)
{
    if (list == NULL) {
        release(value);
    } else if (value->handle != NULL) {
        CU_ASSERT_EQUAL(dao_command_list_discard(list, value->handle), DAO_OK);
    }
}

static dao_status_t write_value(value_t *value, uint64_t word)
{
    unsigned char *bytes = malloc(value->size_bytes);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    if (bytes != NULL) {
        fill(bytes, value->size_bytes, word);
        status = dao_managed_write(value->handle, bytes, value->size_bytes);
        value->word = status == DAO_OK ? word : value->word;
    }
    free(bytes);
    return status;
}

/* DAO_ERR_CORRUPT if it is not what the model says. */
static dao_status_t read_value(const value_t *value)
{
    unsigned char *bytes = malloc(value->size_bytes);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    if (bytes != NULL) {
        status = dao_managed_read(value->handle, bytes, value->size_bytes);
        status =
            status == DAO_OK && word_of(bytes, value->size_bytes) != value->word ? DAO_ERR_CORRUPT : status;
    }
    free(bytes);
    return status;
}

/* It counts as never written: all zeros. */
static bool is_blank(const value_t *value)
{
    unsigned char *bytes = malloc(value->size_bytes);
    bool is_blank = bytes != NULL && dao_managed_read(value->handle, bytes, value->size_bytes) == DAO_OK;
    for (size_t i = 0; is_blank && i < value->size_bytes; i++) {
        is_blank = bytes[i] == 0;
    }
    free(bytes);
    return is_blank;
}

/* ---- steps ---- */

/* How a step differs from the usual one; kernels count from 1, forward and backward alike. */
typedef struct variation {
    uint32_t other_kernel; /* has another name */
    uint32_t read_behind;  /* the program reads an activation */
    uint32_t write_behind; /* it writes the first activation, or a weight */
    uint32_t end_behind;   /* the step ends */
    bool keeps_all;        /* activations are released behind the step */
    uint32_t which;        /* activation or weight */
} variation_t;

static const variation_t usual;

/* Behind the kernel `number`; false: the step ends there. */
static bool interfere(const variation_t *variation, uint32_t number, uint32_t made, dao_status_t *status)
{
    value_t *activation = &activations[variation->which % (made + 1)];
    if (*status == DAO_OK && number == variation->read_behind && activation->handle != NULL) {
        *status = read_value(activation);
    }
    if (*status == DAO_OK && number == variation->write_behind) {
        bool is_weight = variation->which % 2 == 1;
        *status =
            write_value(is_weight ? &weights[variation->which % LAYERS] : &activations[0], mix(number + 77));
    }
    return *status == DAO_OK && (variation->end_behind == 0 || number < variation->end_behind);
}

static const char *name_of(const variation_t *variation, uint32_t number, const char *name)
{
    return number == variation->other_kernel ? "other" : name;
}

static dao_status_t run_step(const variation_t *variation)
{
    uint32_t number = 0;
    bool goes_on = true;
    dao_status_t status = create(&activations[0], 2 * UNIT);
    status = status == DAO_OK ? write_value(&activations[0], mix(17)) : status;
    for (uint32_t i = 0; goes_on && status == DAO_OK && i < LAYERS; i++) {
        status = create(&activations[i + 1], (i % 2 + 2) * UNIT);
        status = status == DAO_OK ? create(&means[i], 256) : status;
        status = status == DAO_OK
                     ? push(name_of(variation, ++number, "forward"), true, "rrww",
                            (value_t *[]){&activations[i], &weights[i], &activations[i + 1], &means[i]})
                     : status;
        goes_on = interfere(variation, number, i + 1, &status);
    }
    status = status == DAO_OK ? create(&gradients[LAYERS], UNIT) : status;
    if (goes_on && status == DAO_OK) {
        status = push("loss", false, "rw", (value_t *[]){&activations[LAYERS], &gradients[LAYERS]});
    }
    for (uint32_t i = LAYERS; goes_on && status == DAO_OK && i-- > 0;) {
        status = create(&gradients[i], UNIT);
        status = status == DAO_OK
                     ? push(name_of(variation, ++number, "backward"), false, "rrrrrw",
                            (value_t *[]){&gradients[i + 1], &activations[i + 1], &activations[i], &means[i],
                                          &weights[i], &gradients[i]})
                     : status;
        status = status == DAO_OK ? push("update", false, "ru", (value_t *[]){&gradients[i], &weights[i]})
                                  : status;
        give_up(&gradients[i + 1]);
        if (!variation->keeps_all) {
            give_up(&activations[i + 1]);
            give_up(&means[i]);
        }
        goes_on = interfere(variation, number, i, &status);
    }
    for (uint32_t i = 0; status == DAO_OK && i <= LAYERS; i++) { /* what is left holds what it should */
        bool is_made = activations[i].handle != NULL && activations[i].word != 0;
        status = is_made && variation->keeps_all ? read_value(&activations[i]) : status;
    }
    dao_status_t end_status = list != NULL ? dao_command_list_run(list) : dao_executor_step_end(executor);
    for (uint32_t i = 0; i <= LAYERS; i++) {
        if (list == NULL) {
            release(&activations[i]);
            release(&gradients[i]);
            release(&means[i % LAYERS]);
        }
        activations[i].word = 0;
    }
    dao_status_t sync_status = dao_executor_sync(executor);
    status = status != DAO_OK ? status : end_status;
    return status != DAO_OK ? status : sync_status;
}

static void run_well(const variation_t *variation)
{
    dao_status_t status = run_step(variation);
    if (status != DAO_OK) {
        (void)printf("    %s: %s\n", dao_status_name(status), dao_last_message());
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
    for (uint32_t i = 0; i < LAYERS; i++) {
        CU_ASSERT_EQUAL(read_value(&weights[i]), DAO_OK);
    }
}

static dao_executor_stats_t stats_now(void)
{
    dao_executor_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    return stats;
}

/* ---- executors ---- */

static void begin(const dao_backend_ops_t *ops, bool is_still, size_t host_bytes)
{
    dao_config_t settings = {.cpu = {.device_count = 1,
                                     .device_bytes = 8 * MIB,
                                     .h2d_bytes_per_second = LINK_BYTES_PER_S,
                                     .d2h_bytes_per_second = LINK_BYTES_PER_S}};
    dao_executor_config_t config = {
        .capacity_bytes = CAPACITY, .host_bytes = host_bytes, .check = TEST_WALKS};
    is_virtual = ops == &dao_sim_bytes_backend_ops;
    open_count = 0;
    fails_again = false;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&settings, ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(is_still ? dao_executor_create_still(&config, &executor)
                                   : dao_executor_create(&config, &executor),
                          DAO_OK);
    executor->engine.config.keeps_plans = true;
    for (uint32_t i = 0; i < LAYERS; i++) {
        CU_ASSERT_EQUAL_FATAL(create(&weights[i], UNIT), DAO_OK);
        CU_ASSERT_EQUAL(write_value(&weights[i], mix(i + 1)), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
}

static void end(void)
{
    for (uint32_t i = 0; i < LAYERS; i++) {
        release(&weights[i]);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().live_tensor_count, 0);
    CU_ASSERT_EQUAL(stats_now().device_used_bytes, 0);
    CU_ASSERT_EQUAL(stats_now().host_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(open_count, 0);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* Runs steps until one of them has run kernels again. */
static void begin_in_virtual_time(uint32_t kernel_flags)
{
    flags = kernel_flags;
    begin(&dao_sim_bytes_backend_ops, true, 0);
    for (int i = 0; i < STEPS && stats_now().plan_hit_count < 3; i++) {
        run_well(&usual);
    }
    CU_ASSERT_TRUE(stats_now().plan_hit_count >= 3);
    CU_ASSERT_EQUAL(stats_now().again_count > 0, kernel_flags != 0);
}

/* ---- tests ---- */

static uint64_t step_ns(void)
{
    uint64_t begin_ns = dao_sim_now_ns(executor->runtime->device);
    for (int i = 0; i < STEPS; i++) {
        run_well(&usual);
    }
    return (dao_sim_now_ns(executor->runtime->device) - begin_ns) / STEPS;
}

static void a_plan_with_runs_again_is_followed_and_quicker(void)
{
    begin_in_virtual_time(0);
    uint64_t without_ns = step_ns();
    end();
    begin_in_virtual_time(DAO_KERNEL_REPEATABLE);
    dao_executor_stats_t before = stats_now();
    uint64_t with_ns = step_ns();
    dao_executor_stats_t after = stats_now();
    (void)printf("    step: %" PRIu64 " ns with runs again, %" PRIu64 " ns without; %" PRIu64
                 " runs a step\n",
                 with_ns, without_ns, (after.again_count - before.again_count) / STEPS);
    CU_ASSERT_TRUE(with_ns < without_ns);
    CU_ASSERT_EQUAL(after.plan_hit_count, before.plan_hit_count + STEPS);
    CU_ASSERT_EQUAL(after.deviation_count, before.deviation_count);
    CU_ASSERT_EQUAL(after.kernel_count, before.kernel_count + STEPS * (3 * LAYERS + 1));
    CU_ASSERT_TRUE(after.again_ns > before.again_ns);
    end();
}

/* Wherever it happens: another kernel, a read, a write, an end. */
static void a_step_may_deviate_anywhere(void)
{
    begin_in_virtual_time(DAO_KERNEL_REPEATABLE);
    for (uint32_t at = 1; at <= 2 * LAYERS; at++) {
        for (uint32_t kind = 0; kind < 5; kind++) {
            variation_t variation = {.other_kernel = kind == 0 ? at : 0,
                                     .read_behind = kind == 1 ? at : 0,
                                     .write_behind = kind == 2 ? at : 0,
                                     .end_behind = kind == 3 ? at : 0,
                                     .keeps_all = kind == 4,
                                     .which = at};
            run_well(&variation);
            run_well(&usual);
            run_well(&usual);
        }
    }
    CU_ASSERT_TRUE(stats_now().deviation_count > LAYERS);
    end();
}

/* A kernel that cannot run again is reported, the step after it runs well. */
static void a_run_again_that_fails_is_reported(void)
{
    begin_in_virtual_time(DAO_KERNEL_REPEATABLE);
    uint64_t words[LAYERS];
    for (uint32_t i = 0; i < LAYERS; i++) {
        words[i] = weights[i].word;
    }
    fails_again = true;
    CU_ASSERT_EQUAL(run_step(&usual), DAO_ERR_KERNEL_FAILED);
    fails_again = false;
    for (uint32_t i = 0; i < LAYERS; i++) { /* some were updated; the program sets them anew */
        CU_ASSERT_EQUAL(write_value(&weights[i], words[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    for (int i = 0; i < STEPS; i++) {
        run_well(&usual);
    }
    end();
}

/* What comes back at once might not fit a host with a limit. */
static void nothing_runs_again_where_the_host_is_limited(void)
{
    flags = DAO_KERNEL_REPEATABLE;
    begin(&dao_sim_bytes_backend_ops, true, MIB);
    for (int i = 0; i < STEPS; i++) {
        run_well(&usual);
    }
    CU_ASSERT_TRUE(stats_now().plan_hit_count > 0);
    CU_ASSERT_EQUAL(stats_now().again_count, 0);
    end();
}

static void a_flag_that_is_none_is_refused(void)
{
    begin(&dao_sim_bytes_backend_ops, true, 0);
    dao_kernel_t kernel = {.launch = launch, .flags = DAO_KERNEL_REPEATABLE << 1};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "0x2"));
    end();
}

static variation_t draw(uint64_t *random)
{
    variation_t variation = {.which = (uint32_t)dao_random_below(random, 100)};
    uint32_t at = 1 + (uint32_t)dao_random_below(random, 2 * LAYERS);
    switch (dao_random_below(random, 10)) {
    case 0:
        variation.other_kernel = at;
        break;
    case 1:
        variation.read_behind = at;
        break;
    case 2:
        variation.write_behind = at;
        break;
    case 3:
        variation.end_behind = at;
        break;
    case 4:
        variation.keeps_all = true;
        break;
    default:
        break;
    }
    return variation;
}

/* What a list discards is kept as long as a run again reads it. */
static void a_command_list_runs_again_too(void)
{
    flags = DAO_KERNEL_REPEATABLE;
    begin(&dao_sim_bytes_backend_ops, true, 0);
    for (int i = 0; i < STEPS; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
        run_well(&usual);
        dao_command_list_destroy(list);
        list = NULL;
    }
    CU_ASSERT_TRUE(stats_now().again_count > 0);
    CU_ASSERT_EQUAL(stats_now().deviation_count, 0);
    for (uint32_t i = 0; i <= LAYERS; i++) {
        release(&activations[i]);
        release(&gradients[i]);
        release(&means[i % LAYERS]);
    }
    end();
}

static void release_buffers(void)
{
    for (uint32_t i = 0; i <= LAYERS; i++) {
        release(&activations[i]);
        release(&gradients[i]);
        release(&means[i % LAYERS]);
    }
}

/* Pushes a step whose large intermediates (`means`) are read by kernels alone that run again. The tensors are
   those of the step before. A kernel may fail; kernels count from 1. */
static dao_status_t push_pairs(uint32_t failing_kernel, bool discards)
{
    uint32_t number = 0;
    bool heads_fail_again = fails_again;
    dao_status_t status = dao_command_list_create(executor, &list);
    for (uint32_t i = 0; status == DAO_OK && i < LAYERS; i++) {
        status = create(&means[i], 4 * UNIT);
        status = status == DAO_OK ? create(&activations[i], 3 * UNIT) : status;
        fails_again = heads_fail_again;
        status = status == DAO_OK ? push("head", true, "rw", (value_t *[]){&weights[i], &means[i]}) : status;
        fails_again = false;
        status =
            status == DAO_OK ? push("tail", true, "rw", (value_t *[]){&means[i], &activations[i]}) : status;
        if (discards) {
            give_up(&means[i]);
        }
        if (peeks) {
            means[i].word = blank_word(means[i].size_bytes);
            status = status == DAO_OK ? create(&gradients[i], UNIT) : status;
            status = status == DAO_OK ? push("peek", false, "wr", (value_t *[]){&gradients[i], &means[i]})
                                      : status;
            give_up(&means[i]);
        }
    }
    for (uint32_t i = LAYERS; status == DAO_OK && i-- > 0;) {
        fails_at_once = ++number == failing_kernel;
        status = push("backward", false, "ru", (value_t *[]){&activations[i], &weights[i]});
        if (peeks && status == DAO_OK) {
            status = push("add", false, "ru", (value_t *[]){&gradients[i], &weights[i]});
        }
        if (discards) {
            give_up(&activations[i]);
        }
    }
    fails_at_once = false;
    status = status == DAO_OK ? dao_command_list_run(list) : status;
    dao_command_list_destroy(list);
    list = NULL;
    return status;
}

/* What the next step overwrites is needed as long as a kernel that is kept reads it. */
static void the_next_step_may_be_pushed_already(void)
{
    uint64_t words[LAYERS];
    flags = DAO_KERNEL_REPEATABLE;
    begin(&dao_sim_bytes_backend_ops, true, 0);
    for (uint32_t at = 1; at <= LAYERS; at++) {
        for (int i = 0; i < STEPS / 2; i++) {
            CU_ASSERT_EQUAL(push_pairs(0, true), DAO_OK);
            CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        }
        uint64_t deviation_count = stats_now().deviation_count;
        CU_ASSERT_EQUAL(push_pairs(at, false), DAO_OK);
        for (uint32_t i = 0; i < LAYERS; i++) {
            words[i] = activations[i].word;
        }
        CU_ASSERT_EQUAL(push_pairs(0, false), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
        CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "again"));
        CU_ASSERT_EQUAL(stats_now().deviation_count, deviation_count + 1);
        for (uint32_t i = 0; i < LAYERS; i++) {
            activations[i].word = words[i];
            if (i <= LAYERS - at) { /* its backward is not over */
                CU_ASSERT_EQUAL(read_value(&activations[i]), DAO_OK);
            }
            CU_ASSERT_EQUAL(write_value(&weights[i], mix(at + i)), DAO_OK);
        }
    }
    CU_ASSERT_TRUE(stats_now().again_count > 0);
    release_buffers();
    end();
}

/* Also if the content is kept for a run again. The kernel leaves its plan there, with a place for what it
   writes: that must not lie in the way of what runs again then, which with the lower capacity needs all room.
 */
static void read_what_was_discarded(size_t capacity_bytes)
{
    flags = DAO_KERNEL_REPEATABLE;
    is_zeroed = true;
    begin(&dao_sim_bytes_backend_ops, true, 0);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, capacity_bytes), DAO_OK);
    for (int i = 0; i < STEPS; i++) {
        peeks = i >= STEPS / 2;
        CU_ASSERT_EQUAL(push_pairs(0, true), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        for (uint32_t k = 0; k < LAYERS; k++) {
            CU_ASSERT_EQUAL(read_value(&weights[k]), DAO_OK);
        }
    }
    CU_ASSERT_TRUE(stats_now().again_count > 0);
    release_buffers();
    end();
    is_zeroed = false;
    peeks = false;
}

static void what_was_discarded_is_not_read(void)
{
    read_what_was_discarded(CAPACITY);
    read_what_was_discarded((size_t)8 * UNIT);
}

/* Nothing is made of an input that could not be made again, be it of zeros otherwise. */
static void nothing_is_made_of_what_is_not_there(void)
{
    flags = DAO_KERNEL_REPEATABLE;
    is_zeroed = true;
    begin(&dao_sim_bytes_backend_ops, true, 0);
    for (int i = 0; i < STEPS / 2; i++) {
        CU_ASSERT_EQUAL(push_pairs(0, true), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    }
    CU_ASSERT_TRUE(stats_now().again_count > 0);
    fails_again = true;
    CU_ASSERT_EQUAL(push_pairs(1, false), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    uint32_t lost_count = 0;
    for (uint32_t i = 0; i < LAYERS; i++) {
        bool is_lost = is_blank(&activations[i]);
        CU_ASSERT_TRUE(is_lost || read_value(&activations[i]) == DAO_OK);
        lost_count += is_lost ? 1 : 0;
    }
    CU_ASSERT_TRUE(lost_count > 0);
    release_buffers();
    end();
    is_zeroed = false;
}

/* A refused call fails a step or not; one that succeeds has computed what it should. */
static void refused_calls_lose_nothing(void)
{
    static const fault_call_t calls[] = {FAULT_CALL_COPY, FAULT_CALL_STREAM_WAIT_EVENT,
                                         FAULT_CALL_EVENT_RECORD, FAULT_CALL_HOST_FUNC,
                                         FAULT_CALL_PINNED_ALLOC};
    fault_config_t faults = {.seed = 1};
    flags = DAO_KERNEL_REPEATABLE;
    begin(fault_backend_wrap(&dao_sim_bytes_backend_ops, &faults), true, 0);
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        for (uint64_t n = 0; n < 36; n += 5 * TEST_CALL_STEP) {
            run_well(&usual);
            fault_backend_arm(calls[c], n, n % 2 == 0);
            dao_status_t status = run_step(&usual);
            (void)fault_backend_disarm();
            CU_ASSERT_NOT_EQUAL(status, DAO_ERR_CORRUPT);
            CU_ASSERT_NOT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
            for (uint32_t i = 0; i < LAYERS; i++) { /* what was updated is not known after a failure */
                CU_ASSERT_EQUAL(status == DAO_OK ? read_value(&weights[i])
                                                 : write_value(&weights[i], mix(n + i)),
                                DAO_OK);
            }
            CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
        }
    }
    CU_ASSERT_TRUE(stats_now().again_count > 0);
    end();
}

/* A weight is as it was before the step or as it is behind it, or its read says that it is lost. */
static bool is_whole(value_t *value, uint64_t word_before)
{
    dao_status_t status = read_value(value);
    if (status == DAO_ERR_CORRUPT) {
        value->word = word_before;
        status = read_value(value);
    }
    return status == DAO_OK || status == DAO_ERR_DEVICE_LOST;
}

/* The device is lost at the n-th call of a step with runs again. Returns false if it makes no such call. */
static bool lose_in_step(uint64_t n)
{
    const fault_config_t quiet = {.seed = 1};
    uint64_t before[LAYERS];
    begin(fault_backend_wrap(&dao_sim_bytes_backend_ops, &quiet), true, 0);
    for (int i = 0; i < STEPS && stats_now().again_count == 0; i++) {
        run_well(&usual);
    }
    CU_ASSERT_TRUE(stats_now().again_count > 0);
    for (uint32_t i = 0; i < LAYERS; i++) {
        before[i] = weights[i].word;
    }
    fault_backend_arm((fault_call_t)FAULT_CALL_LOSS, n, true);
    dao_status_t status = run_step(&usual);
    bool is_lost = fault_backend_fired_count() > 0;
    CU_ASSERT_EQUAL(status, is_lost ? DAO_ERR_DEVICE_LOST : DAO_OK);
    if (!is_lost) {
        (void)fault_backend_disarm();
        end();
        return false;
    }
    for (uint32_t i = 0; i < LAYERS; i++) {
        CU_ASSERT_TRUE(is_whole(&weights[i], before[i]));
        release(&weights[i]);
    }
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_DEVICE_LOST);
    (void)fault_backend_disarm();
    CU_ASSERT_EQUAL(open_count, 0);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    return true;
}

static void a_device_lost_in_a_step_takes_its_own_bytes_alone(void)
{
    enum { LOSE_EVERY = 13 * TEST_CALL_STEP };
    uint64_t n = 0;
    flags = DAO_KERNEL_REPEATABLE;
    while (n < PATIENCE && lose_in_step(n)) {
        n += LOSE_EVERY;
    }
    CU_ASSERT_TRUE(n > 0 && n < PATIENCE);
    (void)printf("    lost at %" PRIu64 " calls\n", n / LOSE_EVERY);
}

/* On threads, with commands held back and plans made meanwhile. */
static void delays_change_nothing(void)
{
    flags = DAO_KERNEL_REPEATABLE;
    for (uint64_t seed = 1; seed <= THREAD_SEEDS; seed++) {
        fault_config_t delays = {.seed = seed, .delay_ns_max = seed % 2 == 0 ? 0 : 20000, .not_ready_max = 2};
        uint64_t random = seed;
        begin(fault_backend_wrap(dao_backend_ops(), &delays), false, 0);
        for (int i = 0; i < PATIENCE && stats_now().again_count == 0; i++) {
            run_well(&usual);
        }
        CU_ASSERT_TRUE(stats_now().again_count > 0);
        for (int i = 0; i < 2 * STEPS; i++) {
            variation_t variation = draw(&random);
            run_well(&variation);
        }
        end();
        CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    }
}

/* Steps of all kinds. */
static void steps_of_all_kinds_lose_nothing(void)
{
    uint64_t again_count = 0;
    flags = DAO_KERNEL_REPEATABLE;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t random = seed;
        begin(&dao_sim_bytes_backend_ops, true, 0);
        for (int i = 0; i < 4 * STEPS; i++) {
            variation_t variation = i < STEPS / 2 ? usual : draw(&random);
            run_well(&variation);
        }
        again_count += stats_now().again_count;
        end();
    }
    CU_ASSERT_TRUE(again_count > 0);
}

static CU_TestInfo thread_tests[] = {
    {"delays change nothing", delays_change_nothing},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo still_tests[] = {
    {"a plan with runs again is followed and quicker", a_plan_with_runs_again_is_followed_and_quicker},
    {"a step may deviate anywhere", a_step_may_deviate_anywhere},
    {"a run again that fails is reported", a_run_again_that_fails_is_reported},
    {"nothing runs again where the host is limited", nothing_runs_again_where_the_host_is_limited},
    {"a flag that is none is refused", a_flag_that_is_none_is_refused},
    {"a command list runs again too", a_command_list_runs_again_too},
    {"the next step may be pushed already", the_next_step_may_be_pushed_already},
    {"what was discarded is not read", what_was_discarded_is_not_read},
    {"nothing is made of what is not there", nothing_is_made_of_what_is_not_there},
    {"refused calls lose nothing", refused_calls_lose_nothing},
    {"a device lost in a step takes its own bytes alone", a_device_lost_in_a_step_takes_its_own_bytes_alone},
    {"steps of all kinds lose nothing", steps_of_all_kinds_lose_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"kernels that run again on threads", NULL, NULL, NULL, NULL, thread_tests},
        {TEST_STILL ? "kernels that run again" : NULL, NULL, NULL, NULL, NULL, still_tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
