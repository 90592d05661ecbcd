/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/play_plan.h"

#include "base/numbers/math.h"
#include "base/report/error.h"
#include "runtime/executor/tiers/file_tier.h"

#include <dao/dao.h>

#include <inttypes.h>

static uint64_t at_least_one(uint64_t size_bytes)
{
    return size_bytes > 0 ? size_bytes : 1;
}

/* The largest part that goes through staging before the first step. */
static uint64_t most_staged_bytes(const dao_swap_schedule_t *schedule)
{
    uint64_t most_bytes = 1;
    for (uint32_t i = 0; i < schedule->resident_count; i++) {
        most_bytes = dao_larger(most_bytes, schedule->residents[i].size_bytes);
    }
    for (uint32_t i = 0; i < schedule->copy_count[DAO_SWAP_STREAM_FILE_IN]; i++) {
        most_bytes = dao_larger(most_bytes, schedule->copies[DAO_SWAP_STREAM_FILE_IN][i].size_bytes);
    }
    return most_bytes;
}

/* Memory of the device and of the host. */
static dao_status_t take_memory(dao_player_t *player, const dao_swap_schedule_t *schedule)
{
    player->arena = dao_alloc(dao_device_place(player->device), at_least_one(schedule->arena_bytes));
    if (player->arena != NULL) {
        player->host = dao_alloc(dao_pinned_place(player->device), at_least_one(schedule->host_bytes));
    }
    if (player->host != NULL) {
        player->staging = dao_alloc(dao_pinned_place(player->device), most_staged_bytes(schedule));
    }
    return player->staging != NULL ? DAO_OK : dao_last_status();
}

/* Maps the pages of a schedule behind addresses of their own. */
static dao_status_t map_pages(dao_player_t *player, const dao_swap_schedule_t *schedule)
{
    player->pages = (dao_device_pages_t){
        .ops = player->runtime->ops, .device = player->runtime->device, .base = player->arena};
    dao_status_t status = dao_device_pages_init(
        &player->pages, player->streams[DAO_STREAM_ROLE_COMPUTE]->backend,
        player->streams[DAO_STREAM_ROLE_D2H]->backend, schedule->arena_bytes, DAO_SWAP_ADDRESSES_PAGES);
    if (status == DAO_OK && player->pages.page_bytes != schedule->page_bytes) {
        status = dao_error(DAO_ERR_UNSUPPORTED,
                           "this device does not map its pages of %" PRIu64 " bytes at several addresses",
                           schedule->page_bytes);
    }
    return status == DAO_OK ? dao_device_window_create(&player->pages, schedule, &player->window) : status;
}

static void *paged_address(const dao_player_t *player)
{
    return player->window != NULL ? player->window->address : NULL;
}

/* The file, its pieces, its streams. */
static dao_status_t make_file(dao_player_t *player, const dao_player_config_t *config)
{
    size_t piece_bytes = dao_file_tier_piece_bytes(config->schedule->arena_bytes);
    dao_status_t status = DAO_OK;
    for (int i = 0; status == DAO_OK && i < DAO_FILE_DIRECTION_COUNT; i++) {
        status = dao_stream_create(player->device, &player->file_streams[i]);
        if (status == DAO_OK) {
            dao_timeline_add_stream(&player->timeline, dao_file_tier_staging_stream((dao_file_direction_t)i),
                                    player->file_streams[i]->backend);
            player->pieces[i] = dao_alloc(dao_pinned_place(player->device), piece_bytes);
            status = player->pieces[i] != NULL ? DAO_OK : dao_last_status();
        }
    }
    const dao_plan_replay_file_config_t file = {.ops = player->runtime->ops,
                                                .schedule = config->schedule,
                                                .tier = &config->problem->file,
                                                .file = config->file,
                                                .device_address = player->arena,
                                                .paged_address = paged_address(player),
                                                .pieces = {player->pieces[0], player->pieces[1]},
                                                .piece_bytes = piece_bytes};
    return status == DAO_OK ? dao_plan_replay_file_init(&player->file, &file) : status;
}

