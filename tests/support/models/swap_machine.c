/* SPDX-License-Identifier: Apache-2.0 */
/* Each byte of an arena has a tag: which byte of which tensor, and which kernel wrote it. Things start and
   end at random moments, so that whatever two fences leave open happens in either order; between its start
   and its end a thing holds the bytes that it reads and writes. */
#include "tests/support/models/swap_machine.h"

#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE, HOST, FILES, ARENA_COUNT };

typedef struct cell {
    uint32_t tensor; /* UINT32_MAX: nothing of use */
    uint64_t offset;
    uint64_t version; /* kernels over all steps up to its writer; 0: before the first step */
    uint16_t readers; /* running */
    bool has_writer;  /* running */
} cell_t;

typedef struct machine {
    const dao_swap_problem_t *problem;
    const dao_swap_schedule_t *schedule;
    uint32_t step_count;
    uint32_t first_use[256]; /* of each kernel */
    uint32_t counts[DAO_SWAP_STREAM_COUNT];
    uint64_t started[DAO_SWAP_STREAM_COUNT], done[DAO_SWAP_STREAM_COUNT];
    cell_t *arenas[ARENA_COUNT];
    uint64_t sizes[ARENA_COUNT];
    uint64_t versions[256]; /* of each tensor */
    bool failed;
} machine_t;

static void fail(machine_t *machine, const char *what, uint32_t stream, uint64_t index)
{
    if (!machine->failed) {
        printf("stream %u, thing %" PRIu64 ": %s\n", stream, index, what);
    }
    machine->failed = true;
}

/* The cell of an address: of the device's addresses those behind paged_begin are mapped page by page. NULL:
   it is outside of its arena. */
static cell_t *cell_at(const machine_t *machine, int arena, uint64_t address)
{
    const dao_swap_schedule_t *schedule = machine->schedule;
    if (arena == DEVICE && schedule->page_bytes != 0 && address >= schedule->paged_begin) {
        uint64_t page = (address - schedule->paged_begin) / schedule->page_bytes;
        address = page < schedule->page_count
                      ? schedule->pages[page] * schedule->page_bytes + address % schedule->page_bytes
                      : UINT64_MAX;
    }
    return address < machine->sizes[arena] ? &machine->arenas[arena][address] : NULL;
}

/* Takes or gives back the bytes that a thing reads or writes. */
static void hold(machine_t *machine, uint32_t stream, int arena, uint64_t begin, uint64_t size, bool writes,
                 bool takes)
{
    uint64_t index = machine->started[stream];
    for (uint64_t i = begin; i < begin + size; i++) {
        cell_t *cell = cell_at(machine, arena, i);
        if (cell == NULL) {
            fail(machine, "outside of its arena", stream, index);
            return;
        }
        if (takes && (cell->has_writer || (writes && cell->readers > 0))) {
            fail(machine, "accesses bytes that another one is using", stream, index);
        }
        if (writes) {
            cell->has_writer = takes;
        } else {
            cell->readers = (uint16_t)(takes ? cell->readers + 1 : cell->readers - 1);
        }
    }
}

static bool reads(dao_access_t access)
{
    return access != DAO_ACCESS_WRITE;
}

/* Returns true if an earlier use of the kernel names the same tensor; joins the accesses of all uses. */
static bool is_repeated(const dao_swap_kernel_t *kernel, uint32_t use, bool *out_reads, bool *out_writes)
{
    *out_reads = *out_writes = false;
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        if (kernel->uses[i].tensor == kernel->uses[use].tensor) {
            if (i < use) {
                return true;
            }
            *out_reads = *out_reads || reads(kernel->uses[i].access);
            *out_writes = *out_writes || kernel->uses[i].access != DAO_ACCESS_READ;
        }
    }
    return false;
}

static void hold_kernel(machine_t *machine, uint32_t k, bool takes)
{
    const dao_swap_kernel_t *kernel = &machine->problem->kernels[k];
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        bool is_read, is_written;
        if (is_repeated(kernel, u, &is_read, &is_written)) {
            continue;
        }
        hold(machine, DAO_SWAP_STREAM_COMPUTE, DEVICE,
             machine->schedule->use_address[machine->first_use[k] + u],
             machine->problem->tensors[kernel->uses[u].tensor].size_bytes, is_written, takes);
    }
    hold(machine, DAO_SWAP_STREAM_COMPUTE, DEVICE, machine->schedule->workspace_address[k],
         kernel->workspace_bytes, true, takes);
}

