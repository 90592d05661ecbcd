/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * All of libdao for C. Each header is about one noun and can be included alone; docs/README.md says which one
 * is for what. This one adds the macros that take places of any type, see dao/typed.h.
 *
 * The text of a function ends with three words:
 *
 * - Threads: which threads may call it. "any" is any thread at any time, beside every other call. "one at a
 *   time for X" is any thread, and the program sees to it that no other such call on the same X is under way.
 *   What a call destroys is not in use by another call.
 * - Waits: what the call may wait for besides short locks: the device, a file, a callback of the program, a
 *   timeout, another thread that starts a device or makes a place larger. "never" is none of these.
 * - Cost: what it takes if it does not wait. O(1) is a small time that does not grow with what there is, at
 *   least on average; a backend call is one of the vendor's, which takes as long as it takes.
 *
 * Errors: a text lists the codes that its call answers by itself. Each call that needs the library may also
 * answer DAO_ERR_FORKED in a child process (dao/context.h), and DAO_ERR_SHUTDOWN after dao_finalize(); each
 * that uses a device DAO_ERR_DEVICE_LOST once it is lost, and DAO_ERR_BACKEND where the vendor's call failed;
 * each that would not be safe inside a callback DAO_ERR_REENTRANT there. After a failure dao_last_message()
 * is a sentence about it (dao/status.h).
 */
#ifndef DAO_DAO_H
#define DAO_DAO_H

/* Every header needs these. */
#include <dao/api.h>    /* the version, visibility, C linkage */
#include <dao/status.h> /* what calls answer: a code, and a message for the thread */

/* Memory at a place. */
#include <dao/dlpack.h>        /* tensors of other libraries as ours, and ours as theirs */
#include <dao/host_memory.h>   /* where the host's memory lies: NUMA nodes, huge pages */
#include <dao/host_register.h> /* memory of the program that devices copy from and to directly */
#include <dao/memory.h>        /* allocate, free, copy; counted handles */
#include <dao/own_memory.h>    /* places over memory that the program obtains itself */
#include <dao/place.h>         /* host, pinned memory, devices */
#include <dao/place_config.h>  /* strategy, size at the start, growth, hardening */
#include <dao/pressure.h>      /* what happens when memory is short */
#include <dao/step_plan.h>     /* a place learns the requests of a repeating step */
#include <dao/tag.h>           /* what memory is used for, counted and limited */
#include <dao/tensor.h>        /* views with a type, a shape and strides */

/* Devices, and memory in the order of their streams. */
#include <dao/async.h>   /* blocks are allocated and freed in the order of streams */
#include <dao/context.h> /* start and stop, devices, the log */
#include <dao/lease.h>   /* memory of captured graphs */
#include <dao/native.h>  /* the order of the vendor's own streams */
#include <dao/peer.h>    /* devices that reach each other's memory */
#include <dao/share.h>   /* device memory of several processes */
#include <dao/stream.h>  /* streams, events, copies */

/* Steps whose tensors do not all fit on the device: docs/executor.md. */
#include <dao/access.h>       /* how a kernel uses a tensor */
#include <dao/command_list.h> /* kernels registered first, planned, run again and again */
#include <dao/executor.h>     /* kernels and the tensors that it moves for them */
#include <dao/file.h>         /* the file that takes what pinned memory does not */
#include <dao/mover.h>        /* moves of memory that a framework owns */
#include <dao/source.h>       /* weights that stay in a file or in memory of the program */

/* Planning, from numbers alone: no device is used. */
#include <dao/plan.h>        /* offsets of buffers with known lifetimes */
#include <dao/recompute.h>   /* kernels that run again beside swapping */
#include <dao/swap.h>        /* the copies of a step that swaps, and their bound */
#include <dao/swap_follow.h> /* a plan of copies followed by the program itself */

/* Observing. */
#include <dao/observe.h> /* events, snapshots, which block an address is in */
#include <dao/segment.h> /* callbacks for memory that a place takes and gives back */
#include <dao/stats.h>   /* what a place holds, in bytes and counts */

#include <dao/typed.h> /* macros of the names above: last */

#endif