/* The compute streams beside the first one. */
static dao_status_t make_beside(dao_player_t *player, const dao_swap_problem_t *problem)
{
    dao_status_t status = DAO_OK;
    for (uint32_t k = 0; status == DAO_OK && k < problem->kernel_count; k++) {
        uint32_t stream = problem->kernels[k].stream;
        if (stream != 0 && player->beside[stream] == NULL) {
            status = dao_stream_create(player->device, &player->beside[stream]);
            if (status == DAO_OK) {
                dao_timeline_add_stream(&player->timeline, dao_timeline_compute(stream),
                                        player->beside[stream]->backend);
            }
        }
    }
    return status;
}

dao_stream_t *dao_player_compute(const dao_player_t *player, const dao_swap_kernel_t *kernel)
{
    return kernel->stream == 0 ? player->streams[DAO_STREAM_ROLE_COMPUTE] : player->beside[kernel->stream];
}

dao_status_t dao_player_create(dao_player_t *player, const dao_player_config_t *config)
{
    dao_backend_stream_t *streams[DAO_STREAM_ROLE_COUNT];
    bool has_file = dao_plan_replay_file_is_needed(config->schedule);
    *player = (dao_player_t){.device = config->device};
    dao_status_t status = dao_runtime_acquire(config->device, &player->runtime);
    for (int i = 0; status == DAO_OK && i < DAO_STREAM_ROLE_COUNT; i++) {
        status = dao_stream_create(player->device, &player->streams[i]);
        streams[i] = status == DAO_OK ? player->streams[i]->backend : NULL;
    }
    status = status == DAO_OK ? take_memory(player, config->schedule) : status;
    status =
        status == DAO_OK && config->schedule->page_count > 0 ? map_pages(player, config->schedule) : status;
    if (status != DAO_OK) {
        return status;
    }
    dao_timeline_init(&player->timeline, player->runtime->ops, player->runtime->device, streams);
    player->has_timeline = true;
    status = make_beside(player, config->problem);
    status = status == DAO_OK && has_file ? make_file(player, config) : status;
    dao_plan_replay_config_t replay = {.timeline = &player->timeline,
                                       .problem = config->problem,
                                       .schedule = config->schedule,
                                       .device_address = player->arena,
                                       .paged_address = paged_address(player),
                                       .host_address = player->host,
                                       .file = has_file ? &player->file : NULL,
                                       .launch = config->launch,
                                       .on_copy = config->on_copy,
                                       .user = config->user};
    return status == DAO_OK ? dao_plan_replay_init(&player->replay, &replay) : status;
}

dao_status_t dao_player_place(dao_player_t *player, dao_plan_replay_read_t read)
{
    return dao_plan_replay_place(&player->replay, read, player->staging);
}

dao_status_t dao_player_step(dao_player_t *player)
{
    return dao_plan_replay_step(&player->replay);
}

dao_status_t dao_player_wait(dao_player_t *player)
{
    dao_status_t status = player->has_timeline ? dao_timeline_wait_all(&player->timeline) : DAO_OK;
    return status == DAO_OK ? dao_plan_replay_file_status(&player->file) : status;
}

void dao_player_finish(dao_player_t *player)
{
    if (player->has_timeline) {
        dao_status_t status = dao_timeline_wait_all(&player->timeline);
        (void)status; /* what it could say has been said */
        dao_plan_replay_finish(&player->replay);
        dao_timeline_finish(&player->timeline);
    }
    dao_device_window_destroy(player->window);
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        dao_stream_destroy(player->streams[i]);
    }
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX; i++) {
        dao_stream_destroy(player->beside[i]);
    }
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_stream_destroy(player->file_streams[i]);
        if (player->pieces[i] != NULL) {
            (void)dao_free(dao_pinned_place(player->device), player->pieces[i]); /* ours, as what follows */
        }
    }
    dao_plan_replay_file_finish(&player->file);
    if (player->staging != NULL) {
        (void)dao_free(dao_pinned_place(player->device), player->staging);
    }
    if (player->host != NULL) {
        (void)dao_free(dao_pinned_place(player->device), player->host);
    }
    if (player->arena != NULL) {
        (void)dao_free(dao_device_place(player->device), player->arena);
    }
    if (player->runtime != NULL) {
        dao_runtime_release(player->runtime);
    }
}

uint64_t dao_player_stream_bytes(const dao_swap_schedule_t *schedule, dao_swap_stream_t stream)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < schedule->copy_count[stream]; i++) {
        bytes += schedule->copies[stream][i].size_bytes;
    }
    return bytes;
}
