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

#define STAYS    UINT64_MAX
#define DIES     (UINT64_MAX - 1)
#define IN_FILES ((uint64_t)1 << 62)
#define IS_BACK  ((uint64_t)1 << 61) /* as the next step starts */

/* What is known of the arena's bytes while they are counted. */
typedef struct counter {
    dao_swap_schedule_t schedule; /* with addresses */
    dao_swap_copy_t *copies;
    dao_swap_resident_t *residents;
    uint64_t begin[256]; /* of each tensor, behind all of them of the workspace */
    uint64_t *addresses; /* of uses, then of workspaces */
    uint64_t *behind;    /* of each use and byte: STAYS, DIES, or its slot, with IN_FILES and IS_BACK */
    uint64_t *leaves;    /* of each byte, the same of its latest use */
    bool *is_there;
    uint64_t used_bytes;
} counter_t;

/* Streams of copies by their numbers, and a lane for each compute stream: 0, then those behind the others.
   What a lane has done is the number of its first kernel that has not ended, over all lanes and steps. */
#define LANE_COUNT (DAO_SWAP_STREAM_COUNT + DAO_SWAP_COMPUTE_STREAM_MAX - 1)

typedef struct machine {
    const dao_swap_problem_t *problem;
    const dao_swap_schedule_t *schedule;
    uint32_t step_count;
    uint32_t first_use[256]; /* of each kernel */
    uint32_t counts[LANE_COUNT];
    uint64_t started[LANE_COUNT], done[LANE_COUNT];
    cell_t *arenas[ARENA_COUNT];
    uint64_t sizes[ARENA_COUNT];
    uint64_t versions[256]; /* of each tensor */
    counter_t *counter;     /* NULL: the schedule has addresses */
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

/* Of a tensor in a kernel: whether it is used, and whether it is only written. */
static bool is_used(const dao_swap_kernel_t *kernel, uint32_t tensor, bool *out_is_written_only)
{
    bool is_used = false, is_read = false;
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        is_used = is_used || kernel->uses[u].tensor == tensor;
        is_read = is_read || (kernel->uses[u].tensor == tensor && reads(kernel->uses[u].access));
    }
    *out_is_written_only = is_used && !is_read;
    return is_used;
}

static bool is_compute(uint32_t lane)
{
    return lane == DAO_SWAP_STREAM_COMPUTE || lane >= DAO_SWAP_STREAM_COUNT;
}

static uint32_t lane_of(const machine_t *machine, uint64_t kernel)
{
    uint32_t compute = machine->problem->kernels[kernel % machine->problem->kernel_count].stream;
    return compute == 0 ? (uint32_t)DAO_SWAP_STREAM_COMPUTE : DAO_SWAP_STREAM_COUNT + compute - 1;
}

/* The first kernel of a lane from `kernel` on; UINT64_MAX: there is none. */
static uint64_t next_kernel(const machine_t *machine, uint32_t lane, uint64_t kernel)
{
    uint64_t end = kernel + machine->problem->kernel_count;
    while (kernel < end && lane_of(machine, kernel) != lane) {
        kernel++;
    }
    return kernel < end ? kernel : UINT64_MAX;
}

static bool writes_tensor(const dao_swap_kernel_t *kernel, uint32_t tensor)
{
    bool writes = false;
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        writes = writes || (kernel->uses[u].tensor == tensor && kernel->uses[u].access != DAO_ACCESS_READ);
    }
    return writes;
}

/* The content that a kernel reads: of the last kernel before it, in the step's order, that writes the
   tensor. */
