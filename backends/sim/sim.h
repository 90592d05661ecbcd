/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual devices in virtual time: a discrete-event clock instead of threads. Hours of a device take
   milliseconds, and the same calls always give the same times.

   The time stands still while the host computes. It advances only while the host waits in a call that
   synchronizes or destroys a stream, and only to the moment that ends the wait. Polling an event therefore
   moves nothing. A wait that nothing can end is answered DAO_ERR_BACKEND.

       copy over a link                  latency + bytes / bandwidth; copies use the link one by one
       dao_sim_stream_work(), a delay    the duration that was given
       copy within device or host,
       fill, host function               no time; a function is called by the waiting thread

   Settings are those of virtual devices, `cpu` of dao_config_t, without the environment's. The default is 2
   devices of 4 GiB. */
#ifndef DAO_BACKENDS_SIM_SIM_H
#define DAO_BACKENDS_SIM_SIM_H

#include "backends/backend.h"

/* Memory has addresses but no bytes: touching it faults. */
extern const dao_backend_ops_t dao_sim_backend_ops;

/* Memory has bytes, and copies and fills carry them when they end. */
extern const dao_backend_ops_t dao_sim_bytes_backend_ops;

/* Returns the time of a device's backend in ns, 0 at its opening. May be called from a host function. */
uint64_t dao_sim_now_ns(dao_backend_device_t *device);

/* Queues work of this duration, such as a kernel. DAO_ERR_NO_HOST_MEMORY, DAO_ERR_REENTRANT. */
DAO_NODISCARD dao_status_t dao_sim_stream_work(dao_backend_stream_t *stream, uint64_t duration_ns);

/* Advances the time to a moment, as if the host had been busy until then. DAO_ERR_REENTRANT. */
DAO_NODISCARD dao_status_t dao_sim_pass(dao_backend_device_t *device, uint64_t until_ns);

/* Something that took time: work, a copy over a link, or a delay. */
typedef enum dao_sim_span_kind {
    DAO_SIM_SPAN_WORK,
    DAO_SIM_SPAN_IN,
    DAO_SIM_SPAN_OUT,
    DAO_SIM_SPAN_DELAY,
} dao_sim_span_kind_t;
typedef struct dao_sim_span {
    dao_sim_span_kind_t kind;
    uint64_t begin_ns; /* of a copy: when the link was its own */
    uint64_t end_ns;
    uint64_t size_bytes; /* of a copy */
    const dao_backend_stream_t *stream;
} dao_sim_span_t;

/* Reports every span of a device's backend as it ends, in the order of the ends, from the thread that moves
   the time. The callback must not call the device. NULL ends the reports. Set it while nothing is queued. */
typedef void (*dao_sim_span_callback_t)(const dao_sim_span_t *span, void *user);
void dao_sim_span_callback_set(dao_backend_device_t *device, dao_sim_span_callback_t callback, void *user);

/* Blocks a stream until it is opened; for tests. Destroy it once no stream waits for it. */
typedef struct dao_sim_gate dao_sim_gate_t;
DAO_NODISCARD dao_status_t dao_sim_gate_create(dao_backend_stream_t *stream, dao_sim_gate_t **out_gate);
void dao_sim_gate_open(dao_sim_gate_t *gate);
void dao_sim_gate_destroy(dao_sim_gate_t *gate);

#endif
