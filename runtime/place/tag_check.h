/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a number is a tag. */
#ifndef DAO_RUNTIME_TAG_CHECK_H
#define DAO_RUNTIME_TAG_CHECK_H

#include <dao/tag.h>

/* DAO_ERR_INVALID for 0 and a number that is no tag, with a message that begins with `caller`. */
DAO_NODISCARD dao_status_t dao_tag_check(const char *caller, dao_tag_t tag);

#endif
