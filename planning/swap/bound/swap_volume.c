/* SPDX-License-Identifier: Apache-2.0 */
/* What a step moves at least.

   Each way by itself. Bytes that are away during an inactive period come in once at its end. For one step
   from a start, the device may begin with whatever content helps most. The least sum is found by taking the
   bytes that a kernel lacks from the inactive period that ends last: Belady's rule, exact as all bytes cost
   the same. Inactive periods that reach beyond the end are free. Bytes out are counted over whole versions:
   one that is away at any time goes out once.

   Both ways together. The tensors that are best away for the bytes in are not those for the bytes out. Let
   x be the part of an inactive period's tensor that is away, o the part of a version that goes out: x <= o
   for each period of the version, and of all that a kernel could leave away at least as much is away as does
   not fit:

       minimize    sum of x size in_ns + sum of o size out_ns
       where       sum over the live periods over k of x size  >=  live bytes at k - capacity,   each kernel k

   A step that repeats has such parts in the mean, whatever each step does. The dual has a price y, in ns a
   byte, for each kernel; for any prices this is a bound, as x and o can be chosen apart for each version v:

       sum over k of y (live bytes - capacity)  -  sum over v of size max(0, sum over its periods of
                                                   max(0, sum of y in the period - in_ns) - out_ns)

   Where both ways run beside each other, the longer one counts, which is at least any mean of both: in_ns is
   multiplied by a share, out_ns by the rest, and the share is searched for like the prices. A copy holds the
   link for its latency, too: a part x of a tensor takes that part of a latency at least.

   The search is a subgradient ascent (Polyak, 1969; deflected as by Camerini, Fratta and Maffioli, 1975): it
   steps to where the bound would have risen by an aim, which shrinks as it is missed. */
#include "planning/swap/bound/swap_volume.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <string.h>

#define ROTATION_COUNT 8u
#define MISSED_MAX     8u   /* rounds without a gain, after which less is aimed at */
#define AIM_MISSED     0.7  /* what is left of the aim then */
#define AIM_REACHED    1.5  /* what it grows by where half of it was reached */
#define GAIN_LEAST     0.05 /* of the aim, to be none that was missed */
#define DEFLECTION     1.5
#define ROUNDING       1e-9 /* what sums of doubles may be off, far more than they are */

/* ---- each way by itself ---- */

/* Bytes that may be away, by the place after which they are needed again; taken from the latest place
   first. */
typedef struct pool {
    uint64_t *left;  /* bytes not yet taken, by end */
    uint64_t *taken; /* by end */
    uint64_t left_bytes, taken_bytes;
    uint32_t latest; /* nothing is left at a later end */
} pool_t;

static void pool_add(pool_t *pool, uint32_t end, uint64_t bytes)
{
    pool->left[end] += bytes;
    pool->left_bytes += bytes;
    pool->latest = end > pool->latest ? end : pool->latest;
}

/* What ends here is needed now. */
static void pool_end(pool_t *pool, uint32_t end)
{
    pool->left_bytes -= pool->left[end];
    pool->taken_bytes -= pool->taken[end];
    pool->left[end] = pool->taken[end] = 0;
}

/* Takes as much as is left of `bytes`. */
static uint64_t pool_take(pool_t *pool, uint64_t bytes)
{
    uint64_t sum = 0;
    while (sum < bytes && pool->left_bytes > 0) {
        while (pool->left[pool->latest] == 0) {
            pool->latest--;
        }
        uint64_t left = pool->left[pool->latest], part = left < bytes - sum ? left : bytes - sum;
        pool->left[pool->latest] -= part;
        pool->taken[pool->latest] += part;
        pool->left_bytes -= part;
        pool->taken_bytes += part;
        sum += part;
    }
    return sum;
}

static void pool_reset(pool_t *pool, uint32_t end_count)
{
    memset(pool->left, 0, end_count * sizeof(*pool->left));
    memset(pool->taken, 0, end_count * sizeof(*pool->taken));
    pool->left_bytes = pool->taken_bytes = 0;
    pool->latest = 0;
}

