/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors beside messages: the one that is wanted arrives, and whatever else a peer sends is closed.
   Memory behind a descriptor, which keeps its size. */
#define _GNU_SOURCE /* SO_PASSCRED, memfd_create */
#include "base/memory/host.h"
#include "base/memory/shared.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define MESSAGE_BYTES  100
#define SENT_COUNT_MAX 253 /* the kernel's SCM_MAX_FD */

static int sockets[2];
static int null_file;

static int pair_create(void)
{
    null_file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return null_file < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0;
}

static int pair_destroy(void)
{
    return (close(sockets[0]) | close(sockets[1]) | close(null_file)) != 0;
}

static int open_count(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    return folder != NULL && closedir(folder) == 0 ? count : -1;
}

/* Sends bytes with any number of descriptors, as no function of the library does. */
static void send_raw(size_t size_bytes, size_t descriptor_count)
{
    static union {
        struct cmsghdr header;
        unsigned char bytes[CMSG_SPACE(SENT_COUNT_MAX * sizeof(int))];
    } control;
    char bytes[MESSAGE_BYTES] = "sent";
    struct iovec part = {.iov_base = bytes, .iov_len = size_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(descriptor_count * sizeof(int));
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(descriptor_count * sizeof(int))};
        for (size_t i = 0; i < descriptor_count; i++) {
            memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &null_file, sizeof(int));
        }
    }
    CU_ASSERT_EQUAL_FATAL(sendmsg(sockets[0], &message, 0), (ssize_t)size_bytes);
}

static int receive(int *out_descriptor)
{
    char bytes[MESSAGE_BYTES];
    *out_descriptor = -77;
    return dao_descriptor_receive(sockets[1], bytes, sizeof(bytes), out_descriptor);
}

static void one_descriptor_or_none_arrives(void)
{
    int before = open_count(), descriptor;
    send_raw(MESSAGE_BYTES, 0);
    CU_ASSERT_EQUAL(receive(&descriptor), 0);
    CU_ASSERT_EQUAL(descriptor, DAO_NO_DESCRIPTOR);
    send_raw(MESSAGE_BYTES, 1);
    CU_ASSERT_EQUAL(receive(&descriptor), 0);
    CU_ASSERT_TRUE(descriptor >= 0 && fcntl(descriptor, F_GETFD) == FD_CLOEXEC);
    CU_ASSERT_EQUAL(open_count(), before + 1);
    dao_descriptor_close(descriptor);
    CU_ASSERT_EQUAL(open_count(), before);
}

/* More than the process could hold if each message left one. */
static void of_several_descriptors_the_first_is_kept_and_the_others_are_closed(void)
{
    static const size_t counts[] = {2, 3, 8, 32};
    struct rlimit limit;
    CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &(struct rlimit){256, limit.rlim_max}), 0);
    int before = open_count();
    for (int i = 0; i < 400; i++) {
        int descriptor;
        send_raw(MESSAGE_BYTES, counts[i % 4]);
        CU_ASSERT_EQUAL_FATAL(receive(&descriptor), 0);
        CU_ASSERT_TRUE(descriptor >= 0);
        dao_descriptor_close(descriptor);
    }
    CU_ASSERT_EQUAL(open_count(), before);
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void a_truncated_control_message_is_refused(void)
{
    int before = open_count(), descriptor;
    for (int i = 0; i < 20; i++) {
        send_raw(MESSAGE_BYTES, SENT_COUNT_MAX);
        CU_ASSERT_EQUAL(receive(&descriptor), EBADMSG);
        CU_ASSERT_EQUAL(descriptor, -77);
    }
    CU_ASSERT_EQUAL(open_count(), before);
}

