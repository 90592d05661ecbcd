/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/memory/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors of ours are this number or above, or in the upper half of what the process may have: the
   kernel's table of a process has so many entries. */
#define COPIES_FROM 512

int dao_descriptor_copy(int descriptor)
{
    struct rlimit files;
    int from = COPIES_FROM;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < COPIES_FROM) {
        from = (int)(files.rlim_cur / 2);
    }
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, from);
    return copy >= 0 ? copy : fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

int dao_descriptor_keep(int descriptor)
{
    if (descriptor < 0) {
        return descriptor;
    }
    int other = dao_descriptor_copy(descriptor);
    int error = errno;
    if (other < 0 && descriptor > STDERR_FILENO) {
        return descriptor;
    }
    (void)close(descriptor);
    errno = error;
    return other;
}

FILE *dao_descriptor_fopen(const char *path)
{
    int descriptor = dao_descriptor_keep(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (file == NULL && descriptor >= 0) {
        int error = errno;
        (void)close(descriptor);
        errno = error;
    }
    return file;
}

int dao_descriptor_fclose(FILE *file, bool is_whole)
{
    int error = ferror(file) == 0 ? 0 : errno != 0 ? errno : EIO;
    if (fflush(file) != 0 && error == 0) {
        error = errno;
    }
    int descriptor = error == 0 && is_whole ? DAO_NO_DESCRIPTOR : dao_descriptor_copy(fileno(file));
    if (fclose(file) != 0 && error == 0) {
        error = errno;
    }
    if (descriptor >= 0) { /* behind fclose(), which tries once more to write */
        if (ftruncate(descriptor, 0) != 0) {
            error = error != 0 ? error : errno;
        }
        (void)close(descriptor);
    }
    return error;
}

void dao_descriptor_close(int descriptor)
{
    if (descriptor >= 0) {
        (void)close(descriptor); /* memory: no write can be lost */
    }
}