static void check_reads(machine_t *machine, uint32_t k)
{
    const dao_swap_kernel_t *kernel = &machine->problem->kernels[k];
    for (uint32_t u = 0; u < kernel->use_count && !machine->failed; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        uint64_t address = machine->schedule->use_address[machine->first_use[k] + u];
        for (uint64_t i = 0;
             reads(kernel->uses[u].access) && i < machine->problem->tensors[tensor].size_bytes; i++) {
            const cell_t *cell = cell_at(machine, DEVICE, address + i);
            if (cell->tensor != tensor || cell->offset != i || cell->version != machine->versions[tensor]) {
                fail(machine, "reads other bytes than it should", DAO_SWAP_STREAM_COMPUTE, k);
                return;
            }
        }
    }
}

static void write_cells(machine_t *machine, int arena, uint64_t begin, uint32_t tensor, uint64_t offset,
                        uint64_t size)
{
    for (uint64_t i = 0; i < size; i++) {
        cell_t *cell = cell_at(machine, arena, begin + i);
        cell->tensor = tensor;
        cell->offset = offset + i;
        cell->version = tensor != UINT32_MAX ? machine->versions[tensor] : 0;
    }
}

static void end_kernel(machine_t *machine, uint32_t k)
{
    const dao_swap_kernel_t *kernel = &machine->problem->kernels[k];
    write_cells(machine, DEVICE, machine->schedule->workspace_address[k], UINT32_MAX, 0,
                kernel->workspace_bytes);
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        if (kernel->uses[u].access != DAO_ACCESS_READ) {
            machine->versions[tensor] = machine->done[DAO_SWAP_STREAM_COMPUTE] + 1;
            write_cells(machine, DEVICE, machine->schedule->use_address[machine->first_use[k] + u], tensor, 0,
                        machine->problem->tensors[tensor].size_bytes);
        }
    }
}

static void hold_copy(machine_t *machine, uint32_t stream, const dao_swap_copy_t *copy, bool takes)
{
    int tier = copy->is_file ? FILES : HOST;
    hold(machine, stream, DEVICE, copy->address_bytes, copy->size_bytes, copy->is_in, takes);
    hold(machine, stream, tier, copy->slot_bytes, copy->size_bytes, !copy->is_in, takes);
}

static void end_copy(machine_t *machine, const dao_swap_copy_t *copy)
{
    cell_t *slot = machine->arenas[copy->is_file ? FILES : HOST] + copy->slot_bytes;
    for (uint64_t i = 0; i < copy->size_bytes; i++) {
        cell_t *device = cell_at(machine, DEVICE, copy->address_bytes + i);
        cell_t *from = copy->is_in ? &slot[i] : device, *to = copy->is_in ? device : &slot[i];
        to->tensor = from->tensor;
        to->offset = from->offset;
        to->version = from->version;
    }
}

static bool may_start(const machine_t *machine, uint32_t stream)
{
    uint32_t count = machine->counts[stream];
    if (count == 0 || machine->started[stream] > machine->done[stream] ||
        machine->started[stream] == (uint64_t)count * machine->step_count) {
        return false;
    }
    uint64_t step = machine->started[stream] / count;
    uint32_t at = (uint32_t)(machine->started[stream] % count);
    const dao_swap_fence_t *fence = stream == DAO_SWAP_STREAM_COMPUTE
                                        ? &machine->schedule->kernel_after[at]
                                        : &machine->schedule->copies[stream][at].after;
    for (uint32_t i = 0; i < DAO_SWAP_STREAM_COUNT; i++) {
        int64_t needed = (int64_t)step * machine->counts[i] + fence->done[i];
        if (fence->done[i] != DAO_SWAP_NO_WAIT && needed > (int64_t)machine->done[i]) {
            return false;
        }
    }
    return true;
}

static void start(machine_t *machine, uint32_t stream)
{
    uint32_t at = (uint32_t)(machine->started[stream] % machine->counts[stream]);
    if (stream == DAO_SWAP_STREAM_COMPUTE) {
        hold_kernel(machine, at, true);
        if (!machine->failed) {
            check_reads(machine, at);
        }
    } else {
        hold_copy(machine, stream, &machine->schedule->copies[stream][at], true);
    }
    machine->started[stream]++;
}