static uint64_t version_before(const machine_t *machine, uint64_t run, uint32_t tensor)
{
    uint32_t count = machine->problem->kernel_count;
    for (uint64_t before = run; before-- > 0 && run - before <= count;) {
        if (writes_tensor(&machine->problem->kernels[before % count], tensor)) {
            return before + 1;
        }
    }
    return 0;
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

static void check_reads(machine_t *machine, uint64_t run)
{
    uint32_t k = (uint32_t)(run % machine->problem->kernel_count);
    const dao_swap_kernel_t *kernel = &machine->problem->kernels[k];
    for (uint32_t u = 0; u < kernel->use_count && !machine->failed; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        uint64_t version = version_before(machine, run, tensor);
        uint64_t address = machine->schedule->use_address[machine->first_use[k] + u];
        for (uint64_t i = 0;
             reads(kernel->uses[u].access) && i < machine->problem->tensors[tensor].size_bytes; i++) {
            const cell_t *cell = cell_at(machine, DEVICE, address + i);
            if (cell->tensor != tensor || cell->offset != i || cell->version != version) {
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

static void end_kernel(machine_t *machine, uint64_t run)
{
    uint32_t k = (uint32_t)(run % machine->problem->kernel_count);
    const dao_swap_kernel_t *kernel = &machine->problem->kernels[k];
    write_cells(machine, DEVICE, machine->schedule->workspace_address[k], UINT32_MAX, 0,
                kernel->workspace_bytes);
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        if (kernel->uses[u].access != DAO_ACCESS_READ) {
            machine->versions[tensor] = run + 1;
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
        machine->started[stream] >= (uint64_t)count * machine->step_count) {
        return false;
    }
    uint64_t step = machine->started[stream] / count;
    uint32_t at = (uint32_t)(machine->started[stream] % count);
    const dao_swap_fence_t *fence = is_compute(stream) ? &machine->schedule->kernel_after[at]
                                                       : &machine->schedule->copies[stream][at].after;
    for (uint32_t i = 0; i < LANE_COUNT; i++) {
        int32_t done =
            i < DAO_SWAP_STREAM_COUNT ? fence->done[i] : fence->done_beside[i - DAO_SWAP_STREAM_COUNT];
        int64_t needed = (int64_t)step * machine->counts[i] + done;
        if (done != DAO_SWAP_NO_WAIT && needed > 0 && (uint64_t)needed > machine->done[i]) {
            return false;
        }
    }
    return true;
}

/* ---- counting ---- */

/* Takes bytes of the arena for what starts. */
static void count_taken(machine_t *machine, uint32_t stream, uint64_t begin, uint64_t size)
{
    counter_t *counter = machine->counter;
    for (uint64_t i = begin; i < begin + size; i++) {
        counter->used_bytes += counter->is_there[i] ? 0 : 1;
        counter->is_there[i] = true;
        counter->leaves[i] = STAYS;
    }
    if (counter->used_bytes > machine->problem->capacity_bytes) {
        fail(machine, "takes more than the capacity", stream, machine->started[stream]);
    }
}

static void check_there(machine_t *machine, uint32_t stream, uint64_t begin, uint64_t size, bool is_there)
{
    for (uint64_t i = begin; i < begin + size; i++) {
        if (machine->counter->is_there[i] != is_there) {
            fail(machine, is_there ? "uses bytes that are gone" : "brings bytes that are there", stream,
                 machine->started[stream]);
            return;
        }
    }
}

static void count_start(machine_t *machine, uint32_t stream, uint32_t at)
{
    const counter_t *counter = machine->counter;
    if (!is_compute(stream)) {
        const dao_swap_copy_t *copy = &machine->schedule->copies[stream][at];
        bool is_first =
            machine->started[stream] < machine->counts[stream]; /* what leaves is in its slot already */
        if (copy->is_in || !is_first) {
            check_there(machine, stream, copy->address_bytes, copy->size_bytes, !copy->is_in);
        }
        if (copy->is_in) {
            count_taken(machine, stream, copy->address_bytes, copy->size_bytes);
        }
        return;
    }
    const dao_swap_kernel_t *kernel = &machine->problem->kernels[at];
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        uint64_t begin = counter->begin[kernel->uses[u].tensor];
        uint64_t size = machine->problem->tensors[kernel->uses[u].tensor].size_bytes;
        if (reads(kernel->uses[u].access)) {
            check_there(machine, stream, begin, size, true);
        }
        count_taken(machine, stream, begin, size);
    }
    count_taken(machine, stream, machine->schedule->workspace_address[at], kernel->workspace_bytes);
}

/* Gives up what may go by now. */
static void count_left(machine_t *machine)
{
    counter_t *counter = machine->counter;
    for (uint64_t i = 0; i < machine->sizes[DEVICE]; i++) {
        uint64_t leaves = counter->is_there[i] ? counter->leaves[i] : STAYS;
        bool goes = leaves == DIES;
        if (leaves < DIES) {
            const cell_t *device = &machine->arenas[DEVICE][i];
            const cell_t *slot = &machine->arenas[leaves & IN_FILES ? FILES : HOST][leaves & (IS_BACK - 1)];
            goes = slot->tensor == device->tensor && slot->offset == device->offset &&
                   slot->version == device->version;
        }
        counter->used_bytes -= goes ? 1 : 0;
        counter->is_there[i] = counter->is_there[i] && !goes;
    }
}

/* The last kernel in the step's order, at least `run`, up to which all that use a tensor have ended.
   UINT64_MAX: one before `run` has not. */
static uint64_t last_ended(const machine_t *machine, uint64_t run, uint32_t tensor)
{
    uint64_t last = UINT64_MAX,
             first = run > machine->problem->kernel_count ? run - machine->problem->kernel_count : 0;
    bool ignored;
    for (uint64_t r = first; r <= run + machine->problem->kernel_count; r++) {
        if (is_used(&machine->problem->kernels[r % machine->problem->kernel_count], tensor, &ignored)) {
            if (r >= machine->done[lane_of(machine, r)]) {
                break;
            }
            last = r >= run ? r : UINT64_MAX;
        }
    }
    return last;
}

/* What the latest use of a tensor says of its bytes. */
static void count_behind(machine_t *machine, uint64_t run, uint32_t tensor)
{
    counter_t *counter = machine->counter;
    uint64_t last = last_ended(machine, run, tensor), begin = counter->begin[tensor];
    uint32_t k = (uint32_t)(last % machine->problem->kernel_count);
    const dao_swap_kernel_t *kernel = &machine->problem->kernels[k];
    for (uint32_t u = 0; last != UINT64_MAX && u < kernel->use_count; u++) {
        const uint64_t *behind =
            counter->behind + (machine->first_use[k] + u) * counter->schedule.arena_bytes;
        if (kernel->uses[u].tensor == tensor) {
            memcpy(counter->leaves + begin, behind + begin,
                   machine->problem->tensors[tensor].size_bytes * sizeof(*behind));
        }
    }
}

static void count_end(machine_t *machine, uint32_t stream, uint64_t run)
{
    counter_t *counter = machine->counter;
    if (is_compute(stream)) {
        uint32_t at = (uint32_t)(run % machine->problem->kernel_count);
        const dao_swap_kernel_t *kernel = &machine->problem->kernels[at];
        for (uint32_t u = 0; u < kernel->use_count; u++) {
            count_behind(machine, run, kernel->uses[u].tensor);
        }
        for (uint64_t i = 0; i < kernel->workspace_bytes; i++) {
            counter->leaves[machine->schedule->workspace_address[at] + i] = DIES;
        }
    }
    count_left(machine);
}

static void start(machine_t *machine, uint32_t stream)
{
    uint32_t at = (uint32_t)(machine->started[stream] % machine->counts[stream]);
    if (is_compute(stream)) {
        hold_kernel(machine, at, true);
        if (!machine->failed) {
            check_reads(machine, machine->started[stream]);
        }
    } else {
        hold_copy(machine, stream, &machine->schedule->copies[stream][at], true);
    }
    if (machine->counter != NULL) {
        count_start(machine, stream, at);
    }
    machine->started[stream] = is_compute(stream) ? next_kernel(machine, stream, machine->started[stream] + 1)
                                                  : machine->started[stream] + 1;
}

static void end(machine_t *machine, uint32_t stream)
{
    uint64_t run = machine->done[stream];
    uint32_t at = (uint32_t)(run % machine->counts[stream]);
    if (is_compute(stream)) {
        hold_kernel(machine, at, false);
        end_kernel(machine, run);
    } else {
        hold_copy(machine, stream, &machine->schedule->copies[stream][at], false);
        end_copy(machine, &machine->schedule->copies[stream][at]);
    }
    machine->done[stream] = machine->started[stream];
    if (machine->counter != NULL) {
        count_end(machine, stream, run);
    }
}

/* Starts or ends something. False if nothing can happen any more. */
static bool act(machine_t *machine, uint64_t *random)
{
    uint32_t choices[2 * LANE_COUNT], count = 0;
    for (uint32_t stream = 0; stream < LANE_COUNT; stream++) {
        if (machine->started[stream] > machine->done[stream]) {
            choices[count++] = stream + LANE_COUNT;
        } else if (may_start(machine, stream)) {
            choices[count++] = stream;
        }
    }
    if (count == 0) {
        return false;
    }
    uint32_t choice = choices[dao_random_next(random) % count];
    if (choice < LANE_COUNT) {
        start(machine, choice);
    } else {
        end(machine, choice - LANE_COUNT);
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

/* Says of each use what its bytes do behind it: nothing, or die if the next one only writes. */
static void note_deaths(const machine_t *machine, counter_t *counter)
{
    const dao_swap_problem_t *problem = machine->problem;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
            uint32_t tensor = problem->kernels[k].uses[u].tensor, next = k;
            bool dies;
            do {
                next = (next + 1) % problem->kernel_count;
            } while (!is_used(&problem->kernels[next], tensor, &dies));
            for (uint64_t i = 0; i < problem->tensors[tensor].size_bytes; i++) {
                counter->behind[(machine->first_use[k] + u) * counter->schedule.arena_bytes +
                                counter->begin[tensor] + i] = dies ? DIES : STAYS;
            }
        }
    }
}

/* A copy in brings back what leaves behind the last use before it. */
static void note_way(const machine_t *machine, counter_t *counter, const dao_swap_copy_t *copy)
{
    const dao_swap_problem_t *problem = machine->problem;
    int64_t count = problem->kernel_count, done = copy->after.done[DAO_SWAP_STREAM_COMPUTE];
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX - 1; i++) {
        done = copy->after.done_beside[i] > done ? copy->after.done_beside[i] : done;
    }
    uint32_t k = (uint32_t)(((done - 1) % count + count) % count);
    bool ignored;
    while (!is_used(&problem->kernels[k], copy->tensor, &ignored)) {
        k = (k + (uint32_t)count - 1) % (uint32_t)count;
    }
    for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
        uint64_t *behind = counter->behind + (machine->first_use[k] + u) * counter->schedule.arena_bytes;
        for (uint64_t i = 0; problem->kernels[k].uses[u].tensor == copy->tensor && i < copy->size_bytes;
             i++) {
            behind[copy->address_bytes + i] =
                (copy->slot_bytes + i) | (copy->is_file ? IN_FILES : 0) | (done > (int64_t)k ? IS_BACK : 0);
        }
    }
}

/* Gives every tensor and workspace bytes of its own. */
static void place_all(const machine_t *machine, counter_t *counter, uint32_t use_count)
{
    const dao_swap_problem_t *problem = machine->problem;
    uint64_t end = 0, *use_address = counter->addresses, *workspace_address = use_address + use_count;
    counter->schedule = *machine->schedule;
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        counter->begin[t] = end;
        end += problem->tensors[t].size_bytes;
    }
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
            *use_address++ = counter->begin[problem->kernels[k].uses[u].tensor];
        }
        workspace_address[k] = end;
        end += problem->kernels[k].workspace_bytes;
    }
    counter->schedule.use_address = counter->addresses;
    counter->schedule.workspace_address = workspace_address;
    counter->schedule.arena_bytes = end;
    dao_swap_copy_t *copies = counter->copies;
    for (uint32_t stream = 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        counter->schedule.copies[stream] = copies;
        for (uint32_t i = 0; i < machine->counts[stream]; i++, copies++) {
            *copies = machine->schedule->copies[stream][i];
            copies->address_bytes = counter->begin[copies->tensor] + copies->offset_bytes;
        }
    }
    for (uint32_t i = 0; i < machine->schedule->resident_count; i++) {
        counter->residents[i] = machine->schedule->residents[i];
        counter->residents[i].address_bytes =
            counter->begin[counter->residents[i].tensor] + counter->residents[i].offset_bytes;
    }
    counter->schedule.residents = counter->residents;
}

