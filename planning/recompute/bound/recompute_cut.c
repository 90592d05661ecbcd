/* SPDX-License-Identifier: Apache-2.0 */
/* A content that is needed comes by a copy, or its kernel runs again, and then all that this kernel reads is
   needed too. Which kernels run again at the least price is a minimum cut: what is on the source's side is
   needed, or runs again.

       source --no limit--> needed content --in_byte x bytes--> its kernel --kernel x time--> sink
                                  ^                                |  ^
                                  +-----------no limit-------------+  +--out_byte x bytes shared-- source
                                     what it reads

   A content that no kernel may make again, or not from the window's begin on, leads to the sink instead. The
   flow (Dinic) is never more than a cut, so that rounding down its limits leaves a bound. Contents and
   kernels of the step before count as those of this one: what two steps share is paid once at most. */
#include "planning/recompute/bound/recompute_cut.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <string.h>

#define UNITS_PER_NS 64.0            /* of the flow */
#define NO_LIMIT     (INT64_MAX / 4) /* more than all prices together, which are below 2^50 ns */
#define NONE         UINT32_MAX

typedef enum arc_kind { ARC_FREE, ARC_IN, ARC_OUT, ARC_KERNEL, ARC_BACK } arc_kind_t;

typedef struct arc {
    uint32_t to, next; /* of the same node */
    int64_t left;      /* of the limit */
    double bytes;      /* that its limit is for, */
    arc_kind_t kind;
} arc_t;

/* Nodes: the contents by their accesses, then tensors that no kernel writes, then kernels, source, and sink.
 */
struct dao_recompute_cut {
    const dao_recompute_contents_t *contents;
    uint32_t begin; /* kernel: of the window */
    uint32_t node_count, source, sink;
    uint32_t *first;   /* of each node: arc; NONE */
    uint32_t *current; /* that the search is at */
    uint32_t *level;
    uint32_t *queue;
    arc_t *arcs;
    uint32_t arc_count;
};

static uint32_t tensor_node(const dao_recompute_cut_t *cut, uint32_t tensor)
{
    return cut->contents->step->access_count + tensor;
}

static uint32_t kernel_node(const dao_recompute_cut_t *cut, uint32_t kernel)
{
    return tensor_node(cut, cut->contents->step->tensor_count) + kernel;
}

static void add_arc(dao_recompute_cut_t *cut, uint32_t from, uint32_t to, arc_kind_t kind, double bytes)
{
    cut->arcs[cut->arc_count] = (arc_t){.to = to, .next = cut->first[from], .bytes = bytes, .kind = kind};
    cut->first[from] = cut->arc_count++;
    cut->arcs[cut->arc_count] = (arc_t){.to = from, .next = cut->first[to], .kind = ARC_BACK};
    cut->first[to] = cut->arc_count++;
}

/* The node of a content; on its first visit with what leads on from it, and its kernel with what that reads.
 */
static uint32_t visit_content(dao_recompute_cut_t *cut, uint32_t content, uint32_t tensor)
{
    const dao_swap_step_t *step = cut->contents->step;
    double bytes = (double)step->size_bytes[tensor];
    uint32_t node = content != DAO_SWAP_NONE ? content : tensor_node(cut, tensor);
    if (cut->level[node] != 0) {
        return node;
    }
    cut->level[node] = 1;
    uint32_t kernel = content != DAO_SWAP_NONE ? step->accesses[content].kernel : NONE;
    if (kernel == NONE || !dao_recompute_may_run_in(cut->contents, kernel, cut->begin)) {
        add_arc(cut, node, cut->sink, ARC_IN, bytes);
        return node;
    }
    add_arc(cut, node, kernel_node(cut, kernel), ARC_IN, bytes);
    if (cut->level[kernel_node(cut, kernel)] == 0) {
        cut->level[kernel_node(cut, kernel)] = 1;
        add_arc(cut, kernel_node(cut, kernel), cut->sink, ARC_KERNEL,
                (double)step->problem->kernels[kernel].time_ns);
        for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
            if (step->accesses[i].reads) {
                uint32_t input =
                    visit_content(cut, dao_recompute_found(cut->contents, i), step->accesses[i].tensor);
                add_arc(cut, kernel_node(cut, kernel), input, ARC_FREE, 0);
            }
        }
    }
    return node;
}

void dao_recompute_cut_set(dao_recompute_cut_t *cut, uint32_t begin, const dao_recompute_needed_t *needed,
                           uint32_t count)
{
    const dao_swap_step_t *step = cut->contents->step;
    cut->begin = begin;
    cut->arc_count = 0;
    memset(cut->first, 0xff, cut->node_count * sizeof(*cut->first));
    memset(cut->level, 0, cut->node_count * sizeof(*cut->level));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = visit_content(cut, needed[i].content, needed[i].tensor);
        add_arc(cut, cut->source, node, ARC_FREE, 0);
        if (needed[i].is_shared) { /* a kernel that may repeat wrote it */
            uint32_t kernel = step->accesses[needed[i].content].kernel;
            bool may_run = dao_recompute_may_run_in(cut->contents, kernel, begin);
            add_arc(cut, cut->source, may_run ? kernel_node(cut, kernel) : cut->sink, ARC_OUT,
                    (double)step->size_bytes[needed[i].tensor]);
        }
    }
}

