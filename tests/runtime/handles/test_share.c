/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several processes have: each test runs two of them, this one and another one of the same
   program, which have the library started on their own and talk through a local socket. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "base/memory/shared.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE_BYTES   (3 * MIB + 12345)
#define DEVICE_BYTES (64 * MIB)

static const dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = DEVICE_BYTES}};
static dao_place_t device_1 = {DAO_PLACE_KIND_DEVICE, 1}; /* or 0, if that is the only one */
static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static unsigned char bytes[SIZE_BYTES];

/* ---- two processes ---- */

/* What a process does; false: it went wrong. */
typedef bool role_t(int socket);

#define HOLDS(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            (void)fprintf(stderr, "%s:%d: process %d: %s (%s)\n", __FILE__, __LINE__, (int)getpid(),         \
                          #condition, dao_last_message());                                                   \
            return false;                                                                                    \
        }                                                                                                    \
    } while (0)

static bool start(void)
{
    int32_t device_count = 0;
    HOLDS(dao_init(&config) == DAO_OK && dao_device_count(&device_count) == DAO_OK);
    device_1.index = device_count > 1 ? 1 : 0;
    return true;
}

static bool play(role_t *role, int socket)
{
    HOLDS(start());
    bool is_right = role(socket);
    bool is_stopped = dao_finalize() == DAO_OK;
    (void)close(socket);
    return is_right && is_stopped;
}

/* A new program: drivers do not go on in a child. */
static void become(const char *role_name, int socket)
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%d", dup(socket)); /* which stays open */
    (void)execl("/proc/self/exe", "test_share", role_name, number, (char *)NULL);
}

static void run_both(role_t *here, const char *there)
{
    int sockets[2];
    int status = -1;
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    pid_t child = fork();
    CU_ASSERT_TRUE_FATAL(child >= 0);
    if (child == 0) {
        become(there, sockets[1]);
        _exit(1);
    }
    (void)close(sockets[1]);
    CU_ASSERT_TRUE(play(here, sockets[0]));
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
}

static bool tell(int socket)
{
    return send(socket, "x", 1, MSG_NOSIGNAL) == 1;
}

static bool hear(int socket)
{
    char byte;
    return recv(socket, &byte, 1, 0) == 1;
}

static bool draw(dao_memory_t *memory, uint64_t seed)
{
    for (size_t i = 0; i < SIZE_BYTES; i++) {
        bytes[i] = (unsigned char)(seed + i * 7 + i / 253);
    }
    HOLDS(dao_copy(device_1, dao_memory_address(memory), host, bytes, SIZE_BYTES) == DAO_OK);
    return true;
}

static bool is_drawn(dao_memory_t *memory, uint64_t seed)
{
    memset(bytes, 0, sizeof(bytes));
    HOLDS(dao_copy(host, bytes, device_1, dao_memory_address(memory), SIZE_BYTES) == DAO_OK);
    for (size_t i = 0; i < SIZE_BYTES; i++) {
        HOLDS(bytes[i] == (unsigned char)(seed + i * 7 + i / 253));
    }
    return true;
}

/* ---- bytes ---- */

/* Returns true if the place's statistics are so, with no block beside. */
static bool counts(uint64_t shared_bytes, uint64_t imported_bytes)
{
    dao_stats_t stats;
    HOLDS(dao_stats_get(device_1, &stats) == DAO_OK);
    HOLDS(stats.shared_bytes == shared_bytes && stats.imported_bytes == imported_bytes);
    return stats.used_bytes == 0 && stats.reserved_bytes == 0;
}

static bool create_and_read(int socket)
{
    dao_memory_t *memory;
    dao_share_t share;
    HOLDS(dao_memory_create_shared(device_1, SIZE_BYTES, &memory) == DAO_OK);
    HOLDS(counts(SIZE_BYTES, 0));
    HOLDS(draw(memory, 1));
    HOLDS(dao_memory_export(memory, &share) == DAO_OK);
    HOLDS(dao_share_send(&share, socket) == DAO_OK);
    dao_share_close(&share);
    HOLDS(hear(socket));
    HOLDS(is_drawn(memory, 2));
    HOLDS(draw(memory, 3));
    HOLDS(tell(socket));
    HOLDS(hear(socket)); /* it is closed there */
    HOLDS(dao_memory_release(memory) == DAO_OK);
    HOLDS(counts(0, 0));
    return true;
}

