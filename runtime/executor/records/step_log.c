/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a step.

       kernels   [ k0 | k1 | k2 ]
                    |     `-----------.
       uses      [ r0 read, r1 write | r1 read, r2 write | ... ]        role and access
       roles     [ r0: weights, 4 MiB | r1: new, 1 MiB | ... ]          numbered by first use

   Invariants: the uses of a kernel follow those of the kernel before; roles are below role_count, and the
   first use of a role names the next number; readers are the roles that do not begin anew, in order of
   their tensors' numbers. */
#include "runtime/executor/records/step_log.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "runtime/executor/records/tensor.h"

#include <string.h>

/* Entries that each list holds at first. */
#define ENTRIES_AT_FIRST 64u

void dao_step_log_init(dao_step_log_t *log)
{
    *log = (dao_step_log_t){.epoch = 1};
}

void dao_step_log_finish(dao_step_log_t *log)
{
    dao_host_free(log->kernels);
    dao_host_free(log->uses);
    dao_host_free(log->roles);
    dao_host_free(log->readers);
    dao_host_free(log->texts);
    *log = (dao_step_log_t){.epoch = log->epoch};
}

/* Room for `wanted` more entries of a list; its address, which may be new, or NULL. */
static void *grow(void *entries, uint32_t count, uint32_t wanted, size_t entry_bytes, uint32_t *capacity)
{
    if (*capacity - count >= wanted && entries != NULL) {
        return entries;
    }
    uint64_t more = 2 * (uint64_t)*capacity;
    uint64_t least = (uint64_t)count + wanted;
    more = more > least ? more : least;
    more = more > ENTRIES_AT_FIRST ? more : ENTRIES_AT_FIRST;
    void *grown = more <= UINT32_MAX ? dao_host_realloc(entries, (size_t)more, entry_bytes) : NULL;
    *capacity = grown != NULL ? (uint32_t)more : *capacity;
    return grown;
}

static bool make_room(dao_step_log_t *log, uint32_t use_count)
{
    dao_step_log_kernel_t *kernels =
        grow(log->kernels, log->kernel_count, 1, sizeof(*kernels), &log->kernel_capacity);
    log->kernels = kernels != NULL ? kernels : log->kernels;
    dao_step_log_use_t *uses = grow(log->uses, log->use_count, use_count, sizeof(*uses), &log->use_capacity);
    log->uses = uses != NULL ? uses : log->uses;
    dao_step_log_role_t *roles =
        grow(log->roles, log->role_count, use_count, sizeof(*roles), &log->role_capacity);
    log->roles = roles != NULL ? roles : log->roles;
    return kernels != NULL && uses != NULL && roles != NULL;
}

static uint32_t role_of(dao_step_log_t *log, const dao_use_t *use)
{
    dao_managed_t *tensor = use->tensor;
    if (tensor->log_epoch != log->epoch) {
        tensor->log_epoch = log->epoch;
        DAO_ASSERT(log->role_count < log->role_capacity);
        tensor->log_role = log->role_count;
        log->roles[log->role_count++] = (dao_step_log_role_t){.tensor_id = tensor->id,
                                                              .size_bytes = tensor->size_bytes,
                                                              .has_source = tensor->source != NULL,
                                                              .begins_anew = use->kind == DAO_USE_WRITE ||
                                                                             tensor->fed_epoch == log->epoch};
    }
    return tensor->log_role;
}

void dao_step_log_add(dao_step_log_t *log, const dao_item_t *item)
{
    log->is_broken = log->is_broken || !make_room(log, item->use_count);
    if (log->is_broken) {
        return;
    }
    log->kernels[log->kernel_count++] = (dao_step_log_kernel_t){.signature = item->signature,
                                                                .workspace_bytes = item->workspace_bytes,
                                                                .first_use = log->use_count,
                                                                .use_count = item->use_count,
                                                                .cost_ns = item->cost_ns,
                                                                .is_repeatable = item->is_repeatable,
                                                                .stream_index = item->stream_index};
    log->has_streams = log->has_streams || item->stream_index != 0;
    for (uint32_t i = 0; i < item->use_count; i++) {
        uint32_t role = role_of(log, &item->uses[i]);
        DAO_ASSERT(role < log->role_count);
        log->uses[log->use_count++] = (dao_step_log_use_t){.role = role, .kind = item->uses[i].kind};
    }
}

/* ---- names ---- */

/* Keeps a text. Returns where; 0 without memory, and for more texts than numbers reach. */
static uint32_t keep_text(dao_step_log_t *log, const char *text)
{
    size_t length = strlen(text) + 1;
    size_t begin = log->text_bytes == 0 ? 1 : log->text_bytes;
    if (length > UINT32_MAX / 2 || begin + length > UINT32_MAX / 2) {
        return 0;
    }
    char *texts = grow(log->texts, log->text_bytes, (uint32_t)(begin - log->text_bytes + length), 1,
                       &log->text_capacity);
    if (texts == NULL) {
        return 0;
    }
    log->texts = texts;
    texts[0] = '\0';
    memcpy(texts + begin, text, length);
    log->text_bytes = (uint32_t)(begin + length);
    return (uint32_t)begin;
}

const char *dao_step_log_text(const dao_step_log_t *log, uint32_t name)
{
    DAO_ASSERT(name == 0 || name < log->text_bytes);
    return name != 0 ? log->texts + name : "";
}

void dao_step_log_name(dao_step_log_t *log, const dao_item_t *item)
{
    DAO_ASSERT(log->kernel_count > 0);
    log->kernels[log->kernel_count - 1].name = keep_text(log, item->name);
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_step_log_role_t *role = &log->roles[item->uses[i].tensor->log_role];
        role->name = role->name != 0 ? role->name : keep_text(log, item->uses[i].tensor->name);
    }
}

void dao_step_log_take_names(dao_step_log_t *log, const dao_step_log_t *other, uint32_t kernel_count)
{
    DAO_ASSERT(kernel_count <= log->kernel_count && kernel_count <= other->kernel_count);
    for (uint32_t k = 0; k < kernel_count; k++) {
        dao_step_log_kernel_t *kernel = &log->kernels[k];
        kernel->name = kernel->name != 0 ? kernel->name
                                         : keep_text(log, dao_step_log_text(other, other->kernels[k].name));
        for (uint32_t i = kernel->first_use; i < kernel->first_use + kernel->use_count; i++) {
            dao_step_log_role_t *role = &log->roles[log->uses[i].role];
            const char *name = dao_step_log_text(other, other->roles[log->uses[i].role].name);
            role->name = role->name != 0 ? role->name : keep_text(log, name);
        }
    }
}

/* ---- steps that have not run ---- */

static void describe_kernel(dao_step_log_t *log, const dao_item_t *item)
{
    dao_step_log_add(log, item);
    if (log->is_broken) {
        return;
    }
    dao_step_log_name(log, item);
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        log->roles[tensor->log_role].is_persistent = !tensor->is_released;
    }
}

void dao_step_log_describe(dao_step_log_t *log, const dao_item_t *first)
{
    for (const dao_item_t *item = first; item != NULL && !log->is_broken; item = item->next) {
        if (item->kind == DAO_ITEM_KERNEL) {
            describe_kernel(log, item);
            continue;
        }
        dao_managed_t *tensor = item->uses[0].tensor;
        if (item->kind == DAO_ITEM_WRITE && item->uses[0].kind == DAO_USE_WRITE) {
            tensor->fed_epoch = log->epoch;
        } else if (item->kind == DAO_ITEM_DISCARD && tensor->log_epoch == log->epoch) {
            log->roles[tensor->log_role].is_persistent = false;
        }
    }
}

/* ---- distances ---- */

/* From the end to the begin, and once more around for contents that live on. `nexts` has the kernel of every
   role's next use, counted on into the next step. */
static void find_distances(dao_step_log_t *log, uint64_t *nexts)
{
    for (int round = 0; round < 2; round++) {
        for (uint32_t k = log->kernel_count; k-- > 0;) {
            const dao_step_log_kernel_t *kernel = &log->kernels[k];
            uint64_t now = round == 0 ? (uint64_t)k + log->kernel_count : k;
            for (uint32_t i = 0; i < kernel->use_count; i++) {
                dao_step_log_use_t *use = &log->uses[kernel->first_use + i];
                uint64_t next = nexts[use->role];
                bool is_in_step = next < log->kernel_count;
                use->distance = next != UINT64_MAX && (is_in_step || log->roles[use->role].is_persistent)
                                    ? (uint32_t)(next - now)
                                    : 0;
                nexts[use->role] = now;
            }
        }
    }
}

/* Heap sort: the number of a reader's tensor decides. */
static void sift_down(dao_step_log_t *log, uint32_t root, uint32_t count)
{
    uint32_t *readers = log->readers;
    while (2 * (uint64_t)root + 1 < count) {
        uint32_t child = 2 * root + 1;
        if (child + 1 < count &&
            log->roles[readers[child]].tensor_id < log->roles[readers[child + 1]].tensor_id) {
            child++;
        }
        if (log->roles[readers[root]].tensor_id >= log->roles[readers[child]].tensor_id) {
            return;
        }
        uint32_t reader = readers[root];
        readers[root] = readers[child];
        readers[child] = reader;
        root = child;
    }
}

static void sort_readers(dao_step_log_t *log)
{
    log->reader_count = 0;
    for (uint32_t role = 0; role < log->role_count; role++) {
        if (!log->roles[role].begins_anew) {
            log->readers[log->reader_count++] = role;
        }
    }
    for (uint32_t i = log->reader_count / 2; i-- > 0;) {
        sift_down(log, i, log->reader_count);
    }
    for (uint32_t count = log->reader_count; count > 1; count--) {
        uint32_t largest = log->readers[0];
        log->readers[0] = log->readers[count - 1];
        log->readers[count - 1] = largest;
        sift_down(log, 0, count - 1);
    }
}

bool dao_step_log_close(dao_step_log_t *log)
{
    uint64_t *nexts = dao_host_calloc((size_t)log->role_count + 1, sizeof(*nexts));
    log->readers = dao_host_calloc((size_t)log->role_count + 1, sizeof(*log->readers));
    if (nexts == NULL || log->readers == NULL) {
        dao_host_free(nexts);
        return false;
    }
    memset(nexts, 0xff, log->role_count * sizeof(*nexts));
    find_distances(log, nexts);
    sort_readers(log);
    dao_host_free(nexts);
    DAO_ASSERT_HEAVY(dao_step_log_is_valid(log));
    return true;
}

void dao_step_log_take_over(dao_step_log_t *known, const dao_step_log_t *log)
{
    DAO_ASSERT_HEAVY(dao_step_log_is_same(log, known));
    for (uint32_t i = 0; i < known->role_count; i++) {
        dao_step_log_role_t *role = &known->roles[i];
        role->is_persistent = log->roles[i].is_persistent;
        role->begins_anew = role->begins_anew && log->roles[i].begins_anew;
        role->tensor_id = log->roles[i].tensor_id;
    }
    sort_readers(known);
}

uint32_t dao_step_log_find_reader(const dao_step_log_t *known, uint64_t tensor_id)
{
    uint32_t low = 0;
    uint32_t high = known->reader_count;
    DAO_ASSERT(known->readers != NULL); /* it is closed */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t id = known->roles[known->readers[middle]].tensor_id;
        if (id == tensor_id) {
            return known->readers[middle];
        }
        low = id < tensor_id ? middle + 1 : low;
        high = id < tensor_id ? high : middle;
    }
    return DAO_STEP_LOG_NO_ROLE;
}

uint32_t dao_step_log_find_role(const dao_step_log_t *known, uint64_t tensor_id)
{
    for (uint32_t role = 0; role < known->role_count; role++) {
        if (known->roles[role].tensor_id == tensor_id) {
            return role;
        }
    }
    return DAO_STEP_LOG_NO_ROLE;
}

void dao_step_log_restart(dao_step_log_t *log)
{
    DAO_ASSERT_HEAVY(log->is_broken || dao_step_log_is_valid(log));
    log->epoch++;
    log->is_broken = false;
    log->has_streams = false;
    log->kernel_count = 0;
    log->use_count = 0;
    log->role_count = 0;
    log->text_bytes = 0;
}

/* Unless it begins anew in both, a role has the content, and so the tensor, of the step before. */
static bool is_role_same(const dao_step_log_role_t *a, const dao_step_log_role_t *b)
{
    return a->size_bytes == b->size_bytes &&
           (a->tensor_id == b->tensor_id || (a->begins_anew && b->begins_anew));
}

bool dao_step_log_is_kernel_same(const dao_step_log_t *log, const dao_step_log_t *other, uint32_t index)
{
    if (index >= other->kernel_count) {
        return false;
    }
    const dao_step_log_kernel_t *kernel = &log->kernels[index];
    const dao_step_log_kernel_t *same = &other->kernels[index];
    if (kernel->signature != same->signature || kernel->use_count != same->use_count ||
        kernel->first_use != same->first_use || kernel->workspace_bytes != same->workspace_bytes) {
        return false;
    }
    for (uint32_t i = kernel->first_use; i < kernel->first_use + kernel->use_count; i++) {
        const dao_step_log_use_t *a = &log->uses[i];
        const dao_step_log_use_t *b = &other->uses[i];
        if (a->role != b->role || a->kind != b->kind ||
            !is_role_same(&log->roles[a->role], &other->roles[b->role])) {
            return false;
        }
    }
    return true;
}

bool dao_step_log_is_same(const dao_step_log_t *log, const dao_step_log_t *other)
{
    bool is_same = log->kernel_count == other->kernel_count && log->role_count == other->role_count;
    for (uint32_t i = 0; is_same && i < log->kernel_count; i++) {
        is_same = dao_step_log_is_kernel_same(log, other, i);
    }
    return is_same;
}

bool dao_step_log_is_valid(const dao_step_log_t *log)
{
    uint32_t use_count = 0;
    uint32_t role_count = 0;
    for (uint32_t k = 0; k < log->kernel_count; k++) {
        if (log->kernels[k].first_use != use_count) {
            return false;
        }
        use_count += log->kernels[k].use_count;
    }
    for (uint32_t i = 0; i < log->use_count; i++) {
        if (log->uses[i].role > role_count) {
            return false;
        }
        role_count += log->uses[i].role == role_count ? 1 : 0;
    }
    return use_count == log->use_count && role_count == log->role_count;
}
