/* SPDX-License-Identifier: Apache-2.0 */
/* The executor: a small arena, tensors that do not all fit, kernels that fill or read them. Every tensor
   holds one byte value; a kernel that finds another one fails the program. What writes a part of a tensor
   writes that value, or zeros if the tensor has none yet; a tensor with a source has its value from the
   begin, and what would write it is refused. The executor has a thread of its own, so pinned memory is not
   compared while there is one. */
#define _GNU_SOURCE
#include "tests/harness/calls/calls.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB            ((size_t)1 << 10)
#define ARENA_BYTES    (256 * KIB)
#define TENSOR_BYTES   (96 * KIB)
#define OPERANDS_COUNT 2u

/* Pinned, so many leave room for each kernel. */
#define PINNED_BYTES (ARENA_BYTES - OPERANDS_COUNT * TENSOR_BYTES - 4 * KIB)

typedef struct kernel {
    const model_t *model;
    dao_span_t spans[OPERANDS_COUNT];
    uint8_t before[OPERANDS_COUNT]; /* what is read */
    uint8_t after[OPERANDS_COUNT];
    dao_access_t accesses[OPERANDS_COUNT];
    bool fails;
} kernel_t;

/* One of a kernel: a command list's is launched again before the device has run it. */
typedef struct launched {
    const kernel_t *kernel;
    uint8_t *addresses[OPERANDS_COUNT]; /* NULL: no operand */
} launched_t;

static void run_kernel(void *user)
{
    launched_t *launched = user;
    const kernel_t *kernel = launched->kernel;
    for (uint32_t i = 0; i < OPERANDS_COUNT; i++) {
        if (launched->addresses[i] == NULL) {
            continue;
        }
        uint8_t *bytes = launched->addresses[i] + kernel->spans[i].offset_bytes;
        size_t last = kernel->spans[i].size_bytes - 1;
        if (kernel->accesses[i] != DAO_ACCESS_WRITE &&
            (bytes[0] != kernel->before[i] || bytes[last] != kernel->before[i])) {
            model_fail(kernel->model, "a kernel reads %u and %u instead of %u", bytes[0], bytes[last],
                       kernel->before[i]);
        }
        if (kernel->accesses[i] != DAO_ACCESS_READ) {
            memset(bytes, kernel->after[i], kernel->spans[i].size_bytes);
        }
    }
    free(launched);
}

static dao_status_t launch(const dao_launch_t *launch, void *user)
{
    const kernel_t *kernel = user;
    if (kernel->fails) {
        return DAO_ERR_KERNEL_FAILED;
    }
    launched_t *launched = calloc(1, sizeof(*launched));
    launched->kernel = kernel;
    for (uint32_t i = 0; i < launch->operand_count; i++) {
        launched->addresses[i] = launch->addresses[i];
    }
    dao_status_t status = dao_stream_host_func(launch->stream, run_kernel, launched);
    if (status != DAO_OK) {
        free(launched);
    }
    return status;
}

/* Whether pinned memory for evicted tensors may be refused. */
static bool may_be_full(const model_t *model)
{
    return model->books[1].limit_bytes != 0 || model->host_limit_bytes != 0;
}

/* Takes the counts of a place as they are: the executor has allocated there, too. */
static void take_counts(model_t *model, dao_place_t place)
{
    dao_stats_t stats;
    MODEL_REQUIRE(model, dao_stats_get(place, &stats) == DAO_OK);
    model_books(model, place)->alloc_count = stats.alloc_count;
    model_books(model, place)->failed_count = stats.failed_count;
}

