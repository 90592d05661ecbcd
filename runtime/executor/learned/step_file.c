/* SPDX-License-Identifier: Apache-2.0 */
/* A role is a tensor of the file. Where it begins and ends:

       log says                                        the file has
       first written by a kernel                       brought to life there
       first read, or written by the program           alive before the step
       content lives on after the step                 never released
       content does not                                released behind its last use                        */
#define _GNU_SOURCE
#include "runtime/executor/learned/step_file.h"

#include "base/memory/descriptor.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/step_form.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef struct step_file {
    const dao_step_log_t *log;
    const uint64_t *kernel_ns; /* NULL: not measured */
    FILE *file;
    uint32_t *last_uses; /* role -> its last use in the step */
    uint32_t role_count; /* that have a line */
} step_file_t;

static void put_tensor(step_file_t *step, uint32_t role)
{
    const dao_step_log_role_t *about = &step->log->roles[role];
    const char *name = dao_step_log_text(step->log, about->name);
    (void)fprintf(step->file, "tensor %" PRIu32 " %" PRIu64, role, about->size_bytes);
    if (*name != '\0') {
        (void)fputs(" name=", step->file);
        dao_step_form_put_name(step->file, name);
    }
    (void)fputc('\n', step->file);
}

/* Roles are numbered by their first uses, so the lines of a kernel's new ones stand before it. */
static void put_tensors(step_file_t *step, const dao_step_log_kernel_t *kernel)
{
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        uint32_t role = step->log->uses[kernel->first_use + i].role;
        DAO_ASSERT(role <= step->role_count);
        if (role == step->role_count) {
            put_tensor(step, step->role_count++);
        }
    }
}

static dao_step_sign_t sign_of(const step_file_t *step, const dao_step_log_use_t *use, bool is_first)
{
    switch (use->kind) {
    case DAO_USE_READ:
        return DAO_STEP_SIGN_READ;
    case DAO_USE_WRITE:
        return is_first && step->log->roles[use->role].begins_anew ? DAO_STEP_SIGN_OUTPUT
                                                                   : DAO_STEP_SIGN_OVERWRITE;
    case DAO_USE_READ_WRITE:
        return DAO_STEP_SIGN_CHANGE;
    case DAO_USE_DISCARD:
        break;
    }
    DAO_ASSERT(false); /* kernels do not discard */
    return DAO_STEP_SIGN_READ;
}

static void put_uses(const step_file_t *step, const dao_step_log_kernel_t *kernel, uint32_t known_roles)
{
    const dao_step_log_use_t *uses = step->log->uses + kernel->first_use;
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        (void)fprintf(step->file, " %c%" PRIu32, sign_of(step, &uses[i], uses[i].role >= known_roles),
                      uses[i].role);
    }
    if (kernel->workspace_bytes > 0) {
        (void)fprintf(step->file, " %cworkspace:%" PRIu64 " %cworkspace", DAO_STEP_SIGN_ALLOC,
                      kernel->workspace_bytes, DAO_STEP_SIGN_FREE);
    }
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        if (step->last_uses[uses[i].role] == kernel->first_use + i &&
            !step->log->roles[uses[i].role].is_persistent) {
            (void)fprintf(step->file, " %c%" PRIu32, DAO_STEP_SIGN_FREE, uses[i].role);
        }
    }
}

static void put_kernel(step_file_t *step, uint32_t index)
{
    const dao_step_log_kernel_t *kernel = &step->log->kernels[index];
    const char *name = dao_step_log_text(step->log, kernel->name);
    uint32_t known_roles = step->role_count;
    put_tensors(step, kernel);
    (void)fputs("op ", step->file);
    dao_step_form_put_name(step->file, *name != '\0' ? name : "kernel");
    (void)fputc(' ', step->file);
    dao_step_form_put_us(step->file, step->kernel_ns != NULL ? step->kernel_ns[index] : kernel->cost_ns);
    if (kernel->stream_index != 0) {
        (void)fprintf(step->file, " stream=%" PRIu32, kernel->stream_index);
    }
    (void)fputs(kernel->is_repeatable ? " pure" : "", step->file);
    put_uses(step, kernel, known_roles);
    (void)fputc('\n', step->file);
}

static void put_all(step_file_t *step)
{
    for (uint32_t i = 0; i < step->log->use_count; i++) {
        step->last_uses[step->log->uses[i].role] = i;
    }
    (void)fprintf(step->file, DAO_STEP_FILE_MARK " 1\n");
    for (uint32_t i = 0; i < step->log->kernel_count; i++) {
        put_kernel(step, i);
    }
    (void)fputs("end\n", step->file);
    DAO_ASSERT(step->role_count == step->log->role_count);
}

/* Writes to a file that is open, and closes it. */
static dao_status_t write_to(step_file_t *step, const char *path)
{
    put_all(step);
    int error = dao_descriptor_fclose(step->file, true);
    return error == 0 ? DAO_OK : dao_error(DAO_ERR_IO, "cannot write %.200s: %s", path, strerror(error));
}

dao_status_t dao_step_file_write(const dao_step_log_t *log, const uint64_t *kernel_ns, const char *path)
{
    step_file_t step = {.log = log, .kernel_ns = kernel_ns};
    step.last_uses = dao_host_calloc((size_t)log->role_count + 1, sizeof(*step.last_uses));
    if (step.last_uses == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to write a step of %" PRIu32 " tensors",
                         log->role_count);
    }
    step.file = dao_descriptor_fopen(path);
    dao_status_t status = step.file != NULL
                              ? write_to(&step, path)
                              : dao_error(DAO_ERR_IO, "cannot make %.200s: %s", path, strerror(errno));
    dao_host_free(step.last_uses);
    return status;
}
