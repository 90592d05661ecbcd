/* SPDX-License-Identifier: Apache-2.0 */
/* Peaks since a program's marks. An allocator keeps its peaks since they were taken from it last, and knows
   of no marks; what is taken is raised into the place's own peaks, which dao_stats_get() shows, and into each
   mark there. While there are no marks nothing is taken. */
#ifndef DAO_RUNTIME_PEAK_MARKS_H
#define DAO_RUNTIME_PEAK_MARKS_H

#include "allocators/accounting/stats.h"
#include "allocators/allocator.h"

/* Adds a mark, which is set now. `allocator` is the place's; NULL: it was not used yet. DAO_ERR_TOO_MANY. */
DAO_NODISCARD dao_status_t dao_peak_marks_add(dao_place_t place, dao_allocator_t *allocator,
                                              uint64_t *out_mark);

/* Finds a mark's place; false: there is none. */
bool dao_peak_marks_find(uint64_t mark, dao_place_t *out_place);

/* Reads a mark of that place, and sets it anew if `moves`; false: there is none any more. */
bool dao_peak_marks_read(uint64_t mark, dao_place_t place, dao_allocator_t *allocator, bool moves,
                         dao_peaks_t *out_peaks);
bool dao_peak_marks_remove(uint64_t mark);
void dao_peak_marks_clear(void); /* all, and the places' own peaks */

/* Raises the peaks of `stats`, which the allocator of a place has shown, to the place's own. */
void dao_peak_marks_raise(dao_place_t place, dao_stats_t *stats);

/* Sets a place's own peaks to what it holds now. */
void dao_peak_marks_reset(dao_place_t place, dao_allocator_t *allocator);

#endif
