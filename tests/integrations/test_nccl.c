/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device is registered with an NCCL communicator as long as it is there; the functions of NCCL
   are here. */
#include "integrations/nccl/dao_nccl.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdint.h>

#define STRETCH_MAX 64

/* A communicator, and what is registered with it. A handle is the stretch's number and one. */
struct ncclComm {
    char *begins[STRETCH_MAX]; /* NULL: free */
    size_t sizes[STRETCH_MAX];
    bool refuses;
};

static struct ncclComm communicator;

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
    for (uintptr_t i = 0; i < STRETCH_MAX && !comm->refuses; i++) {
        if (comm->begins[i] == NULL) {
            comm->begins[i] = buff;
            comm->sizes[i] = size;
            *handle = (void *)(i + 1);
            return ncclSuccess;
        }
    }
    return ncclInvalidArgument;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    uintptr_t i = (uintptr_t)handle - 1;
    CU_ASSERT_TRUE_FATAL(i < STRETCH_MAX && comm->begins[i] != NULL);
    comm->begins[i] = NULL;
    return ncclSuccess;
}

/* Returns true if all of a block is registered. */
static bool is_registered(const char *block, size_t size_bytes)
{
    const char *at = block;
    while (at < block + size_bytes) {
        size_t i = 0;
        while (i < STRETCH_MAX && (communicator.begins[i] == NULL || at < communicator.begins[i] ||
                                   at >= communicator.begins[i] + communicator.sizes[i])) {
            i++;
        }
        if (i == STRETCH_MAX) {
            return false;
        }
        at = communicator.begins[i] + communicator.sizes[i];
    }
    return true;
}

static size_t stretch_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < STRETCH_MAX; i++) {
        count += communicator.begins[i] != NULL;
    }
    return count;
}

static void begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 256 * MIB}};
    communicator = (struct ncclComm){.refuses = false};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_nccl_t *attach(void)
{
    dao_nccl_t *nccl = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_nccl_attach(dao_device_place(0), &communicator, &nccl), DAO_OK);
    return nccl;
}

static void memory_is_registered_while_it_is_there(void)
{
    dao_nccl_t *nccl = attach();
    CU_ASSERT_EQUAL(dao_nccl_registered_count(nccl, NULL), 0);
    char *block = dao_alloc(dao_device_place(0), 9 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_TRUE(is_registered(block, 9 * MIB));
    CU_ASSERT_EQUAL(dao_nccl_registered_count(nccl, NULL), stretch_count());
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), block), DAO_OK);
    CU_ASSERT_TRUE(stretch_count() > 0); /* it is cached */
    CU_ASSERT_EQUAL(dao_trim(dao_device_place(0), 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(stretch_count(), 0);
    dao_nccl_detach(nccl);
}

static void what_is_refused_is_used_without(void)
{
    size_t refused_count = 0;
    dao_nccl_t *nccl = attach();
    communicator.refuses = true;
    char *block = dao_alloc(dao_device_place(0), 9 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_nccl_registered_count(nccl, &refused_count), 0);
    CU_ASSERT_TRUE(refused_count > 0);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), block), DAO_OK);
    dao_nccl_detach(nccl);
}

static void the_end_deregisters_all(void)
{
    dao_nccl_t *nccl = attach();
    char *block = dao_alloc(dao_device_place(0), 9 * MIB);
    CU_ASSERT_TRUE(stretch_count() > 0);
    dao_nccl_detach(nccl);
    CU_ASSERT_EQUAL(stretch_count(), 0);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), block), DAO_OK);
}

static void bad_arguments_are_refused(void)
{
    dao_nccl_t *nccl = NULL;
    CU_ASSERT_EQUAL(dao_nccl_attach(dao_device_place(0), NULL, &nccl), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_nccl_attach(dao_device_place(0), &communicator, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(nccl);
    dao_nccl_detach(NULL);
}

static CU_TestInfo tests[] = {
    {"memory is registered while it is there", memory_is_registered_while_it_is_there},
    {"what is refused is used without", what_is_refused_is_used_without},
    {"the end deregisters all", the_end_deregisters_all},
    {"bad arguments are refused", bad_arguments_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"nccl", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