/* Least bytes in for the step that begins at kernel `start`. */
static uint64_t least_in(const dao_swap_step_t *step, pool_t *pool, uint32_t start)
{
    uint32_t n = step->kernel_count;
    uint64_t capacity = step->problem->capacity_bytes, sum = 0;
    pool_reset(pool, 2 * n);
    for (uint32_t i = 0; i < step->access_count; i++) { /* inactive periods over the start */
        const dao_swap_access_t *one = &step->accesses[i];
        uint32_t until_next = (step->accesses[one->next].kernel + n - start) % n;
        if (one->inactive_is_live && until_next < one->inactive_length) {
            pool_add(pool, until_next, step->size_bytes[one->tensor]);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = (start + i) % n;
        pool_end(pool, i);
        uint64_t need = step->kernel_bytes[k] + pool->left_bytes;
        sum += need > capacity ? pool_take(pool, need - capacity) : 0;
        for (uint32_t t = step->kernel_access[k]; t < step->kernel_access[k + 1]; t++) {
            const dao_swap_access_t *one = &step->accesses[t];
            if (one->inactive_is_live && i + one->inactive_length < n) {
                pool_add(pool, i + one->inactive_length, step->size_bytes[one->tensor]);
            }
        }
    }
    return sum;
}

/* Least bytes out for the step that begins at kernel `start`, of versions that are written in it. */
static uint64_t least_out(const dao_swap_step_t *step, pool_t *pool, uint32_t start)
{
    uint32_t n = step->kernel_count;
    uint64_t capacity = step->problem->capacity_bytes, sum = 0;
    pool_reset(pool, 2 * n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = (start + i) % n;
        uint64_t need = step->kernel_bytes[k];
        pool_end(pool, i);
        for (uint32_t t = step->kernel_access[k]; t < step->kernel_access[k + 1]; t++) {
            /* What is used here and was written in this step stands in the pool and in kernel_bytes: count it
               once. */
            const dao_swap_access_t *one = &step->accesses[t];
            bool in_pool = !one->writes && one->writer != DAO_SWAP_NONE && one->inactive_is_live &&
                           (step->accesses[one->writer].kernel + n - start) % n < i;
            need -= in_pool ? step->size_bytes[one->tensor] : 0;
        }
        need += pool->left_bytes;
        sum += need > capacity ? pool_take(pool, need - capacity) : 0;
        for (uint32_t t = step->kernel_access[k]; t < step->kernel_access[k + 1]; t++) {
            const dao_swap_access_t *one = &step->accesses[t];
            uint32_t end_access, length = one->writes ? dao_swap_content_length(step, t, &end_access) : 0;
            if (length != 0) {
                pool_add(pool, i + length, step->size_bytes[one->tensor]);
            }
        }
    }
    return sum;
}

dao_status_t dao_swap_least_bytes(const dao_swap_step_t *step, uint64_t *out_in_bytes,
                                  uint64_t *out_out_bytes)
{
    uint32_t n = step->kernel_count;
    uint64_t *memory = dao_host_calloc((size_t)n * 4, sizeof(*memory));
    if (memory == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    }
    pool_t pool = {.left = memory, .taken = memory + (size_t)n * 2};
    uint32_t count = n < ROTATION_COUNT ? n : ROTATION_COUNT;
    *out_in_bytes = *out_out_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t start = (uint32_t)((uint64_t)i * n / count);
        *out_in_bytes = dao_larger(*out_in_bytes, least_in(step, &pool, start));
        *out_out_bytes = dao_larger(*out_out_bytes, least_out(step, &pool, start));
    }
    dao_host_free(memory);
    return DAO_OK;
}

/* ---- both ways together ---- */

/* Where the search is, and how the bound rises from there. Of the vectors the first kernel_count are those of
   the kernels' prices, in units of `unit_ns` a byte, the last one that of the share. */
typedef struct prices {
    const dao_swap_step_t *step;
    const dao_swap_rate_t *rate;
    double latency_ns;
    bool has_share;  /* else both ways are paid in full */
    double unit_ns;  /* of a price */
    double *at;      /* the vector that is looked at */
    double *slope;   /* in ns */
    double *towards; /* what the search moves along */
    double *best;    /* the vector with the highest bound so far */
    double *sums;    /* 2 x kernel_count + 1: of prices in ns a byte, before each kernel, over two steps */
    double *covered; /* 2 x kernel_count + 1: differences of bytes that are away */
    double *gain_ns; /* of each access: a byte away behind it costs so much less than it pays; 0: none does */
    double *version_gain_ns; /* of each access that writes: of the periods of its version */
} prices_t;

static bool allocate(prices_t *prices, const dao_swap_step_t *step)
{
    size_t kernels = step->kernel_count, accesses = (size_t)step->access_count + 1;
    size_t count = 4 * (kernels + 1) + 2 * (2 * kernels + 1) + 2 * accesses;
    double *memory = dao_host_calloc(count, sizeof(*memory));
    prices->at = memory;
    if (memory == NULL) {
        return false;
    }
    prices->slope = prices->at + kernels + 1;
    prices->towards = prices->slope + kernels + 1;
    prices->best = prices->towards + kernels + 1;
    prices->sums = prices->best + kernels + 1;
    prices->covered = prices->sums + 2 * kernels + 1;
    prices->gain_ns = prices->covered + 2 * kernels + 1;
    prices->version_gain_ns = prices->gain_ns + accesses;
    return true;
}

