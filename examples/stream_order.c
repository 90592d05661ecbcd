/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in stream order: two streams use a hundred blocks each, and the host waits for nothing in between. A
   freed block serves the same stream again at once, and the other stream after a wait on the device. */
#include <dao/dao.h>

#include <stdio.h>

#define STEP_COUNT 100
#define BYTES      ((size_t)1 << 20)

/* One step: fills a block and copies its first byte to the host. */
static dao_status_t step(dao_device_place_t device, dao_stream_t *stream, unsigned char *result,
                         uint8_t value)
{
    dao_pinned_place_t pinned = dao_pinned_place(device.index);
    void *block = dao_alloc_async(device, BYTES, stream);
    if (block == NULL) {
        return dao_last_status();
    }
    dao_status_t status = dao_stream_fill(stream, block, value, BYTES);
    if (status == DAO_OK) {
        status = dao_stream_copy(stream, pinned, result, device, block, 1);
    }
    dao_status_t freed = dao_free_async(device, block, stream); /* after the copy */
    return status == DAO_OK ? freed : status;
}

static dao_status_t run(dao_device_place_t device, dao_stream_t *const streams[2], unsigned char *results)
{
    dao_status_t status = DAO_OK;
    for (int i = 0; status == DAO_OK && i < 2 * STEP_COUNT; i++) {
        status = step(device, streams[i % 2], &results[i], (uint8_t)i);
    }
    for (int i = 0; i < 2; i++) {
        dao_status_t waited = dao_stream_synchronize(streams[i]);
        status = status == DAO_OK ? waited : status;
    }
    return status;
}

int main(void)
{
    dao_device_place_t device = dao_device_place(0);
    dao_stream_t *streams[2] = {NULL, NULL};
    dao_stats_t stats = {0};
    unsigned char *results = dao_alloc(dao_pinned_place(0), 2 * STEP_COUNT);
    dao_status_t status = results != NULL ? DAO_OK : dao_last_status();
    for (int i = 0; status == DAO_OK && i < 2; i++) {
        status = dao_stream_create(0, &streams[i]);
    }
    if (status == DAO_OK) {
        status = run(device, streams, results);
    }
    int wrong_count = 0;
    for (int i = 0; status == DAO_OK && i < 2 * STEP_COUNT; i++) {
        wrong_count += results[i] != (uint8_t)i;
    }
    if (status == DAO_OK) {
        status = dao_stats_get(device, &stats);
    }
    if (status != DAO_OK) {
        (void)fprintf(stderr, "%s: %s\n", dao_status_name(status), dao_last_message());
        return 1;
    }
    (void)printf("%d blocks of %zu bytes, one after the other on each stream: %zu bytes of the device\n",
                 2 * STEP_COUNT, BYTES, (size_t)stats.reserved_bytes);
    (void)printf("%d bytes are wrong\n", wrong_count);
    dao_stream_destroy(streams[0]);
    dao_stream_destroy(streams[1]);
    (void)dao_free(dao_pinned_place(0), results);
    return dao_finalize() == DAO_OK && wrong_count == 0 ? 0 : 1;
}
