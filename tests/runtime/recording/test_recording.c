/* SPDX-License-Identifier: Apache-2.0 */
/* The recording of DAO_RECORD: every allocation and free of all places is a whole line of its own, whichever
   thread made it; a forked child writes nothing; what cannot be written is logged once. The suite's one
   recording lasts as long as its process, as every one does. */
#define _GNU_SOURCE
#include <dao/dao.h>

#include "base/memory/descriptor.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEADER           "time_ns,event,place,address,bytes,tag,stream\n"
#define THREAD_COUNT     4
#define PAIR_COUNT       200
#define LINE_BYTES       512
#define DESCRIPTOR_COUNT 4096

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0}, pinned_place = {DAO_PLACE_KIND_PINNED, 0};
static char name[256];
static int log_count;
static char logged[512]; /* the latest one */

static void log_line(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    if (strstr(message, "record") != NULL) {
        log_count++;
        (void)snprintf(logged, sizeof(logged), "%s", message);
    }
}

static dao_status_t library_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}, .log_callback = log_line};
    log_count = 0;
    return dao_init(&config);
}

/* What the file has. */
typedef struct seen {
    size_t line_count, alloc_count, free_count, refused_count, step_count;
    bool is_whole; /* each line has seven fields */
    uint64_t live_bytes;
    char last[LINE_BYTES];
} seen_t;

static size_t comma_count(const char *line)
{
    size_t count = 0;
    bool is_quoted = false;
    for (; *line != '\0'; line++) {
        is_quoted = is_quoted != (*line == '"');
        count += *line == ',' && !is_quoted;
    }
    return count;
}

static seen_t look(void)
{
    seen_t seen = {.is_whole = true};
    char line[LINE_BYTES], event[16];
    FILE *file = fopen(dao_test_path, "re");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_PTR_NOT_NULL_FATAL(fgets(line, sizeof(line), file));
    CU_ASSERT_STRING_EQUAL(line, HEADER);
    while (fgets(line, sizeof(line), file) != NULL) {
        uint64_t time_ns, size_bytes = 0;
        bool is_event =
            sscanf(line, "%" SCNu64 ",%15[a-z],%*[^,],%*[^,],%" SCNu64, &time_ns, event, &size_bytes) == 3;
        seen.is_whole = seen.is_whole && is_event && comma_count(line) == 6 && strchr(line, '\n') != NULL;
        bool is_alloc = strcmp(event, "alloc") == 0, is_free = strcmp(event, "free") == 0;
        seen.alloc_count += is_alloc;
        seen.free_count += is_free;
        seen.refused_count += strcmp(event, "refused") == 0;
        seen.step_count += strcmp(event, "step") == 0;
        seen.live_bytes += is_alloc ? size_bytes : is_free ? -size_bytes : 0;
        seen.line_count++;
        (void)snprintf(seen.last, sizeof(seen.last), "%s", line);
    }
    (void)fclose(file);
    return seen;
}

