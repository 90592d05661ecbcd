/* SPDX-License-Identifier: Apache-2.0 */
/* A tier's link in logical time: when each of its directions copies.

       in    |=====|          |==========|
       out         |=======|     |. . . .|

   Each direction has a calendar. A copy beside one of the other direction has what that one leaves of the
   speed that both share: it holds its direction for longer, or has to wait.

   At no time do the copies that are booked move more than the link does. Half duplex: both directions have
   one calendar. */
#ifndef DAO_PLANNING_SWAP_LINK_H
#define DAO_PLANNING_SWAP_LINK_H

#include "planning/swap/step/swap_tier.h"
#include "planning/swap/times/swap_calendar.h"

typedef struct dao_swap_link {
    const dao_swap_tier_t *tier; /* borrowed */
    dao_swap_calendar_t in, out;
    /* Part of its speed that a copy has beside one of the other direction: 0 to 1. */
    double in_beside, out_beside;
} dao_swap_link_t;

/* The tier may have no speed: then nothing is asked for. */
void dao_swap_link_init(dao_swap_link_t *link, const dao_swap_tier_t *tier);
void dao_swap_link_finish(dao_swap_link_t *link); /* also one that is all zero */

/* The earliest time from `from_ns` on at which a copy can be made. */
dao_swap_interval_t dao_swap_link_find(const dao_swap_link_t *link, bool is_in, uint64_t from_ns,
                                       uint64_t size_bytes);

/* The earliest time from `from_ns` on at which a direction copies nothing for `length_ns`: no copy that is as
   long alone begins before. */
uint64_t dao_swap_link_hole(const dao_swap_link_t *link, bool is_in, uint64_t from_ns, uint64_t length_ns);

/* Takes a time that was found. False if there is no host memory: nothing is changed. */
bool dao_swap_link_book(dao_swap_link_t *link, bool is_in, const dao_swap_interval_t *time);

/* The end of the last copy; 0 if there is none. */
uint64_t dao_swap_link_end(const dao_swap_link_t *link);

#endif
