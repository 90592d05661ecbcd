/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ face: what is picked at compile time, what gives itself back, and the standard containers at
   places. */
#include <dao/dao.hpp>

#include <CUnit/CUnit.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory_resource>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

extern "C" {
#include "tests/support/suite.h"
}

namespace
{

constexpr dao::cpu_place host{};
constexpr dao::pinned_place pinned{1};
constexpr dao::device_place device{1};

bool is_aligned(const void *address, std::size_t alignment_bytes)
{
    return reinterpret_cast<std::uintptr_t>(address) % alignment_bytes == 0;
}

/* What must hold without running anything. */
static_assert(std::is_nothrow_move_constructible_v<dao::block<dao::device_place>>);
static_assert(std::is_nothrow_move_assignable_v<dao::unique_ptr<int, dao::cpu_place>>);
static_assert(!std::is_copy_constructible_v<dao::block<dao::device_place>>);
static_assert(!std::is_copy_constructible_v<dao::unique_ptr<int[], dao::pinned_place>>);
static_assert(!std::is_copy_constructible_v<dao::stream> && !std::is_copy_constructible_v<dao::event>);
static_assert(std::is_nothrow_copy_constructible_v<dao::memory>);
static_assert(std::is_nothrow_copy_constructible_v<dao::tensor>);
static_assert(std::is_nothrow_copy_constructible_v<dao::managed> &&
              std::is_nothrow_copy_constructible_v<dao::plan>);
static_assert(!std::is_copy_constructible_v<dao::source> &&
              std::is_nothrow_move_constructible_v<dao::source>);
static_assert(!std::is_copy_constructible_v<dao::executor> &&
              std::is_nothrow_move_constructible_v<dao::executor>);
static_assert(std::is_nothrow_copy_constructible_v<dao::error>);
static_assert(std::is_empty_v<dao::allocator<int>> &&
              std::allocator_traits<dao::allocator<int>>::is_always_equal::value);
static_assert(sizeof(std::vector<int, dao::allocator<int>>) == sizeof(std::vector<int>));
static_assert(!std::allocator_traits<dao::allocator<int, dao::pinned_place>>::is_always_equal::value);
static_assert(noexcept(dao::free(device, nullptr)) &&noexcept(dao::used(device)));
static_assert(!noexcept(dao::alloc(device, 1)) &&noexcept(dao::alloc(device, 1, std::nothrow)));

/* Limits a place to what it holds now, until the scope ends. */
class full_place
{
  public:
    explicit full_place(dao::place where) : where_(where)
    {
        (void)dao::trim(where_);
        std::size_t reserved_bytes = dao::stats(where_).reserved_bytes;
        dao::check(dao_limit_set(where_, reserved_bytes > 0 ? reserved_bytes : 1));
    }
    full_place(const full_place &) = delete;
    full_place &operator=(const full_place &) = delete;
    ~full_place()
    {
        CU_ASSERT_EQUAL(dao_limit_set(where_, 0), DAO_OK);
    }

  private:
    dao::place where_;
};

/* ---- by address ---- */

template <typename Place> void goes_there_and_back(Place where)
{
    std::size_t before_bytes = dao::used(where);
    void *address = dao::alloc<Place>(where, 4096);
    CU_ASSERT_PTR_NOT_NULL(address);
    CU_ASSERT_EQUAL(dao::used<Place>(where), before_bytes + 4096);
    CU_ASSERT_EQUAL(dao::used(dao::place_of(where)), before_bytes + 4096);
    CU_ASSERT_EQUAL(dao::free<Place>(where, address), DAO_OK);
    CU_ASSERT_EQUAL(dao::used(where), before_bytes);
    CU_ASSERT_EQUAL(dao::free(where, address), DAO_ERR_DOUBLE_FREE);
}

void the_type_of_a_place_picks_the_allocator()
{
    goes_there_and_back(host);
    goes_there_and_back(pinned);
    goes_there_and_back(device);
    goes_there_and_back(dao::place_of(device));
    CU_ASSERT_EQUAL(dao::place_of(pinned).kind, DAO_PLACE_KIND_PINNED);
    CU_ASSERT_EQUAL(dao::place_of(pinned).index, 1);
}

void a_failure_is_thrown_with_code_and_message()
{
    dao::device_place nowhere{63};
    bool is_thrown = false;
    try {
        (void)dao::alloc(nowhere, 1);
    } catch (const dao::error &error) {
        is_thrown = true;
        CU_ASSERT_EQUAL(error.status(), DAO_ERR_NO_DEVICE);
        CU_ASSERT_PTR_NOT_NULL(std::strstr(error.what(), "DAO_ERR_NO_DEVICE: "));
        CU_ASSERT_PTR_NOT_NULL(std::strstr(error.what(), dao_last_message()));
        dao::error copied = error;
        CU_ASSERT_STRING_EQUAL(copied.what(), error.what());
    }
    CU_ASSERT_TRUE(is_thrown);
    CU_ASSERT_PTR_NULL(dao::alloc(nowhere, 1, std::nothrow));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(dao::alloc(device, 0));
    dao::error other(DAO_ERR_BUSY); /* not what failed last: says what the code means */
    CU_ASSERT_STRING_EQUAL(other.what(), "DAO_ERR_BUSY: still in use");
}

void an_address_is_aligned_as_wanted()
{
    dao_alloc_options_t options = {};
    options.alignment_bytes = 1u << 20;
    void *address = dao::alloc(device, 100, options);
    CU_ASSERT_TRUE(is_aligned(address, 1u << 20));
    CU_ASSERT_EQUAL(dao::free(device, address), DAO_OK);
    dao_status_t status = DAO_OK;
    options.alignment_bytes = 3;
    try {
        (void)dao::alloc(device, 100, options);
    } catch (const dao::error &error) {
        status = error.status();
    }
    CU_ASSERT_EQUAL(status, DAO_ERR_INVALID);
}

void a_scope_counts_for_its_tag()
{
    dao_tag_t tag = 0;
    dao_tag_stats_t stats = {};
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("cpp", &tag), DAO_OK);
    {
        dao::tag_scope scope(tag);
        dao::block<dao::device_place> counted(device, 1000);
        dao::check(dao_tag_stats_get(dao::place_of(device), tag, &stats));
        CU_ASSERT_EQUAL(stats.used_bytes, 1024);
    }
    dao::block<dao::device_place> not_counted(device, 1000);
    dao::check(dao_tag_stats_get(dao::place_of(device), tag, &stats));
    CU_ASSERT_EQUAL(stats.used_bytes, 0);
    CU_ASSERT_EQUAL(stats.alloc_count, 1);
}