static double share_in(const prices_t *prices)
{
    return prices->has_share ? prices->at[prices->step->kernel_count] : 1;
}

static double share_out(const prices_t *prices)
{
    return prices->has_share ? 1 - prices->at[prices->step->kernel_count] : 1;
}

/* What a byte takes one way, of a tensor that moves in one copy. */
static double in_ns(const prices_t *prices, double size)
{
    return prices->rate->in + prices->latency_ns / size;
}

static double out_ns(const prices_t *prices, double size)
{
    return prices->rate->out + prices->latency_ns / size;
}

static double size_at(const prices_t *prices, uint32_t access)
{
    return (double)prices->step->size_bytes[prices->step->accesses[access].tensor];
}

/* Sums the prices; returns what they are worth. */
static double sum_prices(prices_t *prices)
{
    const dao_swap_step_t *step = prices->step;
    double worth_ns = 0;
    uint32_t n = step->kernel_count;
    for (uint32_t i = 0; i < 2 * n; i++) {
        double price_ns = prices->at[i % n] * prices->unit_ns;
        prices->sums[i + 1] = prices->sums[i] + price_ns;
        if (i < n) {
            prices->slope[i] = (double)step->live_bytes[i] - (double)step->problem->capacity_bytes;
            worth_ns += price_ns * prices->slope[i];
        }
    }
    return worth_ns;
}

/* What each byte gains that is away, for the prices. */
static void find_gains(prices_t *prices)
{
    const dao_swap_step_t *step = prices->step;
    memset(prices->version_gain_ns, 0, step->access_count * sizeof(*prices->version_gain_ns));
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        double gain_ns = 0;
        if (one->inactive_is_live) {
            gain_ns = prices->sums[one->kernel + one->inactive_length] - prices->sums[one->kernel + 1] -
                      share_in(prices) * in_ns(prices, size_at(prices, i));
        }
        prices->gain_ns[i] = gain_ns > 0 ? gain_ns : 0;
        if (gain_ns > 0 && one->writer != DAO_SWAP_NONE) {
            prices->version_gain_ns[one->writer] += gain_ns;
        }
    }
}

/* Sends away what gains; returns what that saves. `*out_balance_ns` is the time of all that comes in less
   that of all that goes out. */
static double send_away(prices_t *prices, double *out_balance_ns)
{
    const dao_swap_step_t *step = prices->step;
    double saved_ns = 0, balance_ns = 0;
    memset(prices->covered, 0, (2 * (size_t)step->kernel_count + 1) * sizeof(*prices->covered));
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        double size = size_at(prices, i), away_ns = share_out(prices) * out_ns(prices, size);
        if (one->writer == i && prices->version_gain_ns[i] > away_ns) {
            saved_ns += size * (prices->version_gain_ns[i] - away_ns);
            balance_ns -= size * out_ns(prices, size);
        }
        bool goes = prices->gain_ns[i] > 0 &&
                    (one->writer == DAO_SWAP_NONE || prices->version_gain_ns[one->writer] > away_ns);
        if (goes) {
            saved_ns += one->writer == DAO_SWAP_NONE ? size * prices->gain_ns[i] : 0;
            balance_ns += size * in_ns(prices, size);
            prices->covered[one->kernel + 1] += size;
            prices->covered[one->kernel + one->inactive_length] -= size;
        }
    }
    *out_balance_ns = balance_ns;
    return saved_ns;
}

/* The bound for the prices and the share; finds its slope. */
static double look(prices_t *prices)
{
    uint32_t n = prices->step->kernel_count;
    double bound_ns = sum_prices(prices), balance_ns, away = 0;
    find_gains(prices);
    bound_ns -= send_away(prices, &balance_ns);
    for (uint32_t i = 0; i < 2 * n; i++) {
        away += prices->covered[i];
        prices->slope[i % n] -= away;
    }
    for (uint32_t k = 0; k < n; k++) {
        prices->slope[k] *= prices->unit_ns;
    }
    prices->slope[n] = prices->has_share ? balance_ns : 0;
    return bound_ns;
}

/* No price is below 0, and no share: nothing moves against that. */
static bool is_held(const prices_t *prices, uint32_t i, double slope)
{
    bool is_share = i == prices->step->kernel_count;
    return (prices->at[i] <= 0 && slope < 0) || (is_share && prices->at[i] >= 1 && slope > 0);
}

