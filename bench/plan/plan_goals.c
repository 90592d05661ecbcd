/* SPDX-License-Identifier: Apache-2.0 */
/* A line a figure. Files are those of the folder of data; docs/planning.md says where they come from.
   MiniMalloc's times were taken with its commit 9f5cf81, built by gcc 12 -O3, at the capacity in the files'
   names. */
#include "bench/plan/bench_plan.h"

#define HARD(name)    "minimalloc/" name ".1048576.csv"
#define STEP(name, b) "torch-steps/" name "/" name "." b ".events.csv"
#define OWN_STEP      "examples/traces/mobilenet_v2/mobilenet_v2.4.events.csv"

/* Published with four decimals. */
#define ROUNDING 0.00005

#define OPTIMAL(name, stand)                                                                                 \
    {                                                                                                        \
        .figure = "hard", .file = HARD(name), .stand_in = stand, .method = "best", .budget_s = 60,           \
        .ratio_most = 1, .most_s = 60, .needs_proof = true                                                   \
    }
#define OPEN(name, peak)                                                                                     \
    {                                                                                                        \
        .figure = "open", .file = HARD(name), .method = "best", .budget_s = 60, .peak_most_bytes = peak      \
    }
#define FITS(name, seconds)                                                                                  \
    {                                                                                                        \
        .figure = "capacity", .file = HARD(name), .method = "search", .capacity_bytes = 1048576,             \
        .budget_s = 60, .peak_most_bytes = 1048576, .peer_s = seconds                                        \
    }
#define RECORDED(step, stand)                                                                                \
    {                                                                                                        \
        .figure = "recorded", .file = step, .stand_in = stand, .method = "best", .budget_s = 60,             \
        .ratio_most = 1, .most_s = 1, .most_us_each = 10                                                     \
    }
#define PUBLIC(csv, ratio)                                                                                   \
    {                                                                                                        \
        .figure = "public", .file = "idealloc/" csv, .method = "best", .budget_s = 10,                       \
        .ratio_most = (ratio) + ROUNDING                                                                     \
    }
#define SYNTHETIC(kind, ratio)                                                                               \
    {                                                                                                        \
        .figure = "synthetic", .file = "plan-synthetic/" kind ".20000.s1.csv.gz",                            \
        .stand_in = kind ":20000:1", .method = "best", .budget_s = 10, .ratio_most = ratio                   \
    }
#define MILLION(kind, ratio)                                                                                 \
    {                                                                                                        \
        .figure = "million", .stand_in = kind ":1000000:1", .method = "best", .budget_s = 10,                \
        .ratio_most = (ratio) + 10 * ROUNDING, .first_ratio_most = 1.14, .first_most_s = 0.5,                \
        .bytes_most = 150, .look_most_ms = 1                                                                 \
    }

#define BINS(step, stand)                                                                                    \
    {                                                                                                        \
        .figure = "bins", .file = step, .stand_in = stand, .method = "best", .rival = "bins",                \
        .budget_s = 10, .ratio_most = 0.87                                                                   \
    }

const dao_plan_goal_t dao_plan_goals[] = {
    OPTIMAL("A", "cut:60:1"),
    OPTIMAL("B", "cut:60:2"),
    OPTIMAL("E", "cut:100:3"),
    OPTIMAL("G", NULL),
    OPTIMAL("H", NULL),
    OPEN("D", 1018880),
    OPEN("J", 1029120),
    FITS("A", 3.524),
    FITS("B", 2.594),
    FITS("D", 1.894),
    FITS("E", 2.447),
    FITS("G", 0.777),
    FITS("H", 1.215),
    FITS("J", 0.636),
    RECORDED(STEP("gpt2_small", "1"), NULL),
    RECORDED(STEP("lstm", "8"), NULL),
    RECORDED(STEP("mobilenet_v2", "4"), OWN_STEP),
    RECORDED(STEP("moe", "8"), NULL),
    RECORDED(STEP("resnet50", "8"), NULL),
    PUBLIC("somas_resnet50.csv", 1),
    PUBLIC("iopddl_G_1.csv", 1),
    PUBLIC("iopddl_S_1.csv.gz", 1.0013),
    SYNTHETIC("tf", 1),
    SYNTHETIC("rec", 1),
    SYNTHETIC("pp", 1.0037 + ROUNDING),
    SYNTHETIC("rnd", 1 + ROUNDING),
    MILLION("tf", 1),
    MILLION("rec", 1),
    MILLION("pp", 1.010),
    MILLION("rnd", 1.005),
    BINS(STEP("gpt2_small", "1"), NULL),
    BINS(STEP("lstm", "8"), NULL),
    BINS(STEP("mobilenet_v2", "4"), OWN_STEP),
    BINS(STEP("moe", "8"), NULL),
    BINS(STEP("resnet50", "8"), NULL),
};

const size_t dao_plan_goal_count = sizeof(dao_plan_goals) / sizeof(dao_plan_goals[0]);
