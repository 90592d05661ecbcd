/* SPDX-License-Identifier: Apache-2.0 */
/* A line an entry, in order: a size and a number, which is -1 for an allocation, or says which entry's block
   is freed. Entries count from 0, frees as well:

       1024 -1         entry 0 allocates
       4096 -1         entry 1 allocates
       1024 0          entry 2 frees what entry 0 allocated

   Source of the form: the test data of PaddlePaddle's buddy allocator, buddy_allocator_test.cc. */
#include "tools/read/foreign/foreign.h"

#include "base/report/error.h"
#include "tools/read/text/csv_reader.h"

#include <inttypes.h>
#include <string.h>

static dao_status_t take_entry(const dao_csv_reader_t *csv, uint64_t entry, uint32_t space,
                               dao_life_log_t *log)
{
    uint64_t size_bytes = 0, freed = 0;
    if (csv->field_count != 2) {
        return dao_csv_error(csv, csv->field_count,
                             "expected a size and -1, or a size and the number of the entry that is freed");
    }
    dao_status_t status = dao_csv_u64(csv, 0, "the size", &size_bytes);
    if (status == DAO_OK && strcmp(csv->fields[1], "-1") == 0) {
        return dao_life_log_alloc(log, space, entry, size_bytes);
    }
    if (status == DAO_OK) {
        status = dao_csv_u64(csv, 1, "the entry", &freed);
    }
    if (status == DAO_OK && !dao_life_log_is_live(log, space, freed)) {
        return dao_csv_error(csv, 1, "no block of entry %" PRIu64 " is live", freed);
    }
    return status == DAO_OK ? dao_life_log_free(log, space, freed, size_bytes) : status;
}

dao_status_t dao_read_size_list(const char *path, dao_life_log_t *log)
{
    dao_csv_reader_t csv;
    bool has_more = true;
    uint32_t device = 0, space = 0;
    dao_status_t status = dao_csv_open(&csv, path, ' ');
    if (status != DAO_OK) {
        return status;
    }
    status = dao_life_log_device(log, "0", &device);
    if (status == DAO_OK) {
        status = dao_life_log_space(log, device, DAO_LIFE_KEYS_ADDRESSES, &space);
    }
    for (uint64_t entry = 0; status == DAO_OK;) {
        status = dao_csv_next(&csv, &has_more);
        if (status != DAO_OK || !has_more) {
            break;
        }
        if (csv.field_count > 0) { /* else the line is empty */
            status = take_entry(&csv, entry++, space, log);
        }
    }
    dao_csv_close(&csv);
    return status;
}