/* ---- the flow ---- */

static void set_limits(dao_recompute_cut_t *cut, const dao_recompute_prices_t *prices)
{
    for (uint32_t i = 0; i < cut->arc_count; i++) {
        arc_t *arc = &cut->arcs[i];
        double price = arc->kind == ARC_IN    ? prices->in_byte
                       : arc->kind == ARC_OUT ? prices->out_byte
                                              : prices->kernel;
        arc->left = arc->kind == ARC_FREE   ? NO_LIMIT
                    : arc->kind == ARC_BACK ? 0
                                            : (int64_t)(price * arc->bytes * UNITS_PER_NS);
    }
}

/* Numbers the nodes by their distance from the source. False: the sink cannot be reached any more. */
static bool find_levels(dao_recompute_cut_t *cut)
{
    uint32_t begin = 0, end = 0;
    memset(cut->level, 0xff, cut->node_count * sizeof(*cut->level));
    cut->level[cut->source] = 0;
    cut->queue[end++] = cut->source;
    while (begin < end) {
        uint32_t node = cut->queue[begin++];
        for (uint32_t i = cut->first[node]; i != NONE; i = cut->arcs[i].next) {
            if (cut->arcs[i].left > 0 && cut->level[cut->arcs[i].to] == NONE) {
                cut->level[cut->arcs[i].to] = cut->level[node] + 1;
                cut->queue[end++] = cut->arcs[i].to;
            }
        }
    }
    return cut->level[cut->sink] != NONE;
}

/* Sends up to `most` from a node to the sink, from level to level. */
static int64_t send(dao_recompute_cut_t *cut, uint32_t node, int64_t most)
{
    int64_t sent = 0;
    if (node == cut->sink) {
        return most;
    }
    for (; cut->current[node] != NONE && sent < most;
         cut->current[node] = cut->arcs[cut->current[node]].next) {
        arc_t *arc = &cut->arcs[cut->current[node]];
        if (arc->left == 0 || cut->level[arc->to] != cut->level[node] + 1) {
            continue;
        }
        int64_t room = arc->left < most - sent ? arc->left : most - sent;
        int64_t part = send(cut, arc->to, room);
        arc->left -= part;
        cut->arcs[cut->current[node] ^ 1].left += part;
        sent += part;
        if (sent == most) {
            break; /* this arc may have some left */
        }
    }
    return sent;
}

double dao_recompute_cut_least(dao_recompute_cut_t *cut, const dao_recompute_prices_t *prices)
{
    int64_t flow = 0, sent;
    set_limits(cut, prices);
    while (find_levels(cut)) {
        memcpy(cut->current, cut->first, cut->node_count * sizeof(*cut->current));
        while ((sent = send(cut, cut->source, NO_LIMIT)) > 0) {
            flow += sent;
        }
    }
    return (double)flow / UNITS_PER_NS;
}

/* ---- life ---- */

dao_status_t dao_recompute_cut_create(const dao_recompute_contents_t *contents, dao_recompute_cut_t **out_cut)
{
    const dao_swap_step_t *step = contents->step;
    dao_recompute_cut_t *cut = dao_host_calloc(1, sizeof(*cut));
    if (cut != NULL) {
        cut->contents = contents;
        cut->source = kernel_node(cut, step->kernel_count);
        cut->sink = cut->source + 1;
        cut->node_count = cut->sink + 1;
        /* From each content to its kernel, from each kernel to what it reads, from the source to what is
           needed and to its kernels, and to the sink; each with an arc back. */
        size_t arcs = 2 * (4 * ((size_t)step->access_count + step->tensor_count) + step->kernel_count + 1);
        size_t nodes = cut->node_count;
        cut->first = dao_host_calloc(nodes, sizeof(*cut->first));
        cut->current = dao_host_calloc(nodes, sizeof(*cut->current));
        cut->level = dao_host_calloc(nodes, sizeof(*cut->level));
        cut->queue = dao_host_calloc(nodes, sizeof(*cut->queue));
        cut->arcs = dao_host_calloc(arcs, sizeof(*cut->arcs));
    }
    if (cut == NULL || cut->first == NULL || cut->current == NULL || cut->level == NULL ||
        cut->queue == NULL || cut->arcs == NULL) {
        dao_recompute_cut_destroy(cut);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    }
    *out_cut = cut;
    return DAO_OK;
}

void dao_recompute_cut_destroy(dao_recompute_cut_t *cut)
{
    if (cut != NULL) {
        dao_host_free(cut->first);
        dao_host_free(cut->current);
        dao_host_free(cut->level);
        dao_host_free(cut->queue);
        dao_host_free(cut->arcs);
        dao_host_free(cut);
    }
}