static bool import_and_write(int socket)
{
    dao_memory_t *memory;
    dao_share_t share;
    dao_share_t own;
    HOLDS(dao_share_receive(socket, &share) == DAO_OK);
    HOLDS(dao_memory_import(device_1, &share, &memory) == DAO_OK);
    dao_share_close(&share);
    HOLDS(dao_memory_size(memory) == SIZE_BYTES && counts(0, SIZE_BYTES));
    HOLDS(dao_place_equal(dao_memory_place(memory), device_1));
    HOLDS(dao_memory_export(memory, &own) == DAO_ERR_UNSUPPORTED);
    HOLDS(is_drawn(memory, 1));
    HOLDS(draw(memory, 2));
    HOLDS(tell(socket) && hear(socket));
    HOLDS(is_drawn(memory, 3));
    HOLDS(dao_memory_release(memory) == DAO_OK);
    HOLDS(counts(0, 0) && tell(socket));
    return true;
}

static void bytes_go_there_and_back(void)
{
    run_both(create_and_read, "import_and_write");
}

/* ---- lifetimes ---- */

static bool create_and_release(int socket)
{
    dao_memory_t *memory;
    dao_share_t share;
    HOLDS(dao_memory_create_shared(device_1, SIZE_BYTES, &memory) == DAO_OK);
    HOLDS(draw(memory, 4));
    HOLDS(dao_memory_export(memory, &share) == DAO_OK);
    HOLDS(dao_share_send(&share, socket) == DAO_OK);
    dao_share_close(&share);
    HOLDS(dao_memory_release(memory) == DAO_OK);
    return true;
}

/* Comes when the other process has released the memory, and has ended. */
static bool import_what_was_released(int socket)
{
    dao_share_t share;
    dao_share_t next;
    dao_memory_t *memory = NULL;
    HOLDS(dao_share_receive(socket, &share) == DAO_OK);
    HOLDS(dao_share_receive(socket, &next) == DAO_ERR_IO);
    HOLDS(strstr(dao_last_message(), "closed") != NULL);
    dao_status_t status = dao_memory_import(device_1, &share, &memory);
    if (share.descriptor < 0) {
        HOLDS(status == DAO_ERR_INVALID && memory == NULL);
    } else {
        HOLDS(status == DAO_OK);
        dao_share_close(&share);
        HOLDS(is_drawn(memory, 4));
        HOLDS(dao_memory_release(memory) == DAO_OK);
    }
    dao_share_close(&share);
    return true;
}

static void a_descriptor_keeps_the_memory_and_an_address_is_refused_when_it_is_gone(void)
{
    run_both(create_and_release, "import_what_was_released");
    run_both(import_what_was_released, "create_and_release");
}

/* ---- wrong shares ---- */

static bool bad_calls_are_refused(dao_memory_t *memory)
{
    dao_device_info_t info;
    dao_share_t share;
    dao_memory_t *none = NULL;
    dao_memory_t *part;
    dao_memory_t *block;
    HOLDS(dao_memory_create_shared(device_1, 0, &none) == DAO_ERR_INVALID);
    HOLDS(dao_memory_create_shared(device_1, 1, NULL) == DAO_ERR_INVALID);
    HOLDS(dao_memory_create_shared(host, 1, &none) == DAO_ERR_UNSUPPORTED);
    HOLDS(dao_memory_create_shared(((dao_place_t){DAO_PLACE_KIND_PINNED, 0}), 1, &none) ==
          DAO_ERR_UNSUPPORTED);
    HOLDS(dao_memory_create_shared(((dao_place_t){DAO_PLACE_KIND_DEVICE, 63}), 1, &none) ==
          DAO_ERR_NO_DEVICE);
    HOLDS(dao_device_query(device_1.index, &info) == DAO_OK);
    HOLDS(dao_memory_create_shared(device_1, info.total_bytes + 1, &none) == DAO_ERR_NO_DEVICE_MEMORY);
    HOLDS(dao_memory_create_shared(device_1, SIZE_MAX, &none) == DAO_ERR_NO_DEVICE_MEMORY);
    HOLDS(dao_memory_export(NULL, &share) == DAO_ERR_INVALID);
    HOLDS(dao_memory_export(memory, NULL) == DAO_ERR_INVALID);
    HOLDS(dao_memory_import(device_1, NULL, &none) == DAO_ERR_INVALID);
    HOLDS(strstr(dao_last_message(), "share is NULL") != NULL);
    HOLDS(dao_memory_export(memory, &share) == DAO_OK);
    HOLDS(dao_memory_import(device_1, &share, NULL) == DAO_ERR_INVALID);
    HOLDS(strstr(dao_last_message(), "out_memory is NULL") != NULL);
    dao_share_close(&share);
    HOLDS(dao_share_send(NULL, 0) == DAO_ERR_INVALID);
    HOLDS(dao_share_receive(0, NULL) == DAO_ERR_INVALID);
    HOLDS(dao_memory_create(device_1, 1000, NULL, &block) == DAO_OK);
    HOLDS(dao_memory_export(block, &share) == DAO_ERR_UNSUPPORTED);
    HOLDS(dao_memory_release(block) == DAO_OK);
    HOLDS(dao_memory_sub_range(memory, 0, 100, &part) == DAO_OK);
    HOLDS(dao_memory_export(part, &share) == DAO_ERR_UNSUPPORTED);
    HOLDS(dao_memory_release(part) == DAO_OK);
    HOLDS(none == NULL);
    return true;
}

