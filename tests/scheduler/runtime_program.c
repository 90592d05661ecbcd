/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* fork, syscall */
#include "tests/scheduler/runtime_program.h"

#include "base/numbers/random.h"
#include "tests/scheduler/baton.h"
#include "tests/scheduler/search.h"

#include <dao/dao.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE_BYTES (UINT64_C(64) << 20)

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0}, host = {DAO_PLACE_KIND_CPU, 0};

static void start(void)
{
    BATON_CHECK(dao_init(&(dao_config_t){.cpu = {.device_count = 1, .device_bytes = DEVICE_BYTES}}) ==
                DAO_OK);
}

static void stop(void)
{
    dao_stats_t stats;
    BATON_CHECK(dao_trim(device, 0, NULL) == DAO_OK); /* carries out frees that met another thread's call */
    BATON_CHECK(dao_stats_get(device, &stats) == DAO_OK);
    BATON_CHECK(stats.live_count == 0 && stats.used_bytes == 0);
    BATON_CHECK(dao_used(host) == 0);
    BATON_CHECK(dao_finalize() == DAO_OK);
}

/* ---- handles ---- */

#define SHARED_BYTES 64u

static dao_memory_t *handles[2]; /* one over bytes of the program, one with a block of its own */
static char shared_bytes[SHARED_BYTES];
static _Atomic uint32_t deleted_count;

static void count_deleted(void *address, size_t size_bytes, void *user)
{
    BATON_CHECK(address == shared_bytes && size_bytes == SHARED_BYTES && user == &deleted_count);
    deleted_count++;
}

void handle_program_begin(const void *program, uint64_t *random)
{
    (void)program, (void)random;
    start();
    BATON_CHECK(dao_memory_from_pointer(host, shared_bytes, SHARED_BYTES, count_deleted, &deleted_count,
                                        &handles[0]) == DAO_OK);
    BATON_CHECK(dao_memory_create(device, SHARED_BYTES, NULL, &handles[1]) == DAO_OK);
    for (uint32_t i = 1; i < 3; i++) { /* a reference for each of three threads */
        BATON_CHECK(dao_memory_retain(handles[0]) == DAO_OK && dao_memory_retain(handles[1]) == DAO_OK);
    }
}

static void use_handle(dao_memory_t *handle, uint64_t *random)
{
    const int64_t shape[] = {SHARED_BYTES / 8};
    dao_memory_t *range = NULL;
    dao_tensor_t *tensor = NULL;
    switch (dao_random_below(random, 3)) {
    case 0:
        BATON_CHECK(dao_memory_retain(handle) == DAO_OK);
        BATON_CHECK(dao_memory_use_count(handle) >= 2);
        BATON_CHECK(dao_memory_release(handle) == DAO_OK);
        break;
    case 1:
        BATON_CHECK(dao_memory_sub_range(handle, 16, 16, &range) == DAO_OK);
        BATON_CHECK((char *)dao_memory_address(range) == (char *)dao_memory_address(handle) + 16);
        BATON_CHECK(dao_memory_release(range) == DAO_OK);
        break;
    default:
        BATON_CHECK(dao_tensor_from_memory(handle, 0, DAO_TYPE_F64, 1, shape, NULL, &tensor) == DAO_OK);
        BATON_CHECK(dao_tensor_retain(tensor) == DAO_OK);
        BATON_CHECK(dao_tensor_release(tensor) == DAO_OK && dao_tensor_release(tensor) == DAO_OK);
        break;
    }
}

void handle_program_part(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program, (void)thread;
    uint64_t first = dao_random_below(random, 2);
    for (uint64_t i = 0; i < 2; i++) {
        dao_memory_t *handle = handles[(first + i) % 2];
        use_handle(handle, random);
        BATON_CHECK(dao_memory_release(handle) == DAO_OK);
    }
}

void handle_program_end(const void *program)
{
    (void)program;
    BATON_CHECK(deleted_count == 1);
    BATON_CHECK(dao_memory_release(handles[0]) == DAO_ERR_INVALID); /* seen: it is gone */
    stop();
}

