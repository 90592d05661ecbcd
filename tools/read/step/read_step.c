/* SPDX-License-Identifier: Apache-2.0 */
/* One row a form that is told by its ending. */
#include "tools/read/step/read_step.h"

#include "base/report/error.h"
#include "tools/read/step/read_g10.h"
#include "tools/read/step/read_json_step.h"
#include "tools/read/step/read_tr.h"

#include <string.h>
#include <sys/stat.h>

typedef struct form {
    const char *ending;
    dao_status_t (*read)(const char *path, dao_step_trace_t *out_trace);
} form_t;

static const form_t forms[] = {{".tr", dao_read_tr}, {".jsonl", dao_read_g10}};

/* Returns true if a path ends so, or so and with the ending of packed files. */
static bool ends_with(const char *path, const char *ending)
{
    static const char packed[] = ".gz";
    size_t length = strlen(path);
    size_t ending_length = strlen(ending);
    if (length > sizeof(packed) - 1 && strcmp(path + length - (sizeof(packed) - 1), packed) == 0) {
        length -= sizeof(packed) - 1;
    }
    return length >= ending_length && memcmp(path + length - ending_length, ending, ending_length) == 0;
}

static const form_t *find_form(const char *path)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (ends_with(path, forms[i].ending)) {
            return &forms[i];
        }
    }
    return NULL;
}

bool dao_is_step(const char *path)
{
    struct stat about;
    bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    return is_folder || ends_with(path, ".io_info.json") || find_form(path) != NULL;
}

dao_status_t dao_read_step(const char *path, const char *batch, dao_step_trace_t *out_trace)
{
    const form_t *form = find_form(path);
    if (form == NULL) {
        return dao_read_json_step(path, batch, out_trace);
    }
    return batch == NULL ? form->read(path, out_trace)
                         : dao_error(DAO_ERR_INVALID, "%.200s: a %s file has no batches to choose from", path,
                                     form->ending);
}