/* What is on the device as the first step starts: it has come back, or is still to leave, which takes its
   slot's bytes away. */
static void place_residents(machine_t *machine, counter_t *counter)
{
    const dao_swap_problem_t *problem = machine->problem;
    for (uint32_t i = 0; i < counter->schedule.resident_count; i++) {
        const dao_swap_resident_t *one = &counter->residents[i];
        count_taken(machine, DAO_SWAP_STREAM_COMPUTE, one->address_bytes, one->size_bytes);
        uint32_t k = problem->kernel_count - 1, u = 0;
        bool ignored;
        while (!is_used(&problem->kernels[k], one->tensor, &ignored)) {
            k--;
        }
        while (problem->kernels[k].uses[u].tensor != one->tensor) {
            u++;
        }
        for (uint64_t b = one->address_bytes; b < one->address_bytes + one->size_bytes; b++) {
            uint64_t leaves =
                counter->behind[(machine->first_use[k] + u) * counter->schedule.arena_bytes + b];
            if (leaves < DIES && (leaves & IS_BACK) == 0) {
                counter->leaves[b] = leaves;
                machine->arenas[leaves & IN_FILES ? FILES : HOST][leaves & (IS_BACK - 1)].tensor = UINT32_MAX;
            }
        }
    }
}

static void counter_init(machine_t *machine, counter_t *counter)
{
    uint32_t kernels = machine->problem->kernel_count, copies = 0;
    uint32_t uses = machine->first_use[kernels - 1] + machine->problem->kernels[kernels - 1].use_count;
    for (uint32_t stream = 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        copies += machine->counts[stream];
    }
    *counter =
        (counter_t){.copies = calloc(copies + 1, sizeof(*counter->copies)),
                    .residents = calloc(machine->schedule->resident_count + 1, sizeof(*counter->residents)),
                    .addresses = calloc(uses + kernels, sizeof(*counter->addresses))};
    place_all(machine, counter, uses);
    uint64_t bytes = counter->schedule.arena_bytes;
    counter->behind = calloc(uses * bytes + 1, sizeof(*counter->behind));
    counter->leaves = calloc(bytes + 1, sizeof(*counter->leaves));
    counter->is_there = calloc(bytes + 1, sizeof(*counter->is_there));
    note_deaths(machine, counter);
    for (uint32_t i = 0; i < copies; i++) {
        if (counter->copies[i].is_in) {
            note_way(machine, counter, &counter->copies[i]);
        }
    }
    machine->counter = counter;
    machine->schedule = &counter->schedule;
}

