/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/read/foreign/snapshot_stacks.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longer stacks lose their innermost calls, longer names their ends. */
enum { STACK_BYTES = 8192, CALL_BYTES = 256 };

#define OPERATOR "at::_ops::"

struct dao_snapshot_stack {
    dao_event_label_t label;
    uint32_t device; /* whose texts these are, plus 1; 0: nothing is known */
};

void dao_snapshot_stacks_init(dao_snapshot_stacks_t *stacks)
{
    *stacks = (dao_snapshot_stacks_t){0};
}

void dao_snapshot_stacks_finish(dao_snapshot_stacks_t *stacks)
{
    dao_host_free(stacks->stacks);
    *stacks = (dao_snapshot_stacks_t){0};
}

static const char *text_of(const dao_value_store_t *store, dao_value_t frame, uint32_t key)
{
    return dao_value_text(store, dao_value_get(store, frame, key));
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), bytes = strlen(ending);
    return length >= bytes && strcmp(text + length - bytes, ending) == 0;
}

static bool is_python(const char *file)
{
    return ends_with(file, ".py");
}

/* Calls between a module and its forward(): they say nothing. */
static bool is_glue(const char *file)
{
    return ends_with(file, "/torch/nn/modules/module.py") || ends_with(file, "/torch/utils/_contextlib.py");
}

static bool is_library(const char *file)
{
    return strstr(file, "/site-packages/") != NULL || strstr(file, "/dist-packages/") != NULL ||
           strstr(file, "/torch/") != NULL;
}

/* Writes "forward (model.py:55)", without what would end it: a semicolon stands between calls. */
static void write_call(const dao_value_store_t *store, dao_value_t frame, char call[CALL_BYTES])
{
    const char *file = text_of(store, frame, DAO_SNAPSHOT_KEY_FILENAME);
    const char *slash = strrchr(file, '/');
    uint64_t line = 0;
    (void)dao_value_get_count(store, frame, DAO_SNAPSHOT_KEY_LINE, &line); /* 0: it is not told */
    (void)snprintf(call, CALL_BYTES, "%.100s (%.100s:%" PRIu64 ")",
                   text_of(store, frame, DAO_SNAPSHOT_KEY_NAME), slash != NULL ? slash + 1 : file, line);
    for (char *at = strchr(call, ';'); at != NULL; at = strchr(at, ';')) {
        *at = ',';
    }
}

/* Writes the calls of Python, the outermost first, each behind a semicolon. */
static void write_module(const dao_value_store_t *store, dao_value_list_t frames, char module[STACK_BYTES])
{
    size_t used = 0;
    char call[CALL_BYTES];
    module[0] = '\0';
    for (size_t i = frames.count; i-- > 0;) {
        const char *file = text_of(store, frames.items[i], DAO_SNAPSHOT_KEY_FILENAME);
        if (!is_python(file) || is_glue(file)) {
            continue;
        }
        write_call(store, frames.items[i], call);
        if (used + strlen(call) + 2 > STACK_BYTES) {
            return;
        }
        used += (size_t)snprintf(module + used, STACK_BYTES - used, ";%s", call);
    }
}

/* Writes the operator that the program called: the outermost. */
static void write_operator(const dao_value_store_t *store, dao_value_list_t frames, char name[CALL_BYTES])
{
    name[0] = '\0';
    for (size_t i = frames.count; i-- > 0;) {
        const char *text = strstr(text_of(store, frames.items[i], DAO_SNAPSHOT_KEY_NAME), OPERATOR);
        if (text != NULL) {
            text += strlen(OPERATOR);
            (void)snprintf(name, CALL_BYTES, "%.*s", (int)(strcspn(text, ":(") % CALL_BYTES), text);
            return;
        }
    }
}

/* Writes the innermost call of the program's own; without one the innermost of Python; else that it is
   backward, whose calls have no place in a program. */
static void write_caller(const dao_value_store_t *store, dao_value_list_t frames, char call[CALL_BYTES])
{
    bool is_backward = false;
    size_t found = frames.count;
    for (size_t i = frames.count; i-- > 0;) {
        const char *file = text_of(store, frames.items[i], DAO_SNAPSHOT_KEY_FILENAME);
        bool is_better = is_python(file) && !is_glue(file) &&
                         (found == frames.count || !is_library(file) ||
                          is_library(text_of(store, frames.items[found], DAO_SNAPSHOT_KEY_FILENAME)));
        found = is_better ? i : found;
        is_backward = is_backward || strstr(text_of(store, frames.items[i], DAO_SNAPSHOT_KEY_NAME),
                                            "torch::autograd::Engine") != NULL;
    }
    (void)snprintf(call, CALL_BYTES, "%s", is_backward ? "backward" : "");
    if (found < frames.count) {
        write_call(store, frames.items[found], call);
    }
}

static dao_status_t find_label(const dao_value_store_t *store, dao_value_list_t frames,
                               dao_event_file_t *events, dao_event_label_t *out_label)
{
    char module[STACK_BYTES], name[CALL_BYTES], call[CALL_BYTES], maker[3 * CALL_BYTES];
    write_module(store, frames, module);
    write_operator(store, frames, name);
    write_caller(store, frames, call);
    (void)snprintf(maker, sizeof(maker), "%s%s%s", name, *name != '\0' && *call != '\0' ? ", " : "", call);
    *out_label = (dao_event_label_t){0};
    dao_status_t status = dao_event_file_find_text(events, maker, &out_label->maker);
    return status == DAO_OK ? dao_event_file_find_text(events, module, &out_label->module) : status;
}

/* Makes room for a list of the store: those that come later as well, at the cost of a copy now and then. */
static dao_status_t make_room(dao_snapshot_stacks_t *stacks, const dao_value_store_t *store)
{
    size_t count = store->list_capacity;
    struct dao_snapshot_stack *grown = dao_host_realloc(stacks->stacks, count, sizeof(*grown));
    if (grown == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu call stacks", count);
    }
    memset(grown + stacks->count, 0, (count - stacks->count) * sizeof(*grown));
    stacks->stacks = grown;
    stacks->count = count;
    return DAO_OK;
}

dao_status_t dao_snapshot_stacks_label(dao_snapshot_stacks_t *stacks, const dao_value_store_t *store,
                                       uint32_t device, dao_value_t frames, dao_event_file_t *events,
                                       dao_event_label_t *out_label)
{
    dao_status_t status = DAO_OK;
    if (frames.type != DAO_VALUE_TYPE_LIST) {
        return DAO_OK;
    }
    if (frames.payload >= stacks->count) {
        status = make_room(stacks, store);
    }
    if (status != DAO_OK) {
        return status;
    }
    struct dao_snapshot_stack *stack = &stacks->stacks[frames.payload];
    if (stack->device != device + 1) {
        status = find_label(store, dao_value_list(store, frames), events, &stack->label);
        stack->device = status == DAO_OK ? device + 1 : 0;
    }
    *out_label = stack->label;
    return status;
}
