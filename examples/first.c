/* SPDX-License-Identifier: Apache-2.0 */
/* A first program: memory on a device, bytes there and back. */
#include <dao/dao.h>

#include <stdio.h>

static int fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s: %s\n", what, dao_status_name(dao_last_status()), dao_last_message());
    return 1;
}

int main(void)
{
    dao_device_place_t device = dao_device_place(0); /* the first device */
    dao_cpu_place_t host = dao_cpu_place();
    float numbers[1024], returned[1024];
    for (int i = 0; i < 1024; i++) {
        numbers[i] = (float)i;
    }
    void *block = dao_alloc(device, sizeof(numbers));
    if (block == NULL) {
        return fail("alloc");
    }
    if (dao_copy(device, block, host, numbers, sizeof(numbers)) != DAO_OK ||
        dao_copy(host, returned, device, block, sizeof(numbers)) != DAO_OK) {
        return fail("copy");
    }
    (void)printf("number 1023 came back as %g\n", (double)returned[1023]);
    (void)printf("the device holds %zu bytes for us\n", dao_used(device));
    if (dao_free(device, block) != DAO_OK) {
        return fail("free");
    }
    return dao_finalize() == DAO_OK ? 0 : fail("finalize");
}
