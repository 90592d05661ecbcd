/* SPDX-License-Identifier: Apache-2.0 */
/* The copy is a file without a name; each opening of it through /proc has a place of its own. */
#define _GNU_SOURCE
#include "tools/read/bytes/standard_input.h"

#include "tools/base/progress.h"

#include "base/report/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 * 1024 };

static int copy = -1; /* of standard input; kept open until the process ends */

bool dao_path_is_standard_input(const char *path)
{
    return strcmp(path, "-") == 0;
}

static dao_status_t refuse(const char *what)
{
    return dao_error(DAO_ERR_IO, "standard input: %s: %s", what, strerror(errno));
}

static dao_status_t copy_all(int file)
{
    char piece[PIECE_BYTES];
    dao_progress_phase("reading standard input", DAO_PROGRESS_UNIT_BYTES, 0);
    for (;;) {
        ssize_t count = read(STDIN_FILENO, piece, sizeof(piece));
        if (count == 0) {
            return DAO_OK;
        }
        if (count < 0 && errno != EINTR) {
            return refuse("cannot be read");
        }
        dao_progress_add(count > 0 ? (uint64_t)count : 0);
        for (ssize_t done = 0, written; done < count; done += written) {
            written = write(file, piece + done, (size_t)(count - done));
            if (written < 0) {
                return refuse("cannot be copied");
            }
        }
    }
}

static dao_status_t make_copy(void)
{
    const char *folder = getenv("TMPDIR");
    int file = open(folder != NULL ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) {
        return refuse("no file for a copy in TMPDIR");
    }
    dao_status_t status = copy_all(file);
    if (status != DAO_OK) {
        (void)close(file); /* it was only a copy */
        return status;
    }
    copy = file;
    return DAO_OK;
}

dao_status_t dao_standard_input_open(int *out_file)
{
    char path[64];
    dao_status_t status = copy < 0 ? make_copy() : DAO_OK;
    if (status != DAO_OK) {
        return status;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", copy);
    *out_file = open(path, O_RDONLY | O_CLOEXEC);
    return *out_file >= 0 ? DAO_OK : refuse("its copy cannot be opened");
}
