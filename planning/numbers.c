/* Times become numbers of beginnings: see the picture in instance.h. */
#include "base/error.h"
#include "planning/instance.h"
#include "planning/sort.h"

static void list_times(dao_plan_key_t *keys, const uint64_t *times, uint32_t count, dao_plan_meter_t *meter)
{
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, meter)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            keys[i] = (dao_plan_key_t){.key = times[i], .value = (uint32_t)i};
        }
    }
}

/* Numbers the begins, and leaves the different times in `distinct`. Gives their count. */
static uint32_t number_begins(dao_plan_rows_t *rows, const dao_plan_key_t *keys, uint32_t *order,
                              uint64_t *distinct, dao_plan_meter_t *meter)
{
    uint32_t count = 0;
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, meter)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            if (count == 0 || distinct[count - 1] != keys[i].key) {
                distinct[count++] = keys[i].key;
            }
            rows->begin_times[keys[i].value] = count - 1;
            order[i] = keys[i].value;
        }
    }
    return count;
}

/* Numbers the ends: how many different begins lie before each. */
static void number_ends(dao_plan_rows_t *rows, const dao_plan_key_t *keys, const uint64_t *distinct,
                        uint32_t distinct_count, dao_plan_meter_t *meter)
{
    uint32_t before = 0;
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, meter)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            while (before < distinct_count && distinct[before] < keys[i].key) {
                before++;
            }
            rows->end_times[keys[i].value] = before;
        }
    }
}

dao_status_t dao_plan_number_times(dao_plan_rows_t *rows, dao_plan_memory_t *memory, uint32_t *order,
                                   uint32_t *out_time_count, dao_plan_meter_t *meter)
{
    uint32_t count = rows->count;
    dao_plan_key_t *keys = dao_plan_take(memory, count, sizeof(*keys));
    dao_plan_key_t *scratch = dao_plan_take(memory, count, sizeof(*scratch));
    uint64_t *distinct = dao_plan_take(memory, count, sizeof(*distinct));
    bool is_complete = keys != NULL && scratch != NULL && distinct != NULL;
    if (is_complete) {
        list_times(keys, rows->begin_times, count, meter);
        dao_plan_sort_keys(keys, scratch, count, meter);
        uint32_t distinct_count = number_begins(rows, keys, order, distinct, meter);
        list_times(keys, rows->end_times, count, meter);
        dao_plan_sort_keys(keys, scratch, count, meter);
        number_ends(rows, keys, distinct, distinct_count, meter);
        *out_time_count = distinct_count;
    }
    dao_plan_give(memory, distinct);
    dao_plan_give(memory, scratch);
    dao_plan_give(memory, keys);
    dao_plan_trim(memory, meter);
    return is_complete ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to sort %u times", count);
}
