/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is, it says itself. */
#include "tools/read/step/read_step.h"

#include "base/report/error.h"
#include "tools/read/form/recognise.h"
#include "tools/read/kernels/read_g10.h"
#include "tools/read/kernels/read_tr.h"
#include "tools/read/kernels/read_use_list.h"
#include "tools/read/step/read_dao_step.h"
#include "tools/read/step/read_execution_trace.h"
#include "tools/read/step/read_json_step.h"

/* One row a form, as dao_recognise() tells it. */
static const struct {
    dao_file_form_t form;
    dao_status_t (*read)(const char *path, dao_step_trace_t *out_trace);
} readers[] = {
    {DAO_FILE_FORM_DAO_STEP, dao_read_dao_step},
    {DAO_FILE_FORM_TR, dao_read_tr},
    {DAO_FILE_FORM_USE_LIST, dao_read_use_list},
    {DAO_FILE_FORM_G10, dao_read_g10},
    {DAO_FILE_FORM_EXECUTION_TRACE, dao_read_execution_trace},
};

dao_status_t dao_read_step(const char *path, const char *batch, dao_step_trace_t *out_trace)
{
    dao_file_form_t form = DAO_FILE_FORM_JSON_STEP;
    dao_status_t status = dao_recognise_part(path, batch, NULL, &form);
    if (status != DAO_OK) {
        return status;
    }
    if (form == DAO_FILE_FORM_JSON_STEP) {
        return dao_read_json_step(path, batch, out_trace);
    }
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        if (readers[i].form == form) {
            return readers[i].read(path, out_trace);
        }
    }
    return dao_error(DAO_ERR_UNSUPPORTED,
                     "%.200s: this is %s. It says what lives when, and not which operator reads and writes "
                     "what: all commands but simulate and run take it. For a step record one of PyTorch "
                     "with dao.record() or torch.profiler.ExecutionTraceObserver, one of an executor with "
                     "dao_executor_step_write(), or write a .dao file (docs/formats.md)",
                     path, dao_file_form_name(form));
}
