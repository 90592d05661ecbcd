/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of devices is mapped for UCX as long as it is there. */
#include "integrations/ucx/dao_ucx.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t pinned_0 = {DAO_PLACE_KIND_PINNED, 0};
static ucp_context_h context;

static int ucx_start(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 256 * MIB}};
    return ucp_init(&params, NULL, &context) != UCS_OK || dao_init(&config) != DAO_OK;
}

static int ucx_stop(void)
{
    ucp_cleanup(context);
    return 0;
}

static void memory_is_mapped_while_it_is_there(void)
{
    const dao_place_t places[] = {device_0, pinned_0};
    for (size_t i = 0; i < 2; i++) {
        dao_ucx_t *ucx = NULL;
        size_t refused_count = 1;
        CU_ASSERT_EQUAL_FATAL(dao_ucx_attach(places[i], context, &ucx), DAO_OK);
        CU_ASSERT_EQUAL(dao_ucx_mapped_count(ucx, &refused_count), 0);
        void *block = dao_alloc(places[i], 9 * MIB);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_TRUE(dao_ucx_mapped_count(ucx, &refused_count) > 0);
        CU_ASSERT_EQUAL(refused_count, 0);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_TRUE(dao_ucx_mapped_count(ucx, NULL) > 0); /* it is cached */
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK);
        CU_ASSERT_EQUAL(dao_ucx_mapped_count(ucx, NULL), 0);
        dao_ucx_detach(ucx);
    }
}

static void bad_arguments_are_refused(void)
{
    dao_ucx_t *ucx = NULL;
    CU_ASSERT_EQUAL(dao_ucx_attach(device_0, NULL, &ucx), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_ucx_attach(device_0, context, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_ucx_attach(dao_place_of(dao_cpu_place()), context, &ucx), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(ucx);
    CU_ASSERT_EQUAL(dao_ucx_mapped_count(NULL, NULL), 0);
    dao_ucx_detach(NULL);
}

/* What is mapped still when the place goes is unmapped then, and what is left when the mapping ends, too. */
static void the_end_unmaps_all(void)
{
    dao_ucx_t *early = NULL;
    dao_ucx_t *late = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_ucx_attach(device_0, context, &early), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_ucx_attach(device_0, context, &late), DAO_OK);
    void *block = dao_alloc(device_0, 9 * MIB);
    size_t count = dao_ucx_mapped_count(early, NULL);
    CU_ASSERT_TRUE(count > 0);
    CU_ASSERT_EQUAL(dao_ucx_mapped_count(late, NULL), count);
    dao_ucx_detach(early);
    CU_ASSERT_EQUAL(dao_free(device_0, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(dao_ucx_mapped_count(late, NULL), 0);
    dao_ucx_detach(late);
}

static CU_TestInfo tests[] = {
    {"memory is mapped while it is there", memory_is_mapped_while_it_is_there},
    {"bad arguments are refused", bad_arguments_are_refused},
    {"the end unmaps all", the_end_unmaps_all},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ucx", ucx_start, ucx_stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
