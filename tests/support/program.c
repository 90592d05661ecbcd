/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels as host functions on the device's own bytes. */
#include "tests/support/program.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/suite.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a kernel carries from push to launch. */
typedef struct plan {
    program_t *program;
    program_kernel_t kernel;
} plan_t;

/* What a launched kernel carries to the device: addresses and versions are fixed by then. */
typedef struct job {
    program_t *program;
    program_kernel_t kernel;
    uint32_t versions[PROGRAM_OPERAND_COUNT_MAX]; /* before the kernel */
} job_t;

static_assert(PROGRAM_OPERAND_COUNT_MAX + 1 <= DEVICE_OPERAND_COUNT_MAX, "the workspace is one more");

/* The row of a tensor's content that begins at an offset, a multiple of a row: each begins one further in the
   ramp. */
static const unsigned char *row_at(const program_t *program, uint32_t tensor, uint32_t version, size_t offset)
{
    return &program->ramp[(tensor * 151u + version * 29u + offset / PROGRAM_ROW_BYTES) % PROGRAM_ROW_BYTES];
}

static size_t row_bytes(size_t size_bytes, size_t offset)
{
    return size_bytes - offset < PROGRAM_ROW_BYTES ? size_bytes - offset : PROGRAM_ROW_BYTES;
}

static void fill(const program_t *program, unsigned char *bytes, size_t size_bytes, uint32_t tensor,
                 uint32_t version)
{
    for (size_t i = 0; i < size_bytes; i += PROGRAM_ROW_BYTES) {
        memcpy(bytes + i, row_at(program, tensor, version, i), row_bytes(size_bytes, i));
    }
}

static bool holds(const program_t *program, const unsigned char *bytes, size_t size_bytes, uint32_t tensor,
                  uint32_t version)
{
    bool is_right = true;
    for (size_t i = 0; i < size_bytes; i += PROGRAM_ROW_BYTES) {
        is_right =
            memcmp(bytes + i, row_at(program, tensor, version, i), row_bytes(size_bytes, i)) == 0 && is_right;
    }
    return is_right;
}

static void check(program_t *program, bool is_right)
{
    atomic_fetch_add(&program->read_count, 1);
    atomic_fetch_add(&program->mismatch_count, is_right ? 0u : 1u);
}

/* The workspace comes behind the operands. */
static void run_job(unsigned char *const *bytes, void *user)
{
    job_t *job = user;
    const program_kernel_t *kernel = &job->kernel;
    unsigned char *workspace = bytes[kernel->operand_count];
    if (kernel->workspace_bytes > 0) {
        fill(job->program, workspace, kernel->workspace_bytes, UINT32_MAX, 1);
    }
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        uint32_t tensor = kernel->tensors[i];
        if (kernel->accesses[i] != DAO_ACCESS_WRITE) {
            check(job->program, holds(job->program, bytes[i], job->program->tensors[tensor].size_bytes,
                                      tensor, job->versions[i]));
        }
    }
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        uint32_t tensor = kernel->tensors[i];
        if (kernel->accesses[i] != DAO_ACCESS_READ) {
            fill(job->program, bytes[i], job->program->tensors[tensor].size_bytes, tensor,
                 job->versions[i] + 1);
        }
    }
    if (kernel->workspace_bytes > 0) {
        check(job->program, holds(job->program, workspace, kernel->workspace_bytes, UINT32_MAX, 1));
    }
    free(job);
}

