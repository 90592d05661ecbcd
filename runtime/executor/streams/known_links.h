/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the links, from steps that were measured or copies made for that: as tiers of
   dao/swap.h, to plan with. */
#ifndef DAO_RUNTIME_EXECUTOR_KNOWN_LINKS_H
#define DAO_RUNTIME_EXECUTOR_KNOWN_LINKS_H

#include "runtime/executor/streams/profiler.h"

#include <dao/swap.h>

#include <stdbool.h>

/* Figures that differ by more than 1 / this from those that a plan was made with are others: 5 %. */
#define DAO_MEASURED_TOLERANCE 20u

/* All zero: nothing. */
typedef struct dao_known_links {
    dao_swap_tier_t host; /* without speed: nothing was measured yet */
    double lost_share; /* of what its directions move by themselves, lost while both copy; as measured last */
    dao_swap_tier_t file; /* likewise, through the pinned pieces */
} dao_known_links_t;

static inline bool dao_known_links_have_any(const dao_known_links_t *links)
{
    return links->host.in_bytes_per_second != 0 || links->file.in_bytes_per_second != 0;
}

/* Notes what a profiler that is done has measured of the host's link. */
void dao_known_links_note_host(dao_known_links_t *links, const dao_profiler_t *profiler);

/* Notes the pieces of at most `piece_bytes` that moved in from the file and out to it. A tensor's full pieces
   have the latency in their speed; its last one takes `open_share` of a latency longer, in the mean. Returns
   false if none moved: nothing changes. */
bool dao_known_links_note_file(dao_known_links_t *links, const dao_link_speed_t *in,
                               const dao_link_speed_t *out, uint64_t piece_bytes, double open_share);

/* Returns true if measured and expected differ by more than the tolerance. */
bool dao_measured_is_off(double measured, double expected);

/* Returns true if what was measured, and noted, is not what a plan was made with any more. */
bool dao_known_links_have_changed(const dao_known_links_t *links, const dao_profiler_t *profiler,
                                  const dao_swap_tier_t *host, const dao_swap_tier_t *file);

#endif
