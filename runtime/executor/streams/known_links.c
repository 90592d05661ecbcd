/* SPDX-License-Identifier: Apache-2.0 */
/* From transfers to links.

       in   - - - [copies that were alone] - - -> speed, latency  \
       out  - - - [copies that were alone] - - -> speed, latency  /   less what both lose: shared speed

   Invariant: where one direction has a speed the other has one, too. */
#include "runtime/executor/streams/known_links.h"

#include "base/numbers/math.h"

bool dao_measured_is_off(double measured, double expected)
{
    double difference = measured > expected ? measured - expected : expected - measured;
    return difference * DAO_MEASURED_TOLERANCE > expected;
}

/* What the copies of a direction say of its speed alone. Nothing where none was alone and both directions are
   found to slow each other: that would be counted twice. */
static const dao_link_speed_t *alone(const dao_known_links_t *links, const dao_profiler_t *profiler,
                                     dao_stream_role_t direction)
{
    static const dao_link_speed_t nothing;
    return profiler->is_crowded[direction] && links->lost_share > 0 ? &nothing : &profiler->links[direction];
}

/* What both directions move together while both copy. */
static double both_speed(const dao_swap_tier_t *tier)
{
    return tier->shared_bytes_per_second != 0
               ? (double)tier->shared_bytes_per_second
               : (double)tier->in_bytes_per_second + (double)tier->out_bytes_per_second;
}

/* A direction without copies is as the other one. */
static void fill_directions(dao_swap_tier_t *tier)
{
    tier->in_bytes_per_second =
        tier->in_bytes_per_second != 0 ? tier->in_bytes_per_second : tier->out_bytes_per_second;
    tier->out_bytes_per_second =
        tier->out_bytes_per_second != 0 ? tier->out_bytes_per_second : tier->in_bytes_per_second;
}

static void note_tier(dao_swap_tier_t *tier, const dao_link_speed_t *in, const dao_link_speed_t *out)
{
    uint64_t in_latency_ns = 0;
    uint64_t out_latency_ns = 0;
    if (in->count > 0) {
        dao_link_speed_fit(in, &tier->in_bytes_per_second, &in_latency_ns);
    }
    if (out->count > 0) {
        dao_link_speed_fit(out, &tier->out_bytes_per_second, &out_latency_ns);
    }
    fill_directions(tier);
    if (in->count > 0 || out->count > 0) {
        tier->latency_ns = dao_larger(in_latency_ns, out_latency_ns);
    }
}

/* What both directions of the host's link move together: less than both by themselves if copies have slowed
   each other, or did in an earlier step. */
static void note_sharing(dao_known_links_t *links, const dao_profiler_t *profiler)
{
    links->lost_share = profiler->lost_share >= 0 ? profiler->lost_share : links->lost_share;
    links->host.shared_bytes_per_second = 0;
    if (links->lost_share * DAO_MEASURED_TOLERANCE > 1) {
        double left = both_speed(&links->host) * (1 - links->lost_share);
        links->host.shared_bytes_per_second = (uint64_t)left + 1;
    }
}

void dao_known_links_note_host(dao_known_links_t *links, const dao_profiler_t *profiler)
{
    note_tier(&links->host, alone(links, profiler, DAO_STREAM_ROLE_H2D),
              alone(links, profiler, DAO_STREAM_ROLE_D2H));
    note_sharing(links, profiler);
}

/* The speed at which full pieces pass that each cost the latency. */
static uint64_t speed_by_pieces(uint64_t bytes_per_second, uint64_t latency_ns, uint64_t piece_bytes)
{
    double piece_ns = (double)piece_bytes / (double)bytes_per_second * (double)DAO_NS_PER_S;
    return (uint64_t)((double)bytes_per_second * piece_ns / (piece_ns + (double)latency_ns)) + 1;
}

bool dao_known_links_note_file(dao_known_links_t *links, const dao_link_speed_t *in,
                               const dao_link_speed_t *out, uint64_t piece_bytes, double open_share)
{
    dao_swap_tier_t file = {0};
    if (in->count == 0 && out->count == 0) {
        return false;
    }
    note_tier(&file, in, out);
    if (in->count > 0) {
        links->file.in_bytes_per_second =
            speed_by_pieces(file.in_bytes_per_second, file.latency_ns, piece_bytes);
    }
    if (out->count > 0) {
        links->file.out_bytes_per_second =
            speed_by_pieces(file.out_bytes_per_second, file.latency_ns, piece_bytes);
    }
    fill_directions(&links->file);
    links->file.latency_ns = (uint64_t)((double)file.latency_ns * open_share);
    return true;
}

static double expected_ns(const dao_link_speed_t *link, uint64_t bytes_per_second, uint64_t latency_ns)
{
    return (double)link->count * (double)latency_ns +
           link->bytes / (double)bytes_per_second * (double)DAO_NS_PER_S;
}

bool dao_known_links_have_changed(const dao_known_links_t *links, const dao_profiler_t *profiler,
                                  const dao_swap_tier_t *host, const dao_swap_tier_t *file)
{
    const dao_link_speed_t *in = alone(links, profiler, DAO_STREAM_ROLE_H2D);
    const dao_link_speed_t *out = alone(links, profiler, DAO_STREAM_ROLE_D2H);
    return (in->count > 0 &&
            dao_measured_is_off(in->ns, expected_ns(in, host->in_bytes_per_second, host->latency_ns))) ||
           (out->count > 0 &&
            dao_measured_is_off(out->ns, expected_ns(out, host->out_bytes_per_second, host->latency_ns))) ||
           (profiler->lost_share >= 0 && dao_measured_is_off(both_speed(&links->host), both_speed(host))) ||
           (links->file.in_bytes_per_second != 0 && /* else the plan's is a guess, if it has one */
            (dao_measured_is_off((double)links->file.in_bytes_per_second,
                                 (double)file->in_bytes_per_second) ||
             dao_measured_is_off((double)links->file.out_bytes_per_second,
                                 (double)file->out_bytes_per_second)));
}