bool call_executor_create(model_t *model, const harness_op_t *op)
{
    if (model->executor != NULL) {
        return false;
    }
    dao_executor_config_t config = {.device_index = 0,
                                    .capacity_bytes = ARENA_BYTES,
                                    .policy = (dao_policy_t)(op->kind % DAO_POLICY_USER),
                                    .queue_kernels = 1u + op->small % 16,
                                    .host_bytes = (op->kind & 32) != 0 ? TENSOR_BYTES : 0,
                                    .on_demand = (op->kind & 64) != 0,
                                    .without_plans = (op->kind & 128) != 0};
    if (config.host_bytes != 0) {
        config.file = (dao_file_config_t){.directory = "/tmp", .engine = DAO_FILE_ENGINE_THREADS};
    }
    dao_place_t place = model_place(0);
    model_outcome_t outcome = model_alloc_outcome(model, place, ARENA_BYTES, 0, 0);
    model_say(model,
              "dao_executor_create(&(dao_executor_config_t){.capacity_bytes = %zu, .policy = %d, "
              ".queue_kernels = %u, "
              ".on_demand = %d, .without_plans = %d}, &executor);",
              ARENA_BYTES, config.policy, config.queue_kernels, config.on_demand, config.without_plans);
    dao_status_t got = dao_executor_create(&config, &model->executor);
    if (config.host_bytes != 0 && got == DAO_ERR_LIMIT && may_be_full(model)) { /* for pieces of the file */
        take_counts(model, place);
        take_counts(model, model_place(1));
        model->executor = NULL;
        return true;
    }
    if (model_alloc_answer(model, place, ARENA_BYTES, 0, &outcome, got)) {
        model_books(model, place)->arena_bytes = ARENA_BYTES;
        model->learns_steps = !config.without_plans && !config.on_demand;
    } else {
        model->executor = NULL;
    }
    return true;
}

static void check_sync(model_t *model, dao_status_t wanted)
{
    model_say(model, "dao_executor_sync(executor);");
    dao_status_t got = dao_executor_sync(model->executor);
    bool is_full = got == DAO_ERR_HOST_FULL && may_be_full(model);
    if (!is_full) {
        (void)model_answer(model, got, wanted);
    }
    for (uint32_t i = 0; i < MODEL_MANAGED_COUNT && got != wanted; i++) {
        model->managed[i].is_unknown = !model->managed[i].has_source;
    }
}

bool call_managed_create(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_MANAGED_COUNT;
    if (model->executor == NULL || model->managed[i].tensor != NULL) {
        return false;
    }
    dao_managed_config_t config = {.size_bytes = op->kind % 16 == 1 ? 0 : 1 + op->number % TENSOR_BYTES};
    dao_status_t wanted = config.size_bytes == 0 ? DAO_ERR_INVALID : DAO_OK;
    model_say(model, "dao_managed_create(executor, &(dao_managed_config_t){.size_bytes = %zu}, &managed_%u);",
              config.size_bytes, i);
    if (model_answer(model, dao_managed_create(model->executor, &config, &model->managed[i].tensor),
                     wanted)) {
        model->managed[i].size_bytes = config.size_bytes;
        model->managed[i].is_written = false;
        model->managed[i].has_source = false;
        model->managed[i].is_unknown = false;
        model->managed[i].pin_count = 0;
    } else {
        model->managed[i].tensor = NULL;
    }
    return true;
}

/* Bytes of one value: in memory that the source gives back, or in a file whose name is gone. */
static dao_status_t make_source(const model_t *model, const harness_op_t *op, size_t size_bytes,
                                dao_source_t **out_source)
{
    uint8_t *bytes = malloc(size_bytes);
    memset(bytes, op->small, size_bytes);
    model_say(model, "bytes = malloc(%zu); memset(bytes, %u, %zu);", size_bytes, op->small, size_bytes);
    if (op->kind % 2 == 0) {
        model_say(model, "dao_source_adopt(bytes, %zu, free, bytes, &source);", size_bytes);
        dao_status_t status = dao_source_adopt(bytes, size_bytes, free, bytes, out_source);
        if (status != DAO_OK) {
            free(bytes);
        }
        return status;
    }
    char path[] = "/tmp/dao-harness-XXXXXX";
    int file = mkstemp(path);
    MODEL_REQUIRE(model, file >= 0 && write(file, bytes, size_bytes) == (ssize_t)size_bytes);
    MODEL_REQUIRE(model, close(file) == 0);
    free(bytes);
    dao_source_cache_t cache = op->kind % 4 == 1 ? DAO_SOURCE_CACHE_BYPASS : DAO_SOURCE_CACHE_USE;
    model_say(model,
              "file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600); write(file, bytes, %zu); close(file); "
              "free(bytes); dao_source_open(path, %d, &source); unlink(path);",
              size_bytes, cache);
    dao_status_t status = dao_source_open(path, cache, out_source);
    MODEL_REQUIRE(model, unlink(path) == 0);
    return status;
}