static dao_status_t launch(const dao_launch_t *launch, void *user)
{
    plan_t *plan = user;
    program_t *program = plan->program;
    const program_kernel_t *kernel = &plan->kernel;
    if (kernel->answer != DAO_OK) {
        return kernel->answer;
    }
    dao_status_t status = program->work != NULL ? program->work(launch, NULL) : DAO_OK;
    job_t *job = status == DAO_OK ? calloc(1, sizeof(*job)) : NULL;
    if (job == NULL) {
        return status != DAO_OK ? status : DAO_ERR_NO_HOST_MEMORY;
    }
    job->program = program;
    job->kernel = *kernel;
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, launch->device_index};
    device_operand_t operands[PROGRAM_OPERAND_COUNT_MAX + 1];
    uint32_t versions[PROGRAM_OPERAND_COUNT_MAX]; /* once it is queued, the job is the stream's */
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        const program_tensor_t *tensor = &program->tensors[kernel->tensors[i]];
        versions[i] = tensor->version;
        job->versions[i] = versions[i];
        operands[i] =
            (device_operand_t){place, launch->addresses[i], tensor->size_bytes, kernel->accesses[i]};
    }
    operands[kernel->operand_count] =
        (device_operand_t){place, launch->workspace, kernel->workspace_bytes, DAO_ACCESS_WRITE};
    status = device_launch(launch->stream, operands, kernel->operand_count + 1, run_job, job);
    if (status != DAO_OK) {
        free(job);
        return status;
    }
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        if (kernel->accesses[i] != DAO_ACCESS_READ) {
            program->tensors[kernel->tensors[i]].version = versions[i] + 1;
        }
    }
    return DAO_OK;
}

static void drop_plan(void *user)
{
    plan_t *plan = user;
    atomic_fetch_sub(&plan->program->open_count, 1);
    free(plan);
}

void program_init(program_t *program, dao_executor_t *executor)
{
    memset(program, 0, sizeof(*program));
    program->executor = executor;
    for (size_t i = 0; i < sizeof(program->ramp); i++) {
        program->ramp[i] = (unsigned char)(i * 7);
    }
}

uint32_t program_tensor(program_t *program, size_t size_bytes)
{
    uint32_t number = program->tensor_count;
    program_tensor_t *tensor = &program->tensors[number];
    dao_managed_config_t config = {.size_bytes = size_bytes};
    if (number == PROGRAM_TENSOR_COUNT_MAX ||
        dao_managed_create(program->executor, &config, &tensor->handle) != DAO_OK) {
        return UINT32_MAX;
    }
    tensor->size_bytes = size_bytes;
    tensor->version = 0;
    program->tensor_count++;
    return number;
}

unsigned char *program_content(const program_t *program, size_t size_bytes)
{
    unsigned char *bytes = malloc(size_bytes);
    if (bytes != NULL) {
        fill(program, bytes, size_bytes, program->tensor_count, 1);
    }
    return bytes;
}

uint32_t program_tensor_from(program_t *program, size_t size_bytes, dao_source_t *source, uint64_t offset)
{
    uint32_t number = program->tensor_count;
    program_tensor_t *tensor = &program->tensors[number];
    dao_managed_config_t config = {.size_bytes = size_bytes};
    if (number == PROGRAM_TENSOR_COUNT_MAX ||
        dao_managed_create_from(program->executor, &config, source, offset, &tensor->handle) != DAO_OK) {
        return UINT32_MAX;
    }
    tensor->size_bytes = size_bytes;
    tensor->is_fixed = true;
    tensor->version = 1;
    program->tensor_count++;
    return number;
}

bool program_renew(program_t *program, uint32_t number)
{
    program_tensor_t *tensor = &program->tensors[number];
    dao_managed_config_t config = {.size_bytes = tensor->size_bytes};
    return dao_managed_create(program->executor, &config, &tensor->handle) == DAO_OK;
}

