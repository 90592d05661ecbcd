/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of runtime/ share of tags. */
#ifndef DAO_RUNTIME_TAG_INTERNAL_H
#define DAO_RUNTIME_TAG_INTERNAL_H

#include "base/threads/thread_local.h"

#include <dao/tag.h>

/* The tag that this thread's allocations are counted for when they name none. Written by tag.c alone. Every
   allocation reads it, so it has a fixed place in the thread's own memory. */
extern DAO_FAST_THREAD_LOCAL dao_tag_t dao_tag_of_thread;

/* DAO_ERR_INVALID for 0 and a number that is no tag, with a message that begins with `caller`. */
DAO_NODISCARD dao_status_t dao_tag_check(const char *caller, dao_tag_t tag);

#endif
