/* SPDX-License-Identifier: Apache-2.0 */
/* HeuristicAllocator's calc_swap2.py (github.com/qipengwang/HeuristicAllocator), line by line where that
   decides a figure: which tensors go and when, what the pool is asked for and in which order, which times are
   added up and which are not. */
#include "tools/simulate/swap_maps.h"

#include "base/numbers/math.h"
#include "tools/base/grow.h"
#include "tools/plan/tree_pool.h"

#include <inttypes.h>

/* A tensor that an operator moves: out in the forward pass, in in the backward pass. */
typedef struct script_move {
    uint32_t tensor;
    uint32_t next; /* of the same operator; DAO_TRACE_NONE ends */
    uint64_t copy_ns;
    uint64_t end_ns; /* async */
} script_move_t;

typedef struct script {
    const dao_step_trace_t *trace;
    const dao_swap_maps_config_t *config;
    dao_tree_pool_t pool;
    uint32_t *tensor_nodes, *temporary_nodes; /* in the pool */
    script_move_t *moves;
    size_t move_count;
    uint32_t *first_moves, *last_moves; /* of each operator */
    uint64_t *swap_ns;  /* of each operator's moves; one more operator than there are, which has none */
    uint32_t first_out; /* async: of the queue of moves out, in the order of operators */
    uint64_t now_ns, swap_end_ns;
    dao_swap_maps_result_t *result;
} script_t;

/* ---- the plan: every map that is left at the threshold ---- */

static void add_move(script_t *script, uint32_t index, uint32_t tensor, bool is_in)
{
    /* rounded down, as the script does, not as dao_transfer_ns() */
    __extension__ typedef unsigned __int128 wide_t;
    const dao_swap_maps_config_t *config = script->config;
    uint64_t rate = is_in ? config->in_bytes_per_second : config->out_bytes_per_second;
    uint64_t size_bytes = script->trace->tensors[tensor].size_bytes;
    uint32_t move = (uint32_t)script->move_count++;
    script->moves[move] =
        (script_move_t){.tensor = tensor,
                        .next = DAO_TRACE_NONE,
                        .copy_ns = config->latency_ns + (uint64_t)((wide_t)size_bytes * DAO_NS_PER_S / rate)};
    if (script->first_moves[index] == DAO_TRACE_NONE) {
        script->first_moves[index] = move;
    } else {
        script->moves[script->last_moves[index]].next = move;
    }
    script->last_moves[index] = move;
    script->swap_ns[index] += script->moves[move].copy_ns;
    *(is_in ? &script->result->in_bytes : &script->result->out_bytes) += size_bytes;
}

static void mark_maps(const script_t *script, uint8_t *is_map)
{
    const dao_step_trace_t *trace = script->trace;
    for (uint32_t i = 0; i < script->config->threshold; i++) {
        const dao_trace_operator_t *op = &trace->operators[i];
        for (size_t k = 0; k < op->operands.count; k++) {
            uint32_t tensor = trace->operands[op->operands.begin + k].tensor;
            is_map[tensor] |= trace->tensors[tensor].producer == i;
        }
        for (size_t k = 0; k < op->releases.count; k++) {
            is_map[trace->releases[op->releases.begin + k]] = 0;
        }
    }
    for (size_t i = 0; i < trace->tensor_count; i++) {
        script->result->map_count += is_map[i];
        script->result->map_bytes += is_map[i] ? trace->tensors[i].size_bytes : 0;
    }
}

/* Out after the last forward operator that names a map, in before the first backward one that reads it. */
static void plan_moves(script_t *script, uint8_t *is_map)
{
    const dao_step_trace_t *trace = script->trace;
    enum { IS_MAP = 1, IS_OUT = 2 };
    for (uint32_t i = script->config->threshold; i > 0; i--) {
        const dao_trace_operator_t *op = &trace->operators[i - 1];
        for (size_t k = 0; k < op->operands.count; k++) {
            uint32_t tensor = trace->operands[op->operands.begin + k].tensor;
            if (is_map[tensor] == IS_MAP) {
                is_map[tensor] |= IS_OUT;
                add_move(script, i - 1, tensor, false);
            }
        }
    }
    for (uint32_t i = script->config->threshold; i < trace->operator_count; i++) {
        const dao_trace_operator_t *op = &trace->operators[i];
        for (size_t k = 0; k < op->operands.count; k++) {
            const dao_trace_operand_t *operand = &trace->operands[op->operands.begin + k];
            if ((is_map[operand->tensor] & IS_OUT) != 0 && operand->access != DAO_ACCESS_WRITE) {
                is_map[operand->tensor] = 0;
                add_move(script, i, operand->tensor, true);
            }
        }
    }
}

/* ---- the pool ---- */

static dao_status_t take_tensor(script_t *script, uint32_t tensor)
{
    return dao_tree_pool_alloc(&script->pool, script->trace->tensors[tensor].size_bytes,
                               &script->tensor_nodes[tensor]);
}