static bool copies_stay_inside(dao_memory_t *memory)
{
    char *begin = dao_memory_address(memory);
    HOLDS(dao_copy(host, bytes, device_1, begin + 1, SIZE_BYTES) == DAO_ERR_OUT_OF_BOUNDS);
    HOLDS(dao_copy(host, bytes, device_1, begin - 1, 1) == DAO_ERR_OUT_OF_BOUNDS);
    HOLDS(dao_copy(host, bytes, device_1, begin + SIZE_BYTES - 1, 1) == DAO_OK);
    return true;
}

static bool own_and_closed_shares_are_refused(dao_memory_t *memory, int socket)
{
    dao_share_t share;
    dao_memory_t *none = NULL;
    HOLDS(dao_memory_export(memory, &share) == DAO_OK);
    HOLDS(dao_memory_import(device_1, &share, &none) == DAO_ERR_INVALID);
    HOLDS(strstr(dao_last_message(), "this process") != NULL);
    dao_share_close(&share);
    dao_share_close(&share);
    dao_share_close(NULL);
    HOLDS(dao_memory_import(device_1, &share, &none) == DAO_ERR_INVALID);
    HOLDS(dao_share_send(&share, socket) == DAO_ERR_INVALID);
    HOLDS(none == NULL);
    return true;
}

static bool create_and_send_often(int socket)
{
    dao_memory_t *memory;
    dao_share_t share;
    HOLDS(dao_memory_create_shared(device_1, SIZE_BYTES, &memory) == DAO_OK);
    HOLDS(bad_calls_are_refused(memory) && copies_stay_inside(memory));
    HOLDS(own_and_closed_shares_are_refused(memory, socket));
    HOLDS(dao_memory_export(memory, &share) == DAO_OK);
    HOLDS(dao_share_send(&share, socket) == DAO_OK);
    HOLDS(send(socket, bytes, DAO_SHARE_BYTES, MSG_NOSIGNAL) == DAO_SHARE_BYTES); /* no share */
    HOLDS(dao_share_send(&share, -1) == DAO_ERR_IO);
    dao_share_close(&share);
    HOLDS(hear(socket));
    HOLDS(dao_memory_release(memory) == DAO_OK);
    return true;
}

/* Whichever call of the system fails: nothing is left, and the next try succeeds. Some it can do without. */
static bool imports_survive_failures(const dao_share_t *share)
{
    uint64_t fired_count = 1;
    for (uint64_t n = 0; fired_count > 0; n++) {
        dao_memory_t *memory = NULL;
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        dao_status_t status = dao_memory_import(device_1, share, &memory);
        fired_count = dao_fault_disarm();
        HOLDS(status == DAO_OK || fired_count > 0);
        HOLDS((memory != NULL) == (status == DAO_OK));
        HOLDS(dao_memory_release(memory) == DAO_OK);
    }
    return true;
}

/* FNV-1a of a share's bytes behind the check, which is their second number, up to an end. */
static uint64_t check_of(const unsigned char *share_bytes, size_t end)
{
    uint64_t check = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 2 * sizeof(uint64_t); i < end; i++) {
        check = (check ^ share_bytes[i]) * UINT64_C(0x100000001b3);
    }
    return check;
}