static void end(machine_t *machine, uint32_t stream)
{
    uint32_t at = (uint32_t)(machine->done[stream] % machine->counts[stream]);
    if (stream == DAO_SWAP_STREAM_COMPUTE) {
        hold_kernel(machine, at, false);
        end_kernel(machine, at);
    } else {
        hold_copy(machine, stream, &machine->schedule->copies[stream][at], false);
        end_copy(machine, &machine->schedule->copies[stream][at]);
    }
    machine->done[stream]++;
}

/* Starts or ends something. False if nothing can happen any more. */
static bool act(machine_t *machine, uint64_t *random)
{
    uint32_t choices[2 * DAO_SWAP_STREAM_COUNT], count = 0;
    for (uint32_t stream = 0; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        if (machine->started[stream] > machine->done[stream]) {
            choices[count++] = stream + DAO_SWAP_STREAM_COUNT;
        } else if (may_start(machine, stream)) {
            choices[count++] = stream;
        }
    }
    if (count == 0) {
        return false;
    }
    uint32_t choice = choices[dao_random_next(random) % count];
    if (choice < DAO_SWAP_STREAM_COUNT) {
        start(machine, choice);
    } else {
        end(machine, choice - DAO_SWAP_STREAM_COUNT);
    }
    return true;
}

/* Returns true if a tensor's content lives on from one step to the next. */
static bool lives_on(const dao_swap_problem_t *problem, uint32_t tensor)
{
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        bool is_used = false, is_read = false;
        for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
            const dao_swap_use_t *use = &problem->kernels[k].uses[u];
            is_used = is_used || use->tensor == tensor;
            is_read = is_read || (use->tensor == tensor && reads(use->access));
        }
        if (is_used) {
            return is_read || problem->tensors[tensor].is_persistent;
        }
    }
    return false;
}

/* What the schedule's description asks for before the first step. */
static void prepare(machine_t *machine)
{
    const dao_swap_schedule_t *schedule = machine->schedule;
    for (uint32_t stream = 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        for (uint32_t i = 0; i < machine->counts[stream]; i++) {
            const dao_swap_copy_t *copy = &schedule->copies[stream][i];
            int tier = copy->is_file ? FILES : HOST;
            if (copy->slot_bytes + copy->size_bytes > machine->sizes[tier]) {
                fail(machine, "its slot is outside of its arena", stream, i);
            } else if (copy->is_in && lives_on(machine->problem, copy->tensor)) {
                write_cells(machine, tier, copy->slot_bytes, copy->tensor, copy->offset_bytes,
                            copy->size_bytes);
            }
        }
    }
    for (uint32_t i = 0; i < schedule->resident_count; i++) {
        const dao_swap_resident_t *one = &schedule->residents[i];
        if (cell_at(machine, DEVICE, one->address_bytes + one->size_bytes - 1) == NULL) {
            fail(machine, "resident outside of the arena", 0, i);
        } else if (lives_on(machine->problem, one->tensor)) {
            write_cells(machine, DEVICE, one->address_bytes, one->tensor, one->offset_bytes, one->size_bytes);
        }
    }
}

bool swap_machine_run(const dao_swap_problem_t *problem, const dao_swap_schedule_t *schedule,
                      uint32_t step_count, uint64_t *random)
{
    machine_t machine = {.problem = problem, .schedule = schedule, .step_count = step_count};
    const uint64_t sizes[ARENA_COUNT] = {schedule->arena_bytes, schedule->host_bytes, schedule->file_bytes};
    for (int i = 0; i < ARENA_COUNT; i++) {
        machine.sizes[i] = sizes[i];
        machine.arenas[i] = calloc(sizes[i] + 1, sizeof(cell_t));
        for (uint64_t c = 0; c < sizes[i]; c++) {
            machine.arenas[i][c].tensor = UINT32_MAX;
        }
    }
    machine.counts[DAO_SWAP_STREAM_COMPUTE] = problem->kernel_count;
    for (uint32_t stream = 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        machine.counts[stream] = schedule->copy_count[stream];
    }
    for (uint32_t k = 0; k + 1 < problem->kernel_count; k++) {
        machine.first_use[k + 1] = machine.first_use[k] + problem->kernels[k].use_count;
    }
    prepare(&machine);
    while (!machine.failed && act(&machine, random)) {
    }
    for (uint32_t stream = 0; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        if (machine.done[stream] != (uint64_t)machine.counts[stream] * step_count) {
            fail(&machine, "never comes", stream, machine.done[stream]);
        }
    }
    for (int i = 0; i < ARENA_COUNT; i++) {
        free(machine.arenas[i]);
    }
    return !machine.failed;
}
