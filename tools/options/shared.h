/* SPDX-License-Identifier: Apache-2.0 */
/* Options that many commands have: rows of their tables. */
#ifndef DAO_TOOLS_SHARED_H
#define DAO_TOOLS_SHARED_H

#include "tools/options/options.h"

#define DAO_OPTION_BATCH(settings, field)                                                                    \
    {                                                                                                        \
        .name = "batch", .type = DAO_OPTION_TYPE_TEXT, DAO_OPTION_FIELD(settings, field), .value = "B",      \
        .help = "which batch size, if a step's folder has several"                                           \
    }

/* What happened on one of the devices that a file tells of: "device", or "of" where that is another thing. */
#define DAO_OPTION_LOG_DEVICE(text, settings, field)                                                         \
    {                                                                                                        \
        .name = (text), .type = DAO_OPTION_TYPE_TEXT, DAO_OPTION_FIELD(settings, field), .value = "D",       \
        .help = "which device of the file; without it the one with the highest peak"                         \
    }

/* What --link is, for every command that has it. */
#define DAO_OPTION_LINK_WORDS "speed of copies each way"

/* Bytes of the host that tensors may move to; the field is 0 without it. */
#define DAO_OPTION_HOST(settings, field)                                                                     \
    {                                                                                                        \
        .name = "host", .type = DAO_OPTION_TYPE_BYTES, DAO_OPTION_FIELD(settings, field), .value = "SIZE",   \
        .least = 1, .help = "most host memory to move tensors to; without it no limit"                       \
    }

#define DAO_OPTION_RUN_TRACE(settings, field)                                                                \
    {                                                                                                        \
        .name = "trace", .type = DAO_OPTION_TYPE_PATH, DAO_OPTION_FIELD(settings, field), .value = "OUT",    \
        .help = "write kernels and copies as Chrome's trace events, for Perfetto"                            \
    }

/* Where plans put tensors: two flags, and their rule. */
#define DAO_OPTION_STATIC(settings, field)                                                                   \
    {                                                                                                        \
        .name = "static", .type = DAO_OPTION_TYPE_FLAG, DAO_OPTION_FIELD(settings, field),                   \
        .help = "plans have static addresses, also where pages would make the step shorter"                  \
    }
#define DAO_OPTION_PAGES(settings, field)                                                                    \
    {                                                                                                        \
        .name = "pages", .type = DAO_OPTION_TYPE_FLAG, DAO_OPTION_FIELD(settings, field),                    \
        .help = "plans have large tensors in pages, also where static addresses would do"                    \
    }
#define DAO_OPTION_ADDRESSES_RULE                                                                            \
    {                                                                                                        \
        "static", "pages", false, "--static and --pages exclude each other"                                  \
    }

/* The complaint about them with the name of a scheme that makes no plans. */
#define DAO_OPTION_ADDRESSES_MISUSE "--static and --pages are for schemes that plan, not for --scheme %s"

/* What the two flags say, as dao_swap_addresses_t. */
#define DAO_OPTION_ADDRESSES(is_static, is_paged)                                                            \
    ((is_static)  ? DAO_SWAP_ADDRESSES_STATIC                                                                \
     : (is_paged) ? DAO_SWAP_ADDRESSES_PAGES                                                                 \
                  : DAO_SWAP_ADDRESSES_BEST)

#define DAO_OPTION_JSON(settings, field, text)                                                               \
    {                                                                                                        \
        .name = "json", .type = DAO_OPTION_TYPE_FLAG, DAO_OPTION_FIELD(settings, field), .help = (text)      \
    }

#endif