/* Turns what the search moves along towards the slope, and away from going back and forth. Returns the square
   of its length. */
static double turn(prices_t *prices)
{
    uint32_t n = prices->step->kernel_count;
    double product = 0, square = 0, next = 0, slope_square = 0;
    for (uint32_t i = 0; i <= n; i++) {
        prices->slope[i] = is_held(prices, i, prices->slope[i]) ? 0 : prices->slope[i];
        product += prices->slope[i] * prices->towards[i];
        square += prices->towards[i] * prices->towards[i];
        slope_square += prices->slope[i] * prices->slope[i];
    }
    double kept = product < 0 ? -DEFLECTION * product / square : 0;
    for (uint32_t i = 0; i <= n; i++) {
        double towards = prices->slope[i] + kept * prices->towards[i];
        prices->towards[i] = is_held(prices, i, towards) ? 0 : towards;
        next += prices->towards[i] * prices->towards[i];
    }
    if (next > 0) {
        return next;
    }
    memcpy(prices->towards, prices->slope, ((size_t)n + 1) * sizeof(*prices->towards));
    return slope_square;
}

static void move(prices_t *prices, double factor)
{
    uint32_t n = prices->step->kernel_count;
    for (uint32_t i = 0; i <= n; i++) {
        double next = prices->at[i] + factor * prices->towards[i];
        prices->at[i] = next < 0 ? 0 : next;
    }
    prices->at[n] = prices->at[n] > 1 ? 1 : prices->at[n];
}

/* The highest bound that is found. Begins at no prices, of which the bound is 0. */
static double ascend(prices_t *prices, double aim_ns)
{
    size_t bytes = ((size_t)prices->step->kernel_count + 1) * sizeof(*prices->at);
    double best_ns = 0;
    uint32_t missed = 0;
    memcpy(prices->best, prices->at, bytes);
    for (uint32_t round = 0; round < DAO_SWAP_VOLUME_ROUNDS; round++) {
        double bound_ns = look(prices);
        missed = bound_ns > best_ns + GAIN_LEAST * aim_ns ? 0 : missed + 1;
        if (bound_ns > best_ns) {
            aim_ns *= bound_ns > best_ns + aim_ns / 2 ? AIM_REACHED : 1;
            best_ns = bound_ns;
            memcpy(prices->best, prices->at, bytes);
        }
        if (missed == MISSED_MAX) {
            aim_ns *= AIM_MISSED;
            missed = 0;
            memcpy(prices->at, prices->best, bytes);
            memset(prices->towards, 0, bytes);
            bound_ns = look(prices);
        }
        double square = turn(prices);
        if (square <= 0) { /* flat: it is the highest */
            break;
        }
        move(prices, (best_ns + aim_ns - bound_ns) / square);
    }
    return best_ns;
}

/* Searches for the bound of one link; *longest_ns becomes it, if it is longer. */
static dao_status_t find_ns(const dao_swap_step_t *step, const dao_swap_rate_t *rate, double latency_ns,
                            uint64_t *longest_ns)
{
    prices_t prices = {.step = step,
                       .rate = rate,
                       .latency_ns = latency_ns,
                       .has_share = !rate->is_half,
                       .unit_ns = rate->is_half ? rate->in : rate->in / 2};
    uint64_t capacity = step->problem->capacity_bytes, lacking = 0;
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        lacking = dao_larger(lacking, step->live_bytes[k] > capacity ? step->live_bytes[k] - capacity : 0);
    }
    if (lacking == 0) {
        return DAO_OK;
    }
    if (!allocate(&prices, step)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    }
    prices.at[step->kernel_count] = 0.5;
    double best_ns = ascend(&prices, (double)lacking * prices.unit_ns);
    *longest_ns = dao_larger(*longest_ns, (uint64_t)(best_ns * (1 - ROUNDING)));
    dao_host_free(prices.at);
    return DAO_OK;
}

dao_status_t dao_swap_volume_ns(const dao_swap_step_t *step, const dao_swap_rate_t *rate, double latency_ns,
                                uint64_t *out_ns)
{
    uint64_t longest_ns = 0;
    dao_status_t status = find_ns(step, rate, latency_ns, &longest_ns);
    if (status == DAO_OK && rate->shared != 0 && !rate->is_half) {
        const dao_swap_rate_t both = {.in = rate->shared, .out = rate->shared, .is_half = true};
        status = find_ns(step, &both, 0, &longest_ns);
    }
    if (status == DAO_OK) {
        *out_ns = longest_ns;
    }
    return status;
}
