/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a place as JSON, for callers that have no functions to hand over, such as Python's ctypes.
   */
#ifndef DAO_INTEGRATIONS_STATS_JSON_H
#define DAO_INTEGRATIONS_STATS_JSON_H

#include <dao/place.h>

DAO_BEGIN_DECLS

/* Writes the figures of dao_stats_tree_walk() as one object. Gives the bytes that the whole text takes, the
   closing zero included, of which at most text_bytes are written; 0 if there are no figures, with
   dao_last_status(). */
size_t dao_stats_json_write(dao_place_t place, char *out_text, size_t text_bytes);

/* Likewise how the latest step was served from a plan: arena, plan, bound, and what was counted in it.
   */
size_t dao_step_plan_json_write(dao_place_t place, char *out_text, size_t text_bytes);

DAO_END_DECLS

#endif