static void counter_finish(counter_t *counter)
{
    free(counter->copies);
    free(counter->residents);
    free(counter->addresses);
    free(counter->behind);
    free(counter->leaves);
    free(counter->is_there);
}

static void make_arenas(machine_t *machine)
{
    const dao_swap_schedule_t *schedule = machine->schedule;
    const uint64_t sizes[ARENA_COUNT] = {schedule->arena_bytes, schedule->host_bytes, schedule->file_bytes};
    for (int i = 0; i < ARENA_COUNT; i++) {
        machine->sizes[i] = sizes[i];
        machine->arenas[i] = calloc(sizes[i] + 1, sizeof(cell_t));
        for (uint64_t c = 0; c < sizes[i]; c++) {
            machine->arenas[i][c].tensor = UINT32_MAX;
        }
    }
}

bool swap_machine_run(const dao_swap_problem_t *problem, const dao_swap_schedule_t *schedule,
                      uint32_t step_count, uint64_t *random)
{
    machine_t machine = {.problem = problem, .schedule = schedule, .step_count = step_count};
    counter_t counter = {0};
    for (uint32_t lane = 0; lane < LANE_COUNT; lane++) {
        machine.counts[lane] = is_compute(lane) ? problem->kernel_count : schedule->copy_count[lane];
        machine.done[lane] = is_compute(lane) ? next_kernel(&machine, lane, 0) : 0;
        machine.started[lane] = machine.done[lane];
    }
    for (uint32_t k = 0; k + 1 < problem->kernel_count; k++) {
        machine.first_use[k + 1] = machine.first_use[k] + problem->kernels[k].use_count;
    }
    if (schedule->use_address == NULL) {
        counter_init(&machine, &counter);
    }
    make_arenas(&machine);
    prepare(&machine);
    if (machine.counter != NULL) {
        place_residents(&machine, &counter);
    }
    while (!machine.failed && act(&machine, random)) {
    }
    for (uint32_t stream = 0; stream < LANE_COUNT; stream++) {
        if (machine.done[stream] < (uint64_t)machine.counts[stream] * step_count) {
            fail(&machine, "never comes", stream, machine.done[stream]);
        }
    }
    for (int i = 0; i < ARENA_COUNT; i++) {
        free(machine.arenas[i]);
    }
    counter_finish(&counter);
    return !machine.failed;
}
