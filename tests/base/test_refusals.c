/* SPDX-License-Identifier: Apache-2.0 */
/* What base/ answers where the system refuses a call, or ends it early. The calls below are this program's
   own: each hands on to the C library's, but for the next ones of the kind that a test refuses. */
#define _GNU_SOURCE
#include "base/files/file.h"
#include "base/memory/host.h"
#include "base/memory/host_policy.h"
#include "base/memory/measure.h"
#include "base/memory/shared.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE (2 * MIB)

typedef enum call {
    CALL_NONE,
    CALL_OPEN,
    CALL_REMAP,
    CALL_REMAP_OR_PROTECT, /* pages that neither move nor can be written */
    CALL_ADVISE,
    CALL_STATVFS,
    CALL_CHMOD,
    CALL_TRUNCATE,
    CALL_SEAL,
    CALL_SEND,
    CALL_RECEIVE,
    CALL_SLEEP,
    CALL_AFFINITY,
    CALL_REGISTER,
    CALL_ENTER,
    CALL_BIND
} call_t;

/* What is refused, how often, after how many calls, and with which errno. Transfers run on this thread, or on
   threads that make none of these calls. */
static call_t refused;
static int skip_count, refuse_count, refuse_errno;
static int fired_count;

static void refuse_after(call_t call, int skips, int count, int error)
{
    refused = call;
    skip_count = skips;
    refuse_count = count;
    refuse_errno = error;
    fired_count = 0;
}

static void refuse(call_t call, int count, int error)
{
    refuse_after(call, 0, count, error);
}

static void refuse_nothing(void)
{
    CU_ASSERT_TRUE(fired_count > 0); /* else the test has not tested what it says */
    refused = CALL_NONE;
}

static bool refuses(call_t call)
{
    if (call != refused || skip_count-- > 0 || refuse_count == 0) {
        return false;
    }
    refuse_count--;
    fired_count++;
    errno = refuse_errno;
    return true;
}

/* ---- the calls ---- */

/* Returns the C library's own function. */
static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

#define REAL(pointer, name) (*(void **)&(pointer) = real(name))

int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    REAL(next, "open");
    return refuses(CALL_OPEN) ? -1 : next(path, flags, mode);
}

void *mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, ...)
{
    static void *(*next)(void *, size_t, size_t, int, ...);
    va_list list;
    va_start(list, flags);
    void *to = (flags & MREMAP_FIXED) != 0 ? va_arg(list, void *) : NULL;
    va_end(list);
    REAL(next, "mremap");
    return refuses(CALL_REMAP) || refuses(CALL_REMAP_OR_PROTECT)
               ? MAP_FAILED
               : next(address, old_bytes, new_bytes, flags, to);
}

int mprotect(void *address, size_t size_bytes, int rights)
{
    static int (*next)(void *, size_t, int);
    REAL(next, "mprotect");
    return refuses(CALL_REMAP_OR_PROTECT) ? -1 : next(address, size_bytes, rights);
}

int madvise(void *address, size_t size_bytes, int advice)
{
    static int (*next)(void *, size_t, int);
    REAL(next, "madvise");
    return refuses(CALL_ADVISE) ? -1 : next(address, size_bytes, advice);
}

int fstatvfs(int descriptor, struct statvfs *info)
{
    static int (*next)(int, struct statvfs *);
    REAL(next, "fstatvfs");
    return refuses(CALL_STATVFS) ? -1 : next(descriptor, info);
}

int fchmod(int descriptor, mode_t mode)
{
    static int (*next)(int, mode_t);
    REAL(next, "fchmod");
    return refuses(CALL_CHMOD) ? -1 : next(descriptor, mode);
}

int ftruncate(int descriptor, off_t size_bytes)
{
    static int (*next)(int, off_t);
    REAL(next, "ftruncate");
    return refuses(CALL_TRUNCATE) ? -1 : next(descriptor, size_bytes);
}