/* A tensor of the last bytes of a source; every sixteenth wants one byte more than it has. */
bool call_managed_create_from(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_MANAGED_COUNT;
    if (model->executor == NULL || model->managed[i].tensor != NULL) {
        return false;
    }
    size_t size_bytes = 1 + op->number % TENSOR_BYTES;
    size_t missing_bytes = op->kind / 4 % 16 == 1 ? 1 : 0;
    dao_managed_config_t config = {.size_bytes = size_bytes + missing_bytes};
    dao_source_t *source = NULL;
    if (!model_answer(model, make_source(model, op, op->other + size_bytes, &source), DAO_OK)) {
        return true;
    }
    model_say(model,
              "dao_managed_create_from(executor, &(dao_managed_config_t){.size_bytes = %zu}, source, "
              "%u, &managed_%u);",
              config.size_bytes, op->other, i);
    dao_managed_t *tensor = NULL;
    dao_status_t got = dao_managed_create_from(model->executor, &config, source, op->other, &tensor);
    model_say(model, "dao_source_release(source);");
    MODEL_REQUIRE(model, dao_source_release(source) == DAO_OK);
    bool is_full =
        got == DAO_ERR_LIMIT && missing_bytes == 0 && may_be_full(model); /* for pieces to read by */
    if (!is_full && model_answer(model, got, missing_bytes != 0 ? DAO_ERR_INVALID : DAO_OK)) {
        model->managed[i].tensor = tensor;
        model->managed[i].size_bytes = size_bytes;
        model->managed[i].is_written = true;
        model->managed[i].has_source = true;
        model->managed[i].is_unknown = false;
        model->managed[i].value = op->small;
        model->managed[i].pin_count = 0;
    }
    return true;
}

bool call_managed_release(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_MANAGED_COUNT;
    model_say(model, "dao_managed_release(managed_%u);", i);
    (void)model_answer(model, dao_managed_release(model->managed[i].tensor), DAO_OK);
    model->managed[i].tensor = NULL;
    return true;
}

static uint8_t *room(model_t *model)
{
    model->bytes = model->bytes != NULL ? model->bytes : malloc(TENSOR_BYTES);
    return model->bytes;
}

/* The first tensor from a slot on; MODEL_MANAGED_COUNT: there is none. */
static uint32_t find_managed(const model_t *model, uint32_t slot)
{
    for (uint32_t i = 0; i < MODEL_MANAGED_COUNT; i++) {
        if (model->managed[(slot + i) % MODEL_MANAGED_COUNT].tensor != NULL) {
            return (slot + i) % MODEL_MANAGED_COUNT;
        }
    }
    return MODEL_MANAGED_COUNT;
}

/* A part of a tensor that depends on a number; all of it for every other one. */
static dao_span_t part_of(size_t size_bytes, uint64_t number)
{
    size_t offset = number % 2 == 0 ? 0 : (size_t)(number / 2 % size_bytes);
    size_t rest = size_bytes - offset;
    return (dao_span_t){offset, number % 2 == 0 || number % 4 == 1 ? rest : 1 + (size_t)(number / 8 % rest)};
}

/* What a write of a part leaves in all of the tensor. */
static uint8_t value_with_part(const model_t *model, uint32_t i)
{
    return model->managed[i].is_written ? model->managed[i].value : 0;
}

/* What a write of a tensor answers. */
static dao_status_t write_status(const model_t *model, uint32_t i)
{
    return model->managed[i].has_source ? DAO_ERR_INVALID : DAO_OK;
}

static bool write_part(model_t *model, uint32_t i, dao_span_t span)
{
    uint8_t value = value_with_part(model, i);
    memset(room(model), value, span.size_bytes);
    model_say(model, "dao_managed_write_part(managed_%u, %zu, bytes, %zu);", i, span.offset_bytes,
              span.size_bytes);
    dao_status_t got =
        dao_managed_write_part(model->managed[i].tensor, span.offset_bytes, model->bytes, span.size_bytes);
    if (!(got == DAO_ERR_HOST_FULL && may_be_full(model)) &&
        model_answer(model, got, write_status(model, i))) {
        model->managed[i].is_written = true;
        model->managed[i].value = value;
    }
    return true;
}