void bytes_are_copied_between_places()
{
    std::vector<char> there(1000, 'x'), back(1000, '-');
    dao::block<dao::device_place> block(device, there.size());
    dao::copy(device, block.get(), host, there.data(), there.size());
    dao::copy(host, back.data(), device, block.get(), back.size());
    CU_ASSERT_TRUE(there == back);
}

/* ---- what gives itself back ---- */

void a_block_gives_itself_back_once()
{
    std::size_t before_bytes = dao::used(device);
    {
        dao::block<dao::device_place> first(device, 1000);
        dao::block<dao::device_place> second = std::move(first);
        CU_ASSERT_FALSE(first); // NOLINT: what a moved block holds is part of its promise
        CU_ASSERT_EQUAL(second.size(), 1000);
        CU_ASSERT_EQUAL(dao::used(device), before_bytes + 1024);
        dao::block<dao::device_place> third(device, 2000);
        third = std::move(second);
        CU_ASSERT_EQUAL(dao::used(device), before_bytes + 1024);
        void *address = third.release();
        CU_ASSERT_EQUAL(dao::free(third.place(), address), DAO_OK);
        dao::block<dao::device_place> too_large(device, SIZE_MAX, std::nothrow);
        CU_ASSERT_FALSE(too_large);
        CU_ASSERT_EQUAL(too_large.size(), 0);
        dao::block<dao::place> any(dao::place_of(pinned), 10);
        any.reset();
        CU_ASSERT_FALSE(any);
        CU_ASSERT_TRUE(dao_place_equal(any.place(), dao::place_of(pinned)));
        third = dao::block<dao::device_place>(device, 3000);
    }
    CU_ASSERT_EQUAL(dao::used(device), before_bytes);
}

/* Counts its objects, and throws as the one after `good_count` more is made. */
struct counted_object {
    static inline int live_count = 0;
    static inline int good_count = 0;

    std::string text = "made";

    counted_object()
    {
        if (good_count-- == 0) {
            throw std::runtime_error("no more");
        }
        live_count++;
    }
    counted_object(const counted_object &) = delete;
    counted_object &operator=(const counted_object &) = delete;
    ~counted_object()
    {
        live_count--;
    }
};

void objects_are_made_and_destroyed_where_they_live()
{
    std::size_t before_bytes = dao::used(pinned);
    counted_object::good_count = 6;
    {
        auto one = dao::make_unique<counted_object>(pinned);
        auto many = dao::make_unique<counted_object[]>(pinned, 5);
        CU_ASSERT_EQUAL(counted_object::live_count, 6);
        CU_ASSERT_EQUAL(many.size(), 5);
        CU_ASSERT_TRUE(one->text == "made" && (*one).text == many[4].text);
        many = nullptr;
        CU_ASSERT_EQUAL(counted_object::live_count, 1);
        auto moved = std::move(one);
        CU_ASSERT_EQUAL(counted_object::live_count, 1);
        moved.reset();
        CU_ASSERT_EQUAL(counted_object::live_count, 0);
        auto elsewhere = dao::make_unique<int[]>(dao::pinned_place{1}, 3);
        elsewhere.reset();
        CU_ASSERT_TRUE(!elsewhere && elsewhere.place().index == 1);
        auto number = dao::make_unique<long>(host, 42L);
        CU_ASSERT_EQUAL(*number, 42);
        CU_ASSERT_EQUAL(dao::make_unique<int[]>(host, 100)[99], 0);
    }
    CU_ASSERT_EQUAL(dao::used(pinned), before_bytes);
}