int fcntl(int descriptor, int command, ...)
{
    static int (*next)(int, int, ...);
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    REAL(next, "fcntl");
    return command == F_ADD_SEALS && refuses(CALL_SEAL) ? -1 : next(descriptor, command, argument);
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags)
{
    static ssize_t (*next)(int, const struct msghdr *, int);
    REAL(next, "sendmsg");
    return refuses(CALL_SEND) ? -1 : next(descriptor, message, flags);
}

ssize_t recvmsg(int descriptor, struct msghdr *message, int flags)
{
    static ssize_t (*next)(int, struct msghdr *, int);
    REAL(next, "recvmsg");
    return refuses(CALL_RECEIVE) ? -1 : next(descriptor, message, flags);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest)
{
    static int (*next)(clockid_t, int, const struct timespec *, struct timespec *);
    REAL(next, "clock_nanosleep");
    return refuses(CALL_SLEEP) ? refuse_errno : next(clock, flags, time, rest);
}

int sched_getaffinity(pid_t process, size_t size_bytes, cpu_set_t *set)
{
    static int (*next)(pid_t, size_t, cpu_set_t *);
    REAL(next, "sched_getaffinity");
    return refuses(CALL_AFFINITY) ? -1 : next(process, size_bytes, set);
}

long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long words[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        words[i] = va_arg(list, long);
    }
    va_end(list);
    REAL(next, "syscall");
    if ((number == SYS_io_uring_register && refuses(CALL_REGISTER)) ||
        (number == SYS_io_uring_enter && refuses(CALL_ENTER)) ||
        (number == SYS_get_mempolicy && refuses(CALL_BIND))) {
        return -1;
    }
    return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* ---- files ---- */

#define TRANSFER_BYTES (3 * DAO_FILE_PIECE_BYTES + 5)

static char folder[] = "/tmp/dao_refusals_XXXXXX";
static unsigned char *written, *returned;

static int folder_create(void)
{
    written = malloc(TRANSFER_BYTES);
    returned = malloc(TRANSFER_BYTES);
    if (written == NULL || returned == NULL || mkdtemp(folder) == NULL) {
        return 1;
    }
    for (size_t i = 0; i < TRANSFER_BYTES; i++) {
        written[i] = (unsigned char)(i * 7 + i / 4099);
    }
    return 0;
}

static int folder_destroy(void)
{
    free(written);
    free(returned);
    return rmdir(folder); /* fails if a file was left in it */
}

static void check_transfer(dao_file_t *file)
{
    memset(returned, 0, TRANSFER_BYTES);
    CU_ASSERT_EQUAL(dao_file_transfer(file, DAO_FILE_WRITE, 3, written, TRANSFER_BYTES), 0);
    CU_ASSERT_EQUAL(dao_file_transfer(file, DAO_FILE_READ, 3, returned, TRANSFER_BYTES), 0);
    CU_ASSERT_EQUAL(memcmp(written, returned, TRANSFER_BYTES), 0);
}

static void a_file_system_without_unnamed_files_gets_a_name_for_a_moment(void)
{
    static const int errors[] = {EOPNOTSUPP, EISDIR, EINVAL};
    for (int i = 0; i < 3; i++) {
        dao_file_t *file = NULL;
        refuse(CALL_OPEN, 1, errors[i]);
        CU_ASSERT_EQUAL_FATAL(dao_file_create(folder, DAO_FILE_ENGINE_THREADS, &file), DAO_OK);
        refuse_nothing();
        check_transfer(file);
        dao_file_destroy(file);
    }
}

static void a_directory_that_takes_no_file_is_named(void)
{
    dao_file_t *file = NULL;
    refuse(CALL_OPEN, 1, EACCES);
    CU_ASSERT_EQUAL(dao_file_create(folder, DAO_FILE_ENGINE_AUTO, &file), DAO_ERR_IO);
    refuse_nothing();
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), folder));
    refuse(CALL_OPEN, 1, EISDIR);
    CU_ASSERT_EQUAL(dao_file_create("/tmp/no/such/folder", DAO_FILE_ENGINE_AUTO, &file), DAO_ERR_IO);
    refuse_nothing();
    refuse(CALL_OPEN, 1, ENOMEM);
    CU_ASSERT_EQUAL(dao_file_create(folder, DAO_FILE_ENGINE_AUTO, &file), DAO_ERR_NO_HOST_MEMORY);
    refuse_nothing();
}

