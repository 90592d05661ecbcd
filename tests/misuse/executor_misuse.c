/* SPDX-License-Identifier: Apache-2.0 */
/* The executor: its settings, kernels, tensors, steps and command lists. */
#include "tests/misuse/misuse.h"

#define ARENA_BYTES (1 * MIB)

static dao_status_t launch_nothing(const dao_launch_t *launch, void *user)
{
    (void)launch;
    (void)user;
    return DAO_OK;
}

/* No transfer of these cases is begun. */
static void transfer_done(dao_status_t status, void *user)
{
    (void)status;
    (void)user;
    NEED(false);
}

static dao_executor_t *executor_of(void)
{
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = ARENA_BYTES};
    NEED(dao_executor_create(&config, &executor) == DAO_OK);
    return executor;
}

static dao_managed_t *tensor_of(dao_executor_t *executor, size_t size_bytes)
{
    dao_managed_t *tensor = NULL;
    dao_managed_config_t config = {.name = "weights", .size_bytes = size_bytes};
    NEED(dao_managed_create(executor, &config, &tensor) == DAO_OK);
    return tensor;
}

static void executor_settings(void)
{
    dao_executor_t *executor = NULL;
    misuse_begin();
    REFUSED(dao_executor_create(NULL, NULL), DAO_ERR_INVALID, "NULL");
    dao_executor_config_t config = {.capacity_bytes = 1};
    REFUSED(dao_executor_create(&config, &executor), DAO_ERR_INVALID, "capacity_bytes is 1");
    config = (dao_executor_config_t){.policy = (dao_policy_t)99};
    REFUSED(dao_executor_create(&config, &executor), DAO_ERR_INVALID, "policy 99");
    config = (dao_executor_config_t){.policy = DAO_POLICY_USER};
    REFUSED(dao_executor_create(&config, &executor), DAO_ERR_INVALID, "score");
    config = (dao_executor_config_t){.device_index = 9};
    REFUSED(dao_executor_create(&config, &executor), DAO_ERR_NO_DEVICE, "device:9");
    config = (dao_executor_config_t){.capacity_bytes = SIZE_MAX};
    REFUSED(dao_executor_create(&config, &executor), DAO_ERR_OVERFLOW, "capacity_bytes");
    config = (dao_executor_config_t){.capacity_bytes = ARENA_BYTES,
                                     .file = {.directory = ".", .engine = (dao_file_engine_t)77}};
    REFUSED(dao_executor_create(&config, &executor), DAO_ERR_INVALID, "file engine 77 is none");
    NEED(executor == NULL);
}

/* Messages name the call. */
static void executor_capacity_and_step_file(void)
{
    misuse_begin();
    dao_executor_t *executor = executor_of();
    REFUSED(dao_executor_capacity_set(NULL, ARENA_BYTES), DAO_ERR_INVALID,
            "dao_executor_capacity_set: executor is NULL");
    REFUSED(dao_executor_capacity_set(executor, 1), DAO_ERR_INVALID,
            "dao_executor_capacity_set: capacity_bytes is 1; the least is");
    REFUSED(dao_executor_capacity_set(executor, SIZE_MAX), DAO_ERR_OVERFLOW,
            "dao_executor_capacity_set: capacity_bytes is");
    REFUSED(dao_executor_step_write(NULL, "step"), DAO_ERR_INVALID,
            "dao_executor_step_write: executor is NULL");
    REFUSED(dao_executor_step_write(executor, NULL), DAO_ERR_INVALID,
            "dao_executor_step_write: path is NULL");
    REFUSED(dao_executor_step_write(executor, ""), DAO_ERR_INVALID,
            "dao_executor_step_write: the path is empty");
    REFUSED(dao_executor_step_write(executor, "step"), DAO_ERR_NOT_READY,
            "dao_executor_step_write: no step has ended");
    NEED(dao_executor_destroy(executor) == DAO_OK);
}

static void executor_larger_than_the_device(void)
{
    dao_executor_t *executor = NULL;
    misuse_begin();
    dao_executor_config_t config = {.capacity_bytes = 2 * MISUSE_DEVICE_BYTES};
    REFUSED(dao_executor_create(&config, &executor), DAO_ERR_NO_DEVICE_MEMORY, "arena of");
    NEED(executor == NULL);
}