static dao_status_t give_tensor(script_t *script, uint32_t tensor)
{
    uint32_t node = script->tensor_nodes[tensor];
    if (node == DAO_TREE_NODE_NONE) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "the scripts cannot run this step: tensor %.32s is given back twice",
                         dao_trace_tensor_id(script->trace, tensor));
    }
    script->tensor_nodes[tensor] = DAO_TREE_NODE_NONE;
    dao_tree_pool_free(&script->pool, node);
    return DAO_OK;
}

/* Outputs, temporaries, the operator itself, temporaries that are freed, releases. */
static dao_status_t run_operator(script_t *script, uint32_t index)
{
    const dao_step_trace_t *trace = script->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    dao_status_t status = DAO_OK;
    for (size_t i = 0; status == DAO_OK && i < op->operands.count; i++) {
        uint32_t tensor = trace->operands[op->operands.begin + i].tensor;
        status = trace->tensors[tensor].producer == index ? take_tensor(script, tensor) : DAO_OK;
    }
    for (int is_alloc = 1; is_alloc >= 0; is_alloc--) {
        for (size_t i = 0; status == DAO_OK && i < op->events.count; i++) {
            const dao_trace_event_t *event = &trace->events[op->events.begin + i];
            size_t temporary = op->temporaries.begin + event->temporary;
            if (event->is_alloc && is_alloc) {
                status = dao_tree_pool_alloc(&script->pool, trace->temporaries[temporary].size_bytes,
                                             &script->temporary_nodes[temporary]);
            } else if (!event->is_alloc && !is_alloc) {
                dao_tree_pool_free(&script->pool, script->temporary_nodes[temporary]);
            }
        }
    }
    for (size_t i = 0; status == DAO_OK && i < op->releases.count; i++) {
        status = give_tensor(script, trace->releases[op->releases.begin + i]);
    }
    return status;
}

/* Gives back, or takes, what an operator moves. */
static dao_status_t run_moves(script_t *script, uint32_t index, bool is_in)
{
    dao_status_t status = DAO_OK;
    for (uint32_t move = script->first_moves[index]; status == DAO_OK && move != DAO_TRACE_NONE;
         move = script->moves[move].next) {
        uint32_t tensor = script->moves[move].tensor;
        status = is_in ? take_tensor(script, tensor) : give_tensor(script, tensor);
    }
    return status;
}

/* ---- the three schemes ---- */

static dao_status_t run_sync(script_t *script)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < script->trace->operator_count; i++) {
        bool is_backward = i >= script->config->threshold;
        script->now_ns += script->trace->operators[i].cost_ns + script->swap_ns[i];
        status = is_backward ? run_moves(script, i, true) : DAO_OK;
        status = status == DAO_OK ? run_operator(script, i) : status;
        status = status == DAO_OK && !is_backward ? run_moves(script, i, false) : status;
    }
    return status;
}

static dao_status_t run_half_sync(script_t *script)
{
    uint32_t threshold = script->config->threshold;
    uint32_t count = (uint32_t)script->trace->operator_count;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < threshold; i++) {
        status = run_operator(script, i);
        script->now_ns += dao_larger(script->trace->operators[i].cost_ns, i > 0 ? script->swap_ns[i - 1] : 0);
        status = status == DAO_OK && i > 0 ? run_moves(script, i - 1, false) : status;
    }
    script->now_ns += (threshold > 0 ? script->swap_ns[threshold - 1] : 0) + script->swap_ns[threshold];
    if (status == DAO_OK && threshold > 0) {
        status = run_moves(script, threshold - 1, false);
    }
    status = status == DAO_OK ? run_moves(script, threshold, true) : status;
    for (uint32_t i = threshold; status == DAO_OK && i < count; i++) {
        script->now_ns += dao_larger(script->trace->operators[i].cost_ns, script->swap_ns[i + 1]);
        status = run_moves(script, i + 1, true);
        status = status == DAO_OK ? run_operator(script, i) : status;
    }
    return status;
}

/* Gives back what is out by `time_ns`, of the moves of operators before `end`. */
static dao_status_t give_ended(script_t *script, uint32_t end, uint64_t time_ns)
{
    for (; script->first_out < end; script->first_out++) {
        uint32_t *first = &script->first_moves[script->first_out];
        while (*first != DAO_TRACE_NONE) {
            const script_move_t *move = &script->moves[*first];
            if (move->end_ns > time_ns) {
                return DAO_OK;
            }
            dao_status_t status = give_tensor(script, move->tensor);
            if (status != DAO_OK) {
                return status;
            }
            *first = move->next;
        }
    }
    return DAO_OK;
}

static dao_status_t run_async_forward(script_t *script)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < script->config->threshold; i++) {
        status = run_operator(script, i);
        script->now_ns += script->trace->operators[i].cost_ns;
        status = status == DAO_OK ? give_ended(script, i, script->now_ns) : status;
        script->swap_end_ns = dao_larger(script->swap_end_ns, script->now_ns);
        for (uint32_t move = script->first_moves[i]; move != DAO_TRACE_NONE;
             move = script->moves[move].next) {
            script->swap_end_ns += script->moves[move].copy_ns;
            script->moves[move].end_ns = script->swap_end_ns;
        }
    }
    return status == DAO_OK ? give_ended(script, script->config->threshold, UINT64_MAX) : status;
}

