/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a place as JSON, for callers without callbacks, such as Python's ctypes. */
#ifndef DAO_INTEGRATIONS_STATS_JSON_H
#define DAO_INTEGRATIONS_STATS_JSON_H

#include <dao/place.h>

DAO_BEGIN_DECLS

/* Writes the figures of dao_stats_tree_walk() as one object. Returns the size of the whole text with its
   closing zero, of which at most text_bytes are written; 0, with dao_last_status(), if there are no
   figures. */
size_t dao_stats_json_write(dao_place_t place, char *out_text, size_t text_bytes);

/* Likewise for the step plan of a place: arena, plan, bound, and the counts of the latest step. */
size_t dao_step_plan_json_write(dao_place_t place, char *out_text, size_t text_bytes);

DAO_END_DECLS

#endif
