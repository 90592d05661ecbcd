/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by name: how much memory they have, and how fast they copy from and to the host. */
#ifndef DAO_TOOLS_LINK_DEVICE_H
#define DAO_TOOLS_LINK_DEVICE_H

#include "tools/options/options.h"
#include "tools/options/shared.h"

#include <stddef.h>
#include <stdint.h>

#define DAO_GB UINT64_C(1000000000)

/* Copies of a link of 16 lanes reach about 80 % of what it carries, which is 15.75, 31.5 and 63 GB/s for
   PCIe 3, 4 and 5: measured rates of pinned copies that vendors and users publish lie between 0.75 and 0.88.
 */
#define DAO_PCIE_3_RATE (UINT64_C(1260) * DAO_GB / 100)
#define DAO_PCIE_4_RATE (UINT64_C(2520) * DAO_GB / 100)
#define DAO_PCIE_5_RATE (UINT64_C(5040) * DAO_GB / 100)

/* NVLink-C2C of Grace Hopper carries 450 GB/s each way; the same share of it. */
#define DAO_C2C_RATE (UINT64_C(360) * DAO_GB)

/* Name, memory in bytes as the data sheet has it, and the rate of its link each way. */
#define DAO_LINK_DEVICE_LIST(X)                                                                              \
    X("t4", 16 * DAO_GB, DAO_PCIE_3_RATE)                                                                    \
    X("v100", 32 * DAO_GB, DAO_PCIE_3_RATE)                                                                  \
    X("a10", 24 * DAO_GB, DAO_PCIE_4_RATE)                                                                   \
    X("a100-40", 40 * DAO_GB, DAO_PCIE_4_RATE)                                                               \
    X("a100", 80 * DAO_GB, DAO_PCIE_4_RATE)                                                                  \
    X("rtx3090", 24 * DAO_GB, DAO_PCIE_4_RATE)                                                               \
    X("rtx4090", 24 * DAO_GB, DAO_PCIE_4_RATE)                                                               \
    X("rtx5090", 32 * DAO_GB, DAO_PCIE_5_RATE)                                                               \
    X("l40s", 48 * DAO_GB, DAO_PCIE_4_RATE)                                                                  \
    X("h100-pcie", 80 * DAO_GB, DAO_PCIE_5_RATE)                                                             \
    X("h100", 80 * DAO_GB, DAO_PCIE_5_RATE)                                                                  \
    X("h200", 141 * DAO_GB, DAO_PCIE_5_RATE)                                                                 \
    X("gh200", 96 * DAO_GB, DAO_C2C_RATE)                                                                    \
    X("mi210", 64 * DAO_GB, DAO_PCIE_4_RATE)                                                                 \
    X("mi250", 64 * DAO_GB, DAO_PCIE_4_RATE)                                                                 \
    X("mi300x", 192 * DAO_GB, DAO_PCIE_5_RATE)

/* Where no device and no rate is named: PCIe 5, as dao simulate takes it. */
#define DAO_LINK_USUAL_RATE (UINT64_C(50) * DAO_GB)

typedef struct dao_link_device {
    const char *name;
    uint64_t memory_bytes, rate;
} dao_link_device_t;

/* The devices of the list. */
extern const dao_link_device_t dao_link_devices[];

/* Speed of copies: the row of a command's options. 0 without it: see dao_link_rate(). */
#define DAO_OPTION_LINK(settings, field)                                                                     \
    {                                                                                                        \
        .name = "link", .type = DAO_OPTION_TYPE_RATE, DAO_OPTION_FIELD(settings, field), .value = "RATE",    \
        .least = 1, .help = DAO_OPTION_LINK_WORDS "; without it that of --device, or 50GB/s"                 \
    }

/* Returns the rate that --link gave, else that of --device, where it is given, else the usual one. */
uint64_t dao_link_rate(const dao_arguments_t *arguments, uint64_t rate, uint32_t device);

/* Complains that an option about how a step swaps was given for a file that has no step, or one without
   times. Returns DAO_ERR_UNSUPPORTED. */
dao_status_t dao_link_option_error(const char *option, bool has_step);

/* Returns the name of a device, NULL behind the last: the names of an option. */
const char *dao_link_device_at(size_t index);

#endif