static void executor_null(void)
{
    misuse_begin();
    dao_managed_t *tensor = NULL;
    dao_command_list_t *list = NULL;
    REFUSED(dao_executor_push(NULL, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_executor_sync(NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_executor_step_begin(NULL), DAO_ERR_INVALID, "dao_executor_step_begin: executor is NULL");
    REFUSED(dao_executor_step_end(NULL), DAO_ERR_INVALID, "dao_executor_step_end: executor is NULL");
    REFUSED(dao_executor_stats_get(NULL, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_managed_create(NULL, NULL, &tensor), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_managed_read(NULL, &tensor, 1), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_command_list_create(NULL, &list), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_command_list_run(NULL), DAO_ERR_INVALID, "NULL");
    NEED(tensor == NULL && list == NULL);
}

static void executor_forgotten(void)
{
    misuse_begin();
    NEED(executor_of() != NULL);
}

static void managed_of_a_source_that_is_released_or_too_small(void)
{
    static const char bytes[100];
    dao_managed_t *tensor = NULL, *first = NULL;
    dao_source_t *source = NULL;
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_config_t config = {.name = "weights", .size_bytes = 100};
    NEED(dao_source_adopt(bytes, sizeof(bytes), NULL, NULL, &source) == DAO_OK);
    REFUSED(dao_managed_create_from(executor, &config, source, 1, &tensor), DAO_ERR_INVALID,
            "\"weights\" of 100 bytes from byte 1 on does not lie in");
    config.name = NULL;
    REFUSED(dao_managed_create_from(executor, &config, source, 1, &tensor), DAO_ERR_INVALID,
            "dao_managed_create_from: tensor \"(no name)\" of 100 bytes from byte 1 on");
    config.name = "weights";
    REFUSED(dao_managed_create_from(executor, &config, NULL, 0, &tensor), DAO_ERR_INVALID, "source is NULL");
    NEED(dao_managed_create_from(executor, &config, source, 0, &first) == DAO_OK);
    NEED(dao_source_release(source) == DAO_OK);
    REFUSED(dao_managed_create_from(executor, &config, source, 0, &tensor), DAO_ERR_INVALID, "was released");
    REFUSED(dao_source_release(source), DAO_ERR_INVALID, "no references");
    NEED(dao_managed_release(first) == DAO_OK);
    REFUSED(dao_managed_create_from(executor, &config, source, 0, &tensor), DAO_ERR_INVALID, "was released");
    NEED(tensor == NULL && dao_executor_destroy(executor) == DAO_OK);
}

static void managed_of_no_bytes(void)
{
    dao_managed_t *tensor = NULL;
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_config_t config = {.name = "empty"};
    REFUSED(dao_managed_create(executor, &config, &tensor), DAO_ERR_INVALID, "at least 1 byte");
    config.size_bytes = SIZE_MAX;
    REFUSED(dao_managed_create(executor, &config, &tensor), DAO_ERR_OVERFLOW, "at most");
    NEED(tensor == NULL && dao_executor_destroy(executor) == DAO_OK);
}

static void managed_read_and_written_outside(void)
{
    static char bytes[2000];
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_t *tensor = tensor_of(executor, 1000);
    REFUSED(dao_managed_write(tensor, bytes, 1001), DAO_ERR_INVALID, "1000");
    REFUSED(dao_managed_read(tensor, bytes, 1001), DAO_ERR_INVALID, "1000");
    REFUSED(dao_managed_write(tensor, NULL, 1000), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_managed_read(tensor, bytes, 1000), DAO_ERR_NEVER_WRITTEN, "weights");
    NEED(dao_managed_release(tensor) == DAO_OK && dao_executor_destroy(executor) == DAO_OK);
}

/* A tensor whose last handle is gone is no tensor any more, also while its executor still has it. */
static void managed_that_is_released(void)
{
    static char bytes[1000];
    dao_managed_t *view = NULL;
    dao_command_list_t *list;
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_t *tensor = tensor_of(executor, sizeof(bytes));
    dao_operand_t operand = {tensor, DAO_ACCESS_WRITE};
    dao_kernel_t kernel = {
        .name = "late", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
    NEED(dao_command_list_create(executor, &list) == DAO_OK);
    NEED(dao_managed_write(tensor, bytes, sizeof(bytes)) == DAO_OK);
    NEED(dao_managed_release(tensor) == DAO_OK && dao_executor_sync(executor) == DAO_OK);
    REFUSED(dao_managed_release(tensor), DAO_ERR_INVALID, "no references");
    REFUSED(dao_managed_retain(tensor), DAO_ERR_INVALID, "no references");
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "\"late\", operand 0: the tensor");
    REFUSED(dao_command_list_push(list, &kernel), DAO_ERR_INVALID, "was released");
    REFUSED(dao_command_list_discard(list, tensor), DAO_ERR_INVALID, "was released");
    REFUSED(dao_command_list_write(list, tensor, bytes, sizeof(bytes)), DAO_ERR_INVALID, "was released");
    REFUSED(dao_managed_read(tensor, bytes, sizeof(bytes)), DAO_ERR_INVALID, "was released");
    REFUSED(dao_managed_write(tensor, bytes, sizeof(bytes)), DAO_ERR_INVALID, "was released");
    REFUSED(dao_managed_read_part(tensor, 0, bytes, 1), DAO_ERR_INVALID, "was released");
    REFUSED(dao_managed_write_part(tensor, 0, bytes, 1), DAO_ERR_INVALID, "was released");
    REFUSED(dao_managed_read_async(tensor, 0, bytes, 1, transfer_done, NULL), DAO_ERR_INVALID,
            "was released");
    REFUSED(dao_managed_write_async(tensor, 0, bytes, 1, transfer_done, NULL), DAO_ERR_INVALID,
            "was released");
    REFUSED(dao_managed_view(tensor, 0, 1, &view), DAO_ERR_INVALID, "was released");
    REFUSED(dao_managed_pin(tensor, NULL), DAO_ERR_INVALID, "was released");
    REFUSED(dao_managed_unpin(tensor), DAO_ERR_INVALID, "was released");
    NEED(dao_managed_size(tensor) == 0 && dao_managed_id(tensor) == 0 && view == NULL);
    dao_command_list_destroy(list);
    NEED(dao_executor_destroy(executor) == DAO_OK);
    REFUSED(dao_managed_read(tensor, bytes, sizeof(bytes)), DAO_ERR_INVALID, "was released");
}

/* Work that was pushed before keeps what the handle stood for. A view has handles of its own. */
static void managed_that_work_still_uses(void)
{
    static char bytes[1000];
    dao_managed_t *view = NULL;
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_t *tensor = tensor_of(executor, sizeof(bytes));
    NEED(dao_managed_write(tensor, bytes, sizeof(bytes)) == DAO_OK);
    NEED(dao_managed_view(tensor, 0, 100, &view) == DAO_OK && dao_managed_release(view) == DAO_OK);
    REFUSED(dao_managed_read(view, bytes, 100), DAO_ERR_INVALID, "was released");
    dao_operand_t operand = {view, DAO_ACCESS_READ};
    dao_kernel_t kernel = {
        .name = "shown", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "was released");
    operand.tensor = tensor;
    NEED(dao_executor_push(executor, &kernel) == DAO_OK && dao_managed_release(tensor) == DAO_OK);
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "was released");
    NEED(dao_executor_sync(executor) == DAO_OK && dao_executor_destroy(executor) == DAO_OK);
}

static void kernel_wrong(void)
{
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_kernel_t kernel = {.name = "wrong"};
    REFUSED(dao_executor_push(executor, NULL), DAO_ERR_INVALID, "launch function");
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "launch");
    kernel.launch = launch_nothing;
    kernel.operand_count = 1;
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "");
    dao_operand_t operand = {.tensor = NULL};
    kernel.operands = &operand;
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "");
    dao_managed_t *tensor = tensor_of(executor, 1000);
    operand = (dao_operand_t){tensor, (dao_access_t)9};
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "9");
    kernel.operand_count = DAO_OPERAND_COUNT_MAX + 1;
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "4096");
    NEED(dao_managed_release(tensor) == DAO_OK && dao_executor_destroy(executor) == DAO_OK);
}

