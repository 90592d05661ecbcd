/* SPDX-License-Identifier: Apache-2.0 */
/* Places' settings, steps and their plans, plans of offsets, observation, callbacks. */
#include "tests/misuse/misuse.h"

#include <string.h>

/* The environment of cases at places with step plans. */
#define PLANS "DAO_STEP_PLAN=offsets"

static dao_status_t write_nowhere(const char *text, size_t text_bytes, void *user)
{
    (void)text;
    (void)text_bytes;
    (void)user;
    return DAO_OK;
}

static void step_ended_before_it_began(void)
{
    misuse_begin();
    REFUSED(dao_step_end(misuse_device), DAO_ERR_INVALID, "step");
    NEED(dao_step_begin(misuse_device) == DAO_OK && dao_step_begin(misuse_device) == DAO_OK); /* nested */
    NEED(dao_step_end(misuse_device) == DAO_OK && dao_step_end(misuse_device) == DAO_OK);
    REFUSED(dao_step_end(misuse_device), DAO_ERR_INVALID, "step");
}

static void step_at_no_place(void)
{
    misuse_begin();
    REFUSED(dao_step_begin(((dao_place_t){DAO_PLACE_KIND_DEVICE, 9})), DAO_ERR_NO_DEVICE, "device:9");
    REFUSED(dao_step_begin(((dao_place_t){(dao_place_kind_t)77, 0})), DAO_ERR_INVALID, "is not a place");
}

static void plan_file_of_junk(void)
{
    static const char *const texts[] = {"", "junk", "dao step plan 1\n", "{}", "\177ELF\002\001"};
    misuse_begin();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        REFUSED(dao_step_plan_load(misuse_device, texts[i], strlen(texts[i])), DAO_ERR_PARSE, "");
    }
    REFUSED(dao_step_plan_load(misuse_device, NULL, 10), DAO_ERR_INVALID, "NULL");
}

static void plan_where_there_are_none(void)
{
    dao_step_plan_stats_t stats;
    misuse_begin();
    REFUSED(dao_step_plan_save(misuse_device, write_nowhere, NULL), DAO_ERR_UNSUPPORTED, "device:0");
    REFUSED(dao_step_plan_load(misuse_device, "junk", 4), DAO_ERR_UNSUPPORTED, "device:0");
    REFUSED(dao_step_plan_stats_get(misuse_device, &stats), DAO_ERR_UNSUPPORTED, "device:0");
    REFUSED(dao_step_plan_reset(misuse_device), DAO_ERR_UNSUPPORTED, "device:0");
}