static void a_file_system_that_does_not_tell_has_no_free_bytes(void)
{
    dao_file_t *file = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_file_create(folder, DAO_FILE_ENGINE_THREADS, &file), DAO_OK);
    CU_ASSERT_TRUE(dao_file_free_bytes(file) > 0);
    refuse(CALL_STATVFS, 1, ENOSYS);
    CU_ASSERT_EQUAL(dao_file_free_bytes(file), 0);
    refuse_nothing();
    dao_file_destroy(file);
}

#if defined(DAO_FAULTS)
static void a_name_without_host_memory_is_that_error(void)
{
    dao_file_t *file = NULL;
    refuse(CALL_OPEN, 1, EOPNOTSUPP);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 1, false); /* the file's record is made */
    CU_ASSERT_EQUAL(dao_file_create(folder, DAO_FILE_ENGINE_THREADS, &file), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    refuse_nothing();
    CU_ASSERT_PTR_NULL(file);
}
#endif

/* Returns true if the kernel has io_uring. */
static bool has_uring(void)
{
    dao_file_t *file = NULL;
    bool is_there = dao_file_create(folder, DAO_FILE_ENGINE_URING, &file) == DAO_OK;
    if (is_there) {
        dao_file_destroy(file);
    } else {
        (void)printf("    without io_uring: %s\n", dao_last_message());
    }
    return is_there;
}

static void a_kernel_without_the_operations_has_threads(void)
{
    dao_file_t *file = NULL;
    if (!has_uring()) {
        return;
    }
    refuse(CALL_REGISTER, 1, EPERM);
    CU_ASSERT_EQUAL(dao_file_create(folder, DAO_FILE_ENGINE_URING, &file), DAO_ERR_UNSUPPORTED);
    refuse_nothing();
    refuse_after(CALL_REGISTER, 1, 1, EPERM); /* the second ring */
    CU_ASSERT_EQUAL_FATAL(dao_file_create(folder, DAO_FILE_ENGINE_AUTO, &file), DAO_OK);
    refuse_nothing();
    check_transfer(file);
    dao_file_destroy(file);
}

static void a_ring_that_is_refused_ends_the_transfer_and_works_again(void)
{
    dao_file_t *file = NULL;
    if (!has_uring()) {
        return;
    }
    CU_ASSERT_EQUAL_FATAL(dao_file_create(folder, DAO_FILE_ENGINE_URING, &file), DAO_OK);
    for (int skips = 0; skips < 2; skips++) {
        refuse_after(CALL_ENTER, skips, 1, EIO);
        int error = dao_file_transfer(file, DAO_FILE_WRITE, 0, written, TRANSFER_BYTES);
        if (fired_count > 0) { /* the kernel may have needed fewer calls */
            CU_ASSERT_EQUAL(error, EIO);
        }
        refused = CALL_NONE;
        check_transfer(file);
    }
    refuse(CALL_ENTER, 3, EINTR);
    check_transfer(file);
    refuse_nothing();
    dao_file_destroy(file);
}

/* ---- host memory ---- */