/* A share that says something else at an offset, with the check of that. */
static bool make_wrong(const dao_share_t *share, size_t offset, const void *said, size_t count,
                       dao_share_t *out_wrong)
{
    uint64_t check;
    size_t end = 3 * sizeof(uint64_t);
    memcpy(&check, share->bytes + sizeof(check), sizeof(check));
    while (end < DAO_SHARE_BYTES && check_of(share->bytes, end) != check) {
        end++;
    }
    HOLDS(check_of(share->bytes, end) == check);
    *out_wrong = *share;
    memcpy(out_wrong->bytes + offset, said, count);
    check = check_of(out_wrong->bytes, end);
    memcpy(out_wrong->bytes + sizeof(check), &check, sizeof(check));
    return true;
}

/* A peer may make a share that is right but for its size, which is the third number, or for its backend,
   whose name is behind the fifth. */
static bool a_share_of_no_bytes_or_another_backend_is_refused(const dao_share_t *share)
{
    static const uint64_t none_bytes = 0;
    static const char backend[] = "gpu";
    dao_share_t wrong;
    dao_memory_t *none = NULL;
    HOLDS(make_wrong(share, 2 * sizeof(uint64_t), &none_bytes, sizeof(none_bytes), &wrong));
    HOLDS(dao_memory_import(device_1, &wrong, &none) == DAO_ERR_INVALID);
    HOLDS(strstr(dao_last_message(), "0 bytes") != NULL);
    HOLDS(make_wrong(share, 5 * sizeof(uint64_t), backend, sizeof(backend), &wrong));
    HOLDS(dao_memory_import(device_1, &wrong, &none) == DAO_ERR_UNSUPPORTED);
    HOLDS(strstr(dao_last_message(), "memory of backend \"gpu\"") != NULL);
    HOLDS(none == NULL);
    return true;
}

static bool refuse_what_is_wrong(int socket)
{
    dao_share_t share;
    dao_share_t wrong;
    dao_memory_t *none = NULL;
    HOLDS(dao_share_receive(socket, &share) == DAO_OK);
    HOLDS(imports_survive_failures(&share) && a_share_of_no_bytes_or_another_backend_is_refused(&share));
    HOLDS(dao_share_receive(socket, &wrong) == DAO_ERR_INVALID);
    HOLDS(dao_share_receive(-1, &wrong) == DAO_ERR_IO);
    for (size_t i = 0; i < 100; i += 9) { /* any byte */
        wrong = share;
        wrong.bytes[i] ^= 0x10;
        HOLDS(dao_memory_import(device_1, &wrong, &none) == DAO_ERR_INVALID);
    }
    if (share.descriptor >= 0) {
        wrong = share;
        wrong.descriptor = -1;
        HOLDS(dao_memory_import(device_1, &wrong, &none) == DAO_ERR_INVALID);
        HOLDS(strstr(dao_last_message(), "descriptor") != NULL);
        wrong.descriptor = 999; /* none is open */
        HOLDS(dao_memory_import(device_1, &wrong, &none) != DAO_OK);
        wrong.descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
        HOLDS(dao_memory_import(device_1, &wrong, &none) != DAO_OK);
        (void)close(wrong.descriptor);
    }
    HOLDS(dao_memory_import(host, &share, &none) == DAO_ERR_UNSUPPORTED);
    HOLDS(none == NULL);
    dao_share_close(&share);
    HOLDS(tell(socket));
    return true;
}

static void wrong_shares_are_refused_in_words(void)
{
    run_both(create_and_send_often, "refuse_what_is_wrong");
}

/* ---- in one process ---- */

static int open_count(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    return folder != NULL && closedir(folder) == 0 ? count : -1;
}

/* A peer's descriptors are closed, whether its bytes are a share or not. */
static void descriptors_of_a_hostile_peer_are_closed(void)
{
    int sockets[2];
    char junk[DAO_SHARE_BYTES] = "junk";
    dao_share_t share = {.descriptor = -77};
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    int before = open_count();
    for (int i = 0; i < 300; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_descriptor_send(sockets[0], junk, sizeof(junk), sockets[1]), 0);
        CU_ASSERT_EQUAL(dao_share_receive(sockets[1], &share), DAO_ERR_INVALID);
    }
    CU_ASSERT_EQUAL(open_count(), before);
    CU_ASSERT_EQUAL(share.descriptor, -77);
    CU_ASSERT_EQUAL(close(sockets[0]) | close(sockets[1]), 0);
}