/* A receiver that asks for the sender's credentials gets another control message before the descriptor's. */
static void other_control_messages_are_passed_over(void)
{
    int before = open_count(), descriptor, on = 1, off = 0;
    CU_ASSERT_EQUAL_FATAL(setsockopt(sockets[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
    CU_ASSERT_EQUAL_FATAL(setsockopt(sockets[1], SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)), 0);
    for (size_t count = 0; count < 4; count++) {
        send_raw(MESSAGE_BYTES, count);
        CU_ASSERT_EQUAL(receive(&descriptor), 0);
        CU_ASSERT_EQUAL(descriptor >= 0, count > 0);
        dao_descriptor_close(descriptor);
    }
    CU_ASSERT_EQUAL(setsockopt(sockets[1], SOL_SOCKET, SO_PASSCRED, &off, sizeof(off)), 0);
    CU_ASSERT_EQUAL(open_count(), before);
}

/* Descriptors end the part of a stream that one call receives. */
static void a_message_of_another_size_is_refused_and_its_descriptors_are_closed(void)
{
    int before = open_count(), descriptor;
    send_raw(MESSAGE_BYTES - 1, 2);
    send_raw(1, 3);
    CU_ASSERT_EQUAL(receive(&descriptor), EBADMSG);
    CU_ASSERT_EQUAL(receive(&descriptor), EBADMSG);
    CU_ASSERT_EQUAL(open_count(), before);
}

/* A socket that does not wait takes as much as it has room for. */
static void a_message_that_is_not_sent_whole_is_an_error(void)
{
    static char large[4 * MIB];
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    CU_ASSERT_EQUAL(dao_descriptor_send(ends[0], large, sizeof(large), null_file), EMSGSIZE);
    CU_ASSERT_EQUAL(dao_descriptor_send(ends[0], large, sizeof(large), null_file), EAGAIN);
    CU_ASSERT_EQUAL(close(ends[0]) | close(ends[1]), 0);
}

/* ---- memory behind a descriptor ---- */

static void sizes_are_whole_pages(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    CU_ASSERT_EQUAL(dao_host_whole_pages(0), 0);
    CU_ASSERT_EQUAL(dao_host_whole_pages(1), page_bytes);
    CU_ASSERT_EQUAL(dao_host_whole_pages(page_bytes), page_bytes);
    CU_ASSERT_EQUAL(dao_host_whole_pages(page_bytes + 1), 2 * page_bytes);
}

/* Each mapping of a descriptor sees the same bytes, and nobody changes how many there are. */
static void shared_memory_is_one_and_keeps_its_size(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), size_bytes = 0;
    int descriptor = dao_shared_create(3 * page_bytes);
    CU_ASSERT_TRUE_FATAL(descriptor >= 0);
    char *here = dao_shared_map(descriptor, 3 * page_bytes, 16 * page_bytes);
    char *there = dao_shared_map(descriptor, 3 * page_bytes, page_bytes);
    CU_ASSERT_TRUE_FATAL(here != NULL && there != NULL && here != there);
    CU_ASSERT_EQUAL((uintptr_t)here % (16 * page_bytes), 0);
    here[3 * page_bytes - 1] = 7;
    CU_ASSERT_EQUAL(there[3 * page_bytes - 1], 7);
    CU_ASSERT_TRUE(dao_shared_size(descriptor, &size_bytes));
    CU_ASSERT_EQUAL(size_bytes, 3 * page_bytes);
    CU_ASSERT_NOT_EQUAL(ftruncate(descriptor, 0), 0);
    CU_ASSERT_NOT_EQUAL(ftruncate(descriptor, (off_t)(4 * page_bytes)), 0);
    dao_host_unmap(here, 3 * page_bytes);
    dao_host_unmap(there, 3 * page_bytes);
    CU_ASSERT_EQUAL(close(descriptor), 0);
}

static void memory_that_is_shown_is_read_by_others_and_not_written(void)
{
    void *address = NULL;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), size_bytes = 0;
    int descriptor = dao_shared_show("dao test", 5, &address);
    CU_ASSERT_TRUE_FATAL(descriptor >= 0);
    memcpy(address, "shown", 5);
    const char *seen = dao_shared_look(descriptor, &size_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(seen);
    CU_ASSERT_EQUAL(size_bytes, page_bytes);
    CU_ASSERT_NSTRING_EQUAL(seen, "shown", 5);
    if ((fcntl(descriptor, F_GET_SEALS) & F_SEAL_FUTURE_WRITE) != 0) { /* since Linux 5.1 */
        CU_ASSERT_PTR_EQUAL(mmap(NULL, page_bytes, PROT_WRITE, MAP_SHARED, descriptor, 0), MAP_FAILED);
    }
    dao_host_unmap((void *)(uintptr_t)seen, size_bytes);
    dao_host_unmap(address, page_bytes);
    CU_ASSERT_EQUAL(close(descriptor), 0);
}

/* Memory whose size a peer can change would end the process that reads it. */
static void what_is_not_sealed_or_has_no_bytes_is_refused(void)
{
    size_t size_bytes = 77;
    int open_size = memfd_create("dao test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int empty = dao_shared_create(0);
    CU_ASSERT_TRUE_FATAL(open_size >= 0 && empty >= 0);
    CU_ASSERT_EQUAL(ftruncate(open_size, 4096), 0);
    CU_ASSERT_FALSE(dao_shared_size(open_size, &size_bytes));
    CU_ASSERT_EQUAL(fcntl(open_size, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0); /* it can still grow */
    CU_ASSERT_FALSE(dao_shared_size(open_size, &size_bytes));
    CU_ASSERT_FALSE(dao_shared_size(null_file, &size_bytes));
    CU_ASSERT_PTR_NULL(dao_shared_look(open_size, &size_bytes));
    CU_ASSERT_EQUAL(size_bytes, 77);
    CU_ASSERT_PTR_NULL(dao_shared_look(empty, &size_bytes));
    CU_ASSERT_PTR_NULL(dao_shared_map(sockets[0], 4096, 4096));
    CU_ASSERT_EQUAL(dao_shared_create(SIZE_MAX), DAO_NO_DESCRIPTOR);
    CU_ASSERT_EQUAL(close(open_size) | close(empty), 0);
}

static CU_TestInfo tests[] = {
    {"sizes are whole pages", sizes_are_whole_pages},
    {"shared memory is one and keeps its size", shared_memory_is_one_and_keeps_its_size},
    {"memory that is shown is read by others and not written",
     memory_that_is_shown_is_read_by_others_and_not_written},
    {"what is not sealed or has no bytes is refused", what_is_not_sealed_or_has_no_bytes_is_refused},
    {"one descriptor or none arrives", one_descriptor_or_none_arrives},
    {"of several descriptors the first is kept and the others are closed",
     of_several_descriptors_the_first_is_kept_and_the_others_are_closed},
    {"a truncated control message is refused", a_truncated_control_message_is_refused},
    {"other control messages are passed over", other_control_messages_are_passed_over},
    {"a message of another size is refused, and its descriptors are closed",
     a_message_of_another_size_is_refused_and_its_descriptors_are_closed},
    {"a message that is not sent whole is an error", a_message_that_is_not_sent_whole_is_an_error},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"shared", pair_create, pair_destroy, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