static void pages_that_cannot_move_are_copied_home(void)
{
    char *range = dao_host_reserve(2 * PAGE, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(range);
    CU_ASSERT_TRUE_FATAL(dao_host_map_at(range, PAGE));
    memset(range, 0x5a, PAGE);
    refuse(CALL_REMAP, 1, EINVAL); /* an older kernel does not know DONTUNMAP */
    char *home = dao_host_move_home(range, PAGE, PAGE);
    refuse_nothing();
    CU_ASSERT_PTR_NOT_NULL_FATAL(home);
    CU_ASSERT_EQUAL((uintptr_t)home % PAGE, 0);
    size_t same_count = 0;
    for (size_t i = 0; i < PAGE; i++) {
        same_count += home[i] == 0x5a;
    }
    CU_ASSERT_EQUAL(same_count, PAGE);
    dao_host_unmap(home, PAGE);
    CU_ASSERT_TRUE(dao_host_map_at(range, PAGE)); /* the addresses have stayed reserved, without bytes */
    CU_ASSERT_EQUAL(range[0], 0);
    dao_host_unmap(range, 2 * PAGE);
}

static void pages_that_can_neither_move_nor_be_copied_stay(void)
{
    char *pages = dao_host_map(PAGE, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
    memset(pages, 0x5a, PAGE);
    refuse(CALL_REMAP_OR_PROTECT, 2, ENOMEM);
    CU_ASSERT_PTR_NULL(dao_host_move_home(pages, PAGE, PAGE));
    CU_ASSERT_EQUAL(fired_count, 2);
    refuse_nothing();
    CU_ASSERT_EQUAL(pages[0], 0x5a);
    CU_ASSERT_EQUAL(pages[PAGE - 1], 0x5a);
    dao_host_unmap(pages, PAGE);
}

static void a_kernel_without_second_addresses_is_known(void)
{
    refuse(CALL_REMAP, 1, EINVAL);
    CU_ASSERT_FALSE(dao_host_has_aliases());
    refuse_nothing();
}

/* Each page is written instead. */
static void a_kernel_that_cannot_populate_gets_its_pages_touched(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char is_there[PAGE / 4096] = {0};
    dao_host_memory_config_t policy = {.huge_pages = DAO_HUGE_PAGES_NEVER, .prefault = true};
    dao_host_refusals_t refusals;
    refuse(CALL_ADVISE, 3, EINVAL); /* MADV_POPULATE_WRITE, and the hints about huge pages before it */
    char *memory = dao_host_map_by(&policy, PAGE, PAGE, &refusals);
    CU_ASSERT_EQUAL(fired_count, 3);
    refuse_nothing();
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    CU_ASSERT_EQUAL_FATAL(mincore(memory, PAGE, is_there), 0);
    size_t there_count = 0;
    for (size_t i = 0; i < PAGE / page_bytes; i++) {
        there_count += is_there[i] & 1;
    }
    CU_ASSERT_EQUAL(there_count, PAGE / page_bytes);
    CU_ASSERT_EQUAL(memory[PAGE - 1], 0);
    dao_host_unmap(memory, PAGE);
}

static void a_move_that_is_refused_changes_nothing(void)
{
    char *range = dao_host_reserve(PAGE, PAGE);
    char *pages = dao_host_map(PAGE, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(range);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
    pages[7] = 7;
    refuse(CALL_REMAP, 1, ENOMEM);
    CU_ASSERT_FALSE(dao_host_move(pages, range, PAGE));
    refuse_nothing();
    CU_ASSERT_EQUAL(pages[7], 7);
    CU_ASSERT_TRUE_FATAL(dao_host_move(pages, range, PAGE));
    CU_ASSERT_EQUAL(range[7], 7);
    dao_host_unmap(range, PAGE);
}

static void pages_that_cannot_grow_stay(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = dao_host_map_pages(page_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
    pages[0] = 3;
    refuse(CALL_REMAP, 1, ENOMEM);
    CU_ASSERT_PTR_NULL(dao_host_grow_pages(pages, page_bytes, 4 * page_bytes));
    refuse_nothing();
    CU_ASSERT_PTR_NULL(dao_host_grow_pages(pages, page_bytes, SIZE_MAX / 2 + 1));
    CU_ASSERT_EQUAL(pages[0], 3);
    dao_host_unmap(pages, page_bytes);
    CU_ASSERT_PTR_NULL(dao_host_map(SIZE_MAX / 2, PAGE));
}

static void a_policy_that_is_refused_says_so_and_maps_all_the_same(void)
{
    dao_host_memory_config_t policy = {.numa = DAO_NUMA_INTERLEAVE, .prefault = true};
    dao_host_refusals_t refusals;
    refuse(CALL_BIND, 1, ENOSYS);
    char *memory = dao_host_map_by(&policy, PAGE, PAGE, &refusals);
    refuse_nothing();
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    CU_ASSERT_EQUAL(refusals.numa, ENOSYS);
    CU_ASSERT_EQUAL(memory[PAGE - 1], 0);
    dao_host_unmap(memory, PAGE);
}

/* ---- shared memory ---- */

static void shared_memory_that_cannot_be_sealed_is_none(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    refuse(CALL_TRUNCATE, 1, ENOSPC);
    CU_ASSERT_EQUAL(dao_shared_create(page_bytes), DAO_NO_DESCRIPTOR);
    refuse_nothing();
    refuse(CALL_SEAL, 1, EPERM);
    CU_ASSERT_EQUAL(dao_shared_create(page_bytes), DAO_NO_DESCRIPTOR);
    refuse_nothing();
    CU_ASSERT_EQUAL(dao_shared_create(SIZE_MAX), DAO_NO_DESCRIPTOR);
}

/* Kernels before 5.1 cannot keep others from writing: the size is sealed all the same. */
static void memory_is_shown_with_the_seals_that_the_kernel_has(void)
{
    void *address = NULL;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), size_bytes = 0;
    refuse(CALL_SEAL, 1, EINVAL);
    int descriptor = dao_shared_show("dao", 5, &address);
    refuse_nothing();
    CU_ASSERT_TRUE_FATAL(descriptor >= 0);
    CU_ASSERT_TRUE(dao_shared_size(descriptor, &size_bytes));
    CU_ASSERT_EQUAL(size_bytes, page_bytes);
    dao_host_unmap(address, page_bytes);
    (void)close(descriptor);
}

static void memory_that_cannot_be_guarded_is_not_shown(void)
{
    void *address = NULL;
    refuse(CALL_SEAL, 1, EPERM);
    CU_ASSERT_EQUAL(dao_shared_show("dao", 5, &address), DAO_NO_DESCRIPTOR);
    refuse_nothing();
    refuse(CALL_SEAL, 2, EINVAL);
    CU_ASSERT_EQUAL(dao_shared_show("dao", 5, &address), DAO_NO_DESCRIPTOR);
    refuse_nothing();
    refuse(CALL_CHMOD, 1, EPERM);
    CU_ASSERT_EQUAL(dao_shared_show("dao", 5, &address), DAO_NO_DESCRIPTOR);
    refuse_nothing();
    refuse(CALL_TRUNCATE, 1, ENOSPC);
    CU_ASSERT_EQUAL(dao_shared_show("dao", 5, &address), DAO_NO_DESCRIPTOR);
    refuse_nothing();
    CU_ASSERT_PTR_NULL(address);
}

static void a_file_that_can_still_shrink_is_no_shared_memory(void)
{
    size_t size_bytes = 1;
    int unsealed = memfd_create("dao", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CU_ASSERT_TRUE_FATAL(unsealed >= 0);
    CU_ASSERT_FALSE(dao_shared_size(unsealed, &size_bytes));
    CU_ASSERT_EQUAL(size_bytes, 1);
    (void)close(unsealed);
    CU_ASSERT_FALSE(dao_shared_size(STDIN_FILENO, &size_bytes));
    int read_only = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CU_ASSERT_TRUE_FATAL(read_only >= 0);
    CU_ASSERT_PTR_NULL(dao_shared_map(read_only, (size_t)sysconf(_SC_PAGESIZE), 4096)); /* not writable */
    (void)close(read_only);
}

static void messages_go_on_after_a_signal(void)
{
    int ends[2];
    uint64_t sent = 77, received = 0;
    int descriptor = 5;
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    refuse(CALL_SEND, 2, EINTR);
    CU_ASSERT_EQUAL(dao_descriptor_send(ends[0], &sent, sizeof(sent), DAO_NO_DESCRIPTOR), 0);
    refuse_nothing();
    refuse(CALL_RECEIVE, 2, EINTR);
    CU_ASSERT_EQUAL(dao_descriptor_receive(ends[1], &received, sizeof(received), &descriptor), 0);
    refuse_nothing();
    CU_ASSERT_EQUAL(received, 77);
    CU_ASSERT_EQUAL(descriptor, DAO_NO_DESCRIPTOR);
    refuse(CALL_SEND, 1, ENOBUFS);
    CU_ASSERT_EQUAL(dao_descriptor_send(ends[0], &sent, sizeof(sent), STDIN_FILENO), ENOBUFS);
    refuse_nothing();
    refuse(CALL_RECEIVE, 1, ECONNRESET);
    CU_ASSERT_EQUAL(dao_descriptor_receive(ends[1], &received, sizeof(received), &descriptor), ECONNRESET);
    refuse_nothing();
    CU_ASSERT_EQUAL(descriptor, DAO_NO_DESCRIPTOR);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* ---- threads ---- */

static void a_sleep_goes_on_after_a_signal(void)
{
    uint64_t until_ns = dao_clock_ns() + 1000000;
    refuse(CALL_SLEEP, 3, EINTR);
    dao_sleep_until(until_ns);
    refuse_nothing();
    CU_ASSERT_TRUE(dao_clock_ns() >= until_ns);
}

static void a_thread_that_cannot_be_pinned_runs_anywhere(void)
{
    refuse(CALL_AFFINITY, 1, EINVAL);
    CU_ASSERT_FALSE(dao_measure_stay(0));
    refuse_nothing();
    CU_ASSERT_TRUE(dao_measure_stay(1));
}

static CU_TestInfo tests[] = {
    {"a file system without unnamed files gets a name for a moment",
     a_file_system_without_unnamed_files_gets_a_name_for_a_moment},
    {"a directory that takes no file is named", a_directory_that_takes_no_file_is_named},
    {"a file system that does not tell has no free bytes",
     a_file_system_that_does_not_tell_has_no_free_bytes},
#if defined(DAO_FAULTS)
    {"a name without host memory is that error", a_name_without_host_memory_is_that_error},
#endif
    {"a kernel without the operations has threads", a_kernel_without_the_operations_has_threads},
    {"a ring that is refused ends the transfer and works again",
     a_ring_that_is_refused_ends_the_transfer_and_works_again},
    {"pages that cannot move are copied home", pages_that_cannot_move_are_copied_home},
    {"pages that can neither move nor be copied stay", pages_that_can_neither_move_nor_be_copied_stay},
    {"a kernel without second addresses is known", a_kernel_without_second_addresses_is_known},
    {"a kernel that cannot populate gets its pages touched",
     a_kernel_that_cannot_populate_gets_its_pages_touched},
    {"a move that is refused changes nothing", a_move_that_is_refused_changes_nothing},
    {"pages that cannot grow stay", pages_that_cannot_grow_stay},
    {"a policy that is refused says so and maps all the same",
     a_policy_that_is_refused_says_so_and_maps_all_the_same},
    {"shared memory that cannot be sealed is none", shared_memory_that_cannot_be_sealed_is_none},
    {"memory is shown with the seals that the kernel has",
     memory_is_shown_with_the_seals_that_the_kernel_has},
    {"memory that cannot be guarded is not shown", memory_that_cannot_be_guarded_is_not_shown},
    {"a file that can still shrink is no shared memory", a_file_that_can_still_shrink_is_no_shared_memory},
    {"messages go on after a signal", messages_go_on_after_a_signal},
    {"a sleep goes on after a signal", a_sleep_goes_on_after_a_signal},
    {"a thread that cannot be pinned runs anywhere", a_thread_that_cannot_be_pinned_runs_anywhere},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"refusals", folder_create, folder_destroy, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
