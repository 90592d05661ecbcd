/* SPDX-License-Identifier: Apache-2.0 */
/* What the compiler has to refuse: each CASE with the words beside it. Case 0 is what it has to take. See
   test_cpp_refusals.cmake. */
#include <dao/dao.hpp>

#include <vector>

void refusals();

void refusals()
{
    dao::device_place device{0};
    dao::place place = dao::place_of(device);
#if CASE == 0
    (void)dao::free(place, dao::alloc(device, 1));
    std::vector<int, dao::allocator<int>> vector;
    dao::memory_resource resource(dao::pinned_place{0});
    auto numbers = dao::make_unique_for_overwrite<int[]>(device, 2);
    auto number = dao::make_unique<int>(dao::cpu_place{}, 2);
    *number = 3;
#elif CASE == 1  // the host cannot touch device memory
    std::vector<int, dao::allocator<int, dao::device_place>> vector(device);
#elif CASE == 2  // the host cannot touch device memory
    dao::memory_resource resource(device);
#elif CASE == 3  // a dao::place may be a device's
    dao::memory_resource resource(place);
#elif CASE == 4  // a dao::place may be a device's
    dao::allocator<int, dao::place> allocator(place);
#elif CASE == 5  // this is no place
    (void)dao::alloc(0, 4096);
#elif CASE == 6  // the host cannot touch device memory
    auto number = dao::make_unique<int>(device, 2);
#elif CASE == 7  // the host cannot touch device memory
    auto numbers = dao::make_unique_for_overwrite<int[]>(device, 2);
    numbers[0] = 1;
#elif CASE == 8  // what lives in device memory has to be trivially copyable
    dao::unique_ptr<std::vector<int>, dao::device_place> vector;
#elif CASE == 9  // only trivial objects need not be made
    auto vectors = dao::make_unique_for_overwrite<std::vector<int>[]>(dao::cpu_place{}, 2);
#elif CASE == 10 // unique_ptr aligns no further than its place does
    struct alignas(4096) page {
        char bytes[4096];
    };
    auto pages = dao::make_unique<page>(dao::cpu_place{});
#elif CASE == 11 // deleted
    dao::block<dao::device_place> block(device, 1);
    dao::block<dao::device_place> copy(block);
#elif CASE == 12 // an array is looked at with
    auto numbers = dao::make_unique<int[]>(dao::cpu_place{}, 2);
    *numbers = 1;
#elif CASE == 13 // host memory follows no stream
    (void)dao::alloc_async(dao::cpu_place{}, 100, nullptr);
#endif
    (void)device;
    (void)place;
}
