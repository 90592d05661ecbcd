/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as a program sees them: how many, what they are, which one is current, and whether one is lost. */
#include <dao/context.h>

#include "allocators/segments/pinned.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/device/deferred_free.h"
#include "runtime/start/context.h"

const char *dao_backend_name(void)
{
    return dao_backend_ops()->name;
}

dao_status_t dao_device_count(int32_t *out_count)
{
    if (out_count == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_device_count: out_count is NULL");
    }
    dao_core_t *core;
    dao_status_t status = dao_context_enter(&core);
    if (status == DAO_OK) {
        *out_count = core->device_count;
    }
    return status;
}

dao_status_t dao_device_query(int32_t device_index, dao_device_info_t *out_info)
{
    if (out_info == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_device_query: out_info is NULL");
    }
    dao_runtime_t *runtime;
    dao_status_t status = dao_runtime_borrow(device_index, &runtime);
    if (status == DAO_OK) {
        status = dao_runtime_health(runtime, "dao_device_query");
    }
    return status == DAO_OK
               ? dao_runtime_told(runtime,
                                  runtime->memory_ops->device_query(runtime->memory_device, out_info))
               : status;
}

dao_status_t dao_device_set_current(int32_t device_index)
{
    dao_core_t *core;
    dao_status_t status = dao_thread_check();
    if (status == DAO_OK) {
        status = dao_context_enter(&core);
    }
    if (status != DAO_OK) {
        return status;
    }
    if (device_index < 0 || device_index >= core->device_count) {
        return dao_core_no_device(core, device_index);
    }
    dao_thread_device_set(device_index);
    dao_runtime_t *runtime = dao_runtime_started(device_index);
    if (runtime != NULL) {
        dao_runtime_drain(runtime);
        dao_pinned_drain(runtime->pinned_memory); /* frees that were made while other devices were current */
    }
    return DAO_OK;
}

dao_status_t dao_device_synchronize(int32_t device_index)
{
    dao_runtime_t *runtime;
    dao_status_t status = dao_runtime_borrow(device_index, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_runtime_health(runtime, "dao_device_synchronize");
    status = status == DAO_OK ? dao_runtime_synchronize(runtime) : status;
    dao_error_record_t record;
    dao_error_save(&record, status);
    dao_runtime_drain(runtime);
    return status == DAO_OK ? DAO_OK : dao_error_restore(&record);
}

dao_status_t dao_device_health(int32_t device_index)
{
    dao_core_t *core;
    dao_status_t status = dao_place_enter((dao_place_t){DAO_PLACE_KIND_DEVICE, device_index}, &core);
    dao_runtime_t *runtime = status == DAO_OK ? dao_runtime_started(device_index) : NULL;
    return runtime != NULL ? dao_runtime_health(runtime, "dao_device_health") : status;
}