static void kernel_of_another_executor(void)
{
    misuse_begin();
    dao_executor_t *executor = executor_of(), *other = executor_of();
    dao_managed_t *tensor = tensor_of(other, 1000);
    dao_operand_t operand = {tensor, DAO_ACCESS_WRITE};
    dao_kernel_t kernel = {
        .name = "mixed", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
    REFUSED(dao_executor_push(executor, &kernel), DAO_ERR_INVALID, "executor");
    NEED(dao_managed_release(tensor) == DAO_OK && dao_executor_destroy(executor) == DAO_OK);
    NEED(dao_executor_destroy(other) == DAO_OK);
}

/* The kernel is taken, and its failure is told by the next wait. */
static void kernel_that_reads_what_nobody_wrote(void)
{
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_t *tensor = tensor_of(executor, 1000);
    dao_operand_t operand = {tensor, DAO_ACCESS_READ};
    dao_kernel_t kernel = {
        .name = "early", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
    NEED(dao_executor_push(executor, &kernel) == DAO_OK);
    REFUSED(dao_executor_sync(executor), DAO_ERR_NEVER_WRITTEN, "early");
    NEED(dao_managed_release(tensor) == DAO_OK);
    (void)dao_executor_destroy(executor); /* it says so once more */
}

static void kernel_larger_than_the_arena(void)
{
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_t *tensor = tensor_of(executor, 2 * ARENA_BYTES);
    dao_operand_t operand = {tensor, DAO_ACCESS_WRITE};
    dao_kernel_t kernel = {
        .name = "huge", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
    NEED(dao_executor_push(executor, &kernel) == DAO_OK);
    REFUSED(dao_executor_sync(executor), DAO_ERR_KERNEL_TOO_LARGE, "huge");
    NEED(dao_managed_release(tensor) == DAO_OK);
    (void)dao_executor_destroy(executor); /* it says so once more */
}

/* What a kernel's launch has to leave to others. */
static dao_status_t launch_and_wait(const dao_launch_t *launch, void *user)
{
    dao_executor_t *executor = user;
    (void)launch;
    REFUSED(dao_executor_sync(executor), DAO_ERR_REENTRANT, "executor");
    REFUSED(dao_executor_destroy(executor), DAO_ERR_REENTRANT, "executor");
    return DAO_OK;
}

static void executor_called_by_its_kernel(void)
{
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_t *tensor = tensor_of(executor, 1000);
    dao_operand_t operand = {tensor, DAO_ACCESS_WRITE};
    dao_kernel_t kernel = {.name = "nested",
                           .launch = launch_and_wait,
                           .user = executor,
                           .operands = &operand,
                           .operand_count = 1};
    NEED(dao_executor_push(executor, &kernel) == DAO_OK && dao_executor_sync(executor) == DAO_OK);
    NEED(dao_managed_release(tensor) == DAO_OK && dao_executor_destroy(executor) == DAO_OK);
}

static dao_status_t launch_and_free(const dao_launch_t *launch, void *user)
{
    (void)user;
    REFUSED(dao_free(misuse_device, launch->addresses[0]), DAO_ERR_NOT_YOURS, "arena");
    return DAO_OK;
}

/* The first tensor lies where the arena begins. */
static void arena_freed(void)
{
    misuse_begin();
    dao_executor_t *executor = executor_of();
    dao_managed_t *tensor = tensor_of(executor, ARENA_BYTES);
    dao_operand_t operand = {tensor, DAO_ACCESS_WRITE};
    dao_kernel_t kernel = {
        .name = "free", .launch = launch_and_free, .operands = &operand, .operand_count = 1};
    NEED(dao_executor_push(executor, &kernel) == DAO_OK && dao_executor_sync(executor) == DAO_OK);
    NEED(dao_managed_release(tensor) == DAO_OK && dao_executor_destroy(executor) == DAO_OK);
}

static void command_list_wrong(void)
{
    dao_command_list_t *list;
    misuse_begin();
    dao_executor_t *executor = executor_of();
    REFUSED(dao_command_list_create(executor, NULL), DAO_ERR_INVALID, "NULL");
    NEED(dao_command_list_create(executor, &list) == DAO_OK);
    REFUSED(dao_command_list_push(list, NULL), DAO_ERR_INVALID, "launch function");
    REFUSED(dao_command_list_push(list, &(dao_kernel_t){.name = "wrong"}), DAO_ERR_INVALID, "launch");
    REFUSED(dao_command_list_discard(list, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_command_list_write(list, NULL, "", 1), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_command_list_least_capacity(list, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_command_list_plan(NULL, 0), DAO_ERR_INVALID, "NULL");
    dao_command_list_destroy(list);
    NEED(dao_executor_destroy(executor) == DAO_OK);
}

static void policy_names(void)
{
    dao_policy_t policy = DAO_POLICY_SIZE;
    REFUSED(dao_policy_parse("oldest", &policy), DAO_ERR_INVALID, "belady");
    REFUSED(dao_policy_parse(NULL, &policy), DAO_ERR_INVALID, "NULL");
    NEED(policy == DAO_POLICY_SIZE); /* only written on DAO_OK */
}

const misuse_case_t misuse_executor_cases[] = {
    {.name = "executor_settings", .run = executor_settings},
    {.name = "executor_larger_than_the_device", .run = executor_larger_than_the_device},
    {.name = "executor_capacity_and_step_file", .run = executor_capacity_and_step_file},
    {.name = "executor_null", .run = executor_null},
    {.name = "executor_forgotten",
     .run = executor_forgotten,
     .end = DAO_ERR_BUSY,
     .says = "live at shutdown: stream of an executor"},
    {.name = "managed_of_no_bytes", .run = managed_of_no_bytes},
    {.name = "managed_of_a_source", .run = managed_of_a_source_that_is_released_or_too_small},
    {.name = "managed_read_and_written_outside", .run = managed_read_and_written_outside},
    {.name = "managed_that_is_released", .run = managed_that_is_released},
    {.name = "managed_that_work_still_uses", .run = managed_that_work_still_uses},
    {.name = "kernel_wrong", .run = kernel_wrong},
    {.name = "kernel_of_another_executor", .run = kernel_of_another_executor},
    {.name = "kernel_that_reads_what_nobody_wrote", .run = kernel_that_reads_what_nobody_wrote},
    {.name = "kernel_larger_than_the_arena", .run = kernel_larger_than_the_arena},
    {.name = "executor_called_by_its_kernel", .run = executor_called_by_its_kernel},
    {.name = "arena_freed", .run = arena_freed},
    {.name = "command_list_wrong", .run = command_list_wrong},
    {.name = "policy_names", .run = policy_names},
    {.name = NULL},
};
