/* Ways to run a step in limited memory, under the names that the command line has for them. */
#ifndef DAO_TOOLS_SCHEME_H
#define DAO_TOOLS_SCHEME_H

#include "tools/swap_maps.h"

/* What a scheme is asked to run. */
typedef struct dao_scheme_input {
    const dao_swap_problem_t *problem; /* with its capacity and link */
    const dao_step_trace_t *trace;     /* that it was made of */
    uint32_t threshold;                /* last operator of the forward pass; DAO_TRACE_NONE: to be found */
    bool moves_all; /* schemes that move feature maps: all of them, whatever the capacity */
    uint32_t step_count;
    uint32_t window_kernels; /* 0: the scheme's own */
} dao_scheme_input_t;

/* What it takes. */
typedef struct dao_scheme_run {
    uint64_t capacity_bytes; /* that it was given, or that it reaches if it takes none */
    uint64_t plan_ns;        /* of the host, to plan before the first step; 0: it decides as it goes */
    dao_simulation_t simulation;
} dao_scheme_run_t;

typedef struct dao_scheme {
    const char *name;
    const char *meaning;
    int choice; /* a dao_policy_t, or a dao_swap_maps_mode_t */
    dao_status_t (*run)(const struct dao_scheme *scheme, const dao_scheme_input_t *input,
                        dao_scheme_run_t *out_run);
} dao_scheme_t;

/* All schemes; a name of NULL closes the table. */
extern const dao_scheme_t dao_schemes[];

/* DAO_ERR_INVALID with a message that lists all names. */
DAO_NODISCARD dao_status_t dao_scheme_find(const char *name, const dao_scheme_t **out_scheme);

#endif
