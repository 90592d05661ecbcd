/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/report/figures.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <stdlib.h>
#include <string.h>

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* ---- at the peak ---- */

static void put_name(dao_report_t *item, const char *key, const char *name)
{
    if (*name != '\0') {
        dao_report_text(item, key, NULL, name);
    }
}

static dao_status_t put_holders(dao_report_t *report, const dao_report_view_t *view)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    char number[DAO_PLAN_INPUT_NUMBER_BYTES];
    size_t count = 0;
    uint32_t *holders = dao_report_view_holders(view, &count);
    if (holders == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the holders of the peak");
    }
    dao_report_count(report, "peak_buffers", NULL, count);
    for (size_t i = 0; i < count && i < DAO_REPORT_HOLDER_COUNT; i++) {
        dao_plan_label_t label = dao_plan_input_label(lifetimes, holders[i]);
        dao_report_t item;
        dao_report_begin(&item, true);
        dao_report_text(&item, "name", NULL, dao_plan_input_id(lifetimes, holders[i], number));
        dao_report_bytes(&item, "size_bytes", NULL, lifetimes->buffers[holders[i]].size_bytes);
        put_name(&item, "tag", dao_plan_input_text(lifetimes, label.tag));
        put_name(&item, "module", dao_plan_input_text(lifetimes, label.module));
        put_name(&item, "operator", dao_plan_input_text(lifetimes, label.maker));
        dao_report_item(report, "holders", &item);
    }
    dao_host_free(holders);
    return DAO_OK;
}

typedef struct share {
    uint64_t peak_bytes;
    size_t group;
} share_t;

static int compare_shares(const void *left, const void *right)
{
    const share_t *a = left;
    const share_t *b = right;
    if (a->peak_bytes != b->peak_bytes) {
        return a->peak_bytes > b->peak_bytes ? -1 : 1;
    }
    return a->group < b->group ? -1 : a->group > b->group;
}

static dao_status_t put_groups(dao_report_t *report, const dao_report_groups_t *groups, const char *by)
{
    share_t *shares = dao_host_calloc(groups->count, sizeof(*shares));
    if (shares == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu groups", groups->count);
    }
    for (size_t i = 0; i < groups->count; i++) {
        shares[i] = (share_t){groups->peak_bytes[i], i};
    }
    qsort(shares, groups->count, sizeof(*shares), compare_shares);
    for (size_t i = 0; i < groups->count && i < DAO_REPORT_GROUP_COUNT && shares[i].peak_bytes > 0; i++) {
        dao_report_t item;
        dao_report_begin(&item, true);
        dao_report_text(&item, "by", NULL, by);
        dao_report_text(&item, "name", NULL, groups->names[shares[i].group]);
        dao_report_bytes(&item, "size_bytes", NULL, shares[i].peak_bytes);
        dao_report_item(report, "groups", &item);
    }
    dao_host_free(shares);
    return DAO_OK;
}

/* ---- swapping ---- */

static void put_sweep(dao_report_t *report, const dao_report_swap_t *swap)
{
    dao_report_number(report, "compute_s", seconds(swap->fit.compute_ns));
    for (size_t i = 0; i < DAO_REPORT_SWEEP_COUNT; i++) {
        const dao_fit_point_t *point = &swap->sweep[i];
        dao_report_t item;
        dao_report_begin(&item, true);
        dao_report_bytes(&item, "capacity_bytes", NULL, point->capacity_bytes);
        if (point->step_ns != UINT64_MAX) {
            dao_report_number(&item, "step_s", seconds(point->step_ns));
        }
        dao_report_number(&item, "bound_s", seconds(point->bound_ns));
        dao_report_item(report, "sweep", &item);
    }
}

static dao_status_t put_run(dao_report_t *report, const dao_report_view_t *view,
                            const dao_report_swap_t *swap)
{
    uint32_t count = swap->step.problem.kernel_count;
    dao_stall_t *stalls = dao_host_calloc(count, sizeof(*stalls)); /* they are sorted */
    if (stalls == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to explain a step");
    }
    memcpy(stalls, swap->stalls, count * sizeof(*stalls));
    const dao_simulation_t *simulation = &swap->run.simulation;
    dao_report_bytes(report, "capacity_bytes", NULL, swap->run.capacity_bytes);
    dao_report_number(report, "step_s", seconds(simulation->step_ns));
    dao_report_number(report, "bound_s", seconds(swap->bound.step_ns));
    dao_report_bytes(report, "bytes_in", NULL, simulation->in_bytes);
    dao_report_bytes(report, "bytes_out", NULL, simulation->out_bytes);
    dao_explain_stalls(report, &view->trace, stalls, count);
    dao_host_free(stalls);
    return DAO_OK;
}

/* ---- all of it ---- */

dao_status_t dao_report_figures(dao_report_t *report, const dao_report_view_t *view,
                                const dao_report_swap_t *swap)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    dao_report_text(report, "file", NULL, view->path);
    dao_report_text(report, "form", NULL, dao_file_form_name(view->form));
    dao_report_count(report, "buffers", NULL, lifetimes->buffer_count);
    dao_report_bytes(report, "peak_bytes", NULL, view->peak_bytes);
    dao_report_count(report, "peak_time", NULL, view->peak_time - view->first_time);
    if (view->peak_operator != DAO_TRACE_NONE) {
        dao_report_count(report, "peak_operator_index", NULL, view->peak_operator);
        dao_report_text(report, "peak_operator", NULL,
                        dao_trace_operator_name(&view->trace, view->peak_operator));
    }
    dao_report_bytes(report, "planned_bytes", NULL, view->planned_bytes);
    dao_report_bytes(report, "bound_bytes", NULL, view->bound_bytes);
    if (lifetimes->counts.reserved_bytes > 0) {
        dao_report_bytes(report, "reserved_bytes", NULL, lifetimes->counts.reserved_bytes);
    }
    dao_status_t status = put_holders(report, view);
    for (unsigned i = 0; i < DAO_REPORT_GROUPING_COUNT && status == DAO_OK; i++) {
        if (view->groups[i].is_told) {
            status = put_groups(report, &view->groups[i], dao_report_grouping_name((dao_report_grouping_t)i));
        }
    }
    if (status == DAO_OK && swap != NULL) {
        put_sweep(report, swap);
    }
    if (status == DAO_OK && swap != NULL && swap->has_run) {
        status = put_run(report, view, swap);
    }
    return status;
}
