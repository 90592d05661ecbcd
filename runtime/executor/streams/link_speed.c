/* SPDX-License-Identifier: Apache-2.0 */
/* The least-squares line through (bytes, time), in one pass: only sums are kept.

   Where all sizes are alike, or noise outweighs their differences, no line can be told from the points;
   the latency counts as 0 then and the speed is bytes over time. Invariant: bytes and ns are the sums over
   count transfers. */
#include "runtime/executor/streams/link_speed.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"

void dao_link_speed_note(dao_link_speed_t *link, uint64_t size_bytes, uint64_t time_ns)
{
    double bytes = (double)size_bytes;
    double ns = (double)time_ns;
    link->count++;
    link->bytes += bytes;
    link->ns += ns;
    link->bytes_bytes += bytes * bytes;
    link->bytes_ns += bytes * ns;
}

void dao_link_speed_fit(const dao_link_speed_t *link, uint64_t *out_bytes_per_second,
                        uint64_t *out_latency_ns)
{
    double count = (double)link->count;
    double spread = count * link->bytes_bytes - link->bytes * link->bytes;
    double product = count * link->bytes_ns - link->bytes * link->ns;
    double ns_per_byte = spread > 0 ? product / spread : 0;
    double latency_ns = (link->ns - ns_per_byte * link->bytes) / count;
    DAO_ASSERT(link->count > 0);
    if (ns_per_byte <= 0 ||
        latency_ns < 0) { /* sizes are alike, or noise is larger than what they differ by */
        ns_per_byte = link->ns / link->bytes;
        latency_ns = 0;
    }
    double bytes_per_second = ns_per_byte > 0 ? (double)DAO_NS_PER_S / ns_per_byte : (double)DAO_NS_PER_S;
    *out_bytes_per_second = bytes_per_second >= 1 ? (uint64_t)bytes_per_second : 1;
    *out_latency_ns = (uint64_t)latency_ns;
}