bool call_managed_write(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_managed(model, op->slot);
    if (i == MODEL_MANAGED_COUNT) {
        return false;
    }
    size_t size_bytes = model->managed[i].size_bytes;
    dao_span_t span = part_of(size_bytes, op->number);
    if (span.size_bytes != size_bytes && !model->managed[i].is_unknown) {
        return write_part(model, i, span);
    }
    memset(room(model), op->small, size_bytes);
    if (op->kind % 16 == 1) {
        (void)model_answer(model, dao_managed_write(model->managed[i].tensor, model->bytes, size_bytes - 1),
                           DAO_ERR_INVALID);
        return true;
    }
    model_say(model, "dao_managed_write(managed_%u, bytes, %zu);", i, size_bytes);
    dao_status_t got = dao_managed_write(model->managed[i].tensor, model->bytes, size_bytes);
    if (got == DAO_ERR_HOST_FULL && may_be_full(model)) {
        return true;
    }
    if (model_answer(model, got, write_status(model, i))) {
        model->managed[i].is_written = true;
        model->managed[i].is_unknown = false;
        model->managed[i].value = op->small;
    }
    return true;
}

static void keep_status(dao_status_t status, void *user)
{
    *(dao_status_t *)user = status;
}

/* Reads a part without waiting, and then waits for all. What the call answers, or the read. */
static dao_status_t read_async(model_t *model, uint32_t i, dao_span_t span)
{
    dao_status_t told = DAO_ERR_BUSY;
    dao_status_t got = dao_managed_read_async(model->managed[i].tensor, span.offset_bytes, model->bytes,
                                              span.size_bytes, keep_status, &told);
    check_sync(model, DAO_OK);
    return got == DAO_OK ? told : got;
}

bool call_managed_read(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_managed(model, op->slot);
    if (i == MODEL_MANAGED_COUNT) {
        return false;
    }
    dao_span_t span = part_of(model->managed[i].size_bytes, op->number);
    size_t size_bytes = span.size_bytes;
    memset(room(model), ~model->managed[i].value, size_bytes);
    model_say(model, "dao_managed_read_part(managed_%u, %zu, bytes, %zu);", i, span.offset_bytes, size_bytes);
    dao_status_t got =
        op->kind % 4 == 3 ? read_async(model, i, span)
        : size_bytes == model->managed[i].size_bytes
            ? dao_managed_read(model->managed[i].tensor, model->bytes, size_bytes)
            : dao_managed_read_part(model->managed[i].tensor, span.offset_bytes, model->bytes, size_bytes);
    if (got == DAO_ERR_HOST_FULL && may_be_full(model)) {
        return true;
    }
    if (model->managed[i].is_unknown && (got == DAO_OK || got == DAO_ERR_NEVER_WRITTEN)) {
        return true;
    }
    if (model_answer(model, got, model->managed[i].is_written ? DAO_OK : DAO_ERR_NEVER_WRITTEN)) {
        for (size_t k = 0; k < size_bytes; k++) {
            MODEL_REQUIRE(model, model->bytes[k] == model->managed[i].value);
        }
    }
    return true;
}

static bool is_any_pinned(const model_t *model)
{
    bool is_pinned = false;
    for (uint32_t i = 0; i < MODEL_MANAGED_COUNT; i++) {
        is_pinned = is_pinned || (model->managed[i].tensor != NULL && model->managed[i].pin_count > 0);
    }
    return is_pinned;
}

/* Pins a tensor, more than once perhaps, or unpins it; one at a time, small enough for every kernel. */
bool call_managed_pin(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_managed(model, op->slot);
    if (i == MODEL_MANAGED_COUNT) {
        return model_answer(model, dao_managed_pin(NULL, NULL), DAO_ERR_INVALID) || true;
    }
    dao_managed_t *tensor = model->managed[i].tensor;
    uint32_t *count = &model->managed[i].pin_count;
    if (op->kind % 2 == 0) {
        model_say(model, "dao_managed_unpin(managed_%u);", i);
        if (model_answer(model, dao_managed_unpin(tensor), *count > 0 ? DAO_OK : DAO_ERR_INVALID)) {
            (*count)--;
        }
        return true;
    }
    if (*count == 0 && (is_any_pinned(model) || model->managed[i].size_bytes > PINNED_BYTES)) {
        return false;
    }
    model_say(model, "dao_managed_pin(managed_%u, NULL);", i);
    dao_status_t got = dao_managed_pin(tensor, NULL);
    if (!(got == DAO_ERR_HOST_FULL && may_be_full(model)) && model_answer(model, got, DAO_OK)) {
        (*count)++;
    }
    return true;
}

