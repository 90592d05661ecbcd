/* SPDX-License-Identifier: Apache-2.0 */
/* What the call stacks of a snapshot say of who made a block. Frames have the innermost call first, those of
   C++ and of Python mixed:

       at::_ops::linear::call(...)   ??                     the operator: the outermost of these
       forward                       /home/me/model.py:55   the caller: the innermost that is no library's
       _call_impl                    .../torch/nn/modules/module.py:1562
       main                          /home/me/train.py:98

   gives the maker "linear, forward (model.py:55)" and the module ";main (train.py:98);forward (model.py:55)".
 */
#ifndef DAO_TOOLS_SNAPSHOT_STACKS_H
#define DAO_TOOLS_SNAPSHOT_STACKS_H

#include "tools/read/foreign/values/value_store.h"
#include "tools/read/log/event_file.h"

/* The store's numbers of the keys of a frame. */
enum { DAO_SNAPSHOT_KEY_NAME = 15, DAO_SNAPSHOT_KEY_FILENAME = 16, DAO_SNAPSHOT_KEY_LINE = 17 };

/* What is known of lists of frames already: stacks are shared by many blocks. */
typedef struct dao_snapshot_stacks {
    struct dao_snapshot_stack *stacks; /* one for each of the store's first `count` lists */
    size_t count;
} dao_snapshot_stacks_t;

void dao_snapshot_stacks_init(dao_snapshot_stacks_t *stacks);
void dao_snapshot_stacks_finish(dao_snapshot_stacks_t *stacks);

/* Finds maker and module of a list of frames, as texts of `events`, which `device` numbers. What is no such
   list has none. The list is complete. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_snapshot_stacks_label(dao_snapshot_stacks_t *stacks,
                                                     const dao_value_store_t *store, uint32_t device,
                                                     dao_value_t frames, dao_event_file_t *events,
                                                     dao_event_label_t *out_label);

#endif
