/* SPDX-License-Identifier: Apache-2.0 */
/* libdao_torch_cpu, through PyTorch's own interface of allocators. It runs where PyTorch's headers are. */
#include "integrations/torch/dao_torch_cpu.h"

#include <CUnit/CUnit.h>
#include <dao/dao.hpp>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "tests/support/suite.h"
}

namespace
{

constexpr dao::cpu_place host{};

/* Comes from PyTorch's allocator before ours is there, and goes after. */
c10::DataPtr early;

int plugin_install()
{
    early = c10::GetCPUAllocator()->allocate(1 * MIB);
    return dao_torch_cpu_install();
}

void tensors_come_from_the_host_place()
{
    std::size_t used_before = dao::used(host);
    {
        c10::DataPtr data = c10::GetCPUAllocator()->allocate(3 * MIB);
        CU_ASSERT_PTR_NOT_NULL_FATAL(data.get());
        CU_ASSERT_EQUAL(reinterpret_cast<std::uintptr_t>(data.get()) % 64, 0);
        CU_ASSERT_TRUE(data.device().is_cpu());
        std::memset(data.get(), 1, 3 * MIB);
        CU_ASSERT_TRUE(dao::used(host) >= used_before + 3 * MIB);
    }
    CU_ASSERT_EQUAL(dao::used(host), used_before);
    early.clear();
    CU_ASSERT_EQUAL(dao::used(host), used_before);
}

void nothing_is_nothing()
{
    c10::DataPtr data = c10::GetCPUAllocator()->allocate(0);
    CU_ASSERT_PTR_NULL(data.get());
}

void raw_memory_is_freed_by_its_address()
{
    std::size_t used_before = dao::used(host);
    void *address = c10::GetCPUAllocator()->raw_allocate(1000);
    CU_ASSERT_PTR_NOT_NULL(address);
    c10::GetCPUAllocator()->raw_deallocate(address);
    CU_ASSERT_EQUAL(dao::used(host), used_before);
}

void too_much_is_thrown_with_words()
{
    CU_ASSERT_EQUAL(dao_torch_cpu_limit(64 * MIB), DAO_OK);
    std::string message;
    try {
        c10::DataPtr data = c10::GetCPUAllocator()->allocate(65 * MIB);
    } catch (const c10::Error &error) {
        message = error.what_without_backtrace();
    }
    CU_ASSERT_TRUE(message.find("limit") != std::string::npos);
    CU_ASSERT_EQUAL(dao_torch_cpu_limit(0), DAO_OK);
}

void statistics_are_there()
{
    c10::DataPtr data = c10::GetCPUAllocator()->allocate(1 * MIB);
    std::size_t length = dao_torch_cpu_memory_stats(nullptr, 0);
    CU_ASSERT_TRUE_FATAL(length > 100);
    std::string text(length, '\0');
    CU_ASSERT_EQUAL(dao_torch_cpu_memory_stats(&text[0], length), length);
    CU_ASSERT_TRUE(text.find("allocated_bytes.all.current") != std::string::npos);
}

void threads_free_what_others_allocated()
{
    std::size_t used_before = dao::used(host);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([i] {
            std::vector<c10::DataPtr> kept;
            for (int round = 0; round < 300; round++) {
                std::size_t size_bytes = 1 + static_cast<std::size_t>(round * 977 + i * 131) % (200 * KIB);
                kept.push_back(c10::GetCPUAllocator()->allocate(size_bytes));
                std::memset(kept.back().get(), i, size_bytes);
                if (kept.size() > 8) {
                    std::thread([block = std::move(kept.front())] {}).join();
                    kept.erase(kept.begin());
                }
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CU_ASSERT_EQUAL(dao::used(host), used_before);
}

/* As a data loader's worker: it inherits blocks, lets go of them, and makes tensors of its own. */
void a_child_process_has_pytorchs_allocator()
{
    c10::DataPtr inherited = c10::GetCPUAllocator()->allocate(1 * MIB);
    pid_t child = fork();
    if (child == 0) {
        c10::DataPtr own = c10::GetCPUAllocator()->allocate(2 * MIB);
        bool is_right = own.get() != nullptr;
        std::memset(own.get(), 1, 2 * MIB);
        own.clear();
        inherited.clear();
        _exit(is_right ? 0 : 1);
    }
    int result = -1;
    CU_ASSERT_EQUAL(waitpid(child, &result, 0), child);
    CU_ASSERT_EQUAL(result, 0);
    std::memset(inherited.get(), 2, 1 * MIB);
}

CU_TestInfo tests[] = {
    {"tensors come from the host place", tensors_come_from_the_host_place},
    {"nothing is nothing", nothing_is_nothing},
    {"raw memory is freed by its address", raw_memory_is_freed_by_its_address},
    {"too much is thrown with words", too_much_is_thrown_with_words},
    {"statistics are there", statistics_are_there},
    {"threads free what others allocated", threads_free_what_others_allocated},
    {"a child process has PyTorch's allocator", a_child_process_has_pytorchs_allocator},
    CU_TEST_INFO_NULL,
};

} // namespace

int main()
{
    CU_SuiteInfo suites[] = {{"torch-cpu", plugin_install, nullptr, nullptr, nullptr, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
