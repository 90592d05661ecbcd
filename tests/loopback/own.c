/* What the loopback driver as a vendor of its own spells in its own way. */
#include "tests/loopback/driver.h"

loopback_error_t loopback_launch_host_func(loopback_stream_t stream, void (*function)(void *), void *user)
{
    return loopback_host_func("launch host function", stream, function, user);
}