dao_status_t program_write(program_t *program, uint32_t number)
{
    program_tensor_t *tensor = &program->tensors[number];
    unsigned char *bytes = malloc(tensor->size_bytes);
    if (bytes == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    fill(program, bytes, tensor->size_bytes, number, tensor->version + 1);
    dao_status_t status = dao_managed_write(tensor->handle, bytes, tensor->size_bytes);
    tensor->version += status == DAO_OK ? 1 : 0;
    free(bytes);
    return status;
}

/* Reads a tensor and compares it with `version`, or with its latest version as of then if that is NULL. */
static dao_status_t read_and_compare(program_t *program, uint32_t number, const uint32_t *version)
{
    program_tensor_t *tensor = &program->tensors[number];
    unsigned char *bytes = calloc(1, tensor->size_bytes);
    if (bytes == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_status_t status = dao_managed_read(tensor->handle, bytes, tensor->size_bytes);
    if (status == DAO_OK &&
        !holds(program, bytes, tensor->size_bytes, number, version != NULL ? *version : tensor->version)) {
        status = DAO_ERR_CORRUPT;
    }
    free(bytes);
    return status;
}

dao_status_t program_read(program_t *program, uint32_t number)
{
    return read_and_compare(program, number, NULL);
}

dao_status_t program_read_version(program_t *program, uint32_t number, uint32_t version)
{
    return read_and_compare(program, number, &version);
}

uint32_t program_count_lost(program_t *program)
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        if (program->tensors[i].handle != NULL && program->tensors[i].version > 0) {
            lost += program_read(program, i) != DAO_OK ? 1 : 0;
        }
    }
    return lost;
}

uint32_t program_count_wrong_after_loss(program_t *program, uint32_t *out_before_count)
{
    uint32_t wrong = 0;
    *out_before_count = 0;
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        const program_tensor_t *tensor = &program->tensors[i];
        if (tensor->handle == NULL || tensor->version == 0) {
            continue;
        }
        char name[32];
        (void)snprintf(name, sizeof(name), "tensor %" PRIu64, dao_managed_id(tensor->handle));
        dao_status_t status = program_read(program, i);
        if (status == DAO_ERR_CORRUPT && tensor->version > 1) {
            *out_before_count += 1;
            status = program_read_version(program, i, tensor->version - 1);
        }
        bool is_named = status == DAO_ERR_DEVICE_LOST && strstr(dao_last_message(), name) != NULL;
        wrong += status == DAO_OK || is_named ? 0 : 1;
    }
    return wrong;
}

/* Adds a kernel to a command list, or pushes it if `list` is NULL. */
static dao_status_t add_kernel(program_t *program, dao_command_list_t *list, const program_kernel_t *kernel)
{
    dao_operand_t operands[PROGRAM_OPERAND_COUNT_MAX];
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        operands[i] = (dao_operand_t){program->tensors[kernel->tensors[i]].handle, kernel->accesses[i]};
    }
    plan_t *plan = calloc(1, sizeof(*plan));
    if (plan == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    plan->program = program;
    plan->kernel = *kernel;
    dao_kernel_t description = {
        .name = kernel->name,
        .launch = launch,
        .user = plan,
        .drop = drop_plan,
        .operands = operands,
        .operand_count = kernel->operand_count,
        .cost_ns = program->cost_ns,
        .stream_index = program->stream_index,
        .workspace_bytes = kernel->workspace_bytes,
    };
    atomic_fetch_add(&program->open_count, 1);
    dao_status_t status = list != NULL ? dao_command_list_push(list, &description)
                                       : dao_executor_push(program->executor, &description);
    if (status != DAO_OK) {
        drop_plan(plan);
    }
    return status;
}

dao_status_t program_push(program_t *program, const program_kernel_t *kernel)
{
    return add_kernel(program, NULL, kernel);
}

dao_status_t program_list_push(program_t *program, dao_command_list_t *list, const program_kernel_t *kernel)
{
    return add_kernel(program, list, kernel);
}

dao_executor_stats_t program_stats(const program_t *program)
{
    dao_executor_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_executor_stats_get(program->executor, &stats), DAO_OK);
    return stats;
}

void program_drop(program_t *program, uint32_t tensor)
{
    (void)dao_managed_release(program->tensors[tensor].handle); /* NULL is allowed */
    program->tensors[tensor].handle = NULL;
}

void program_drop_all(program_t *program)
{
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        program_drop(program, i);
    }
}
