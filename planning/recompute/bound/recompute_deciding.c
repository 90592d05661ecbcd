/* SPDX-License-Identifier: Apache-2.0 */
/* A window's bound takes what runs again in it to have its inputs. They have to be there as well: kept,
   copied, or made, and a kernel whose input a later one has written anew cannot run at all. With D, U and C
   as in recompute_windows.c and i from 0 to 1,

       W >= (1 - i) (D + what runs again) + i (U + the inputs that come by copies - C) / in
         >= (1 - i) D - i C / in + the least price of having U, a minimum cut (recompute_cut.c)

   which is concave in i. A cut takes much longer than a window, so only those windows are weighed so that
   decide the sum. */
#include "planning/recompute/bound/recompute_deciding.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "planning/recompute/bound/recompute_cut.h"

#define WEIGHT_PARTS 16u /* of 0 .. 1: the weights that are tried */

typedef struct decider {
    dao_recompute_windows_t *windows;
    dao_recompute_cut_t *cut;
    dao_recompute_needed_t *needed;
} decider_t;

/* Lists what the kernels of a window read of before, and returns their number. */
static uint32_t gather(decider_t *decider, uint32_t place, uint32_t length)
{
    const dao_recompute_windows_t *windows = decider->windows;
    const dao_recompute_contents_t *contents = windows->contents;
    const dao_swap_step_t *step = contents->step;
    uint32_t n = step->kernel_count, begin = windows->first[place], count = 0;
    uint32_t end = windows->first[(place + length) % windows->place_count];
    uint32_t kernels = (end + n - begin - 1) % n + 1;
    for (uint32_t position = 0; position < kernels; position++) {
        uint32_t kernel = (begin + position) % n;
        for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
            if (dao_recompute_is_from_before(contents, i, position)) {
                uint32_t tensor = step->accesses[i].tensor;
                decider->needed[count++] =
                    (dao_recompute_needed_t){.content = dao_recompute_found(contents, i), .tensor = tensor};
            }
        }
    }
    return count;
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

/* Weighs a window by cuts: what it adds may become more. */
static void weigh(decider_t *decider, uint32_t place, uint32_t length)
{
    const dao_recompute_windows_t *windows = decider->windows;
    uint64_t *added_ns = &windows->added_ns[(size_t)place * windows->place_count + length - 1];
    double compute_ns = (double)dao_recompute_window_kernels_ns(windows, place, length);
    uint32_t low = 0, high = WEIGHT_PARTS;
    dao_recompute_cut_set(decider->cut, windows->first[place], decider->needed,
                          gather(decider, place, length));
    while (low < high) { /* it is concave: uphill */
        uint32_t middle = (low + high) / 2;
        double here = added_with(decider, compute_ns, (double)middle / WEIGHT_PARTS);
        double next = added_with(decider, compute_ns, (double)(middle + 1) / WEIGHT_PARTS);
        double more = here > next ? here : next;
        *added_ns = more > (double)*added_ns ? (uint64_t)more : *added_ns;
        low = next > here ? middle + 1 : low;
        high = next > here ? high : middle;
    }
}

/* Weighs the windows of the best sum. */
static uint64_t decide(decider_t *decider)
{
    dao_recompute_windows_t *windows = decider->windows;
    uint32_t start;
    (void)dao_recompute_windows_best(windows, &start);
    for (uint32_t end = windows->place_count; end > 0;) {
        uint32_t begin = windows->from[end];
        if (begin == DAO_RECOMPUTE_NO_PLACE) {
            end--;
            continue;
        }
        weigh(decider, (start + begin) % windows->place_count, end - begin);
        end = begin;
    }
    return dao_recompute_windows_best(windows, &start);
}

dao_status_t dao_recompute_windows_decide(dao_recompute_windows_t *windows, uint64_t *out_added_ns)
{
    size_t tensors = windows->contents->step->tensor_count;
    decider_t decider = {.windows = windows, .needed = dao_host_calloc(tensors + 1, sizeof(*decider.needed))};
    dao_status_t status = dao_recompute_cut_create(windows->contents, &decider.cut);
    if (status == DAO_OK && decider.needed == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    }
    *out_added_ns = status == DAO_OK ? decide(&decider) : 0;
    dao_recompute_cut_destroy(decider.cut);
    dao_host_free(decider.needed);
    return status;
}
