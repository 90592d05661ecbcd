/* SPDX-License-Identifier: Apache-2.0 */
/* Planned offsets as a page carries them. A plan puts nearly every buffer on another one, and which one that
   is takes a third of the bytes of an offset. Of buffers by their begins:

       a column    0: the offset is told; else the buffer begins at the end of another one, rounded up to the
                   unit, which lies so many buffers before it, or behind it: 2 * distance - 1, 2 * distance
       a column    the offsets that are told, by the unit

   The other buffer has a lower offset, so that no two name each other. */
#ifndef DAO_TOOLS_REPORT_PAGE_OFFSETS_H
#define DAO_TOOLS_REPORT_PAGE_OFFSETS_H

#include "tools/report/page_bytes.h"
#include "tools/report/view.h"

/* Returns a divisor of all offsets, 1 if they are all 0. */
uint64_t dao_page_offset_unit(const dao_report_view_t *view);

/* Puts the two columns; a failure is the page's. */
void dao_page_put_offsets(dao_page_bytes_t *page, const dao_report_view_t *view, uint64_t unit);

#endif
