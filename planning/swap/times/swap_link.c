/* SPDX-License-Identifier: Apache-2.0 */
/* A copy takes the first hole of its own calendar in which it ends in time, at the speed that the other
   direction leaves. */
#include "planning/swap/times/swap_link.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"

/* Less than this of a nanosecond is what doubles round. */
#define ROUNDING_NS 1e-3

/* The part of its speed that a direction has while the other one has all of its own. */
static double part_beside(const dao_swap_tier_t *tier, bool is_in)
{
    uint64_t own = dao_swap_speed(tier, is_in), other = dao_swap_speed(tier, !is_in);
    if (!dao_swap_is_shared(tier)) {
        return 1;
    }
    return (double)(tier->shared_bytes_per_second - other) / (double)own;
}

void dao_swap_link_init(dao_swap_link_t *link, const dao_swap_tier_t *tier)
{
    *link = (dao_swap_link_t){
        .tier = tier, .in_beside = part_beside(tier, true), .out_beside = part_beside(tier, false)};
    dao_swap_calendar_init(&link->in, tier->latency_ns);
    dao_swap_calendar_init(&link->out, tier->latency_ns);
}

void dao_swap_link_finish(dao_swap_link_t *link)
{
    dao_swap_calendar_finish(&link->in);
    dao_swap_calendar_finish(&link->out);
}

/* When a copy ends that begins at `begin_ns`, would take `length_ns` alone, and has a part of its speed while
   the other direction is busy. Something behind `limit_ns` if that is later. */
static uint64_t end_beside(const dao_swap_calendar_t *other, double part, uint64_t begin_ns,
                           uint64_t length_ns, uint64_t limit_ns)
{
    uint64_t time_ns = begin_ns;
    double left_ns = (double)length_ns; /* of what it takes alone; exact up to ROUNDING_NS */
    dao_swap_calendar_place_t place = dao_swap_calendar_first(other, begin_ns);
    const dao_swap_interval_t *busy;
    while ((busy = dao_swap_calendar_at(other, place)) != NULL && time_ns <= limit_ns) {
        uint64_t alone_ns = busy->begin_ns > time_ns ? busy->begin_ns - time_ns : 0;
        if ((double)alone_ns >= left_ns - ROUNDING_NS) {
            break;
        }
        left_ns -= (double)alone_ns;
        time_ns += alone_ns;
        double moved_ns = (double)(busy->end_ns - time_ns) * part;
        if (moved_ns >= left_ns - ROUNDING_NS) {
            return time_ns + dao_ceil((left_ns - ROUNDING_NS) / part);
        }
        DAO_ASSERT(busy->end_ns >= time_ns);
        left_ns -= moved_ns;
        time_ns = busy->end_ns;
        place = dao_swap_calendar_next(other, place);
    }
    return time_ns + dao_ceil(left_ns - ROUNDING_NS);
}

/* A copy that would get nothing beside the other direction begins when that rests: until then it needs no
   room. */
static uint64_t begin_beside(const dao_swap_calendar_t *other, double part, uint64_t from_ns)
{
    return part > 0 ? from_ns : dao_swap_calendar_find(other, from_ns, 1);
}

/* A copy takes no hole that is shorter than it would be alone. */
static dao_swap_interval_t find_beside(const dao_swap_calendar_t *own, const dao_swap_calendar_t *other,
                                       double part, uint64_t from_ns, uint64_t length_ns)
{
    for (;;) {
        from_ns = dao_swap_calendar_find(own, from_ns, length_ns);
        const dao_swap_interval_t *next = dao_swap_calendar_at(own, dao_swap_calendar_first(own, from_ns));
        uint64_t hole_end_ns = next != NULL ? next->begin_ns : UINT64_MAX;
        uint64_t begin_ns = begin_beside(other, part, from_ns);
        uint64_t end_ns = end_beside(other, part, begin_ns, length_ns, hole_end_ns);
        if (next == NULL || end_ns <= hole_end_ns) {
            return (dao_swap_interval_t){begin_ns, end_ns};
        }
        from_ns = next->end_ns;
    }
}

static const dao_swap_calendar_t *calendar_of(const dao_swap_link_t *link, bool is_in)
{
    return is_in || link->tier->duplex == DAO_SWAP_DUPLEX_HALF ? &link->in : &link->out;
}

uint64_t dao_swap_link_hole(const dao_swap_link_t *link, bool is_in, uint64_t from_ns, uint64_t length_ns)
{
    return dao_swap_calendar_find(calendar_of(link, is_in), from_ns, length_ns);
}

dao_swap_interval_t dao_swap_link_find(const dao_swap_link_t *link, bool is_in, uint64_t from_ns,
                                       uint64_t size_bytes)
{
    uint64_t length_ns = dao_swap_copy_ns(link->tier, is_in, size_bytes);
    double part = is_in ? link->in_beside : link->out_beside;
    const dao_swap_calendar_t *own = calendar_of(link, is_in);
    if (part < 1) {
        return find_beside(own, is_in ? &link->out : &link->in, part, from_ns, length_ns);
    }
    uint64_t begin_ns = dao_swap_calendar_find(own, from_ns, length_ns);
    return (dao_swap_interval_t){begin_ns, begin_ns + length_ns};
}

bool dao_swap_link_book(dao_swap_link_t *link, bool is_in, const dao_swap_interval_t *time)
{
    DAO_ASSERT(time->begin_ns <= time->end_ns);
    dao_swap_calendar_t *calendar =
        is_in || link->tier->duplex == DAO_SWAP_DUPLEX_HALF ? &link->in : &link->out;
    return dao_swap_calendar_book(calendar, time->begin_ns, time->end_ns - time->begin_ns);
}

uint64_t dao_swap_link_end(const dao_swap_link_t *link)
{
    return dao_larger(dao_swap_calendar_end(&link->in), dao_swap_calendar_end(&link->out));
}
