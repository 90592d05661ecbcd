/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/write/out_file.h"
#include "tools/print/progress.h"

#include "base/report/error.h"

#include <errno.h>
#include <string.h>

FILE *dao_out_file_open(const char *path)
{
    bool is_output = strcmp(path, "-") == 0;
    /* No line of progress within the output. */
    dao_progress_phase(is_output ? "" : "writing", DAO_PROGRESS_UNIT_PARTS, 0);
    dao_progress_hide();
    FILE *file = is_output ? stdout : fopen(path, "we");
    if (file == NULL) {
        (void)dao_error(DAO_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    return file;
}

dao_status_t dao_out_file_close(FILE *file, const char *path, dao_status_t status)
{
    errno = 0;
    bool has_failed = fflush(file) != 0 || ferror(file) != 0;
    int reason = errno;
    if (file != stdout && fclose(file) != 0 && !has_failed) {
        has_failed = true;
        reason = errno;
    }
    if (status != DAO_OK || !has_failed) {
        return status;
    }
    return dao_error(DAO_ERR_IO, "%.200s: the file could not be written%s%s", path, reason != 0 ? ": " : "",
                     reason != 0 ? strerror(reason) : "");
}
