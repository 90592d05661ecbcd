/* SPDX-License-Identifier: Apache-2.0 */
/* page/ as bytes, before the data and behind it: embed.cmake makes the definitions. */
#ifndef DAO_TOOLS_REPORT_PAGE_PARTS_H
#define DAO_TOOLS_REPORT_PAGE_PARTS_H

#include <stddef.h>

extern const unsigned char dao_report_page_begin[];
extern const size_t dao_report_page_begin_bytes;
extern const unsigned char dao_report_page_end[];
extern const size_t dao_report_page_end_bytes;

#endif