/* ---- an executor ---- */

#define TENSOR_BYTES    1024u
#define TENSORS_OF_EACH 2u
#define TENSOR_COUNT    (SCENARIO_THREAD_MAX * TENSORS_OF_EACH)

static dao_executor_t *executor;
static dao_managed_t *tensors[TENSOR_COUNT];
static unsigned char contents[TENSOR_COUNT]; /* what a sequential program would find in it */
static _Atomic uint32_t dropped_count, pushed_count;

void executor_program_begin(const void *program, uint64_t *random)
{
    (void)program, (void)random;
    start();
    dao_executor_config_t config = {.capacity_bytes = 2 * (size_t)TENSOR_BYTES, .queue_kernels = 2};
    BATON_CHECK(dao_executor_create(&config, &executor) == DAO_OK);
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        dao_managed_config_t managed = {.size_bytes = TENSOR_BYTES, .zero_first_touch = true};
        BATON_CHECK(dao_managed_create(executor, &managed, &tensors[i]) == DAO_OK);
    }
}

/* What a kernel does: it fills its tensor with one byte. */
static dao_status_t fill(const dao_launch_t *launch, void *user)
{
    return dao_stream_fill(launch->stream, launch->addresses[0], (unsigned char)(uintptr_t)user,
                           TENSOR_BYTES);
}

static void count_dropped(void *user)
{
    (void)user;
    dropped_count++;
}

static void push_fill(uint32_t tensor, unsigned char byte)
{
    dao_operand_t operand = {.tensor = tensors[tensor], .access = DAO_ACCESS_WRITE};
    dao_kernel_t kernel = {.launch = fill,
                           .user = (void *)(uintptr_t)byte,
                           .drop = count_dropped,
                           .operands = &operand,
                           .operand_count = 1};
    BATON_CHECK(dao_executor_push(executor, &kernel) == DAO_OK);
    pushed_count++;
    contents[tensor] = byte;
}

static void read_back(uint32_t tensor)
{
    unsigned char bytes[TENSOR_BYTES];
    memset(bytes, (unsigned char)~contents[tensor], sizeof(bytes));
    BATON_CHECK(dao_managed_read(tensors[tensor], bytes, sizeof(bytes)) == DAO_OK);
    BATON_CHECK(bytes[0] == contents[tensor] && bytes[TENSOR_BYTES - 1] == contents[tensor]);
}

static void write_anew(uint32_t tensor, unsigned char byte)
{
    unsigned char bytes[TENSOR_BYTES];
    memset(bytes, byte, sizeof(bytes));
    BATON_CHECK(dao_managed_write(tensors[tensor], bytes, sizeof(bytes)) == DAO_OK);
    contents[tensor] = byte;
}

/* Drops the tensor while kernels may use it, and makes another one. */
static void replace(uint32_t tensor)
{
    BATON_CHECK(dao_managed_release(tensors[tensor]) == DAO_OK);
    dao_managed_config_t managed = {.size_bytes = TENSOR_BYTES, .zero_first_touch = true};
    BATON_CHECK(dao_managed_create(executor, &managed, &tensors[tensor]) == DAO_OK);
    contents[tensor] = 0;
}

/* Each thread has tensors of its own; all share the device. */
void executor_program_part(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program;
    dao_executor_stats_t stats;
    for (int i = 0; i < 3; i++) {
        uint32_t tensor = thread * TENSORS_OF_EACH + (uint32_t)dao_random_below(random, TENSORS_OF_EACH);
        unsigned char byte = (unsigned char)dao_random_next(random);
        switch (dao_random_below(random, 8)) {
        case 0:
            read_back(tensor);
            break;
        case 1:
            write_anew(tensor, byte);
            break;
        case 2:
            BATON_CHECK(dao_executor_sync(executor) == DAO_OK);
            break;
        case 3:
            replace(tensor);
            break;
        case 4:
            BATON_CHECK(dao_executor_stats_get(executor, &stats) == DAO_OK);
            break;
        default:
            push_fill(tensor, byte);
            break;
        }
    }
}

