/* SPDX-License-Identifier: Apache-2.0 */
/* A row of the table, or an object of the array. */
#include "bench/gpu/bench_gpu.h"

#include "tools/print/report.h"

#include <stdio.h>

void dao_bench_gpu_row(dao_bench_gpu_t *bench, const dao_bench_gpu_row_t *row)
{
    if (bench->is_json) {
        dao_json_rows_begin(&bench->json);
        dao_json_rows_text(&bench->json, "figure", row->figure);
        dao_json_rows_text(&bench->json, "unit", row->unit);
        dao_json_rows_decimal(&bench->json, "value", row->value, 3);
        if (row->reference != NULL) {
            dao_json_rows_text(&bench->json, "reference", row->reference);
            dao_json_rows_decimal(&bench->json, "reference_value", row->reference_value, 3);
            dao_json_rows_decimal(&bench->json, "ratio", row->value / row->reference_value, 4);
        }
    } else if (row->reference != NULL) {
        (void)printf("| %-34s | %12.2f %-4s | %-26s | %12.2f | %8.4f |\n", row->figure, row->value, row->unit,
                     row->reference, row->reference_value, row->value / row->reference_value);
    } else {
        (void)printf("| %-34s | %12.2f %-4s | %-26s | %12s | %8s |\n", row->figure, row->value, row->unit, "",
                     "", "");
    }
    dao_output_flush();
}
