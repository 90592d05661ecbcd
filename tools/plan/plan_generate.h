/* SPDX-License-Identifier: Apache-2.0 */
/* Made steps of any size, to see how planners scale. Times are numbers of operations; sizes
   are rounded up to 256 bytes; the head of plan_generate.c describes each kind. */
#ifndef DAO_TOOLS_PLAN_GENERATE_H
#define DAO_TOOLS_PLAN_GENERATE_H

#include "tools/model/plan_input.h"

/* A kind, and what it is. */
#define DAO_PLAN_KIND_LIST(X)                                                                                \
    X(TF, "tf", "a transformer is trained, one micro-batch after the other")                                 \
    X(PP, "pp", "the same in a pipeline, up to eight micro-batches of different lengths in flight")          \
    X(REC, "rec", "a recommendation model: many short chains, eight workers")                                \
    X(RND, "rnd", "random lives and sizes")                                                                  \
    X(CUT, "cut", "a square cut into buffers: a plan without any hole exists, and is hard to find")

typedef enum dao_plan_kind {
#define DAO_PLAN_KIND_ENUMERATOR(name, text, about) DAO_PLAN_KIND_##name,
    DAO_PLAN_KIND_LIST(DAO_PLAN_KIND_ENUMERATOR)
#undef DAO_PLAN_KIND_ENUMERATOR
        DAO_PLAN_KIND_COUNT,
} dao_plan_kind_t;

enum { DAO_PLAN_GENERATE_COUNT_MIN = 16, DAO_PLAN_GENERATE_COUNT_MAX = 1 << 27 };

typedef struct dao_plan_generate_config {
    dao_plan_kind_t kind;
    uint64_t buffer_count; /* about so many, DAO_PLAN_GENERATE_COUNT_MIN to .._MAX */
    uint64_t seed;
} dao_plan_generate_config_t;

/* Reads "KIND:COUNT" or "KIND:COUNT:SEED"; the seed is 1 unless it is said. DAO_ERR_INVALID with a
   message. */
DAO_NODISCARD dao_status_t dao_plan_generate_parse(const char *text, dao_plan_generate_config_t *out_config);

/* Makes the lifetimes; equal settings make equal ones. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_generate(const dao_plan_generate_config_t *config,
                                             dao_plan_input_t *out_lifetimes);

#endif