/* Fills in a kernel of up to two tensors; false if there is none. Reads what was written. */
static bool make_kernel(model_t *model, const harness_op_t *op, kernel_t *kernel, dao_operand_t *operands,
                        uint32_t *out_count)
{
    *out_count = 0;
    for (uint32_t k = 0; k < OPERANDS_COUNT; k++) {
        uint32_t i = (k == 0 ? op->slot : op->other) % MODEL_MANAGED_COUNT;
        if (model->managed[i].tensor == NULL ||
            (k == 1 && *out_count == 1 && operands[0].tensor == model->managed[i].tensor)) {
            continue;
        }
        uint32_t at = (*out_count)++;
        operands[at].tensor = model->managed[i].tensor;
        bool is_readable = model->managed[i].is_written && !model->managed[i].is_unknown;
        operands[at].access = model->managed[i].has_source ? DAO_ACCESS_READ
                              : is_readable                ? (dao_access_t)((op->kind >> 2 * k) % 3)
                                                           : DAO_ACCESS_WRITE;
        size_t size_bytes = model->managed[i].size_bytes;
        bool may_be_part = !model->managed[i].is_unknown;
        kernel->accesses[at] = operands[at].access;
        kernel->spans[at] = part_of(size_bytes, may_be_part ? (uint64_t)op->number >> k : 0);
        kernel->before[at] = model->managed[i].value;
        kernel->after[at] =
            kernel->spans[at].size_bytes == size_bytes ? (uint8_t)(op->small + k) : value_with_part(model, i);
        if (!kernel->fails && operands[at].access != DAO_ACCESS_READ) {
            model->managed[i].value = kernel->after[at];
            model->managed[i].is_written = true;
            model->managed[i].is_unknown = false;
        }
    }
    return *out_count > 0;
}

bool call_executor_push(model_t *model, const harness_op_t *op)
{
    if (model->executor == NULL) {
        return false;
    }
    kernel_t *kernel = calloc(1, sizeof(*kernel));
    dao_operand_t operands[OPERANDS_COUNT];
    uint32_t count;
    *kernel = (kernel_t){.model = model, .fails = op->kind % 32 == 31};
    if (!make_kernel(model, op, kernel, operands, &count)) {
        free(kernel);
        dao_kernel_t none = {.launch = NULL};
        return model_answer(model, dao_executor_push(model->executor, &none), DAO_ERR_INVALID) || true;
    }
    bool fails = kernel->fails;
    dao_kernel_t pushed = {.launch = launch,
                           .user = kernel,
                           .drop = free,
                           .operands = operands,
                           .operand_count = count,
                           .spans = kernel->spans,
                           .workspace_bytes = op->number % 8 == 0 ? 4 * KIB : 0};
    model_say(model, "dao_executor_push(executor, &kernel); /* %u operands%s */", count,
              fails ? ", fails" : "");
    if (!model_answer(model, dao_executor_push(model->executor, &pushed), DAO_OK)) {
        free(kernel);
    }
    if (fails || may_be_full(model) || model->may_fail) { /* what was pushed behind it is skipped */
        check_sync(model, fails ? DAO_ERR_KERNEL_FAILED : DAO_OK);
    }
    return true;
}

bool call_executor_step(model_t *model, const harness_op_t *op)
{
    if (model->executor == NULL) {
        return false;
    }
    model_say(model, "dao_executor_step_%s(executor);", op->kind % 2 == 0 ? "begin" : "end");
    (void)model_answer(model,
                       op->kind % 2 == 0 ? dao_executor_step_begin(model->executor)
                                         : dao_executor_step_end(model->executor),
                       DAO_OK);
    return true;
}

bool call_executor_sync(model_t *model, const harness_op_t *op)
{
    (void)op;
    if (model->executor == NULL) {
        return model_answer(model, dao_executor_sync(NULL), DAO_ERR_INVALID) || true;
    }
    check_sync(model, DAO_OK);
    dao_executor_stats_t stats;
    MODEL_REQUIRE(model, dao_executor_stats_get(model->executor, &stats) == DAO_OK);
    MODEL_REQUIRE(model, stats.capacity_bytes == ARENA_BYTES && stats.device_used_bytes <= ARENA_BYTES);
    return true;
}

