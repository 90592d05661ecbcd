/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's allocator of the CPU over libdao's host place. */
#include "integrations/torch/dao_torch_cpu.h"

#include "integrations/message.h"
#include "integrations/stats_json.h"

#include <dao/dao.hpp>

#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include <pthread.h>

namespace
{

constexpr dao_place_t host{DAO_PLACE_KIND_CPU, 0};

/* Workers of a data loader are forked children of a process with the library started. libdao refuses all
   calls there, so PyTorch's own allocator takes over. */
std::atomic<bool> is_child{false};

void note_fork()
{
    is_child = true;
}

/* Frees a block of host_allocator. PyTorch calls it from any thread, until the end of the process. */
void host_delete(void *address)
{
    if (address == nullptr || is_child) {
        return; /* in a child the block belongs to the parent */
    }
    if (c10::memoryProfilingEnabled()) {
        c10::profiledCPUMemoryReporter().Delete(address);
    }
    if (::dao_free(host, address) != DAO_OK) {
        TORCH_WARN("libdao: ", ::dao_last_message());
    }
}

struct host_allocator final : c10::Allocator {
    c10::DataPtr allocate(std::size_t size_bytes) const override
    {
        if (is_child) {
            return c10::GetDefaultCPUAllocator()->allocate(size_bytes);
        }
        void *address = nullptr;
        if (size_bytes > 0) {
            address = ::dao_alloc(host, size_bytes);
            TORCH_CHECK(address != nullptr, "libdao: ", ::dao_last_message());
            if (c10::memoryProfilingEnabled()) {
                c10::profiledCPUMemoryReporter().New(address, size_bytes);
            }
        }
        return {address, address, &host_delete, c10::Device(c10::DeviceType::CPU)};
    }

    c10::DeleterFnPtr raw_deleter() const override
    {
        return &host_delete; /* in a child, raw blocks leak: there is one deleter for both allocators */
    }
};

/* Returns the length of a text; for 0, a failure of the library, keeps its message. */
std::size_t json_length(std::size_t length)
{
    if (length == 0) {
        (void)dao_plugin_answer(::dao_last_status());
    }
    return length;
}

/* A limit is divided into at least so many of the largest pages, which can be the system's huge ones, so that
   a page that is used in part loses at most a 64th of it. Smaller limits have smaller pages, and many: with
   64 of them a fifth of a limit of 100 MB was lost in parts of pages. */
constexpr std::size_t large_pages_of_limit = 64;
constexpr std::size_t small_pages_of_limit = 512;

/* Above PyTorch's own allocator, which has priority 0. */
constexpr std::uint8_t priority = 1;

} // namespace

int dao_torch_cpu_install()
{
    static host_allocator allocator;
    dao_status_t status = ::dao_init(nullptr);
    if (status != DAO_OK) {
        return dao_plugin_answer(status);
    }
    static const int refusal = pthread_atfork(nullptr, nullptr, note_fork);
    if (refusal != 0) {
        return dao_plugin_fail(DAO_ERR_NO_HOST_MEMORY,
                               "dao_torch_cpu_install: no fork handler can be registered: %s",
                               std::strerror(refusal));
    }
    c10::SetCPUAllocator(&allocator, priority);
    return static_cast<int>(DAO_OK);
}

int dao_torch_cpu_install_in_pages(std::size_t limit_bytes)
{
    dao_place_config_t config = {};
    config.host_pages = true;
    config.host_page_bytes = DAO_HOST_PAGE_BYTES_MAX;
    if (limit_bytes / large_pages_of_limit < DAO_HOST_PAGE_BYTES_MAX) {
        while (config.host_page_bytes > DAO_HOST_PAGE_BYTES_MIN &&
               config.host_page_bytes > limit_bytes / small_pages_of_limit) {
            config.host_page_bytes /= 2;
        }
    }
    dao_status_t status = ::dao_place_configure(host, &config);
    if (status != DAO_OK && status != DAO_ERR_BUSY) {
        return dao_plugin_answer(status);
    }
    return dao_torch_cpu_install();
}

int dao_torch_cpu_limit(std::size_t limit_bytes)
{
    return dao_plugin_answer(::dao_limit_set(host, limit_bytes));
}

std::size_t dao_torch_cpu_memory_stats(char *out_text, std::size_t text_bytes)
{
    return json_length(dao_stats_json_write(host, out_text, text_bytes));
}

int dao_torch_cpu_step_begin()
{
    return dao_plugin_answer(::dao_step_begin(host));
}

int dao_torch_cpu_step_end()
{
    return dao_plugin_answer(::dao_step_end(host));
}

std::size_t dao_torch_cpu_step_plan_stats(char *out_text, std::size_t text_bytes)
{
    return json_length(dao_step_plan_json_write(host, out_text, text_bytes));
}

const char *dao_torch_cpu_last_message()
{
    return dao_plugin_message();
}

std::size_t dao_torch_cpu_storage_use_count(void *storage)
{
    if (storage == nullptr) {
        return 0;
    }
    auto *its = static_cast<c10::StorageImpl *>(storage);
    bool is_foreign = its->data() != nullptr && its->data_ptr().get_deleter() != &host_delete;
    return is_foreign ? SIZE_MAX : c10::raw::intrusive_ptr::use_count(its);
}

std::size_t dao_torch_cpu_tensor_use_count(void *tensor)
{
    return tensor == nullptr ? 0 : c10::raw::intrusive_ptr::use_count(static_cast<c10::TensorImpl *>(tensor));
}
