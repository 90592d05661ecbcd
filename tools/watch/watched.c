/* SPDX-License-Identifier: Apache-2.0 */
/* A page is an anonymous file among the descriptors of its process. The system lets the same user look there,
   and others not. A child that has inherited the descriptor is not the process that the page names. */
#define _GNU_SOURCE
#include "tools/watch/watched.h"

#include "base/memory/host.h"
#include "base/memory/shared.h"
#include "base/report/error.h"
#include "base/text/printable.h"
#include "base/threads/sync.h"
#include "runtime/scoreboard/scoreboard_thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A link to the page, with what the system puts before and behind its name. */
#define LINK_PREFIX "/memfd:" DAO_SCOREBOARD_NAME

/* How long the first figures are waited for: they are there as soon as the thread runs. */
#define FIRST_NS (20 * DAO_SCOREBOARD_PERIOD_NS)

/* Reads the number of a process. */
static bool pid_parse(const char *text, pid_t *out_pid)
{
    char *end;
    errno = 0;
    long pid = strtol(text, &end, 10);
    *out_pid = (pid_t)pid;
    return text[0] >= '1' && text[0] <= '9' && *end == '\0' && errno == 0 && pid <= INT_MAX;
}

/* Reads a small file of a process; "" if it cannot be read. */
static void file_read(int folder, const char *name, char *out_text, size_t text_bytes)
{
    ssize_t count = -1;
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        count = read(file, out_text, text_bytes - 1);
        (void)close(file);
    }
    out_text[count > 0 ? count : 0] = '\0';
}

/* Returns the number that a process has for itself: another one than here in a container. */
static pid_t own_pid_of(int folder, pid_t pid)
{
    char text[4096];
    file_read(folder, "status", text, sizeof(text));
    const char *line = strstr(text, "\nNSpid:");
    const char *last = NULL;
    for (const char *at = line != NULL ? line + 1 : ""; *at != '\0' && *at != '\n'; at++) {
        last = *at == '\t' ? at + 1 : last;
    }
    return last != NULL ? (pid_t)strtol(last, NULL, 10) : pid;
}

/* Maps a page behind one of the descriptors of a process, if it is its own. */
static bool page_take(int descriptors, const char *name, pid_t own_pid, dao_watched_t *watched)
{
    char link[64];
    ssize_t length = readlinkat(descriptors, name, link, sizeof(link) - 1);
    link[length > 0 ? length : 0] = '\0';
    size_t prefix_length = sizeof(LINK_PREFIX) - 1;
    if (strncmp(link, LINK_PREFIX, prefix_length) != 0 ||
        (link[prefix_length] != ' ' && link[prefix_length])) {
        return false;
    }
    int page = openat(descriptors, name, O_RDONLY | O_CLOEXEC);
    if (page < 0) {
        return false;
    }
    watched->page = dao_shared_look(page, &watched->page_bytes);
    (void)close(page);
    dao_scoreboard_header_t header = {.magic = DAO_SCOREBOARD_MAGIC, .pid = -1};
    if (watched->page != NULL && watched->page_bytes >= sizeof(header)) {
        memcpy(&header, watched->page, sizeof(header));
    }
    bool is_filled = header.magic != 0; /* else its process is about to */
    if (is_filled && header.pid != own_pid && watched->page != NULL) {
        dao_host_unmap((void *)(uintptr_t)watched->page, watched->page_bytes);
        watched->page = NULL;
    }
    return watched->page != NULL;
}