/* Adds a write of a tensor to a list; the bytes stay as they are until the list has run. */
static void write_in_list(model_t *model, const harness_op_t *op, dao_command_list_t *list)
{
    uint32_t i = (uint32_t)(op->number % MODEL_MANAGED_COUNT);
    size_t size_bytes = model->managed[i].size_bytes;
    size_t least_bytes = 0;
    MODEL_REQUIRE(model, dao_command_list_least_capacity(list, &least_bytes) == DAO_OK && least_bytes > 0);
    if (model->managed[i].tensor == NULL || op->kind % 2 == 0) {
        return;
    }
    memset(room(model), op->small, size_bytes);
    model_say(model, "dao_command_list_write(list, managed_%u, bytes, %zu);", i, size_bytes);
    dao_status_t got = dao_command_list_write(list, model->managed[i].tensor, model->bytes, size_bytes);
    if (model_answer(model, got, write_status(model, i))) {
        model->managed[i].is_written = true;
        model->managed[i].is_unknown = false;
        model->managed[i].value = op->small;
    }
}

/* A kernel that writes a view, whose handle goes at once. What it leaves is what a write of a part does. */
static void push_view(model_t *model, uint32_t i, dao_managed_t *view, size_t size_bytes)
{
    kernel_t *kernel = calloc(1, sizeof(*kernel));
    dao_operand_t operand = {view, DAO_ACCESS_WRITE};
    *kernel = (kernel_t){.model = model, .spans = {{0, size_bytes}}, .accesses = {DAO_ACCESS_WRITE}};
    kernel->after[0] = value_with_part(model, i);
    dao_kernel_t pushed = {
        .launch = launch, .user = kernel, .drop = free, .operands = &operand, .operand_count = 1};
    model_say(model, "dao_executor_push(executor, &kernel); /* writes the view */");
    if (model_answer(model, dao_executor_push(model->executor, &pushed), write_status(model, i))) {
        model->managed[i].value = value_with_part(model, i);
        model->managed[i].is_written = true;
    } else {
        free(kernel);
    }
    if (may_be_full(model) || model->may_fail) {
        check_sync(model, DAO_OK);
    }
}

bool call_managed_view(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_managed(model, op->slot);
    if (i == MODEL_MANAGED_COUNT || model->managed[i].is_unknown) {
        return false;
    }
    dao_managed_t *view = NULL;
    size_t size_bytes = model->managed[i].size_bytes;
    dao_span_t span = part_of(size_bytes, op->number);
    dao_status_t got = dao_managed_view(model->managed[i].tensor, span.offset_bytes, size_bytes + 1, &view);
    (void)model_answer(model, got, DAO_ERR_INVALID);
    model_say(model, "dao_managed_view(managed_%u, %zu, %zu, &view);", i, span.offset_bytes, span.size_bytes);
    got = dao_managed_view(model->managed[i].tensor, span.offset_bytes, span.size_bytes, &view);
    if (!model_answer(model, got, DAO_OK)) {
        return true;
    }
    MODEL_REQUIRE(model, dao_managed_size(view) == span.size_bytes);
    push_view(model, i, view, span.size_bytes);
    model_say(model, "dao_managed_release(view);");
    (void)model_answer(model, dao_managed_release(view), DAO_OK);
    return true;
}

/* Adds a kernel to a list. It reads or writes, and does not both: a second run finds what the first one has
   written. Returns true if the list has it. */
static bool push_to_list(model_t *model, const harness_op_t *op, dao_command_list_t *list)
{
    kernel_t *kernel = calloc(1, sizeof(*kernel));
    dao_operand_t operands[OPERANDS_COUNT];
    uint32_t count;
    *kernel = (kernel_t){.model = model};
    if (!make_kernel(model, op, kernel, operands, &count)) {
        free(kernel);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool is_read = kernel->accesses[i] == DAO_ACCESS_READ;
        operands[i].access = kernel->accesses[i] = is_read ? DAO_ACCESS_READ : DAO_ACCESS_WRITE;
    }
    dao_kernel_t pushed = {.launch = launch,
                           .user = kernel,
                           .drop = free,
                           .operands = operands,
                           .operand_count = count,
                           .spans = kernel->spans};
    model_say(model, "dao_command_list_push(list, &kernel); /* %u operands */", count);
    if (!model_answer(model, dao_command_list_push(list, &pushed), DAO_OK)) {
        free(kernel);
        return false;
    }
    return true;
}

