/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fit/link_device.h"

#include "base/report/error.h"

const dao_link_device_t dao_link_devices[] = {
#define DEVICE_ROW(name, memory_bytes, rate) {name, memory_bytes, rate},
    DAO_LINK_DEVICE_LIST(DEVICE_ROW)
#undef DEVICE_ROW
};

enum { DEVICE_COUNT = sizeof(dao_link_devices) / sizeof(dao_link_devices[0]) };

const char *dao_link_device_at(size_t index)
{
    return index < DEVICE_COUNT ? dao_link_devices[index].name : NULL;
}

uint64_t dao_link_rate(const dao_arguments_t *arguments, uint64_t rate, uint32_t device)
{
    bool has_device = dao_option_is_given(arguments, "device");
    return rate != 0 ? rate : has_device ? dao_link_devices[device].rate : DAO_LINK_USUAL_RATE;
}

dao_status_t dao_link_option_error(const char *option, bool has_step)
{
    return dao_error(DAO_ERR_UNSUPPORTED, "--%s is for a step%s (docs/formats.md)", option,
                     has_step ? " with times: this one has none"
                              : ": this does not tell which operator uses what");
}
