/* SPDX-License-Identifier: Apache-2.0 */
/* The way from the sync layer and from atomic operations to the table that a test has installed. Only builds
   with DAO_SCHEDULE have this file. */
#include "base/schedule/schedule.h"

const dao_schedule_ops_t *dao_schedule_ops;

void dao_schedule_atomic(const volatile void *object)
{
    if (dao_schedule_ops->is_mine()) {
        dao_schedule_ops->point("atomic", object, __builtin_return_address(0));
    }
}

void dao_schedule_point(const char *what, const volatile void *object, const void *from)
{
    dao_schedule_ops->point(what, object, from);
}

bool dao_schedule_wait(const char *what, const volatile void *object, uint64_t until_ns, const void *from)
{
    return dao_schedule_ops->wait(what, object, until_ns, from);
}

void dao_schedule_wake(const volatile void *object, bool all)
{
    dao_schedule_ops->wake(object, all);
}

void dao_schedule_yield(void)
{
    dao_schedule_ops->yield(__builtin_return_address(0));
}

uint64_t dao_schedule_clock(void)
{
    return dao_schedule_ops->clock();
}

void *dao_schedule_begin(const char *name, void *(*function)(void *), void *user)
{
    return dao_schedule_ops->begin(name, function, user);
}

void *dao_schedule_main(void *record)
{
    return dao_schedule_ops->main(record);
}

void dao_schedule_begun(void *record, const pthread_t *handle)
{
    dao_schedule_ops->begun(record, handle);
}

void dao_schedule_join(pthread_t handle)
{
    dao_schedule_ops->join(handle);
}