static void a_file_that_cannot_be_had_is_logged(void)
{
    (void)snprintf(name, sizeof(name), "%s/none/x", dao_test_path);
    CU_ASSERT_EQUAL(setenv("DAO_RECORD", name, 1), 0);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    CU_ASSERT_EQUAL(log_count, 1);
    CU_ASSERT_EQUAL(dao_free(device, dao_alloc(device, MIB)), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(setenv("DAO_RECORD", "a%l", 1), 0);
    CU_ASSERT_EQUAL(library_start(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_RECORD"));
}

/* Without a reader it would keep the program, and a reader that goes would end it. */
static void a_pipe_is_refused(void)
{
    for (int has_reader = 0; has_reader < 2; has_reader++) {
        (void)snprintf(name, sizeof(name), "%s.pipe", dao_test_path);
        CU_ASSERT_EQUAL_FATAL(mkfifo(name, 0600), 0);
        int reader = has_reader == 1 ? open(name, O_RDONLY | O_NONBLOCK) : -1;
        CU_ASSERT_EQUAL(setenv("DAO_RECORD", name, 1), 0);
        CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
        CU_ASSERT_EQUAL(log_count, 1);
        CU_ASSERT_EQUAL(dao_free(device, dao_alloc(device, MIB)), DAO_OK);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
        if (reader >= 0) {
            CU_ASSERT_EQUAL(close(reader), 0);
        }
        CU_ASSERT_EQUAL(unlink(name), 0);
    }
}

/* The number that the next descriptor of the library's gets. */
static int next_descriptor(void)
{
    int next = dao_descriptor_copy(STDERR_FILENO);
    dao_descriptor_close(next);
    return next;
}

/* A full device takes the first bytes of nothing: the header fails. */
static void a_full_disk_is_logged(void)
{
    CU_ASSERT_EQUAL(setenv("DAO_RECORD", "/dev/full", 1), 0);
    int next = next_descriptor();
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    CU_ASSERT_EQUAL(log_count, 1);
    CU_ASSERT_EQUAL(next_descriptor(), next); /* it is closed */
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* Locks the file of `name` and writes to it, as one who records does; returns when `go` is closed. */
static void record_as_another_process(int told, int go)
{
    char byte = 0;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    bool is_there = file >= 0 && fcntl(file, F_SETLK, &lock) == 0 && write(file, "theirs", 6) == 6;
    _exit(is_there && write(told, &byte, 1) == 1 && read(go, &byte, 1) == 0 ? 0 : 1);
}

static void the_file_of_another_process_is_left_alone(void)
{
    int told[2], go[2], how = 0;
    char bytes[16] = "";
    (void)snprintf(name, sizeof(name), "%s.theirs", dao_test_path);
    CU_ASSERT_EQUAL_FATAL(pipe(told) | pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)close(go[1]);
        record_as_another_process(told[1], go[0]);
    }
    CU_ASSERT_EQUAL(read(told[0], bytes, 1), 1);
    CU_ASSERT_EQUAL(setenv("DAO_RECORD", name, 1), 0);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    CU_ASSERT_EQUAL(log_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, "another process records there"));
    CU_ASSERT_EQUAL(dao_free(device, dao_alloc(device, MIB)), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(close(go[1]) | close(go[0]) | close(told[0]) | close(told[1]), 0);
    CU_ASSERT_EQUAL(waitpid(child, &how, 0), child);
    CU_ASSERT(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    FILE *file = fopen(name, "re");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fread(bytes, 1, sizeof(bytes) - 1, file), 6);
    CU_ASSERT_STRING_EQUAL(bytes, "theirs");
    (void)fclose(file);
    CU_ASSERT_EQUAL(unlink(name), 0);
}

static void every_place_is_in_the_file(void)
{
    uint32_t tag = 0;
    CU_ASSERT_EQUAL(setenv("DAO_RECORD", dao_test_path, 1), 0);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_create("a,\"b\"", &tag), DAO_OK);
    dao_tag_t before = dao_tag_set_current(tag);
    void *block = dao_alloc(device, 1000);
    (void)dao_tag_set_current(before);
    seen_t seen = look();
    CU_ASSERT_PTR_NOT_NULL(strstr(seen.last, ",alloc,device:0,0x"));
    CU_ASSERT_PTR_NOT_NULL(strstr(seen.last, ",1000,\"a,\"\"b\"\"\",0\n"));
    void *host = dao_alloc(dao_cpu_place(), 77), *pinned = dao_alloc(pinned_place, 5);
    CU_ASSERT_PTR_NULL(dao_alloc(device, 512 * MIB));
    CU_ASSERT_EQUAL(dao_step_begin(device), DAO_OK);
    seen = look();
    CU_ASSERT_EQUAL(seen.alloc_count, 3);
    CU_ASSERT_EQUAL(seen.refused_count, 1);
    CU_ASSERT_EQUAL(seen.step_count, 1);
    CU_ASSERT_EQUAL(seen.live_bytes, 1082);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(dao_cpu_place(), host), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(pinned_place, pinned), DAO_OK);
    seen = look();
    CU_ASSERT_EQUAL(seen.free_count, 3);
    CU_ASSERT_EQUAL(seen.live_bytes, 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void *allocate(void *user)
{
    (void)user;
    for (size_t i = 0; i < PAIR_COUNT; i++) {
        dao_place_t place = i % 2 == 0 ? device : dao_place_of(dao_cpu_place());
        void *block = dao_alloc(place, 64 + i * 100);
        if (block == NULL || dao_free(place, block) != DAO_OK) {
            return (void *)&log_count; /* anything but NULL */
        }
    }
    return NULL;
}

static void lines_of_threads_stay_whole(void)
{
    dao_thread_t threads[THREAD_COUNT];
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    seen_t before = look();
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "test", allocate, NULL), DAO_OK);
    }
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    seen_t after = look();
    CU_ASSERT(after.is_whole);
    CU_ASSERT_EQUAL(after.alloc_count - before.alloc_count, THREAD_COUNT * PAIR_COUNT);
    CU_ASSERT_EQUAL(after.free_count - before.free_count, THREAD_COUNT * PAIR_COUNT);
    CU_ASSERT_EQUAL(after.live_bytes, 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* A child cannot allocate, and what it inherits is not its own. */
static void a_child_writes_nothing(void)
{
    int how = 0;
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, MIB, NULL, &memory), DAO_OK);
    seen_t before = look();
    pid_t child = fork();
    if (child == 0) {
        bool is_refused = dao_alloc(device, MIB) == NULL;
        (void)dao_memory_release(memory);
        _exit(is_refused ? 0 : 1);
    }
    CU_ASSERT_EQUAL(waitpid(child, &how, 0), child);
    CU_ASSERT(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    CU_ASSERT_EQUAL(look().line_count, before.line_count);
    dao_memory_release(memory);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK); /* it may be freed now */
    CU_ASSERT_EQUAL(look().line_count, before.line_count + 1);
    CU_ASSERT_EQUAL(look().live_bytes, 0);
}

