/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the list notes each tensor's first and last kernel. Building walks the kernels once more and adds
   an operator for each: its reads, changes in place, productions, overwrites; then it releases what no later
   kernel wants.

       tensor 7, not carried      kernel   0: writes     3: reads     5: writes     9: reads
       in the trace                        [--- 7 -------]            [--- 7+1 -----]            */
#define _GNU_SOURCE
#include "tools/read/kernels/access_list.h"

#include "base/text/printable.h"
#include "tools/base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a tensor's name with its version. */
#define VERSION_NAME_BYTES (DAO_TOUCH_NAME_MAX + 16)

void dao_access_list_init(dao_access_list_t *list)
{
    *list = (dao_access_list_t){0};
}

void dao_access_list_finish(dao_access_list_t *list)
{
    dao_host_free(list->tensors);
    dao_host_free(list->kernels);
    dao_host_free(list->accesses);
    dao_host_free(list->names);
    dao_access_list_init(list);
}

/* Adds a name, cut to its limit and made fit to be printed in one line. */
static dao_status_t add_name(dao_access_list_t *list, const char *name, size_t *out_offset)
{
    size_t length = strnlen(name, DAO_TOUCH_NAME_MAX);
    size_t offset = list->name_bytes;
    dao_status_t status =
        dao_tool_put_text(&list->names, &list->name_bytes, &list->name_capacity, name, length);
    if (status == DAO_OK) {
        dao_make_printable(list->names + offset);
        *out_offset = offset;
    }
    return status;
}

