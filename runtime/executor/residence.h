/* The transitions of a tensor's residence. */
#ifndef DAO_RUNTIME_EXECUTOR_RESIDENCE_H
#define DAO_RUNTIME_EXECUTOR_RESIDENCE_H

#include "runtime/executor/engine.h"
#include "runtime/executor/managed.h"

/* Gives a tensor a part of the arena that was taken for it, to be written soon. */
void dao_residence_land(dao_managed_t *tensor, uint64_t offset_bytes);

/* Takes that part away again from a tensor that nothing was written to. */
void dao_residence_unland(dao_engine_t *engine, dao_managed_t *tensor);

/* HOST with a part -> BOTH: queues the copy to the device. DAO_ERR_COPY_FAILED: nothing has changed. */
DAO_NODISCARD dao_status_t dao_residence_fetch(dao_engine_t *engine, dao_managed_t *tensor);

/* EMPTY with a part -> DEVICE: queues a fill with zeros. On an error nothing has changed. */
DAO_NODISCARD dao_status_t dao_residence_zero(dao_engine_t *engine, dao_managed_t *tensor);

/* DEVICE -> BOTH: queues the copy out. DAO_ERR_HOST_FULL, DAO_ERR_COPY_FAILED: nothing has changed. */
DAO_NODISCARD dao_status_t dao_residence_clean(dao_engine_t *engine, dao_managed_t *tensor);

/* DEVICE or BOTH -> HOST: gives up the part, after queueing the copy that DEVICE needs. DAO_ERR_HOST_FULL,
   DAO_ERR_COPY_FAILED: nothing has changed. */
DAO_NODISCARD dao_status_t dao_residence_evict(dao_engine_t *engine, dao_managed_t *tensor);

/* Any with a part -> DEVICE: a kernel that was queued with this number writes the tensor. */
void dao_residence_written(dao_engine_t *engine, dao_managed_t *tensor, uint64_t compute_sequence);

/* BOTH -> DEVICE: gives up the host's copy. */
void dao_residence_drop_host(dao_engine_t *engine, dao_managed_t *tensor);

/* BOTH -> HOST: gives up the device's copy. */
void dao_residence_drop_device(dao_engine_t *engine, dao_managed_t *tensor);

/* Any -> EMPTY. */
void dao_residence_discard(dao_engine_t *engine, dao_managed_t *tensor);

/* Any -> HOST (or DEVICE, if the host is full and the tensor has a part): the program's bytes replace the content. */
DAO_NODISCARD dao_status_t dao_residence_write(dao_engine_t *engine, dao_managed_t *tensor,
                                               const void *source);

/* Copies the content to the program's memory and waits for it; changes nothing. */
DAO_NODISCARD dao_status_t dao_residence_read(dao_engine_t *engine, dao_managed_t *tensor, void *destination);

/* Holds a part of the arena that nothing was written to yet. */
bool dao_residence_is_landing(const dao_managed_t *tensor);

bool dao_residence_is_valid(const dao_managed_t *tensor);

#endif