void a_constructor_that_throws_leaves_nothing_behind()
{
    std::size_t before_bytes = dao::used(pinned);
    counted_object::good_count = 3;
    CU_ASSERT_EQUAL(counted_object::live_count, 0);
    bool is_thrown = false;
    try {
        (void)dao::make_unique<counted_object[]>(pinned, 5);
    } catch (const std::runtime_error &) {
        is_thrown = true;
    }
    CU_ASSERT_TRUE(is_thrown);
    CU_ASSERT_EQUAL(counted_object::live_count, 0);
    CU_ASSERT_EQUAL(dao::used(pinned), before_bytes);
    is_thrown = false;
    try {
        (void)dao::make_unique<long[]>(host, SIZE_MAX / 4);
    } catch (const dao::error &error) {
        is_thrown = error.status() == DAO_ERR_OVERFLOW;
    }
    CU_ASSERT_TRUE(is_thrown);
}

void device_memory_holds_objects_that_the_host_only_names()
{
    std::size_t before_bytes = dao::used(device);
    {
        auto numbers = dao::make_unique_for_overwrite<float[]>(device, 1000);
        CU_ASSERT_EQUAL(numbers.size(), 1000);
        CU_ASSERT_TRUE(is_aligned(numbers.get(), 256));
        std::vector<float> there(1000, 1.5f), back(1000);
        dao::copy(device, numbers.get(), host, there.data(), 4000);
        dao::copy(host, back.data(), device, numbers.get(), 4000);
        CU_ASSERT_TRUE(there == back);
    }
    CU_ASSERT_EQUAL(dao::used(device), before_bytes);
}

/* ---- the standard library's containers ---- */

template <typename T> using pinned_vector = std::vector<T, dao::allocator<T, dao::pinned_place>>;

void containers_live_at_a_place()
{
    std::size_t before_bytes = dao::used(pinned), host_bytes = dao::used(host);
    {
        pinned_vector<int> numbers(pinned);
        for (int i = 0; i < 10000; i++) {
            numbers.push_back(i);
        }
        CU_ASSERT_EQUAL(std::accumulate(numbers.begin(), numbers.end(), 0), 49995000);
        CU_ASSERT_TRUE(dao::used(pinned) >= before_bytes + 40000);
        std::list<int, dao::allocator<int>> list(numbers.begin(), numbers.begin() + 10);
        std::map<int, int, std::less<>, dao::allocator<std::pair<const int, int>>> map;
        map[3] = 4;
        CU_ASSERT_TRUE(list.back() == 9 && map.at(3) == 4);
        CU_ASSERT_TRUE(dao::used(host) > host_bytes);
    }
    CU_ASSERT_EQUAL(dao::used(pinned), before_bytes);
    CU_ASSERT_EQUAL(dao::used(host), host_bytes);
}

void a_moved_container_takes_its_place_along_and_an_assigned_one_stays()
{
    dao::pinned_place other{0};
    pinned_vector<int> here(100, 1, pinned), there(100, 2, other);
    const int *address = here.data();
    there = std::move(here);
    CU_ASSERT_PTR_EQUAL(there.data(), address);
    CU_ASSERT_EQUAL(there.get_allocator().place().index, 1);
    pinned_vector<int> stays(10, 3, other);
    stays = there;
    CU_ASSERT_EQUAL(stays.get_allocator().place().index, 0);
    CU_ASSERT_TRUE(stays == there);
    swap(stays, there);
    CU_ASSERT_EQUAL(stays.get_allocator().place().index, 1);
    CU_ASSERT_EQUAL(there.get_allocator().place().index, 0);
    CU_ASSERT_TRUE(dao::allocator<int>() == dao::allocator<char>());
    CU_ASSERT_TRUE(
        (dao::allocator<int, dao::pinned_place>(pinned) != dao::allocator<char, dao::pinned_place>(other)));
}

