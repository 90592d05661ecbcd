/* Virtual devices: the contract in three variants, and what is theirs alone. */
#include "backends/cpu/cpu.h"
#include "tests/contract/backend_contract.h"

/* The contract's subjects. */

static int be_default(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 256 * MIB}};
    backend_contract_set(&dao_cpu_backend_ops, &config);
    return 0;
}

static int be_without_pages(void)
{
    dao_config_t config = {
        .cpu = {.device_count = 2, .device_bytes = 100 * MIB + 12345, .no_page_mapping = true}};
    backend_contract_set(&dao_cpu_backend_ops, &config);
    return 0;
}

static int be_limited(void)
{
    dao_config_t config = {.cpu = {.device_count = 3,
                                   .device_bytes = 64 * MIB,
                                   .h2d_bytes_per_second = UINT64_C(2000000000),
                                   .d2h_bytes_per_second = UINT64_C(1000000000),
                                   .copy_latency_ns = 20000}};
    backend_contract_set(&dao_cpu_backend_ops, &config);
    return 0;
}

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"contract: cpu", be_default, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        {"contract: cpu without page mapping", be_without_pages, NULL, backend_contract_begin,
         backend_contract_end, backend_contract_tests},
        {"contract: cpu with limited links", be_limited, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
