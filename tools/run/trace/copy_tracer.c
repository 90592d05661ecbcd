/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a backend has no place for a user's pointer: the tracer that is at work is found by a variable
   of this file. A copy is entered in the list as it is queued; its times belong to the stream until that was
   waited for. */
#include "tools/run/trace/copy_tracer.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

typedef struct dao_traced_copy {
    struct dao_traced_copy *next;
    dao_copy_kind_t kind;
    uint64_t size_bytes;
    uint64_t begin_ns, end_ns; /* end 0: not yet */
} traced_copy_t;

static dao_copy_tracer_t *current;

static void begin_copy(void *user)
{
    traced_copy_t *copy = user;
    copy->begin_ns = dao_clock_ns();
}

static void end_copy(void *user)
{
    traced_copy_t *copy = user;
    copy->end_ns = dao_clock_ns();
}

/* Enters a copy; NULL: it goes unseen. */
static traced_copy_t *enter(dao_copy_kind_t kind, size_t size_bytes)
{
    traced_copy_t *copy =
        kind == DAO_COPY_KIND_D2D ? NULL : dao_host_calloc(1, sizeof(*copy)); /* only links are traced */
    dao_mutex_lock(&current->mutex);
    if (copy != NULL) {
        *copy = (traced_copy_t){.next = current->copies, .kind = kind, .size_bytes = size_bytes};
        current->copies = copy;
    }
    current->has_failed = current->has_failed || (copy == NULL && kind != DAO_COPY_KIND_D2D);
    dao_mutex_unlock(&current->mutex);
    return copy;
}

static dao_status_t traced_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst,
                                const void *src, size_t size_bytes)
{
    const dao_backend_ops_t *base = current->base;
    traced_copy_t *copy = enter(kind, size_bytes);
    dao_status_t status = copy != NULL ? base->host_func(stream, begin_copy, copy) : DAO_OK;
    status = status == DAO_OK ? base->copy(stream, kind, dst, src, size_bytes) : status;
    return status == DAO_OK && copy != NULL ? base->host_func(stream, end_copy, copy) : status;
}

const dao_backend_ops_t *dao_copy_tracer_begin(dao_copy_tracer_t *tracer, const dao_backend_ops_t *base)
{
    DAO_ASSERT(current == NULL);
    *tracer = (dao_copy_tracer_t){.base = base, .ops = *base};
    tracer->ops.copy = traced_copy;
    tracer->ops.copy_batch = NULL; /* copies go one by one */
    dao_mutex_init(&tracer->mutex, DAO_RANK_LEAF);
    current = tracer;
    return &tracer->ops;
}

static void add_span(const traced_copy_t *copy, dao_run_spans_t *spans)
{
    dao_run_span_t span = {.lane = copy->kind == DAO_COPY_KIND_H2D ? DAO_RUN_LANE_IN : DAO_RUN_LANE_OUT,
                           .begin_ns = copy->begin_ns,
                           .end_ns = copy->end_ns,
                           .size_bytes = copy->size_bytes};
    if (copy->end_ns != 0) {
        dao_run_spans_add(spans, &span);
    }
}

void dao_copy_tracer_end(dao_copy_tracer_t *tracer, dao_run_spans_t *spans)
{
    if (tracer->base == NULL) {
        return;
    }
    spans->has_failed = spans->has_failed || tracer->has_failed;
    while (tracer->copies != NULL) {
        traced_copy_t *copy = tracer->copies;
        tracer->copies = copy->next;
        add_span(copy, spans);
        dao_host_free(copy);
    }
    current = NULL;
}
