/* SPDX-License-Identifier: Apache-2.0 */
/* InfiniCore's allocator over places, and a place over an allocator of InfiniCore's, driven as its Runtime
   does: memory is shared, and its last owner deallocates, in any thread. InfiniCore's class stands here, as
   in src/infinicore/context/allocators/memory_allocator.hpp. */
#include "integrations/infinicore/dao_infinicore.hpp"

#include <CUnit/CUnit.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

extern "C" {
#include "tests/support/suite.h"
}

namespace infinicore
{

class MemoryAllocator
{
  public:
    virtual ~MemoryAllocator() = default;
    virtual std::byte *allocate(size_t size) = 0;
    virtual void deallocate(std::byte *ptr) = 0;
};

} // namespace infinicore

namespace
{

using infinicore::MemoryAllocator;
using dao_allocator = dao::infinicore_allocator<MemoryAllocator>;

constexpr dao_place_t host{DAO_PLACE_KIND_CPU, 0};
constexpr dao_place_t pinned{DAO_PLACE_KIND_PINNED, 0};
constexpr dao_place_t device{DAO_PLACE_KIND_DEVICE, 0};

int library_start()
{
    dao_config_t config{};
    config.cpu.device_count = 1;
    config.cpu.device_bytes = 64 * MIB;
    return ::dao_init(&config) != DAO_OK;
}

int library_stop()
{
    return ::dao_finalize() != DAO_OK;
}

/* As Runtime::allocateMemory(): the deleter has the allocator's address. */
std::shared_ptr<std::byte> memory_make(MemoryAllocator &allocator, std::size_t size_bytes)
{
    return {allocator.allocate(size_bytes), [&allocator](std::byte *p) { allocator.deallocate(p); }};
}

void memory_is_of_the_place()
{
    for (dao_place_t place : {host, pinned, device}) {
        std::unique_ptr<MemoryAllocator> allocator = std::make_unique<dao_allocator>(place);
        std::size_t used_before = ::dao_used(place);
        {
            std::shared_ptr<std::byte> memory = memory_make(*allocator, 100 * KIB);
            std::shared_ptr<std::byte> view = memory;
            memory.reset();
            CU_ASSERT_TRUE(::dao_used(place) >= used_before + 100 * KIB);
        }
        CU_ASSERT_EQUAL(::dao_device_synchronize(0), DAO_OK);
        CU_ASSERT_EQUAL(::dao_used(place), used_before);
        CU_ASSERT_PTR_NULL(allocator->allocate(0));
        allocator->deallocate(nullptr);
    }
}

void too_much_throws_and_wrong_frees_do_not()
{
    dao_allocator allocator(device);
    bool is_thrown = false;
    try {
        (void)allocator.allocate(GIB);
    } catch (const std::bad_alloc &) {
        is_thrown = true;
    }
    CU_ASSERT_TRUE(is_thrown);
    CU_ASSERT_EQUAL(::dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    std::byte local{};
    allocator.deallocate(&local);
    CU_ASSERT_EQUAL(::dao_last_status(), DAO_ERR_FOREIGN_POINTER);
}

/* The runtime's stream gets what it freed again at once, in its own order. */
void device_memory_follows_the_stream()
{
    dao_stream_t *stream = nullptr;
    CU_ASSERT_EQUAL_FATAL(::dao_stream_create(0, &stream), DAO_OK);
    dao_allocator allocator(device, ::dao_stream_native(stream));
    std::byte *block = allocator.allocate(3 * MIB);
    CU_ASSERT_EQUAL(::dao_stream_fill(stream, block, 1, 3 * MIB), DAO_OK);
    allocator.deallocate(block);
    std::byte *again = allocator.allocate(3 * MIB);
    CU_ASSERT_PTR_EQUAL(again, block);
    allocator.deallocate(again);
    ::dao_stream_destroy(stream);
}

void threads_free_what_others_made()
{
    dao_allocator allocator(host);
    std::size_t used_before = ::dao_used(host);
    std::vector<std::shared_ptr<std::byte>> made;
    for (std::size_t i = 0; i < 200; i++) {
        made.push_back(memory_make(allocator, 1 + i * 701));
        std::memset(made.back().get(), static_cast<int>(i), 1 + i * 701);
    }
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; t++) {
        threads.emplace_back([&made, t] {
            for (std::size_t i = t; i < made.size(); i += 4) {
                made[i].reset();
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CU_ASSERT_EQUAL(::dao_used(host), used_before);
}

/* An allocator as InfiniCore has them: it throws when it has no more, and knows what it gave. */
class counted_allocator final : public MemoryAllocator
{
  public:
    std::byte *allocate(std::size_t size_bytes) override
    {
        if (given_bytes + size_bytes > 16 * MIB) {
            throw std::runtime_error("no memory");
        }
        void *address = std::aligned_alloc(256, size_bytes);
        sizes[address] = size_bytes;
        given_bytes += size_bytes;
        return static_cast<std::byte *>(address);
    }

    void deallocate(std::byte *address) override
    {
        given_bytes -= sizes.at(address);
        sizes.erase(address);
        std::free(address);
    }

    std::size_t given_bytes = 0;

  private:
    std::map<void *, std::size_t> sizes;
};

void a_place_lies_over_an_allocator()
{
    static counted_allocator allocator;
    dao_own_memory_t memory{};
    dao_place_t place;
    memory.name = "InfiniCore";
    CU_ASSERT_EQUAL(dao::infinicore_place_register(allocator, memory, &place), DAO_ERR_INVALID); /* 0 bytes */
    memory.capacity_bytes = 64 * MIB;
    CU_ASSERT_EQUAL_FATAL(dao::infinicore_place_register(allocator, memory, &place), DAO_OK);
    {
        dao_allocator over(place); /* and an allocator over the place over the allocator */
        std::shared_ptr<std::byte> block = memory_make(over, 5 * MIB);
        std::memset(block.get(), 1, 5 * MIB);
        CU_ASSERT_TRUE(allocator.given_bytes >= 5 * MIB);
        CU_ASSERT_PTR_NULL(::dao_alloc(place, 30 * MIB));
        CU_ASSERT_EQUAL(::dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    }
    CU_ASSERT_EQUAL(::dao_device_synchronize(place.index), DAO_OK);
    CU_ASSERT_EQUAL(::dao_used(place), 0);
    CU_ASSERT_EQUAL(::dao_trim(place, 0, nullptr), DAO_OK);
    CU_ASSERT_EQUAL(allocator.given_bytes, 0);
}

CU_TestInfo tests[] = {
    {"memory is of the place", memory_is_of_the_place},
    {"too much throws and wrong frees do not", too_much_throws_and_wrong_frees_do_not},
    {"device memory follows the stream", device_memory_follows_the_stream},
    {"threads free what others made", threads_free_what_others_made},
    {"a place lies over an allocator", a_place_lies_over_an_allocator},
    CU_TEST_INFO_NULL,
};

} // namespace

int main()
{
    CU_SuiteInfo suites[] = {{"infinicore", library_start, library_stop, nullptr, nullptr, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