void executor_program_end(const void *program)
{
    (void)program;
    read_back(0);
    push_fill(1, 0x5a);
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        BATON_CHECK(dao_managed_release(tensors[i]) == DAO_OK);
    }
    BATON_CHECK(dao_executor_destroy(executor) == DAO_OK);
    BATON_CHECK(dropped_count == pushed_count);
    stop();
}

/* ---- starts and stops ---- */

static dao_tensor_t *kept[TENSOR_COUNT]; /* handles that outlive the library */

static void use_once(dao_place_t place, uint64_t *random)
{
    void *block = dao_alloc(place, 1 + (size_t)dao_random_below(random, 5000));
    BATON_CHECK(block != NULL && dao_free(place, block) == DAO_OK);
}

void start_program_part(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program, (void)thread;
    BATON_CHECK(dao_init(NULL) == DAO_OK);
    use_once(dao_random_below(random, 2) == 0 ? host : device, random);
    BATON_CHECK(dao_finalize() == DAO_OK);
}

void start_program_end(const void *program)
{
    (void)program;
    BATON_CHECK(dao_finalize() == DAO_ERR_SHUTDOWN); /* each stop has had its start */
}

void stop_program_begin(const void *program, uint64_t *random)
{
    (void)program, (void)random;
    const int64_t shape[] = {SHARED_BYTES};
    start();
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        BATON_CHECK(dao_tensor_empty(i % 2 == 0 ? host : device, DAO_TYPE_U8, 1, shape, &kept[i]) == DAO_OK);
    }
}

void stop_program_part(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program, (void)random;
    if (thread == 0) {
        dao_status_t status = dao_finalize();
        BATON_CHECK(status == DAO_OK || status == DAO_ERR_BUSY);
        return;
    }
    for (uint32_t i = 0; i < TENSORS_OF_EACH; i++) {
        dao_tensor_t *tensor = kept[thread * TENSORS_OF_EACH + i];
        BATON_CHECK(dao_tensor_retain(tensor) == DAO_OK);
        BATON_CHECK(dao_tensor_release(tensor) == DAO_OK && dao_tensor_release(tensor) == DAO_OK);
    }
}

void stop_program_end(const void *program)
{
    (void)program;
    BATON_CHECK(dao_alloc(host, 100) == NULL && dao_last_status() == DAO_ERR_SHUTDOWN);
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) { /* those of no thread */
        if (i < TENSORS_OF_EACH || i >= 3 * TENSORS_OF_EACH) {
            BATON_CHECK(dao_tensor_release(kept[i]) == DAO_OK);
        }
    }
}

/* ---- fork ---- */

void fork_program_begin(const void *program, uint64_t *random)
{
    (void)program;
    start();
    use_once(device, random);
}

/* Returns the child's exit status: 0 if each call says that it is a child's. */
static int be_child(void)
{
    if (dao_alloc(host, 100) != NULL || dao_last_status() != DAO_ERR_FORKED) {
        return 1;
    }
    if (dao_alloc(device, 100) != NULL || dao_last_status() != DAO_ERR_FORKED) {
        return 2;
    }
    return dao_trim(device, 0, NULL) == DAO_ERR_FORKED ? 0 : 3;
}

void fork_program_part(const void *program, uint32_t thread, uint64_t *random)
{
    (void)program;
    if (thread != 0) {
        use_once(device, random);
        use_once(host, random);
        return;
    }
    use_once(device, random);
    pid_t child = fork();
    if (child == 0) {
        /* ThreadSanitizer's _exit() takes threads that ended before the fork for leaks of the child. */
        (void)syscall(SYS_exit_group, be_child());
    }
    int status = -1;
    BATON_CHECK(child != -1 && waitpid(child, &status, 0) == child);
    BATON_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void fork_program_end(const void *program)
{
    (void)program;
    stop();
}