dao_status_t dao_access_list_add_tensor(dao_access_list_t *list, const char *name, uint64_t size_bytes,
                                        bool is_carried)
{
    if (list->tensor_count >= DAO_TRACE_NONE) {
        return dao_error(DAO_ERR_PARSE, "more than %" PRIu32 " tensors", DAO_TRACE_NONE);
    }
    dao_access_tensor_t *tensors =
        dao_tool_grow(list->tensors, &list->tensor_capacity, list->tensor_count, sizeof(*tensors));
    if (tensors == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    list->tensors = tensors;
    size_t name_offset;
    dao_status_t status = add_name(list, name, &name_offset);
    if (status == DAO_OK) {
        tensors[list->tensor_count++] = (dao_access_tensor_t){.name_offset = name_offset,
                                                              .size_bytes = size_bytes,
                                                              .is_carried = is_carried,
                                                              .last_kernel = DAO_TRACE_NONE,
                                                              .trace_tensor = DAO_TRACE_NONE};
    }
    return status;
}

dao_status_t dao_access_list_add_kernel(dao_access_list_t *list, const char *name, uint64_t cost_ns,
                                        uint64_t workspace_bytes)
{
    if (list->kernel_count >= DAO_TRACE_NONE) {
        return dao_error(DAO_ERR_PARSE, "more than %" PRIu32 " kernels", DAO_TRACE_NONE);
    }
    dao_access_kernel_t *kernels =
        dao_tool_grow(list->kernels, &list->kernel_capacity, list->kernel_count, sizeof(*kernels));
    if (kernels == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    list->kernels = kernels;
    size_t name_offset;
    dao_status_t status = add_name(list, name, &name_offset);
    if (status == DAO_OK) {
        kernels[list->kernel_count++] = (dao_access_kernel_t){.name_offset = name_offset,
                                                              .cost_ns = cost_ns,
                                                              .workspace_bytes = workspace_bytes,
                                                              .accesses = {list->access_count, 0}};
    }
    return status;
}

dao_status_t dao_access_list_add_access(dao_access_list_t *list, uint32_t tensor, bool reads, bool writes)
{
    uint32_t kernel = (uint32_t)(list->kernel_count - 1);
    dao_access_tensor_t *about = &list->tensors[tensor];
    if (about->last_kernel == kernel) {
        return dao_error(DAO_ERR_PARSE, "kernel %" PRIu32 " names tensor %s twice", kernel,
                         list->names + about->name_offset);
    }
    dao_listed_access_t *accesses =
        dao_tool_grow(list->accesses, &list->access_capacity, list->access_count, sizeof(*accesses));
    if (accesses == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    list->accesses = accesses;
    accesses[list->access_count++] = (dao_listed_access_t){tensor, reads, writes};
    list->kernels[kernel].accesses.count++;
    about->last_kernel = kernel;
    return DAO_OK;
}

/* ---- building ---- */

typedef struct builder {
    dao_access_list_t *list;
    dao_step_trace_t *trace;
    bool *ends; /* of each access: the tensor's content is not read after it */
} builder_t;

/* Walks backwards: a content ends where the next access does not read it or none follows. */
static dao_status_t find_ends(builder_t *builder)
{
    const dao_access_list_t *list = builder->list;
    bool *is_wanted = dao_host_calloc(list->tensor_count + 1, sizeof(bool));
    builder->ends = dao_host_calloc(list->access_count + 1, sizeof(bool));
    bool has_memory = is_wanted != NULL && builder->ends != NULL;
    for (size_t kernel = has_memory ? list->kernel_count : 0; kernel-- > 0;) {
        const dao_trace_range_t *range = &list->kernels[kernel].accesses;
        for (size_t i = range->begin; i < range->begin + range->count; i++) {
            builder->ends[i] = !is_wanted[list->accesses[i].tensor];
            is_wanted[list->accesses[i].tensor] = list->accesses[i].reads;
        }
    }
    dao_host_free(is_wanted);
    return has_memory ? DAO_OK
                      : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu accesses", list->access_count);
}

/* Gives a tensor a content of its own in the trace. */
static dao_status_t add_content(builder_t *builder, dao_access_tensor_t *tensor)
{
    const char *name = builder->list->names + tensor->name_offset;
    char numbered[VERSION_NAME_BYTES];
    if (tensor->version > 0) {
        (void)snprintf(numbered, sizeof(numbered), "%s+%" PRIu32, name, tensor->version);
        name = numbered;
    }
    tensor->version++;
    return dao_step_trace_add_tensor(builder->trace, name, tensor->size_bytes, &tensor->trace_tensor);
}

/* What is carried comes first, in the order of the list. */
static dao_status_t add_carried(builder_t *builder)
{
    dao_access_list_t *list = builder->list;
    dao_status_t status = DAO_OK;
    for (size_t i = 0; status == DAO_OK && i < list->tensor_count; i++) {
        if (list->tensors[i].is_carried) {
            status = add_content(builder, &list->tensors[i]);
        }
    }
    return status;
}

typedef enum phase {
    PHASE_READ,
    PHASE_CHANGE,
    PHASE_PRODUCE,
    PHASE_OVERWRITE,
    PHASE_RELEASE,
    PHASE_COUNT
} phase_t;

static phase_t phase_of(const dao_access_tensor_t *tensor, const dao_listed_access_t *access)
{
    if (!access->writes) {
        return PHASE_READ;
    }
    return access->reads ? PHASE_CHANGE : tensor->is_carried ? PHASE_OVERWRITE : PHASE_PRODUCE;
}

static dao_status_t apply(builder_t *builder, phase_t phase, const dao_listed_access_t *access, bool is_end)
{
    dao_access_tensor_t *tensor = &builder->list->tensors[access->tensor];
    dao_status_t status = DAO_OK;
    if (phase == PHASE_RELEASE) {
        return is_end && !tensor->is_carried
                   ? dao_step_trace_add_release(builder->trace, tensor->trace_tensor)
                   : DAO_OK;
    }
    if (phase != phase_of(tensor, access)) {
        return DAO_OK;
    }
    if (phase == PHASE_PRODUCE || tensor->trace_tensor == DAO_TRACE_NONE) {
        status = add_content(builder, tensor);
    }
    if (status != DAO_OK) {
        return status;
    }
    static dao_status_t (*const add[])(dao_step_trace_t *,
                                       uint32_t) = {dao_step_trace_add_input, dao_step_trace_add_mutate,
                                                    dao_step_trace_add_output, dao_step_trace_add_overwrite};
    return add[phase](builder->trace, tensor->trace_tensor);
}

static dao_status_t add_workspace(builder_t *builder, uint32_t index)
{
    uint64_t bytes = builder->list->kernels[index].workspace_bytes;
    dao_step_trace_begin_temporaries(builder->trace, index);
    return bytes == 0 ? DAO_OK : dao_step_trace_add_alloc(builder->trace, index, "workspace", bytes);
}

static dao_status_t add_operator(builder_t *builder, uint32_t index)
{
    const dao_access_list_t *list = builder->list;
    const dao_access_kernel_t *kernel = &list->kernels[index];
    dao_status_t status = dao_step_trace_add_operator(builder->trace, list->names + kernel->name_offset);
    for (phase_t phase = 0; phase < PHASE_COUNT; phase++) {
        for (size_t i = 0; status == DAO_OK && i < kernel->accesses.count; i++) {
            size_t at = kernel->accesses.begin + i;
            status = apply(builder, phase, &list->accesses[at], builder->ends[at]);
        }
    }
    if (status == DAO_OK) {
        builder->trace->operators[index].cost_ns = kernel->cost_ns;
        status = add_workspace(builder, index);
    }
    return status;
}

dao_status_t dao_access_list_build(dao_access_list_t *list, dao_step_trace_t *out_trace)
{
    dao_step_trace_t trace;
    dao_step_trace_init(&trace);
    builder_t builder = {.list = list, .trace = &trace};
    dao_status_t status = find_ends(&builder);
    if (status == DAO_OK) {
        status = add_carried(&builder);
    }
    for (uint32_t i = 0; status == DAO_OK && i < list->kernel_count; i++) {
        status = add_operator(&builder, i);
    }
    if (status == DAO_OK) {
        status = dao_step_trace_pack(&trace);
    }
    dao_host_free(builder.ends);
    if (status == DAO_OK) {
        *out_trace = trace;
    } else {
        dao_step_trace_finish(&trace);
    }
    return status;
}
