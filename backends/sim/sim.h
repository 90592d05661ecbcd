/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual devices in virtual time: a discrete-event clock in the place of threads, so that hours of a device
   take milliseconds and the same calls always give the same times.

   Time stands still while the host works, however long that takes; it runs only while the host waits in one
   of the calls that synchronize or destroy a stream, up to the moment that the host waits for. So nothing
   moves before somebody waits, and asking an event again and again moves nothing. A wait that nothing can end
   is answered DAO_ERR_BACKEND.

   What takes time: a copy over a link latency + bytes / bandwidth, during which the link is taken, in the
   order in which copies come to it; work of dao_sim_stream_work() and a delay what they say. Copies within a
   device or the host, fills and host functions take none. A host function is called when its stream's time
   has come, by the thread that waits.

   Settings are those of virtual devices, `cpu` of dao_config_t; the environment is not asked. 2 devices of 4
   GiB by default. */
#ifndef DAO_BACKENDS_SIM_SIM_H
#define DAO_BACKENDS_SIM_SIM_H

#include "backends/backend.h"

/* Memory has addresses but no bytes: touching it faults. */
extern const dao_backend_ops_t dao_sim_backend_ops;

/* Memory has bytes, and copies and fills carry them when they end. */
extern const dao_backend_ops_t dao_sim_bytes_backend_ops;

/* The time of a device's backend, from 0 as it was opened. Callable from a host function. */
uint64_t dao_sim_now_ns(dao_backend_device_t *device);

/* Queues work that takes this long, such as a kernel. DAO_ERR_NO_HOST_MEMORY, DAO_ERR_REENTRANT. */
DAO_NODISCARD dao_status_t dao_sim_stream_work(dao_backend_stream_t *stream, uint64_t duration_ns);

/* Lets time pass up to a moment, as a host that is busy until then. DAO_ERR_REENTRANT. */
DAO_NODISCARD dao_status_t dao_sim_pass(dao_backend_device_t *device, uint64_t until_ns);

/* Something that took time: work, a copy over a link, or what else held a stream up. */
typedef enum dao_sim_span_kind {
    DAO_SIM_SPAN_WORK,
    DAO_SIM_SPAN_IN,
    DAO_SIM_SPAN_OUT,
    DAO_SIM_SPAN_DELAY,
} dao_sim_span_kind_t;
typedef struct dao_sim_span {
    dao_sim_span_kind_t kind;
    uint64_t begin_ns; /* a copy: when it got its link */
    uint64_t end_ns;
    uint64_t size_bytes; /* of a copy */
} dao_sim_span_t;

/* Has every span of a device's backend told as it ends, in the order of their ends, by the thread that moves
   time. The callback must not call the device. NULL: no more. Set it while nothing is queued. */
typedef void (*dao_sim_watch_t)(const dao_sim_span_t *span, void *user);
void dao_sim_watch(dao_backend_device_t *device, dao_sim_watch_t watch, void *user);

/* Something that holds a stream up until it is opened; for tests. Give it up once no stream waits for it. */
typedef struct dao_sim_gate dao_sim_gate_t;
DAO_NODISCARD dao_status_t dao_sim_gate_create(dao_backend_stream_t *stream, dao_sim_gate_t **out_gate);
void dao_sim_gate_open(dao_sim_gate_t *gate);
void dao_sim_gate_destroy(dao_sim_gate_t *gate);

#endif