void a_container_without_memory_gets_a_bad_alloc()
{
    pinned_vector<char> vector(1000, 'a', pinned);
    full_place full(dao::place_of(pinned));
    dao_status_t status = DAO_OK;
    bool is_bad_alloc = false;
    try {
        vector.resize(1 << 30);
    } catch (const std::bad_alloc &error) {
        is_bad_alloc = true;
        auto *ours = dynamic_cast<const dao::bad_alloc *>(&error);
        status = ours != nullptr ? ours->status() : DAO_OK;
        CU_ASSERT_PTR_NOT_NULL(std::strstr(error.what(), "DAO_ERR_LIMIT: "));
    }
    CU_ASSERT_TRUE(is_bad_alloc);
    CU_ASSERT_EQUAL(status, DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(vector == pinned_vector<char>(1000, 'a'));
}

struct alignas(512) wide {
    char bytes[512];
};

void alignments_beyond_the_places_own_are_kept()
{
    std::size_t before_bytes = dao::used(host), pinned_bytes = dao::used(pinned);
    {
        std::vector<wide, dao::allocator<wide>> few(3);
        pinned_vector<wide> more(7, pinned);
        CU_ASSERT_TRUE(is_aligned(few.data(), 512) && is_aligned(more.data(), 512));
        few.resize(100);
        CU_ASSERT_TRUE(is_aligned(few.data(), 512));
        dao::memory_resource resources[] = {dao::memory_resource(host), dao::memory_resource(pinned)};
        for (dao::memory_resource &resource : resources) {
            for (std::size_t alignment = 1; alignment <= (1u << 20); alignment *= 2) {
                void *address = resource.allocate(alignment + 1, alignment);
                CU_ASSERT_TRUE(is_aligned(address, alignment));
                std::memset(address, 0x5a, alignment + 1);
                resource.deallocate(address, alignment + 1, alignment);
            }
        }
    }
    CU_ASSERT_EQUAL(dao::used(host), before_bytes);
    CU_ASSERT_EQUAL(dao::used(pinned), pinned_bytes);
}

void polymorphic_containers_live_at_a_place()
{
    std::size_t before_bytes = dao::used(pinned);
    {
        dao::memory_resource resource(pinned);
        std::pmr::vector<std::pmr::string> lines(&resource);
        for (int i = 0; i < 100; i++) {
            lines.emplace_back("a line that is too long to live inside of the string itself");
        }
        CU_ASSERT_TRUE(dao::used(pinned) >= before_bytes + 100 * 59);
        std::pmr::unsynchronized_pool_resource pool(&resource);
        std::pmr::list<int> list({1, 2, 3}, &pool);
        CU_ASSERT_EQUAL(list.size(), 3);
        void *nothing = resource.allocate(0);
        CU_ASSERT_PTR_NOT_NULL(nothing);
        resource.deallocate(nothing, 0);
        dao::memory_resource same(dao::pinned_place{1}), other(dao::pinned_place{0}), on_host;
        CU_ASSERT_TRUE(resource.is_equal(same) && resource == same);
        CU_ASSERT_FALSE(resource == other || resource == on_host ||
                        resource == *std::pmr::new_delete_resource());
        CU_ASSERT_TRUE(dao_place_equal(on_host.place(), dao::place_of(host)));
        full_place full(dao::place_of(pinned));
        bool is_bad_alloc = false;
        try {
            (void)resource.allocate(1u << 30);
        } catch (const dao::bad_alloc &error) {
            is_bad_alloc = error.status() == DAO_ERR_LIMIT;
        }
        CU_ASSERT_TRUE(is_bad_alloc);
    }
    CU_ASSERT_EQUAL(dao::used(pinned), before_bytes);
}

/* ---- handles ---- */

int deleted_count = 0;

void count_deleted(void *, std::size_t, void *)
{
    deleted_count++;
}

/* Another process is what test_share.c has. */
void a_share_is_closed_with_its_owner()
{
    int sockets[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    int descriptor = -1;
    {
        dao::memory memory = dao::memory::create_shared(device, 1000);
        dao::memory_share first = memory.export_share();
        dao::memory_share second = std::move(first);
        CU_ASSERT_EQUAL(first.get().descriptor, -1); // NOLINT: as above
        descriptor = second.get().descriptor;
        CU_ASSERT_TRUE(descriptor >= 0);
        second.send(sockets[0]);
        dao::memory_share third = dao::memory_share::receive(sockets[1]);
        CU_ASSERT_NOT_EQUAL(third.get().descriptor, descriptor);
        dao_status_t status = DAO_OK;
        try {
            dao::memory own = dao::memory::import_from(device, third);
        } catch (const dao::error &error) {
            status = error.status();
        }
        CU_ASSERT_EQUAL(status, DAO_ERR_INVALID);
    }
    CU_ASSERT_EQUAL(fcntl(descriptor, F_GETFD), -1);
    close(sockets[0]);
    close(sockets[1]);
}

void a_copied_handle_retains_and_a_moved_one_does_not()
{
    std::size_t before_bytes = dao::used(device);
    {
        dao::memory first(device, 1000);
        CU_ASSERT_EQUAL(first.use_count(), 1);
        dao::memory second = first;
        CU_ASSERT_EQUAL(first.use_count(), 2);
        dao::memory third = std::move(second);
        CU_ASSERT_EQUAL(first.use_count(), 2);
        CU_ASSERT_FALSE(second); // NOLINT: as above
        dao::memory *itself = &third;
        third = *itself;
        CU_ASSERT_EQUAL(first.use_count(), 2);
        third.reset();
        CU_ASSERT_EQUAL(first.use_count(), 1);
        dao::memory part = first.sub_range(256, 100);
        CU_ASSERT_PTR_EQUAL(part.address(), static_cast<char *>(first.address()) + 256);
        CU_ASSERT_EQUAL(part.size(), 100);
        CU_ASSERT_TRUE(dao_place_equal(part.place(), dao::place_of(device)));
        dao::memory shared = dao::memory::share(part.get());
        CU_ASSERT_EQUAL(part.use_count(), 2);
        dao::memory adopted = dao::memory::take(shared.release());
        CU_ASSERT_EQUAL(part.use_count(), 2);
        char bytes[8] = {};
        dao::memory foreign = dao::memory::from_pointer(host, bytes, sizeof(bytes), count_deleted);
        dao::memory same = foreign;
        foreign.reset();
        CU_ASSERT_EQUAL(deleted_count, 0);
        same.reset();
        CU_ASSERT_EQUAL(deleted_count, 1);
        bool is_thrown = false;
        try {
            (void)first.sub_range(999, 2);
        } catch (const dao::error &error) {
            is_thrown = error.status() == DAO_ERR_OUT_OF_BOUNDS;
        }
        CU_ASSERT_TRUE(is_thrown);
    }
    CU_ASSERT_EQUAL(dao_device_synchronize(device.index), DAO_OK); /* freed blocks wait for their stream */
    CU_ASSERT_EQUAL(dao::used(device), before_bytes);
}

void views_of_a_tensor_keep_its_memory()
{
    dao::tensor row;
    {
        dao::tensor zeros = dao::tensor::zeros(host, DAO_TYPE_F32, {4, 6});
        CU_ASSERT_EQUAL(zeros.count(), 24);
        CU_ASSERT_EQUAL(zeros.type(), DAO_TYPE_F32);
        row = zeros.permute({1, 0}).narrow(0, 2, 1).squeeze(0);
    }
    CU_ASSERT_EQUAL(row.rank(), 1);
    CU_ASSERT_EQUAL(row.shape()[0], 4);
    CU_ASSERT_EQUAL(row.strides()[0], 6);
    CU_ASSERT_FALSE(row.is_contiguous());
    CU_ASSERT_EQUAL(static_cast<float *>(row.address())[6 * 3], 0.0f);
    dao::memory memory = row.memory();
    CU_ASSERT_EQUAL(memory.size(), 96);
    dao::tensor all = dao::tensor::from_memory(memory, 0, DAO_TYPE_I64, std::vector<std::int64_t>{3, 4});
    CU_ASSERT_EQUAL(all.view({2, -1}).unsqueeze(0).rank(), 3);
    CU_ASSERT_EQUAL(all.as_strided({2, 2}, {1, 0}, 1).count(), 4);
    CU_ASSERT_EQUAL(dao::tensor::empty(device, DAO_TYPE_U8, {}).count(), 1);
    dao::tensor back = dao::tensor::from_dlpack(all.to_dlpack());
    CU_ASSERT_PTR_EQUAL(back.address(), all.address());
    back.reset();
    dao::tensor same = dao::tensor::share(all.get());
    CU_ASSERT_PTR_EQUAL(dao::tensor::take(same.release()).address(), all.address());
    dao_status_t statuses[3] = {DAO_OK, DAO_OK, DAO_OK};
    try {
        (void)dao::tensor::empty(host, DAO_TYPE_U8, std::vector<std::int64_t>(DAO_TENSOR_RANK_MAX + 1, 1));
    } catch (const dao::error &error) {
        statuses[2] = error.status();
    }
    try {
        dao_place_t gpu{};
        statuses[0] = ::dao_place_parse("gpu:7", &gpu); /* an error of another call */
        (void)all.permute({0});
    } catch (const dao::error &error) {
        statuses[0] = error.status();
        CU_ASSERT_PTR_NOT_NULL(std::strstr(error.what(), "permute"));
    }
    try {
        (void)all.as_strided({2, 2}, {1}, 0);
    } catch (const dao::error &error) {
        statuses[1] = error.status();
    }
    CU_ASSERT_TRUE(statuses[0] == DAO_ERR_INVALID && statuses[1] == DAO_ERR_INVALID &&
                   statuses[2] == DAO_ERR_INVALID);
}

void devices_reach_peers_and_host_memory()
{
    const dao::device_place near{0}, far{1};
    CU_ASSERT_TRUE(dao::peer_info(near, near).is_enabled);
    CU_ASSERT_TRUE(dao::peer_info(near, far).can_reach);
    dao::enable_peer(near, far);
    CU_ASSERT_TRUE(dao::peer_info(near, far).is_enabled);
    static unsigned char bytes[64];
    dao_status_t status = DAO_OK;
    {
        dao::registration registered(near, bytes, sizeof(bytes));
        CU_ASSERT_PTR_EQUAL(registered.get(), bytes);
        CU_ASSERT_PTR_NOT_NULL(dao::device_address(far, bytes + 1));
        dao::registration moved = std::move(registered);
        CU_ASSERT_FALSE(registered); // NOLINT: a handle that was moved from is empty
        dao::registration adopted = dao::registration::take(moved.release());
        try {
            dao::registration again(far, bytes + 63, 1);
        } catch (const dao::error &error) {
            status = error.status();
        }
    }
    CU_ASSERT_EQUAL(status, DAO_ERR_BUSY);
    dao::registration again(far, bytes, sizeof(bytes));
    CU_ASSERT_PTR_EQUAL(again.get(), bytes);
}

void streams_and_events_order_copies()
{
    dao::stream writes(device), reads(device);
    CU_ASSERT_EQUAL(writes.device().index, 1);
    CU_ASSERT_PTR_NOT_NULL(writes.native());
    dao::event begun(device), filled(device), done(device);
    dao::block<dao::device_place> block(device, 4096);
    dao::unique_ptr<unsigned char[], dao::pinned_place> bytes =
        dao::make_unique<unsigned char[]>(pinned, 4096);
    begun.record(writes);
    writes.fill(block.get(), 0x77, 4096);
    filled.record(writes.get());
    reads.wait(filled);
    reads.copy(pinned, bytes.get(), device, block.get(), 2048);
    void *const dst = bytes.get() + 2048;
    const void *const src = static_cast<unsigned char *>(block.get()) + 2048;
    const std::size_t rest_bytes = 2048;
    reads.copy_batch(pinned, device, {1, &dst, &src, &rest_bytes});
    int seen = 0;
    auto look = [](void *user) { ++*static_cast<int *>(user); };
    reads.host_func(look, &seen);
    done.record(reads);
    done.synchronize();
    reads.synchronize();
    CU_ASSERT_EQUAL(seen, 1);
    CU_ASSERT_TRUE(done.is_done());
    CU_ASSERT_TRUE(bytes[0] == 0x77 && bytes[4095] == 0x77);
    CU_ASSERT_TRUE(done.since(begun) >= std::chrono::nanoseconds(0));
    dao::stream moved = std::move(reads);
    CU_ASSERT_FALSE(reads); // NOLINT: as above
    reads = dao::stream::take(moved.release());
    reads.synchronize();
    dao::event adopted = dao::event::take(done.release());
    CU_ASSERT_TRUE(adopted.is_done());
    adopted.reset();
    CU_ASSERT_FALSE(static_cast<bool>(adopted));
    adopted.reset(); /* nothing is left to be destroyed */
    dao::event pending(device);
    CU_ASSERT_TRUE(pending.is_done()); /* it was never recorded */
}

void blocks_follow_streams()
{
    dao::stream first(device), second(device);
    void *block = dao::alloc_async(device, 5000, first.get());
    dao::record_stream(device, block, second.get());
    CU_ASSERT_EQUAL(dao::free_async(device, block, first.get()), DAO_OK);
    CU_ASSERT_EQUAL(dao::free_async(device, block, first.get()), DAO_ERR_DOUBLE_FREE);
    void *other = dao::alloc_native(device, 5000, first.native());
    dao::record_native(device, other, second.native());
    CU_ASSERT_TRUE(dao_place_equal(dao::place_at(other), dao::place_of(device)));
    CU_ASSERT_EQUAL(dao::free_native(device, other, first.native()), DAO_OK);
    first.synchronize();
    CU_ASSERT_TRUE(first.is_done());
    dao::memory handle(device, 100, first), plain(device, 100, dao::stream());
    CU_ASSERT_PTR_EQUAL(dao_memory_stream(handle.get()), first.get());
    CU_ASSERT_PTR_NOT_NULL(dao_memory_stream(plain.get()));
    dao_status_t status = DAO_OK;
    try {
        (void)dao::alloc_async(dao::device_place{0}, 1, first.get());
    } catch (const dao::error &error) {
        status = error.status();
    }
    CU_ASSERT_EQUAL(status, DAO_ERR_INVALID);
}

/* Returns the code of what is thrown, or DAO_OK. */
template <typename Call> dao_status_t thrown_by(Call call)
{
    try {
        call();
    } catch (const dao::error &error) {
        return error.status();
    }
    return DAO_OK;
}

dao_status_t launch_fill(const dao_launch_t *launch, void *user)
{
    return dao_stream_fill(launch->stream, launch->addresses[0], *static_cast<std::uint8_t *>(user), 4096);
}

dao_status_t own_obtain(void *user, std::size_t size_bytes, void **out_address)
{
    *out_address = std::aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
    *static_cast<int *>(user) += 1;
    return *out_address != nullptr ? DAO_OK : DAO_ERR_NO_DEVICE_MEMORY;
}

dao_status_t own_release(void *user, void *address, std::size_t /* size_bytes */)
{
    std::free(address);
    *static_cast<int *>(user) -= 1;
    return DAO_OK;
}

void own_memory_is_a_place()
{
    static int held_count;
    dao_own_memory_t memory{};
    dao_status_t status = DAO_OK;
    try {
        (void)dao::register_place(memory);
    } catch (const dao::error &error) {
        status = error.status();
    }
    CU_ASSERT_EQUAL(status, DAO_ERR_INVALID);
    memory.name = "own";
    memory.user = &held_count;
    memory.capacity_bytes = 64 * MIB;
    memory.obtain = own_obtain;
    memory.release = own_release;
    dao::place own = dao::register_place(memory);
    void *block = dao::alloc(own, 5 * MIB);
    CU_ASSERT_EQUAL(dao::used(own), 5 * MIB);
    CU_ASSERT_EQUAL(held_count, 1);
    CU_ASSERT_EQUAL(dao::free(own, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(own, 0, nullptr), DAO_OK);
    CU_ASSERT_EQUAL(held_count, 0);
}

void an_executor_runs_kernels_and_steps()
{
    dao_executor_config_t config = {};
    config.capacity_bytes = 4096; /* one tensor of two */
    dao::executor executor(config);
    dao_managed_config_t of = {};
    of.size_bytes = 4096;
    dao::managed first(executor, of), second(executor, of);
    dao::managed same = first;
    CU_ASSERT_TRUE(same.id() == first.id() && same.id() != second.id() && same.size() == 4096);
    std::uint8_t one = 1, two = 2;
    dao_operand_t operands[2] = {{first.get(), DAO_ACCESS_WRITE}, {second.get(), DAO_ACCESS_WRITE}};
    dao_kernel_t kernels[2] = {};
    kernels[0].launch = kernels[1].launch = launch_fill;
    kernels[0].user = &one;
    kernels[1].user = &two;
    kernels[0].operand_count = kernels[1].operand_count = 1;
    kernels[0].operands = &operands[0];
    kernels[1].operands = &operands[1];
    executor.push(kernels[0]);
    dao::command_list list(executor);
    list.push(kernels[1]);
    list.run();
    executor.step_begin();
    executor.sync();
    CU_ASSERT_EQUAL(executor.stats().kernel_count, 2);
    std::uint8_t bytes[4096];
    first.read(bytes, sizeof(bytes));
    CU_ASSERT_EQUAL(bytes[4095], 1);
    second.read(bytes, sizeof(bytes));
    CU_ASSERT_EQUAL(bytes[4095], 2);
    CU_ASSERT_EQUAL(first.view(4000, 96).size(), 96);
    int done_count = 0;
    const auto count = [](dao_status_t status, void *user) {
        *static_cast<int *>(user) += status == DAO_OK ? 1 : 10;
    };
    first.write_async(1, &two, 1, count, &done_count);
    first.read_async(0, bytes, sizeof(bytes), count, &done_count);
    executor.sync();
    CU_ASSERT_TRUE(done_count == 2 && bytes[0] == 1 && bytes[1] == 2);
    CU_ASSERT_PTR_NOT_NULL(first.pin());
    CU_ASSERT_EQUAL(executor.stats().pinned_bytes, 4096);
    first.unpin();
    CU_ASSERT_EQUAL(thrown_by([&] { first.unpin(); }), DAO_ERR_INVALID);
    second.write(std::vector<std::uint8_t>(4096, 3).data(), 4096);
    list.discard(second);
    list.run();
    CU_ASSERT_EQUAL(thrown_by([&] { second.read(bytes, sizeof(bytes)); }), DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_EQUAL(thrown_by([&] { first.read(bytes, 1); }), DAO_ERR_INVALID);
    static const std::uint8_t weights[100] = {7, 8, 9};
    dao::managed third;
    {
        const dao::source from(weights, sizeof(weights));
        of.size_bytes = 98;
        third = dao::managed(executor, of, from, 2);
        CU_ASSERT_EQUAL(from.size(), 100);
        CU_ASSERT_EQUAL(thrown_by([&] { (void)dao::managed(executor, of, from, 3); }), DAO_ERR_INVALID);
    }
    third.read(bytes, 98);
    CU_ASSERT_TRUE(bytes[0] == 9 && bytes[97] == 0);
    CU_ASSERT_EQUAL(thrown_by([&] { third.write(bytes, 98); }), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(thrown_by([] { (void)dao::source("/no/such/weights"); }), DAO_ERR_IO);
    dao::managed shared = dao::managed::share(first.get());
    executor.reset(); /* handles may outlive it */
    config.device_index = 63;
    CU_ASSERT_EQUAL(thrown_by([&] { executor = dao::executor(config); }), DAO_ERR_NO_DEVICE);
    CU_ASSERT_FALSE(static_cast<bool>(executor));
}

void plans_are_made_and_shared()
{
    dao_plan_buffer_t buffers[3] = {};
    for (std::uint64_t i = 0; i < 3; i++) { /* each overlaps the next one */
        buffers[i].begin_time = i;
        buffers[i].end_time = i + 2;
        buffers[i].size_bytes = 100;
        buffers[i].fixed_offset = DAO_PLAN_NOWHERE;
        buffers[i].pool = DAO_PLAN_ANY_POOL;
    }
    dao_plan_problem_t problem = {};
    problem.buffers = buffers;
    problem.buffer_count = 3;
    dao::plan plan(problem);
    CU_ASSERT_EQUAL(plan.report().peak_bytes, 200);
    CU_ASSERT_TRUE(plan.size() == 3 && plan.offset(0) == plan.offset(2) && plan.pool(1) == 0);
    dao::planner planner(problem);
    CU_ASSERT_EQUAL(thrown_by([&] { (void)planner.best(); }), DAO_ERR_NOT_READY);
    (void)planner.work();
    planner.start();
    CU_ASSERT_TRUE(planner.wait(std::chrono::nanoseconds::max()));
    dao::plan best = planner.best(), copied = best;
    planner.cancel();
    planner.reset();
    CU_ASSERT_EQUAL(copied.report().peak_bytes, 200); /* plans stay */
    buffers[1].size_bytes = 0;
    CU_ASSERT_EQUAL(thrown_by([&] { plan = dao::plan(problem); }), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(plan.size(), 3);
}

void a_swapped_step_is_planned()
{
    const dao_swap_tensor_t tensors[2] = {{1 << 20, true, false}, {1 << 20, true, false}};
    const dao_swap_use_t uses[2] = {{0, DAO_ACCESS_READ_WRITE}, {1, DAO_ACCESS_READ_WRITE}};
    const dao_swap_kernel_t kernels[2] = {{1000000, 0, &uses[0], 1, false, 0},
                                          {1000000, 0, &uses[1], 1, false, 0}};
    dao_swap_problem_t problem = {};
    problem.tensors = tensors;
    problem.tensor_count = 2;
    problem.kernels = kernels;
    problem.kernel_count = 2;
    problem.capacity_bytes = 1 << 20;
    problem.host.in_bytes_per_second = 1000000000;
    dao::swap_plan plan(problem);
    CU_ASSERT_PTR_NOT_NULL_FATAL(plan.schedule());
    CU_ASSERT_EQUAL(plan.replay().step_ns, plan.schedule()->step_ns);
    CU_ASSERT_TRUE(plan.schedule()->step_ns >= dao::swap_bound(problem).step_ns);
    CU_ASSERT_EQUAL(plan.schedule()->in_bytes, 2 << 20);
    problem.capacity_bytes = 1;
    CU_ASSERT_EQUAL(thrown_by([&] { plan = dao::swap_plan(problem); }), DAO_ERR_KERNEL_TOO_LARGE);
}

void a_library_ends_with_its_scope()
{
    {
        dao::library inner; /* the suite has started it already: this is undone alone */
    }
    CU_ASSERT_EQUAL(dao::free(host, dao::alloc(host, 10)), DAO_OK);
    dao_config_t config = {};
    config.cpu.device_count = -1;
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    bool is_thrown = false;
    try {
        dao::library wrong(&config);
    } catch (const dao::error &error) {
        is_thrown = error.status() == DAO_ERR_INVALID;
    }
    CU_ASSERT_TRUE(is_thrown);
    CU_ASSERT_EQUAL_FATAL(dao_init(nullptr), DAO_OK);
}

int begin_suite()
{
    return dao_init(nullptr) != DAO_OK;
}

int end_suite()
{
    return dao_finalize() != DAO_OK; /* nothing is live any more */
}

CU_TestInfo tests[] = {
    {"the type of a place picks the allocator", the_type_of_a_place_picks_the_allocator},
    {"a failure is thrown with code and message", a_failure_is_thrown_with_code_and_message},
    {"an address is aligned as wanted", an_address_is_aligned_as_wanted},
    {"a scope counts for its tag", a_scope_counts_for_its_tag},
    {"bytes are copied between places", bytes_are_copied_between_places},
    {"a block gives itself back once", a_block_gives_itself_back_once},
    {"objects are made and destroyed where they live", objects_are_made_and_destroyed_where_they_live},
    {"a constructor that throws leaves nothing behind", a_constructor_that_throws_leaves_nothing_behind},
    {"device memory holds objects that the host only names",
     device_memory_holds_objects_that_the_host_only_names},
    {"containers live at a place", containers_live_at_a_place},
    {"a moved container takes its place along and an assigned one stays",
     a_moved_container_takes_its_place_along_and_an_assigned_one_stays},
    {"a container without memory gets a bad_alloc", a_container_without_memory_gets_a_bad_alloc},
    {"alignments beyond the place's own are kept", alignments_beyond_the_places_own_are_kept},
    {"polymorphic containers live at a place", polymorphic_containers_live_at_a_place},
    {"a share is closed with its owner", a_share_is_closed_with_its_owner},
    {"a copied handle retains and a moved one does not", a_copied_handle_retains_and_a_moved_one_does_not},
    {"views of a tensor keep its memory", views_of_a_tensor_keep_its_memory},
    {"devices reach peers and host memory", devices_reach_peers_and_host_memory},
    {"streams and events order copies", streams_and_events_order_copies},
    {"blocks follow streams", blocks_follow_streams},
    {"own memory is a place", own_memory_is_a_place},
    {"an executor runs kernels and steps", an_executor_runs_kernels_and_steps},
    {"plans are made and shared", plans_are_made_and_shared},
    {"a swapped step is planned", a_swapped_step_is_planned},
    {"a library ends with its scope", a_library_ends_with_its_scope},
    CU_TEST_INFO_NULL,
};

} // namespace

int main()
{
    CU_SuiteInfo suites[] = {
        {"cpp", begin_suite, end_suite, nullptr, nullptr, tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
