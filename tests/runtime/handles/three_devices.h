/* SPDX-License-Identifier: Apache-2.0 */
/* The library on three small devices, for tests of what they do with each other and the host. */
#ifndef DAO_TESTS_RUNTIME_HANDLES_THREE_DEVICES_H
#define DAO_TESTS_RUNTIME_HANDLES_THREE_DEVICES_H

#include <dao/dao.h>

#include "runtime/start/context.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/suite.h"

static const dao_config_t config = {.cpu = {.device_count = 3, .device_bytes = 64 * MIB}};

static inline void begin(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

static inline void end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* Starts on a table of one's own, without what `leave_out` takes away; or with nothing taken away, where
   calls can fail. */
static inline void begin_without(void (*leave_out)(dao_backend_ops_t *ops))
{
    static const fault_config_t plain = {0};
    static dao_backend_ops_t ops;
    ops = *fault_backend_wrap(dao_backend_ops(), &plain);
    if (leave_out != NULL) {
        leave_out(&ops);
    }
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, &ops), DAO_OK);
}

static inline dao_stream_t *stream_of(dao_device_place_t device)
{
    dao_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(device.index, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    return stream;
}

#endif
