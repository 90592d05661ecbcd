/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over bytes count one element for each BYTES_PER_ELEMENT. */
#include "planning/offsets/support/work.h"

#include <string.h>

#define BYTES_PER_ELEMENT ((size_t)64)

dao_plan_work_t dao_plan_work_unlimited(void)
{
    static const _Atomic bool is_never_cancelled = false;
    return (dao_plan_work_t){.limit = UINT64_MAX, .is_cancelled = &is_never_cancelled};
}

static size_t least(size_t left, size_t right)
{
    return left < right ? left : right;
}

/* Elements of so many bytes; none for 0, of which there may be no address. */
static dao_plan_pass_t pass_over(size_t size_bytes)
{
    return (dao_plan_pass_t){.count = size_bytes == 0 ? 0 : (size_bytes - 1) / BYTES_PER_ELEMENT + 1};
}

void dao_plan_pass_copy(void *to, const void *from, size_t size_bytes, dao_plan_work_t *work)
{
    dao_plan_pass_t pass = pass_over(size_bytes);
    while (dao_plan_pass_next(&pass, work)) {
        size_t begin = pass.begin * BYTES_PER_ELEMENT, end = least(pass.end * BYTES_PER_ELEMENT, size_bytes);
        memcpy((char *)to + begin, (const char *)from + begin, end - begin);
    }
}

void dao_plan_pass_fill(void *to, int byte, size_t size_bytes, dao_plan_work_t *work)
{
    dao_plan_pass_t pass = pass_over(size_bytes);
    while (dao_plan_pass_next(&pass, work)) {
        size_t begin = pass.begin * BYTES_PER_ELEMENT, end = least(pass.end * BYTES_PER_ELEMENT, size_bytes);
        memset((char *)to + begin, byte, end - begin);
    }
}