/* The number of the descriptor by which the recording is open; -1: there is none. */
static int recording_descriptor(void)
{
    struct stat wanted, about;
    if (stat(dao_test_path, &wanted) != 0) {
        return -1;
    }
    for (int descriptor = 0; descriptor < DESCRIPTOR_COUNT; descriptor++) {
        if (fstat(descriptor, &about) == 0 && about.st_ino == wanted.st_ino &&
            about.st_dev == wanted.st_dev) {
            return descriptor;
        }
    }
    return -1;
}

/* As shells do with low numbers, and daemons that close all. */
static void a_file_of_the_program_at_its_descriptor_ends_the_recording(void)
{
    struct stat about;
    (void)snprintf(name, sizeof(name), "%s.own", dao_test_path);
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    int descriptor = recording_descriptor();
    int own = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CU_ASSERT_TRUE_FATAL(descriptor > STDERR_FILENO && own >= 0);
    CU_ASSERT_TRUE(descriptor >= 256); /* no shell has so many */
    CU_ASSERT_EQUAL(dup2(own, descriptor), descriptor);
    size_t before = look().line_count;
    void *block = dao_alloc(device, MIB);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(fstat(own, &about), 0);
    CU_ASSERT_EQUAL(about.st_size, 0);
    CU_ASSERT_EQUAL(log_count, 1);
    CU_ASSERT_EQUAL(look().line_count, before);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(close(own) | close(descriptor) | unlink(name), 0); /* it is the program's */
}

/* The last case: the recording has ended then. */
static void a_file_that_cannot_grow_ends_the_recording(void)
{
    struct rlimit before, full;
    struct stat about;
    CU_ASSERT_EQUAL_FATAL(library_start(), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &before), 0);
    seen_t seen = look();
    CU_ASSERT_EQUAL_FATAL(stat(dao_test_path, &about), 0);
    full = (struct rlimit){.rlim_cur = (rlim_t)about.st_size, .rlim_max = before.rlim_max};
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &full), 0); /* SIGXFSZ would end the process */
    void *blocks[3];
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = dao_alloc(device, MIB);
    }
    (void)setrlimit(RLIMIT_FSIZE, &before);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_free(device, blocks[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(log_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged, strerror(EFBIG)));
    CU_ASSERT_EQUAL(look().line_count, seen.line_count);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"a file that cannot be had is logged", a_file_that_cannot_be_had_is_logged},
    {"a pipe is refused", a_pipe_is_refused},
    {"a full disk is logged", a_full_disk_is_logged},
    {"the file of another process is left alone", the_file_of_another_process_is_left_alone},
    {"every place is in the file", every_place_is_in_the_file},
    {"lines of threads stay whole", lines_of_threads_stay_whole},
    {"a child writes nothing", a_child_writes_nothing},
    {"a file of the program at its descriptor ends the recording",
     a_file_of_the_program_at_its_descriptor_ends_the_recording},
    {"a file that cannot grow ends the recording", a_file_that_cannot_grow_ends_the_recording},
    CU_TEST_INFO_NULL};

int main(void)
{
    CU_SuiteInfo suites[] = {{"recording", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
