/* SPDX-License-Identifier: Apache-2.0 */
/* A window's bound takes what runs again in it to have its inputs. They have to be there as well: kept,
   copied, or made, and a kernel whose input a later one has written anew cannot run at all. With D, U and C
   as in recompute_windows.c and i from 0 to 1,

       W >= (1 - i) (D + what runs again) + i (U + the inputs that come by copies - C) / in
         >= (1 - i) D - i C / in + the least price of having U, a minimum cut (recompute_cut.c)

   which is concave in i. A cut takes some thousand times as long as a window, so only those windows are
   weighed so that decide the sum, and some around them: begins and ends move as long as that adds. */
#include "planning/recompute/bound/recompute_deciding.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "planning/recompute/bound/recompute_cut.h"

#define WEIGHT_PARTS 16u /* of 0 .. 1: the weights that are tried */
#define COARSE_COUNT 12u /* of the places: what a window's begin and end are moved by first */
#define MOVE_PARTS   4u  /* of that, what they are moved by last */
#define ROUND_MAX    2u  /* sums whose windows are weighed */

typedef struct decider {
    dao_recompute_windows_t *windows;
    dao_recompute_cut_t *cut;
    dao_recompute_needed_t *needed;
    bool *is_weighed; /* as `added_ns` */
} decider_t;

static uint64_t *added_of(const decider_t *decider, uint32_t place, uint32_t length)
{
    return &decider->windows->added_ns[(size_t)place * decider->windows->place_count + length - 1];
}

/* Lists what the kernels of a window read of before, and returns its bytes. */
static double gather(decider_t *decider, uint32_t place, uint32_t length, uint32_t *out_count)
{
    const dao_recompute_windows_t *windows = decider->windows;
    const dao_recompute_contents_t *contents = windows->contents;
    const dao_swap_step_t *step = contents->step;
    uint32_t n = step->kernel_count, begin = windows->first[place], count = 0;
    uint32_t end = windows->first[(place + length) % windows->place_count];
    uint32_t kernels = (end + n - begin - 1) % n + 1;
    double bytes = 0;
    for (uint32_t position = 0; position < kernels; position++) {
        uint32_t kernel = (begin + position) % n;
        for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
            if (dao_recompute_is_from_before(contents, i, position)) {
                uint32_t tensor = step->accesses[i].tensor;
                decider->needed[count++] =
                    (dao_recompute_needed_t){.content = dao_recompute_found(contents, i), .tensor = tensor};
                bytes += (double)step->size_bytes[tensor];
            }
        }
    }
    *out_count = count;
    return bytes;
}

/* What a window adds with one weight of the link. */
static double added_with(const decider_t *decider, double compute_ns, double weight)
{
    const dao_recompute_windows_t *windows = decider->windows;
    double capacity = (double)windows->contents->step->problem->capacity_bytes;
    const dao_recompute_prices_t prices = {.in_byte = weight * windows->links.in_ns, .kernel = 1 - weight};
    return dao_recompute_cut_least(decider->cut, &prices) -
           weight * (capacity * windows->links.in_ns + compute_ns);
}

/* Weighs a window by cuts, once. Returns what it adds. */
static uint64_t weigh(decider_t *decider, uint32_t place, uint32_t length)
{
    const dao_recompute_windows_t *windows = decider->windows;
    uint64_t *added_ns = added_of(decider, place, length);
    bool *is_weighed = &decider->is_weighed[(size_t)place * windows->place_count + length - 1];
    if (*is_weighed) {
        return *added_ns;
    }
    *is_weighed = true;
    uint32_t count, low = 0, high = WEIGHT_PARTS;
    double bytes = gather(decider, place, length, &count);
    double compute_ns = (double)dao_recompute_window_kernels_ns(windows, place, length);
    double room = (double)windows->contents->step->problem->capacity_bytes;
    if ((bytes - room) * windows->links.in_ns - compute_ns <= (double)*added_ns) {
        return *added_ns; /* it would add no more if nothing ran again */
    }
    dao_recompute_cut_set(decider->cut, windows->first[place], decider->needed, count);
    while (low < high) { /* it is concave: uphill */
        uint32_t middle = (low + high) / 2;
        double here = added_with(decider, compute_ns, (double)middle / WEIGHT_PARTS);
        double next = added_with(decider, compute_ns, (double)(middle + 1) / WEIGHT_PARTS);
        double more = here > next ? here : next;
        *added_ns = more > (double)*added_ns ? (uint64_t)more : *added_ns;
        low = next > here ? middle + 1 : low;
        high = next > here ? high : middle;
    }
    return *added_ns;
}

/* Weighs a window and those around it. */
static void weigh_around(decider_t *decider, uint32_t place, uint32_t length)
{
    uint32_t m = decider->windows->place_count;
    uint64_t most_ns = weigh(decider, place, length);
    for (uint32_t by = m / COARSE_COUNT + 1; by > m / COARSE_COUNT / MOVE_PARTS; by /= 2) {
        for (uint32_t i = 0; i < 4; i++) { /* less or more at the begin, less or more at the end */
            uint32_t next = i == 0 ? (place + by) % m : i == 1 ? (place + m - by) % m : place;
            uint32_t next_length = i % 2 == 0 ? length - by : length + by;
            if (next_length == 0 || next_length > m) { /* less than none is above, too */
                continue;
            }
            uint64_t next_ns = weigh(decider, next, next_length);
            if (next_ns > most_ns) {
                most_ns = next_ns;
                place = next;
                length = next_length;
            }
        }
    }
}

/* Weighs the windows of the best sum. */
static uint64_t decide(decider_t *decider)
{
    dao_recompute_windows_t *windows = decider->windows;
    uint32_t m = windows->place_count, start;
    uint64_t best_ns = 0;
    for (uint32_t round = 0; round < ROUND_MAX; round++) {
        uint64_t sum_ns = dao_recompute_windows_best(windows, &start);
        if (round > 0 && sum_ns <= best_ns) {
            break;
        }
        best_ns = sum_ns;
        for (uint32_t end = m; end > 0;) {
            uint32_t begin = windows->from[end];
            if (begin == DAO_RECOMPUTE_NO_PLACE) {
                end--;
                continue;
            }
            weigh_around(decider, (start + begin) % m, end - begin);
            end = begin;
        }
    }
    return dao_larger(best_ns, dao_recompute_windows_best(windows, &start));
}

dao_status_t dao_recompute_windows_decide(dao_recompute_windows_t *windows, uint64_t *out_added_ns)
{
    size_t m = windows->place_count, tensors = windows->contents->step->tensor_count;
    decider_t decider = {.windows = windows,
                         .needed = dao_host_calloc(tensors + 1, sizeof(*decider.needed)),
                         .is_weighed = dao_host_calloc(m * m, sizeof(*decider.is_weighed))};
    dao_status_t status = dao_recompute_cut_create(windows->contents, &decider.cut);
    if (status == DAO_OK && (decider.needed == NULL || decider.is_weighed == NULL)) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    }
    *out_added_ns = status == DAO_OK ? decide(&decider) : 0;
    dao_recompute_cut_destroy(decider.cut);
    dao_host_free(decider.needed);
    dao_host_free(decider.is_weighed);
    return status;
}
