#include "tools/play_plan.h"

#include "base/error.h"

#include <dao/dao.h>

static uint64_t at_least_one(uint64_t size_bytes)
{
    return size_bytes > 0 ? size_bytes : 1;
}

/* Memory of the device and of the host. */
static dao_status_t take_memory(dao_player_t *player, const dao_swap_schedule_t *schedule)
{
    uint64_t staging_bytes = 0;
    for (uint32_t i = 0; i < schedule->resident_count; i++) {
        uint64_t size_bytes = schedule->residents[i].size_bytes;
        staging_bytes = size_bytes > staging_bytes ? size_bytes : staging_bytes;
    }
    player->arena = dao_alloc(dao_device_place(0), at_least_one(schedule->arena_bytes));
    if (player->arena != NULL) {
        player->host = dao_alloc(dao_pinned_place(0), at_least_one(schedule->host_bytes));
    }
    if (player->host != NULL) {
        player->staging = dao_alloc(dao_pinned_place(0), at_least_one(staging_bytes));
    }
    return player->staging != NULL ? DAO_OK : dao_last_status();
}

dao_status_t dao_player_create(dao_player_t *player, const dao_swap_problem_t *problem,
                               const dao_swap_schedule_t *schedule, dao_replay_launch_t launch,
                               dao_replay_watch_t watch, void *user)
{
    dao_backend_stream_t *streams[DAO_STREAM_ROLE_COUNT];
    *player = (dao_player_t){.runtime = NULL};
    dao_status_t status = dao_runtime_acquire(0, &player->runtime);
    for (int i = 0; status == DAO_OK && i < DAO_STREAM_ROLE_COUNT; i++) {
        status = dao_stream_create(0, &player->streams[i]);
        streams[i] = status == DAO_OK ? player->streams[i]->backend : NULL;
    }
    status = status == DAO_OK ? take_memory(player, schedule) : status;
    if (status != DAO_OK) {
        return status;
    }
    dao_timeline_init(&player->timeline, player->runtime->ops, player->runtime->device, streams);
    player->has_timeline = true;
    dao_replay_config_t config = {.timeline = &player->timeline,
                                  .problem = problem,
                                  .schedule = schedule,
                                  .device_address = player->arena,
                                  .host_address = player->host,
                                  .launch = launch,
                                  .watch = watch,
                                  .user = user};
    return dao_replay_init(&player->replay, &config);
}

void dao_player_finish(dao_player_t *player)
{
    if (player->has_timeline) {
        dao_status_t status = dao_timeline_wait_all(&player->timeline);
        (void)status; /* what it could say has been said */
        dao_replay_finish(&player->replay);
        dao_timeline_finish(&player->timeline);
    }
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        dao_stream_destroy(player->streams[i]);
    }
    if (player->staging != NULL) {
        (void)dao_free(dao_pinned_place(0), player->staging); /* ours, as the others */
    }
    if (player->host != NULL) {
        (void)dao_free(dao_pinned_place(0), player->host);
    }
    if (player->arena != NULL) {
        (void)dao_free(dao_device_place(0), player->arena);
    }
    if (player->runtime != NULL) {
        dao_runtime_release(player->runtime);
    }
}
