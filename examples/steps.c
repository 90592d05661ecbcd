/* SPDX-License-Identifier: Apache-2.0 */
/* Steps with a plan: the first one is recorded, the buffers of the next ones get planned addresses. */
#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>

#define LAYER_COUNT 12

static int fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s: %s\n", what, dao_status_name(dao_last_status()), dao_last_message());
    return 1;
}

/* A training step in outline: activations that are kept for the way back, and buffers that are needed for a
   moment. */
static dao_status_t train_step(dao_device_place_t device)
{
    void *activations[LAYER_COUNT];
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < LAYER_COUNT; i++) {
        activations[i] = dao_alloc(device, (i + 1) << 20);
        void *workspace = dao_alloc(device, (size_t)5 << 20);
        if (activations[i] == NULL || workspace == NULL) {
            return dao_last_status();
        }
        status = dao_free(device, workspace);
    }
    for (size_t i = LAYER_COUNT; i-- > 0 && status == DAO_OK;) {
        void *gradient = dao_alloc(device, (i + 1) << 20);
        status = gradient != NULL ? dao_free(device, activations[i]) : dao_last_status();
        if (status == DAO_OK) {
            status = dao_free(device, gradient);
        }
    }
    return status;
}

int main(void)
{
    dao_device_place_t device = dao_device_place(0);
    dao_place_config_t config = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}};
    if (dao_place_configure(device, &config) != DAO_OK) { /* before the place is first used */
        return fail("configure");
    }
    for (int i = 0; i < 3; i++) { /* the first step is recorded, the next ones are planned */
        if (dao_step_begin(device) != DAO_OK || train_step(device) != DAO_OK ||
            dao_step_end(device) != DAO_OK) {
            return fail("step");
        }
        dao_step_plan_stats_t stats;
        if (dao_step_plan_stats_get(device, &stats) != DAO_OK) {
            return fail("stats");
        }
        (void)printf("step %d: %" PRIu64 " of %" PRIu64 " requests served, %" PRIu64 " bytes for %" PRIu64
                     " that lived at a time\n",
                     i + 1, stats.latest.hit_count, stats.latest.request_count, stats.total_bytes,
                     stats.bound_bytes);
    }
    return dao_finalize() == DAO_OK ? 0 : fail("finalize");
}
