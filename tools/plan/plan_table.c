/* SPDX-License-Identifier: Apache-2.0 */
/* Each row goes out at once for people; the array goes out at the end. */
#include "tools/plan/plan_table.h"

#include "tools/base/progress.h"
#include "tools/options/complain.h"
#include "tools/print/report.h"

#include <inttypes.h>
#include <stdio.h>

enum { RATIO_DECIMALS = 5, SECOND_DECIMALS = 6, BYTE_DECIMALS = 1, TEXT_BYTES = 32 };

void dao_plan_table_begin(dao_plan_table_t *table, bool is_json, bool has_lines)
{
    *table = (dao_plan_table_t){.is_json = is_json, .has_lines = has_lines};
    if (is_json) {
        dao_json_rows_init(&table->json);
    }
}

static double bytes_per_buffer(const dao_plan_row_t *row)
{
    return row->buffer_count == 0 ? 0 : (double)row->memory_bytes / (double)row->buffer_count;
}

static void add_pools(dao_json_rows_t *json, const dao_plan_row_t *row)
{
    uint64_t peaks[DAO_PLAN_POOL_COUNT_MAX];
    for (uint32_t i = 0; i < row->pool_count; i++) {
        peaks[i] = dao_plan_pool_peak(row->plan, i);
    }
    dao_json_rows_counts(json, "pool_peak_bytes", peaks, row->pool_count);
}

static void add_json(dao_json_rows_t *json, const dao_plan_row_t *row)
{
    dao_json_rows_begin(json);
    dao_json_rows_text(json, "method", row->method);
    dao_json_rows_count(json, "buffers", row->buffer_count);
    if (row->has_peak) {
        dao_json_rows_count(json, "peak_bytes", row->peak_bytes);
    } else {
        dao_json_rows_null(json, "peak_bytes");
    }
    dao_json_rows_count(json, "bound_bytes", row->bound_bytes);
    if (row->has_peak) {
        dao_json_rows_decimal(json, "ratio", dao_plan_row_ratio(row), RATIO_DECIMALS);
    } else {
        dao_json_rows_null(json, "ratio");
    }
    dao_json_rows_flag(json, "proved", row->is_proved);
    dao_json_rows_decimal(json, "cpu_s", (double)row->cpu_ns / 1e9, SECOND_DECIMALS);
    if (row->memory_bytes > 0) {
        dao_json_rows_decimal(json, "bytes_per_buffer", bytes_per_buffer(row), BYTE_DECIMALS);
    } else {
        dao_json_rows_null(json, "bytes_per_buffer");
    }
    dao_json_rows_count(json, "unplaced", row->unplaced_count);
    if (row->plan != NULL && row->pool_count > 1) {
        add_pools(json, row);
    }
}

/* What does not fit, how high each of several pools is used, and what each policy of the lifetime bins
   needs. */
static void print_remark(const dao_plan_row_t *row)
{
    if (row->unplaced_count > 0) {
        (void)printf("\n  %zu do not fit (%" PRIu64 " bytes)", row->unplaced_count, row->unplaced_bytes);
    }
    if (row->plan != NULL && row->pool_count > 1) {
        (void)printf("%spools:", row->unplaced_count > 0 ? "  " : "\n  ");
        for (uint32_t i = 0; i < row->pool_count; i++) {
            (void)printf(" %" PRIu64, dao_plan_pool_peak(row->plan, i));
        }
    }
    if (dao_plan_bin_policy_bytes(row->plan, 0) == 0) {
        return;
    }
    (void)printf("\n  policies:");
    for (uint32_t i = 0; i < DAO_PLAN_BIN_POLICY_COUNT; i++) {
        (void)printf(" %" PRIu64, dao_plan_bin_policy_bytes(row->plan, i));
    }
}

static void print_row(const dao_plan_table_t *table, const dao_plan_row_t *row)
{
    char peak[TEXT_BYTES] = "-", ratio[TEXT_BYTES] = "-", bytes[TEXT_BYTES] = "-";
    if (table->row_count == 0) {
        (void)printf("%-20s %20s %9s %-6s %11s %9s\n", "method", "peak bytes", "ratio", "proved", "CPU s",
                     "B/buffer");
    }
    if (row->has_peak) {
        (void)snprintf(peak, sizeof(peak), "%" PRIu64, row->peak_bytes);
        (void)snprintf(ratio, sizeof(ratio), "%.*f", RATIO_DECIMALS, dao_plan_row_ratio(row));
    }
    if (row->memory_bytes > 0) {
        (void)snprintf(bytes, sizeof(bytes), "%.*f", BYTE_DECIMALS, bytes_per_buffer(row));
    }
    (void)printf("%-20s %20s %9s %-6s %11.*f %9s", row->method, peak, ratio, row->is_proved ? "yes" : "no",
                 SECOND_DECIMALS, (double)row->cpu_ns / 1e9, bytes);
    print_remark(row);
    (void)putchar('\n');
    dao_output_flush();
}

void dao_plan_table_row(dao_plan_table_t *table, const dao_plan_row_t *row)
{
    if (table->is_json) {
        add_json(&table->json, row);
    } else if (table->has_lines) {
        dao_progress_hide();
        print_row(table, row);
    }
    table->row_count++;
}

int dao_plan_table_end(dao_plan_table_t *table, bool is_dropped)
{
    bool has_failed = is_dropped;
    if (table->is_json) {
        has_failed = has_failed || !dao_json_rows_print(&table->json);
        dao_json_rows_finish(&table->json);
    }
    dao_output_flush();
    return has_failed ? DAO_EXIT_FAILED : DAO_EXIT_OK;
}