static void plan_saved_nowhere(void)
{
    misuse_begin();
    REFUSED(dao_step_plan_save(misuse_device, NULL, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_step_plan_stats_get(misuse_device, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_step_plan_walk(misuse_device, NULL, NULL), DAO_ERR_INVALID, "NULL");
}

static void configured_too_late(void)
{
    dao_place_config_t config = {.strategy = DAO_STRATEGY_BEST_FIT};
    misuse_begin();
    REFUSED(dao_place_configure(misuse_device, &config), DAO_ERR_BUSY, "device:0");
    REFUSED(dao_place_configure(misuse_device, NULL), DAO_ERR_INVALID, "NULL");
    config.strategy = (dao_strategy_t)99;
    REFUSED(dao_place_configure(misuse_other, &config), DAO_ERR_INVALID, "99");
}

static void texts_that_name_nothing(void)
{
    dao_place_t place = {DAO_PLACE_KIND_CPU, 0};
    dao_strategy_t strategy = DAO_STRATEGY_GOOD_FIT;
    dao_plan_method_t method = (dao_plan_method_t)0;
    REFUSED(dao_place_parse("gpu:0", &place), DAO_ERR_INVALID, "gpu:0");
    REFUSED(dao_place_parse("device:99999999999", &place), DAO_ERR_INVALID, "device");
    REFUSED(dao_place_parse(NULL, &place), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_strategy_parse("worst_fit", &strategy), DAO_ERR_INVALID, "best_fit");
    REFUSED(dao_plan_method_parse("magic", &method), DAO_ERR_INVALID, "");
    NEED(place.kind == DAO_PLACE_KIND_CPU && strategy == DAO_STRATEGY_GOOD_FIT);
}

/* ---- plans of offsets ---- */

static void plan_of_nothing(void)
{
    dao_plan_t *plan = NULL;
    dao_planner_t *planner = NULL;
    REFUSED(dao_plan_make(NULL, NULL, &plan), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_plan_make(&(dao_plan_problem_t){0}, NULL, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_planner_create(NULL, NULL, &planner), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_plan_make(&(dao_plan_problem_t){.buffer_count = 1}, NULL, &plan), DAO_ERR_INVALID, "");
    NEED(plan == NULL && planner == NULL);
}

static void plan_of_wrong_buffers(void)
{
    dao_plan_t *plan = NULL;
    dao_plan_buffer_t buffers[2] = {{.begin_time = 5,
                                     .end_time = 5,
                                     .size_bytes = 1,
                                     .fixed_offset = DAO_PLAN_NOWHERE,
                                     .pool = DAO_PLAN_ANY_POOL},
                                    {.begin_time = 0,
                                     .end_time = 9,
                                     .size_bytes = 1,
                                     .fixed_offset = DAO_PLAN_NOWHERE,
                                     .pool = DAO_PLAN_ANY_POOL}};
    dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 2};
    REFUSED(dao_plan_make(&problem, NULL, &plan), DAO_ERR_INVALID, "buffer 0");
    buffers[0].end_time = 6;
    buffers[1].size_bytes = 0;
    REFUSED(dao_plan_make(&problem, NULL, &plan), DAO_ERR_INVALID, "buffer 1");
    buffers[1].size_bytes = UINT64_MAX;
    REFUSED(dao_plan_make(&problem, NULL, &plan), DAO_ERR_INVALID, "buffer 1");
    buffers[1].size_bytes = 1;
    buffers[1].alignment_bytes = 3;
    REFUSED(dao_plan_make(&problem, NULL, &plan), DAO_ERR_INVALID, "buffer 1");
    NEED(plan == NULL);
}

static void plan_whose_buffers_overlap(void)
{
    static const uint64_t offsets[2] = {0, 50};
    dao_plan_t *plan = NULL;
    dao_plan_buffer_t buffers[2] = {{.begin_time = 0,
                                     .end_time = 5,
                                     .size_bytes = 100,
                                     .fixed_offset = DAO_PLAN_NOWHERE,
                                     .pool = DAO_PLAN_ANY_POOL},
                                    {.begin_time = 1,
                                     .end_time = 9,
                                     .size_bytes = 100,
                                     .fixed_offset = DAO_PLAN_NOWHERE,
                                     .pool = DAO_PLAN_ANY_POOL}};
    dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 2};
    REFUSED(dao_plan_check(&problem, offsets, NULL), DAO_ERR_INVALID, "buffers 0 and 1");
    REFUSED(dao_plan_create(&problem, offsets, NULL, &plan), DAO_ERR_INVALID, "share bytes");
    NEED(plan == NULL);
}

/* ---- observation ---- */

static void events_where_none_are_recorded(void)
{
    dao_memory_event_t events[4];
    size_t count = 77;
    uint64_t lost = 77;
    misuse_begin();
    REFUSED(dao_events_read(misuse_device, events, 4, &count, &lost), DAO_ERR_NOT_READY,
            "dao_events_start()");
    REFUSED(dao_events_stop(misuse_device), DAO_ERR_NOT_READY, "not recording");
    NEED(dao_events_start(misuse_device, 100) == DAO_OK);
    REFUSED(dao_events_start(misuse_device, 100), DAO_ERR_BUSY, "device:0");
    REFUSED(dao_events_read(misuse_device, NULL, 4, &count, &lost), DAO_ERR_INVALID, "NULL");
    NEED(count == 77 && lost == 77 && dao_events_stop(misuse_device) == DAO_OK);
}

static void callbacks_that_are_none(void)
{
    uint64_t id = 77;
    misuse_begin();
    REFUSED(dao_segment_callback_add(misuse_device, NULL, NULL, &id), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_segment_callback_remove(123456), DAO_ERR_INVALID, "123456");
    REFUSED(dao_pressure_callback_add(misuse_device, NULL, NULL, &id), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_pressure_callback_remove(123456), DAO_ERR_INVALID, "123456");
    NEED(id == 77);
}

static uint32_t refused_count;

static void call_back(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                      void *user)
{
    (void)event;
    (void)size_bytes;
    (void)user;
    refused_count += dao_alloc(place, 100) == NULL && dao_last_status() == DAO_ERR_REENTRANT ? 1 : 0;
    refused_count += dao_free(place, address) == DAO_ERR_REENTRANT ? 1 : 0;
    refused_count += dao_finalize() == DAO_ERR_REENTRANT ? 1 : 0;
}

/* A segment callback runs under an allocator's lock. */
static void library_called_by_its_callback(void)
{
    uint64_t id;
    misuse_begin();
    NEED(dao_segment_callback_add(misuse_other, call_back, NULL, &id) == DAO_OK);
    void *block = dao_alloc(misuse_other, 3 * MIB);
    NEED(block != NULL && refused_count >= 3 && refused_count % 3 == 0);
    NEED(dao_segment_callback_remove(id) == DAO_OK && dao_free(misuse_other, block) == DAO_OK);
}

/* What has locks of its own, which come before an allocator's. */
static struct {
    dao_executor_t *executor;
    dao_managed_t *tensor;
    dao_command_list_t *list;
    dao_mover_t *mover;
    dao_parked_t *parked;
    uint32_t call_count;
} outer;

static dao_status_t launch_nothing(const dao_launch_t *launch, void *user)
{
    (void)launch;
    (void)user;
    return DAO_OK;
}

static void call_back_outer(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                            void *user)
{
    (void)event;
    (void)address;
    (void)size_bytes;
    (void)user;
    char bytes[100] = {0};
    dao_kernel_t kernel = {.launch = launch_nothing};
    dao_place_config_t config = {.limit_bytes = MIB};
    dao_mover_config_t pinned = {.pinned_bytes = MIB};
    dao_mover_stats_t stats;
    dao_mover_t *mover = NULL;
    dao_parked_t *parked = NULL;
    outer.call_count++;
    NEED(dao_executor_push(outer.executor, &kernel) == DAO_ERR_REENTRANT);
    NEED(dao_executor_step_begin(outer.executor) == DAO_ERR_REENTRANT);
    NEED(dao_executor_sync(outer.executor) == DAO_ERR_REENTRANT);
    NEED(dao_executor_destroy(outer.executor) == DAO_ERR_REENTRANT);
    NEED(dao_command_list_run(outer.list) == DAO_ERR_REENTRANT);
    NEED(dao_managed_write(outer.tensor, bytes, sizeof(bytes)) == DAO_ERR_REENTRANT);
    NEED(dao_managed_read(outer.tensor, bytes, sizeof(bytes)) == DAO_ERR_REENTRANT);
    NEED(dao_managed_release(outer.tensor) == DAO_ERR_REENTRANT);
    dao_command_list_destroy(outer.list);
    NEED(dao_last_status() == DAO_ERR_REENTRANT);
    NEED(dao_mover_create(&pinned, &mover) == DAO_ERR_REENTRANT && mover == NULL);
    NEED(dao_mover_out(outer.mover, bytes, sizeof(bytes), &parked) == DAO_ERR_REENTRANT && parked == NULL);
    NEED(dao_mover_in(outer.mover, outer.parked, bytes) == DAO_ERR_REENTRANT);
    NEED(dao_parked_wait(outer.parked) == DAO_ERR_REENTRANT);
    NEED(dao_mover_stats_get(outer.mover, &stats) == DAO_ERR_REENTRANT);
    dao_parked_release(outer.parked);
    dao_mover_destroy(outer.mover);
    NEED(dao_last_status() == DAO_ERR_REENTRANT);
    NEED(dao_place_configure(place, &config) == DAO_ERR_REENTRANT);
    NEED(dao_host_limit_set(1000 * MIB) == DAO_ERR_REENTRANT);
}

static void executor_and_mover_called_by_a_segment_callback(void)
{
    char bytes[100] = {0};
    dao_executor_config_t config = {.capacity_bytes = MIB};
    dao_managed_config_t tensor = {.size_bytes = sizeof(bytes)};
    dao_mover_config_t pinned = {.pinned_bytes = MIB};
    uint64_t id;
    misuse_begin();
    NEED(dao_executor_create(&config, &outer.executor) == DAO_OK);
    NEED(dao_managed_create(outer.executor, &tensor, &outer.tensor) == DAO_OK);
    NEED(dao_managed_write(outer.tensor, bytes, sizeof(bytes)) == DAO_OK);
    NEED(dao_command_list_create(outer.executor, &outer.list) == DAO_OK);
    NEED(dao_mover_create(&pinned, &outer.mover) == DAO_OK);
    NEED(dao_mover_out(outer.mover, bytes, sizeof(bytes), &outer.parked) == DAO_OK);
    NEED(dao_segment_callback_add(misuse_other, call_back_outer, NULL, &id) == DAO_OK);
    void *block = dao_alloc(misuse_other, 3 * MIB);
    NEED(block != NULL && outer.call_count > 0 && dao_segment_callback_remove(id) == DAO_OK);
    NEED(dao_parked_wait(outer.parked) == DAO_OK);
    NEED(dao_managed_read(outer.tensor, bytes, sizeof(bytes)) == DAO_OK);
    dao_command_list_destroy(outer.list);
    dao_parked_release(outer.parked);
    dao_mover_destroy(outer.mover);
    NEED(dao_managed_release(outer.tensor) == DAO_OK && dao_executor_destroy(outer.executor) == DAO_OK);
    NEED(dao_free(misuse_other, block) == DAO_OK);
}

/* Of a step in which one kernel reads a tensor. */
static void recompute_of_nothing(void)
{
    dao_swap_tensor_t tensor = {.size_bytes = 1000};
    dao_swap_use_t use = {.tensor = 0, .access = DAO_ACCESS_READ}, far = {7, DAO_ACCESS_READ};
    dao_swap_kernel_t kernel = {.time_ns = 1, .use_count = 1, .uses = &use}, without = {.use_count = 1};
    dao_swap_kernel_t elsewhere = {.use_count = 1, .uses = &far};
    dao_swap_problem_t step = {.tensor_count = 1, .tensors = &tensor, .kernel_count = 1, .kernels = &kernel};
    dao_swap_problem_t none = {0}, wrong = step, listless = step;
    wrong.kernels = &elsewhere;
    listless.kernels = &without;
    uint32_t source = 0;
    dao_recompute_run_t run = {0};
    dao_recompute_step_t same = {.problem = step, .runs = &run, .tensor_sources = &source}, longer = same;
    dao_recompute_config_t config = {.mode = (dao_recompute_mode_t)7};
    dao_recompute_plan_t *plan = NULL;
    dao_recompute_bound_t bound;
    misuse_begin();
    NEED(dao_recompute_check(&step, &same) == DAO_OK);
    REFUSED(dao_recompute_check(NULL, &same), DAO_ERR_INVALID, "dao_recompute_check: problem is NULL");
    REFUSED(dao_recompute_check(&step, NULL), DAO_ERR_INVALID, "dao_recompute_check: step is NULL");
    REFUSED(dao_recompute_check(&none, &same), DAO_ERR_INVALID, "at least one kernel");
    REFUSED(dao_recompute_check(&wrong, &same), DAO_ERR_INVALID, "no tensor 7");
    longer.tensor_sources = NULL;
    REFUSED(dao_recompute_check(&step, &longer), DAO_ERR_INVALID, "tensors of the longer step");
    longer = same;
    longer.runs = NULL;
    REFUSED(dao_recompute_check(&step, &longer), DAO_ERR_INVALID, "kernels of the longer step");
    longer = same;
    longer.problem = listless;
    REFUSED(dao_recompute_check(&step, &longer), DAO_ERR_INVALID, "run 0 names 1 tensors");
    REFUSED(dao_recompute_plan_make(NULL, NULL, &plan), DAO_ERR_INVALID, "problem is NULL");
    REFUSED(dao_recompute_plan_make(&step, NULL, NULL), DAO_ERR_INVALID, "out_plan is NULL");
    REFUSED(dao_recompute_plan_make(&step, &config, &plan), DAO_ERR_INVALID, "mode 7 is none");
    REFUSED(dao_recompute_plan_make(&none, NULL, &plan), DAO_ERR_INVALID, "at least one kernel");
    REFUSED(dao_recompute_find_bound(&step, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_recompute_find_bound(&none, &bound), DAO_ERR_INVALID, "at least one kernel");
    NEED(plan == NULL);
}

const misuse_case_t misuse_plan_cases[] = {
    {.name = "step_ended_before_it_began", .run = step_ended_before_it_began, .environment = PLANS},
    {.name = "step_at_no_place", .run = step_at_no_place},
    {.name = "plan_file_of_junk", .run = plan_file_of_junk, .environment = PLANS},
    {.name = "plan_where_there_are_none", .run = plan_where_there_are_none},
    {.name = "plan_saved_nowhere", .run = plan_saved_nowhere, .environment = PLANS},
    {.name = "configured_too_late", .run = configured_too_late},
    {.name = "texts_that_name_nothing", .run = texts_that_name_nothing},
    {.name = "plan_of_nothing", .run = plan_of_nothing},
    {.name = "recompute_of_nothing", .run = recompute_of_nothing},
    {.name = "plan_of_wrong_buffers", .run = plan_of_wrong_buffers},
    {.name = "plan_whose_buffers_overlap", .run = plan_whose_buffers_overlap},
    {.name = "events_where_none_are_recorded", .run = events_where_none_are_recorded},
    {.name = "callbacks_that_are_none", .run = callbacks_that_are_none},
    {.name = "library_called_by_its_callback", .run = library_called_by_its_callback},
    {.name = "executor_and_mover_called_by_a_segment_callback",
     .run = executor_and_mover_called_by_a_segment_callback},
    {.name = NULL},
};
