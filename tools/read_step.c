/* One row a form that is told by its ending. */
#include "tools/read_step.h"

#include "base/error.h"
#include "tools/read_g10.h"
#include "tools/read_json_step.h"
#include "tools/read_tr.h"

#include <string.h>

typedef struct form {
    const char *ending;
    dao_status_t (*read)(const char *path, dao_step_trace_t *out_trace);
} form_t;

static const form_t forms[] = {{".tr", dao_read_tr}, {".jsonl", dao_read_g10}};

dao_status_t dao_read_step(const char *path, const char *batch, dao_step_trace_t *out_trace)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t ending = strlen(forms[i].ending);
        if (length < ending || strcmp(path + length - ending, forms[i].ending) != 0) {
            continue;
        }
        return batch == NULL ? forms[i].read(path, out_trace)
                             : dao_error(DAO_ERR_INVALID, "%.200s: a %s file has no batches to choose from",
                                         path, forms[i].ending);
    }
    return dao_read_json_step(path, batch, out_trace);
}