/* Looks at one process. Returns 0, or an errno: ENODATA if it shows no figures. */
static int process_open(pid_t pid, dao_watched_t *out_watched)
{
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    *out_watched = (dao_watched_t){.pid = pid, .folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (out_watched->folder < 0) {
        return errno;
    }
    int result = ENODATA;
    int inner = openat(out_watched->folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *descriptors = inner >= 0 ? fdopendir(inner) : NULL;
    if (descriptors == NULL) {
        result = errno;
        if (inner >= 0) {
            (void)close(inner);
        }
    } else {
        pid_t own_pid = own_pid_of(out_watched->folder, pid);
        struct dirent *entry;
        while (result == ENODATA && (entry = readdir(descriptors)) != NULL) {
            result = page_take(inner, entry->d_name, own_pid, out_watched) ? 0 : ENODATA;
        }
        (void)closedir(descriptors);
    }
    if (result != 0) {
        (void)close(out_watched->folder);
        return result;
    }
    file_read(out_watched->folder, "comm", out_watched->command, sizeof(out_watched->command));
    out_watched->command[strcspn(out_watched->command, "\n")] = '\0';
    dao_make_printable(out_watched->command);
    return 0;
}

dao_status_t dao_watched_check(const char *pid_text)
{
    pid_t pid;
    return pid_text == NULL || pid_parse(pid_text, &pid)
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "\"%s\" is no number of a process", pid_text);
}

static dao_status_t open_by_text(const char *text, dao_watched_t *out_watched)
{
    pid_t pid;
    if (!pid_parse(text, &pid)) {
        return dao_watched_check(text);
    }
    int result = process_open(pid, out_watched);
    switch (result) {
    case 0:
        return DAO_OK;
    case ENOENT:
    case ESRCH:
        return dao_error(DAO_ERR_INVALID, "there is no process %d", (int)pid);
    case EACCES:
    case EPERM:
        return dao_error(DAO_ERR_INVALID,
                         "process %d cannot be looked into: it belongs to another user, or protects itself",
                         (int)pid);
    case ENODATA:
        return dao_error(DAO_ERR_INVALID,
                         "process %d shows no figures: start it with DAO_WATCH=1 in its environment, and let "
                         "it use libdao",
                         (int)pid);
    default:
        return dao_error(DAO_ERR_IO, "process %d cannot be looked into: %s", (int)pid, strerror(result));
    }
}

/* Finds the only process that shows its figures. */
static dao_status_t open_only(dao_watched_t *out_watched)
{
    char names[512] = "";
    size_t length = 0;
    int count = 0;
    DIR *processes = opendir("/proc");
    if (processes == NULL) {
        return dao_error(DAO_ERR_IO, "/proc cannot be read: %s", strerror(errno));
    }
    const struct dirent *entry;
    while ((entry = readdir(processes)) != NULL) {
        pid_t pid;
        dao_watched_t watched;
        if (!pid_parse(entry->d_name, &pid) || process_open(pid, &watched) != 0) {
            continue;
        }
        if (length < sizeof(names)) {
            int added = snprintf(names + length, sizeof(names) - length, "%s%d (%s)", count > 0 ? ", " : "",
                                 (int)pid, watched.command);
            length += added > 0 ? (size_t)added : 0;
        }
        if (count++ == 0) {
            *out_watched = watched;
        } else {
            dao_watched_close(&watched);
        }
    }
    (void)closedir(processes);
    if (count == 1) {
        return DAO_OK;
    }
    if (count > 1) {
        dao_watched_close(out_watched);
        return dao_error(DAO_ERR_INVALID, "%d processes show figures: %s; name one", count, names);
    }
    return dao_error(DAO_ERR_INVALID,
                     "no process of yours shows figures: start one with DAO_WATCH=1 in its environment");
}

dao_status_t dao_watched_open(const char *pid_text, dao_watched_t *out_watched)
{
    return pid_text != NULL ? open_by_text(pid_text, out_watched) : open_only(out_watched);
}

void dao_watched_close(dao_watched_t *watched)
{
    dao_host_unmap((void *)(uintptr_t)watched->page, watched->page_bytes);
    (void)close(watched->folder);
    *watched = (dao_watched_t){.folder = -1};
}

/* A process that nobody has waited for is as dead. */
bool dao_watched_lives(const dao_watched_t *watched)
{
    char text[512];
    file_read(watched->folder, "stat", text, sizeof(text));
    const char *state = strrchr(text, ')'); /* a name may have brackets */
    return state != NULL && strlen(state) > 2 && state[2] != 'Z' && state[2] != 'X';
}

dao_status_t dao_watched_read(const dao_watched_t *watched, dao_scoreboard_header_t *out_header,
                              dao_scores_t *out_scores)
{
    uint64_t end_ns = dao_clock_ns() + FIRST_NS;
    dao_status_t status;
    do {
        status = dao_scoreboard_read(watched->page, watched->page_bytes, out_header, out_scores);
        if (status == DAO_ERR_NOT_READY) {
            dao_sleep_until(dao_clock_ns() + DAO_SCOREBOARD_PERIOD_NS / 10);
        }
    } while (status == DAO_ERR_NOT_READY && dao_clock_ns() < end_ns && dao_watched_lives(watched));
    return status;
}
