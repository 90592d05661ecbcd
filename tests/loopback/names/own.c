/* SPDX-License-Identifier: Apache-2.0 */
/* What the loopback driver as a vendor of its own spells in its own way. */
#include "tests/loopback/driver.h"

loopback_error_t loopback_launch_host_func(loopback_stream_t stream, void (*function)(void *), void *user)
{
    return loopback_host_func("launch host function", stream, function, user);
}

loopback_error_t loopback_copy_batch(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                     size_t count, loopback_stream_t stream)
{
    if (stream == NULL || loopback_driver.settings.has_no_batches) {
        return loopback_error(LOOPBACK_ERROR_NOT_SUPPORTED);
    }
    return loopback_queue_batch("copy batch", dsts, srcs, sizes, count, stream);
}

loopback_error_t loopback_stream_wait_word(loopback_stream_t stream, void *word, uint32_t value)
{
    return loopback_wait_word("stream wait word", stream, word, value);
}

loopback_error_t loopback_mem_get_address_range(void **out_base, size_t *out_size_bytes, void *address)
{
    return loopback_address_range(out_base, out_size_bytes, address);
}

loopback_error_t loopback_stream_get_id(loopback_stream_t stream, unsigned long long *out_id)
{
    return loopback_stream_id(stream, out_id);
}

loopback_error_t loopback_stream_begin_capture(loopback_stream_t stream, loopback_capture_mode_t mode)
{
    (void)mode; /* every call of the library is checked for it */
    return loopback_capture_begin(stream);
}

loopback_error_t loopback_stream_end_capture(loopback_stream_t stream, void **out_graph)
{
    return loopback_capture_end(stream, out_graph);
}

loopback_error_t loopback_stream_get_capture_info(loopback_stream_t stream,
                                                  loopback_capture_status_t *out_status,
                                                  unsigned long long *out_id)
{
    return loopback_capture_info(stream, out_status, out_id);
}
