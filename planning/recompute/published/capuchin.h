/* SPDX-License-Identifier: Apache-2.0 */
/* Capuchin's order (Peng et al., ASPLOS'20): copies first, as far as kernels hide them; what memory lacks
   then is computed again, by the bytes that a second of it saves.

       kernel       0     1     2     3     4     5
       tensor       W-----.     .     .     .-----R        W write, R read
       out                |=====|     .     .
       in                       .     |=====|
                                |-----|                    the period's free time

   As its authors and others describe it: one step is measured, each kernel run once, and nothing waits. What
   may leave are the periods between two accesses of a tensor in a row, over a moment where memory lacks.

   The free time of a period is that between its copy out and its copy in. The longest one is chosen first, as
   long as memory lacks and the copies are hidden. A link makes one copy a direction at a time: a copy out
   begins as early as the link is free, and a copy in as late as it is.

   Then that period is computed again whose saving is greatest: its bytes over the time of all kernels that
   have to run for it, back to what is there, on the device or copied. Behind each choice savings are counted
   anew: what was made of the chosen one needs its kernels too, and what is there for some of the chosen ones
   has to be made for each of them if it goes as well.

   Added here: where the copy in takes less than that, though kernels wait for it, it is copied; and periods
   go on around the step's end, as the steps repeat. */
#ifndef DAO_PLANNING_CAPUCHIN_H
#define DAO_PLANNING_CAPUCHIN_H

#include "planning/recompute/play/recompute_play.h"

/* What a tensor does between an access and the next one. */
typedef enum dao_capuchin_way {
    DAO_CAPUCHIN_STAYS = 0,
    DAO_CAPUCHIN_COPIED = 1,
    DAO_CAPUCHIN_AGAIN = 2,
} dao_capuchin_way_t;

/* Chooses for a step that is over its problem's capacity, copies over the link of its host. `play` is asked
   what can be made again. `out_ways`, one an access, is written. DAO_ERR_STOPPED by the step's
   cancel; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_capuchin_choose(const dao_recompute_contents_t *contents,
                                               const dao_recompute_play_t *play,
                                               dao_capuchin_way_t *out_ways);

#endif
