/* SPDX-License-Identifier: Apache-2.0 */
/* Lost devices. A device is lost after an error that makes it fail every later call, such as an illegal
   address in a kernel or a card that fell off the bus. From then on, until the library is finalized and
   started again,

       what needs the device     fails at once, with the first error: no driver is called again and again
       frees                     change the library's records alone
       all other places          go on */
#include "runtime/device/runtime.h"

#include "allocators/slow_path.h"

#include <inttypes.h>

void dao_runtime_lose(dao_runtime_t *runtime)
{
    int none = DAO_LOSS_NONE;
    if (!atomic_compare_exchange_strong(&runtime->loss, &none, DAO_LOSS_NOTED)) {
        return;
    }
    dao_error_save(&runtime->loss_error, DAO_ERR_DEVICE_LOST);
    atomic_store_explicit(&runtime->loss, DAO_LOSS_TOLD, memory_order_release);
    dao_slow_path_begin(); /* until the runtime ends: the fast path of dao_alloc() does not check health */
}

/* Asks a device, which a lost one answers with its error. */
static void ask(dao_runtime_t *runtime)
{
    dao_device_info_t info;
    (void)dao_runtime_told(runtime, runtime->ops->device_query(runtime->device, &info));
}

dao_status_t dao_runtime_told_of_two(dao_runtime_t *runtime, dao_runtime_t *other, dao_status_t status)
{
    if (status != DAO_ERR_DEVICE_LOST) {
        return status;
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    ask(other);
    ask(runtime);
    return dao_error_restore(&record);
}

dao_status_t dao_runtime_health(const dao_runtime_t *runtime, const char *function)
{
    if (!dao_runtime_is_lost(runtime)) {
        return DAO_OK;
    }
    return dao_error_vendor(DAO_ERR_DEVICE_LOST, runtime->loss_error.vendor_code,
                            "%s: device:%" PRId32 " is lost until the library is started anew, since: %s",
                            function, runtime->device_index, runtime->loss_error.message);
}
