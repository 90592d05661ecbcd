/* SPDX-License-Identifier: Apache-2.0 */
/* A network whose training steps an executor learns, for suites of plans: every operand of every kernel is
   checked, in virtual time as well as on threads. */
#ifndef DAO_TESTS_PLANNED_NETWORK_H
#define DAO_TESTS_PLANNED_NETWORK_H

#include "backends/sim/sim.h"
#include "runtime/executor/executor_internal.h"
#include "tests/support/program.h"

#include <dao/dao.h>

/* Suites are built once more with tensors that plans have in pages of 4 KiB. */
#ifndef DAO_TEST_UNIT
#define DAO_TEST_UNIT 4096
#endif
#define IN_PAGES (DAO_TEST_UNIT > 4096)

enum {
    LAYERS = 6,
    UNIT = DAO_TEST_UNIT, /* of sizes */
    STEPS = 10,
    KERNEL_NS = 20000 * (UNIT / 4096),
    LINK_BYTES_PER_S = 1000000000,
    PATIENCE = 3000, /* steps that are run at most until a plan is there */
};

/* A network: weights stay, activations are made anew in every step. */
typedef struct network {
    uint32_t weights[LAYERS];
    uint32_t activations[LAYERS + 1]; /* the first one is the input */
    uint32_t gradients[LAYERS + 1];
} network_t;

/* How a step differs from the usual one. */
typedef struct variation {
    uint32_t kernel_left_out; /* of the forward pass, from 1 */
    uint32_t kernels_swapped; /* names of this forward kernel and the next, from 1 */
    uint32_t layer_count;     /* 0: all */
    bool keeps_activations;   /* they are released after the step */
    bool reads_in_between;    /* on the host */
    uint32_t update_stream;   /* compute stream of the updates */
} variation_t;

extern dao_executor_t *executor;
extern program_t program;
extern network_t network;
extern uint64_t kernel_ns;
extern bool gives_stream; /* compute stream 0 is one that the program has made */
extern bool keeps_plans;  /* tests that are about plans follow also slow ones */

extern const variation_t usual;

enum { OTHER_COUNT = 6 };
extern const variation_t others[OTHER_COUNT];

/* Less than everything, more than any kernel: activations, weights and gradients of a few layers. */
extern const dao_executor_config_t tight;

/* The same with little host memory and a file behind it. */
dao_executor_config_t tight_with_file(size_t host_bytes);

dao_executor_stats_t stats_now(void);

/* A tensor of the program; its number. */
uint32_t tensor(size_t size_bytes);

/* Runs a training step, and a boundary behind it. The first error ends it; everything is released even so. */
dao_status_t run_network(const variation_t *variation);

/* Describes such a step in a command list and has it planned; nothing of it runs, and no temporary is left.
   What dao_command_list_plan() answers. */
dao_status_t plan_network(const variation_t *variation, uint64_t work_limit);

/* The same, that has to succeed. */
void run_well(const variation_t *variation);
void run_usual(int count);

/* Runs steps until `count` more of them have followed a plan. */
void run_until_planned(const variation_t *variation, uint64_t count);

/* Starts the library and an executor, which has a thread of its own unless it is still, with the network. */
void begin(const dao_backend_ops_t *ops, bool is_still, const dao_executor_config_t *config);
void begin_on_half_duplex(const dao_executor_config_t *config);

/* Nothing is lost, and nothing is held once the tensors are released. */
void end(void);

#endif
