/* SPDX-License-Identifier: Apache-2.0 */
/* A line a model, and a line a figure and place. Files are those of the folder of data; docs/lifetimes.md
   says what they are. */
#include "bench/plan/bench_replay.h"

#define STEP(name, b) "torch-steps/" name "/" name "." b ".events.csv"
#define OWN_STEP      "examples/traces/mobilenet_v2/mobilenet_v2.4.events.csv"

#define PAGES .place = "device:0"

/* The file's own steps: two or three requests more at the front, or other sizes. */
#define ALIKE(...)                                                                                           \
    {                                                                                                        \
        .figure = "served", .steps = DAO_REPLAY_STEPS_RECORDED, .leaves_out_differing = true,                \
        .first_step = 2, .served_least = 0.995, .total_ratio_most = 1.002, __VA_ARGS__                       \
    }
#define DIFFER(...)                                                                                          \
    {                                                                                                        \
        .figure = "served", .steps = DAO_REPLAY_STEPS_RECORDED, .leaves_out_alike = true, .first_step = 2,   \
        .served_least = 0.95, .total_ratio_most = 1.10, __VA_ARGS__                                          \
    }
#define EQUAL(...)                                                                                           \
    {                                                                                                        \
        .figure = "served", .steps = DAO_REPLAY_STEPS_EQUAL, .first_step = 2, .served_least = 0.995,         \
        .total_ratio_most = 1.002, __VA_ARGS__                                                               \
    }
#define DEVIATING(...)                                                                                       \
    {                                                                                                        \
        .figure = "deviating", .steps = DAO_REPLAY_STEPS_DEVIATING, .first_step = 2,                         \
        .reserved_ratio_most = 1.12, .served_mean_least = 0.85, .reserved_mean_most = 1.02, __VA_ARGS__      \
    }
/* Each of four shapes has come and is learnt by then. */
#define SHAPES(...)                                                                                          \
    {                                                                                                        \
        .figure = "shapes", .steps = DAO_REPLAY_STEPS_SHAPES, .first_step = 12, .served_mean_least = 0.95,   \
        __VA_ARGS__                                                                                          \
    }

const dao_replay_model_t dao_replay_models[] = {
    {.file = STEP("gpt2_small", "1")},
    {.file = STEP("lstm", "8")},
    {.file = STEP("mobilenet_v2", "4"), .stand_in = OWN_STEP},
    {.file = STEP("moe", "8"), .differs = true},
    {.file = STEP("resnet50", "8")},
};

const size_t dao_replay_model_count = sizeof(dao_replay_models) / sizeof(dao_replay_models[0]);

const dao_replay_goal_t dao_replay_goals[] = {
    ALIKE(.place = "cpu"),  ALIKE(PAGES),  DIFFER(.place = "cpu"),    DIFFER(PAGES),
    EQUAL(.place = "cpu"),  EQUAL(PAGES),  DEVIATING(.place = "cpu"), DEVIATING(PAGES),
    SHAPES(.place = "cpu"), SHAPES(PAGES),
};

const size_t dao_replay_goal_count = sizeof(dao_replay_goals) / sizeof(dao_replay_goals[0]);
