/* SPDX-License-Identifier: Apache-2.0 */
/* Uses an installed libdao: the macros, the functions behind them, and a handle. */
#include <dao/dao.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    dao_device_place_t device = dao_device_place(0);
    char text[] = "there and back";
    char back[sizeof(text)] = "";
    void *block = dao_alloc(device, sizeof(text));
    if (block == NULL ||
        dao_copy(dao_place_of(device), block, dao_place_of(dao_cpu_place()), text, sizeof(text)) != DAO_OK ||
        dao_copy(dao_place_of(dao_cpu_place()), back, dao_place_of(device), block, sizeof(text)) != DAO_OK ||
        strcmp(text, back) != 0 || (dao_free)(dao_place_of(device), block) != DAO_OK) {
        (void)fprintf(stderr, "%s: %s\n", dao_status_name(dao_last_status()), dao_last_message());
        return 1;
    }
    (void)printf("%s: %s\n", dao_backend_name(), back);
    return dao_finalize() == DAO_OK ? 0 : 1;
}