static dao_status_t run_async(script_t *script)
{
    uint32_t count = (uint32_t)script->trace->operator_count;
    uint32_t next = script->config->threshold; /* whose maps come next */
    dao_status_t status = run_async_forward(script);
    script->swap_end_ns += script->swap_ns[next];
    status = status == DAO_OK ? run_moves(script, next, true) : status;
    next++;
    for (uint32_t i = script->config->threshold; status == DAO_OK && i < count; i++) {
        if (i + 1 == next) {
            script->now_ns = dao_larger(script->now_ns, script->swap_end_ns);
        }
        script->swap_end_ns = dao_larger(script->now_ns, script->swap_end_ns);
        while (status == DAO_OK && script->swap_end_ns <= script->now_ns && next < count) {
            script->swap_end_ns += script->swap_ns[next];
            status = run_moves(script, next++, true);
        }
        script->now_ns += script->trace->operators[i].cost_ns;
        while (status == DAO_OK && next < count &&
               script->swap_end_ns + script->swap_ns[next] <= script->now_ns) {
            script->swap_end_ns += script->swap_ns[next];
            status = run_moves(script, next++, true);
        }
        status = status == DAO_OK ? run_operator(script, i) : status;
    }
    return status;
}

/* ---- the step ---- */

static dao_status_t create(script_t *script, uint8_t **out_is_map)
{
    const dao_step_trace_t *trace = script->trace;
    size_t tensors = trace->tensor_count + 1;
    size_t operators = trace->operator_count + 1;
    script->tensor_nodes = dao_host_calloc(tensors, sizeof(uint32_t));
    script->temporary_nodes = dao_host_calloc(trace->temporary_count + 1, sizeof(uint32_t));
    script->moves = dao_host_calloc(2 * tensors, sizeof(script_move_t));
    script->first_moves = dao_host_calloc(operators, sizeof(uint32_t));
    script->last_moves = dao_host_calloc(operators, sizeof(uint32_t));
    script->swap_ns = dao_host_calloc(operators, sizeof(uint64_t));
    *out_is_map = dao_host_calloc(tensors, sizeof(uint8_t));
    if (script->tensor_nodes == NULL || script->temporary_nodes == NULL || script->moves == NULL ||
        script->first_moves == NULL || script->last_moves == NULL || script->swap_ns == NULL ||
        *out_is_map == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu operators", trace->operator_count);
    }
    for (size_t i = 0; i < tensors; i++) {
        script->tensor_nodes[i] = DAO_TREE_NODE_NONE;
    }
    for (size_t i = 0; i < operators; i++) {
        script->first_moves[i] = DAO_TRACE_NONE;
    }
    return DAO_OK;
}

static dao_status_t run(script_t *script)
{
    switch (script->config->mode) {
    case DAO_SWAP_MAPS_SYNC:
        return run_sync(script);
    case DAO_SWAP_MAPS_HALF_SYNC:
        return run_half_sync(script);
    case DAO_SWAP_MAPS_ASYNC:
        return run_async(script);
    }
    return dao_error(DAO_ERR_INVALID, "there is no such mode");
}

/* What is alive before the step has its memory first. */
static dao_status_t take_persistent(script_t *script)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < script->trace->tensor_count; i++) {
        status = script->trace->tensors[i].producer == DAO_TRACE_NONE ? take_tensor(script, i) : DAO_OK;
    }
    return status;
}

dao_status_t dao_swap_maps_by_script(const dao_step_trace_t *trace, const dao_swap_maps_config_t *config,
                                     dao_swap_maps_result_t *out_result)
{
    if (config->threshold >= trace->operator_count) {
        return dao_error(DAO_ERR_INVALID, "the forward pass cannot end at operator %" PRIu32 " of %zu",
                         config->threshold, trace->operator_count);
    }
    dao_swap_maps_result_t result = {.step_ns = 0};
    script_t script = {.trace = trace, .config = config, .result = &result};
    uint8_t *is_map = NULL;
    dao_tree_pool_init(&script.pool, DAO_TREE_POOL_PYTHON);
    dao_status_t status = create(&script, &is_map);
    if (status == DAO_OK) {
        mark_maps(&script, is_map);
        plan_moves(&script, is_map);
        status = take_persistent(&script);
    }
    status = status == DAO_OK ? run(&script) : status;
    for (size_t i = 0; i < trace->operator_count; i++) {
        result.compute_ns += trace->operators[i].cost_ns;
    }
    result.step_ns = script.now_ns;
    result.pool_bytes = script.pool.total_bytes;
    if (status == DAO_OK) {
        *out_result = result;
    }
    dao_tree_pool_finish(&script.pool);
    dao_host_free(script.tensor_nodes);
    dao_host_free(script.temporary_nodes);
    dao_host_free(script.moves);
    dao_host_free(script.first_moves);
    dao_host_free(script.last_moves);
    dao_host_free(script.swap_ns);
    dao_host_free(is_map);
    return status;
}