/* A share is received with the descriptor that belongs to it, or not at all. */
static void a_share_arrives_with_its_descriptor_alone(void)
{
    int sockets[2];
    dao_memory_t *memory = NULL;
    dao_share_t share, received = {.descriptor = -77};
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    CU_ASSERT_TRUE_FATAL(start());
    CU_ASSERT_EQUAL_FATAL(dao_memory_create_shared(device_1, SIZE_BYTES, &memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_export(memory, &share), DAO_OK);
    int before = open_count();
    bool has_descriptor = share.descriptor >= 0;
    int other = has_descriptor ? DAO_NO_DESCRIPTOR : sockets[0]; /* the one that it should not have */
    CU_ASSERT_EQUAL(dao_descriptor_send(sockets[0], share.bytes, sizeof(share.bytes), other), 0);
    dao_status_t status = dao_share_receive(sockets[1], &received);
    CU_ASSERT_EQUAL(status, has_descriptor ? DAO_ERR_INVALID : DAO_OK);
    CU_ASSERT_EQUAL(received.descriptor, has_descriptor ? -77 : DAO_NO_DESCRIPTOR);
    CU_ASSERT_EQUAL(open_count(), before);
    dao_share_close(&share);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(close(sockets[0]) | close(sockets[1]), 0);
}

typedef struct told {
    int obtained_count;
    int releasing_count;
} told_t;

static void note(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes, void *user)
{
    told_t *told = user;
    (void)address;
    if (dao_place_equal(place, device_1) && size_bytes == SIZE_BYTES) {
        told->obtained_count += event == DAO_SEGMENT_EVENT_OBTAINED;
        told->releasing_count += event == DAO_SEGMENT_EVENT_RELEASING;
    }
}

static void segment_callbacks_and_the_device_see_it_and_the_place_does_not(void)
{
    dao_memory_t *memory = NULL;
    dao_device_info_t before;
    dao_device_info_t with;
    told_t told = {0};
    uint64_t id;
    CU_ASSERT_TRUE_FATAL(start());
    CU_ASSERT_EQUAL(dao_segment_callback_add(device_1, note, &told, &id), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_query(device_1.index, &before), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create_shared(device_1, SIZE_BYTES, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_query(device_1.index, &with), DAO_OK);
    CU_ASSERT_TRUE(with.free_bytes <= before.free_bytes - SIZE_BYTES);
    CU_ASSERT_EQUAL(dao_used(device_1), 0);
    CU_ASSERT_TRUE(told.obtained_count == 1 && told.releasing_count == 0);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_TRUE(told.obtained_count == 1 && told.releasing_count == 1);
    CU_ASSERT_EQUAL(dao_device_query(device_1.index, &with), DAO_OK);
    CU_ASSERT_EQUAL(with.free_bytes, before.free_bytes);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* In whatever order they go, the device has all bytes back. */
static void several_are_released_in_any_order(void)
{
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};
    CU_ASSERT_TRUE_FATAL(start());
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        dao_memory_t *memories[3] = {NULL};
        for (int k = 0; k < 3; k++) {
            CU_ASSERT_EQUAL_FATAL(dao_memory_create_shared(device_1, SIZE_BYTES, &memories[k]), DAO_OK);
            CU_ASSERT_TRUE(counts((uint64_t)(k + 1) * SIZE_BYTES, 0));
        }
        for (uint64_t k = 0; k < 3; k++) {
            CU_ASSERT_EQUAL(dao_memory_release(memories[orders[i][k]]), DAO_OK);
            CU_ASSERT_TRUE(counts((2 - k) * SIZE_BYTES, 0));
        }
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_handle_outlives_the_library(void)
{
    dao_memory_t *memory = NULL;
    CU_ASSERT_TRUE_FATAL(start());
    CU_ASSERT_EQUAL_FATAL(dao_memory_create_shared(device_1, SIZE_BYTES, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
}

static uint64_t reserved(dao_place_t place)
{
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(place, &stats), DAO_OK);
    return stats.reserved_bytes;
}

/* What the place keeps of freed blocks is given up for it, what is in use is not. */
static void a_full_device_gives_idle_memory_up_for_it(void)
{
    dao_memory_t *memory = NULL, *none = NULL;
    dao_device_info_t info;
    CU_ASSERT_TRUE_FATAL(start());
    CU_ASSERT_EQUAL(dao_device_query(device_1.index, &info), DAO_OK);
    size_t half_bytes = (size_t)info.free_bytes / 2, most_bytes = half_bytes + half_bytes / 2;
    CU_ASSERT_EQUAL(dao_free(device_1, dao_alloc(device_1, half_bytes)), DAO_OK);
    CU_ASSERT_TRUE(reserved(device_1) >= half_bytes);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create_shared(device_1, most_bytes, &memory), DAO_OK);
    CU_ASSERT_EQUAL(reserved(device_1), 0);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    void *used = dao_alloc(device_1, half_bytes);
    CU_ASSERT_EQUAL(dao_memory_create_shared(device_1, most_bytes, &none), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NULL(none);
    CU_ASSERT_EQUAL(dao_free(device_1, used), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_forked_child_exports_nothing(void)
{
    dao_memory_t *memory = NULL;
    CU_ASSERT_TRUE_FATAL(start());
    CU_ASSERT_EQUAL_FATAL(dao_memory_create_shared(device_1, SIZE_BYTES, &memory), DAO_OK);
    pid_t child = fork();
    if (child == 0) {
        dao_share_t share;
        _exit(dao_memory_export(memory, &share) == DAO_ERR_FORKED ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_status_t create_and_export(void)
{
    dao_memory_t *memory = NULL;
    dao_share_t share;
    dao_status_t status = dao_memory_create_shared(device_1, SIZE_BYTES, &memory);
    if (status == DAO_OK) {
        status = dao_memory_export(memory, &share);
    }
    if (status == DAO_OK) {
        dao_share_close(&share);
    }
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    return status;
}

/* Whichever allocation of the host fails, and whichever call of the driver: nothing is left. */
static void a_failure_leaves_nothing(void)
{
    CU_ASSERT_TRUE_FATAL(start());
    CU_ASSERT_EQUAL(create_and_export(), DAO_OK);
    dao_device_info_t before;
    CU_ASSERT_EQUAL(dao_device_query(device_1.index, &before), DAO_OK);
    uint64_t fired_count = 1;
    for (uint64_t n = 0; fired_count > 0; n++) {
        dao_device_info_t after;
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        dao_status_t status = create_and_export();
        fired_count = dao_fault_disarm();
        CU_ASSERT_EQUAL(status == DAO_OK, fired_count == 0);
        CU_ASSERT_EQUAL(dao_device_query(device_1.index, &after), DAO_OK);
        CU_ASSERT_EQUAL(after.free_bytes, before.free_bytes);
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"bytes go there and back", bytes_go_there_and_back},
    {"a descriptor keeps the memory, and an address is refused when it is gone",
     a_descriptor_keeps_the_memory_and_an_address_is_refused_when_it_is_gone},
    {"wrong shares are refused in words", wrong_shares_are_refused_in_words},
    {"segment callbacks and the device see it, and the place does not",
     segment_callbacks_and_the_device_see_it_and_the_place_does_not},
    {"descriptors of a hostile peer are closed", descriptors_of_a_hostile_peer_are_closed},
    {"a share arrives with its descriptor alone", a_share_arrives_with_its_descriptor_alone},
    {"several are released in any order", several_are_released_in_any_order},
    {"a handle outlives the library", a_handle_outlives_the_library},
    {"a full device gives idle memory up for it", a_full_device_gives_idle_memory_up_for_it},
    {"a forked child exports nothing", a_forked_child_exports_nothing},
    {"a failure leaves nothing", a_failure_leaves_nothing},
    CU_TEST_INFO_NULL,
};

/* The other process's part. */
static int be_there(const char *role_name, int socket)
{
    static const struct {
        const char *name;
        role_t *role;
    } roles[] = {{"import_and_write", import_and_write},
                 {"import_what_was_released", import_what_was_released},
                 {"create_and_release", create_and_release},
                 {"refuse_what_is_wrong", refuse_what_is_wrong}};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (strcmp(role_name, roles[i].name) == 0) {
            return play(roles[i].role, socket) ? 0 : 1;
        }
    }
    return 1;
}

static int map_pages(void)
{
    return setenv("DAO_MAP_PAGES", "1", 1); /* not tried first, which is test_vendor_pages */
}

static int use_segments(void)
{
    return setenv("DAO_MAP_PAGES", "0", 1);
}

int main(int count, char **arguments)
{
    if (count == 3) {
        return be_there(arguments[1], (int)strtol(arguments[2], NULL, 10));
    }
    CU_SuiteInfo suites[] = {{"share", map_pages, NULL, NULL, NULL, tests},
                             {"share, without virtual memory", use_segments, map_pages, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