static void run_list(model_t *model, dao_command_list_t *list)
{
    model_say(model, "dao_command_list_run(list);");
    (void)model_answer(model, dao_command_list_run(list), DAO_OK);
}

/* A list of one kernel, run twice. */
bool call_command_list(model_t *model, const harness_op_t *op)
{
    dao_command_list_t *list = NULL;
    if (model->executor == NULL ||
        !model_answer(model, dao_command_list_create(model->executor, &list), DAO_OK)) {
        return model->executor != NULL;
    }
    harness_op_t writes = *op;
    writes.kind = 5;
    bool has_kernel = push_to_list(model, &writes, list);
    if (has_kernel) {
        write_in_list(model, op, list);
        run_list(model, list);
        run_list(model, list);
    }
    dao_command_list_destroy(list);
    if (has_kernel) {
        check_sync(model, DAO_OK);
    }
    return true;
}

static void plan_list(model_t *model, const harness_op_t *op, dao_command_list_t *list)
{
    uint64_t work_limit = op->number % 2; /* a plan that is looked for long, or the first one */
    model_say(model, "dao_command_list_plan(list, %d);", (int)work_limit);
    dao_status_t got = dao_command_list_plan(list, work_limit);
    bool is_full = (got == DAO_ERR_HOST_FULL || got == DAO_ERR_LIMIT) && may_be_full(model);
    bool lacks_room = got == DAO_ERR_LIMIT && is_any_pinned(model); /* to measure the link */
    if (!is_full && !lacks_room) {
        (void)model_answer(model, got, model->learns_steps ? DAO_OK : DAO_ERR_UNSUPPORTED);
    }
}

/* Creates the tensors that are not there, so large that all together do not fit. */
static void create_others(model_t *model, const harness_op_t *op)
{
    harness_op_t large = *op;
    large.number |= 0xc000;
    large.kind = 0;
    for (uint32_t i = 0; i < MODEL_MANAGED_COUNT; i++) {
        large.slot = (uint8_t)i;
        (void)call_managed_create(model, &large);
    }
}

/* A list of all tensors, two a kernel, is planned; it runs never, once or twice. */
bool call_command_list_plan(model_t *model, const harness_op_t *op)
{
    dao_command_list_t *list = NULL;
    if (model->executor == NULL) {
        return model_answer(model, dao_command_list_plan(NULL, 0), DAO_ERR_INVALID) || true;
    }
    if (!model_answer(model, dao_command_list_create(model->executor, &list), DAO_OK)) {
        return true;
    }
    create_others(model, op);
    harness_op_t part = *op;
    model_managed_t before[MODEL_MANAGED_COUNT];
    memcpy(before, model->managed, sizeof(before));
    for (uint32_t i = 0; i < MODEL_MANAGED_COUNT; i += OPERANDS_COUNT) {
        part.slot = (uint8_t)i;
        part.other = (uint8_t)(i + 1);
        (void)push_to_list(model, &part, list);
    }
    plan_list(model, op, list);
    uint32_t run_count = op->small % 3;
    for (uint32_t run = 0; run < run_count; run++) {
        run_list(model, list);
    }
    dao_command_list_destroy(list);
    if (run_count == 0) {
        memcpy(model->managed, before, sizeof(before));
    }
    check_sync(model, DAO_OK);
    return true;
}

void call_executor_end(model_t *model)
{
    for (uint32_t i = 0; i < MODEL_MANAGED_COUNT; i++) {
        (void)model_answer(model, dao_managed_release(model->managed[i].tensor), DAO_OK);
        model->managed[i].tensor = NULL;
    }
    if (model->executor != NULL) {
        model_say(model, "dao_executor_destroy(executor);");
        dao_status_t got = dao_executor_destroy(model->executor);
        if (got != DAO_ERR_HOST_FULL || !may_be_full(model)) {
            (void)model_answer(model, got, DAO_OK);
        }
        model->executor = NULL;
        model->books[0].arena_bytes = 0;
        model->books[0].late_bytes += ARENA_BYTES; /* a step may defer its free */
        model->books[0].late_count++;
        take_counts(model, model_place(1));
    }
    free(model->bytes);
    model->bytes = NULL;
}

bool call_executor_destroy(model_t *model, const harness_op_t *op)
{
    (void)op;
    if (model->executor == NULL) {
        return model_answer(model, dao_executor_destroy(NULL), DAO_OK);
    }
    call_executor_end(model);
    return true;
}
