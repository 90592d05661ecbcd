/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * All of libdao for C. Each header is about one noun and can be included alone. This one adds the macros that
 * take places of any type, see dao/typed.h.
 */
#ifndef DAO_DAO_H
#define DAO_DAO_H

#include <dao/access.h>
#include <dao/api.h>
#include <dao/async.h>
#include <dao/command_list.h>
#include <dao/context.h>
#include <dao/dlpack.h>
#include <dao/executor.h>
#include <dao/file.h>
#include <dao/host_memory.h>
#include <dao/host_register.h>
#include <dao/lease.h>
#include <dao/memory.h>
#include <dao/mover.h>
#include <dao/native.h>
#include <dao/observe.h>
#include <dao/own_memory.h>
#include <dao/peer.h>
#include <dao/place.h>
#include <dao/place_config.h>
#include <dao/plan.h>
#include <dao/pressure.h>
#include <dao/recompute.h>
#include <dao/segment.h>
#include <dao/share.h>
#include <dao/source.h>
#include <dao/stats.h>
#include <dao/status.h>
#include <dao/step_plan.h>
#include <dao/stream.h>
#include <dao/swap.h>
#include <dao/swap_follow.h>
#include <dao/tag.h>
#include <dao/tensor.h>

#include <dao/typed.h> /* macros of the names above: last */

#endif
