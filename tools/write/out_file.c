/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* mkostemp() */
#include "tools/write/out_file.h"
#include "tools/base/interrupt.h"
#include "tools/base/progress.h"

#include "base/report/assert.h"
#include "base/report/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDING ".XXXXXX"

/* The file that is open: where it goes in the end, and its name until then. Both are empty where it is
   written in place. */
static char target[PATH_MAX];
static char temporary[PATH_MAX + sizeof(ENDING)];

/* Finds where a plain file of this name is or will be, behind links. False: it is to be written in place. */
static bool find_target(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0) {
        return S_ISREG(about.st_mode) && realpath(path, target) != NULL;
    }
    bool is_new = errno == ENOENT && lstat(path, &about) != 0 && strlen(path) < sizeof(target);
    (void)snprintf(target, sizeof(target), "%s", is_new ? path : "");
    return is_new;
}

/* The rights of the file that it replaces, or those of a new one. */
static mode_t find_mode(void)
{
    struct stat about;
    mode_t mask = umask(0);
    (void)umask(mask);
    return stat(target, &about) == 0 ? about.st_mode & 0777 : 0666 & ~mask;
}

/* Opens the temporary file; NULL: there can be none. */
static FILE *open_temporary(void)
{
    (void)snprintf(temporary, sizeof(temporary), "%s" ENDING, target);
    int descriptor = mkostemp(temporary, O_CLOEXEC);
    FILE *file = descriptor >= 0 && fchmod(descriptor, find_mode()) == 0 ? fdopen(descriptor, "w") : NULL;
    if (file != NULL) {
        dao_interrupt_remove(temporary);
        return file;
    }
    if (descriptor >= 0) {
        (void)close(descriptor); /* nothing was written */
        (void)unlink(temporary);
    }
    temporary[0] = '\0';
    return NULL;
}

static bool is_same_file(const char *path, const char *input)
{
    struct stat written, read;
    return strcmp(input, "-") != 0 && stat(path, &written) == 0 && stat(input, &read) == 0 &&
           S_ISREG(read.st_mode) && written.st_dev == read.st_dev && written.st_ino == read.st_ino;
}

/* Returns the errno of why the folder of a file takes no other file; 0: it does. */
static int find_obstacle_in_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    if (length >= sizeof(folder)) {
        return ENAMETOOLONG;
    }
    (void)snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)length,
                   slash == NULL ? "." : path);
    return access(folder, W_OK | X_OK) == 0 ? 0 : errno;
}

/* Returns the errno of why a file cannot be written, as far as that can be seen before; 0: nothing is. */
static int find_obstacle(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0) {
        bool takes_writes = access(path, W_OK) == 0;
        return S_ISDIR(about.st_mode) ? EISDIR : takes_writes ? 0 : find_obstacle_in_folder(path);
    }
    if (errno != ENOENT) {
        return errno;
    }
    return lstat(path, &about) == 0 ? 0 : find_obstacle_in_folder(path); /* a link to what is not there */
}

bool dao_out_file_is_standard(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

dao_status_t dao_out_file_check(const char *path, const char *input)
{
    if (path == NULL || dao_out_file_is_standard(path)) {
        return DAO_OK;
    }
    if (input != NULL && is_same_file(path, input)) {
        return dao_error(DAO_ERR_INVALID, "\"%.200s\" is the file that is read: write another one", path);
    }
    int reason = find_obstacle(path);
    return reason == 0 ? DAO_OK : dao_error(DAO_ERR_IO, "%.200s: %s", path, strerror(reason));
}

FILE *dao_out_file_open(const char *path)
{
    bool is_output = dao_out_file_is_standard(path);
    /* No line of progress within the output. */
    dao_progress_phase(is_output ? "" : "writing", DAO_PROGRESS_UNIT_PARTS, 0);
    dao_progress_hide();
    DAO_ASSERT(temporary[0] == '\0');
    FILE *file = is_output ? stdout : find_target(path) ? open_temporary() : NULL;
    if (file == NULL) {
        file = fopen(path, "we"); /* a pipe, or a file in a folder that takes no others */
    }
    if (file == NULL) {
        (void)dao_error(DAO_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    return file;
}

/* Gives the temporary file its name, or takes it away. Returns 0, or the errno of what failed. */
static int finish_temporary(bool is_whole)
{
    int reason = 0;
    if (temporary[0] == '\0') {
        return 0;
    }
    if (is_whole && rename(temporary, target) != 0) {
        reason = errno;
    }
    if (!is_whole || reason != 0) {
        (void)unlink(temporary); /* what is wrong is told already */
    }
    dao_interrupt_remove(NULL);
    temporary[0] = '\0';
    return reason;
}

dao_status_t dao_out_file_close(FILE *file, const char *path, dao_status_t status)
{
    errno = 0;
    bool has_failed = fflush(file) != 0 || ferror(file) != 0;
    if (has_failed && errno == 0) { /* an earlier write failed: another byte is refused for the same reason */
        (void)fputc('\n', file);
        (void)fflush(file);
    }
    int reason = errno;
    if (file != stdout && fclose(file) != 0 && !has_failed) {
        has_failed = true;
        reason = errno;
    }
    int rename_reason = file != stdout ? finish_temporary(status == DAO_OK && !has_failed) : 0;
    if (status != DAO_OK || (!has_failed && rename_reason == 0)) {
        return status;
    }
    reason = has_failed ? reason : rename_reason;
    return dao_error(DAO_ERR_IO, "%.200s: the file could not be written%s%s", path, reason != 0 ? ": " : "",
                     reason != 0 ? strerror(reason) : "");
}
