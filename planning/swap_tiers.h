/* Who leaves to which tier. */
#ifndef DAO_PLANNING_SWAP_TIERS_H
#define DAO_PLANNING_SWAP_TIERS_H

#include "planning/swap_parts.h"

/* Chooses for each part that is ever away one tier for the whole step: the host as far as its limit goes, the file for the rest,
   those first that move seldom and are away long. DAO_ERR_HOST_FULL if the file's limit is reached too or there is no file;
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_tiers(const dao_swap_parts_t *parts, dao_swap_gap_t *gaps);

#endif
