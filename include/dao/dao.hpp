/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * All of libdao for C++17: inline over the C headers, without a library of its own.
 *
 *     void *p = dao::alloc(dao::device_place{2}, 4096);      the allocator is chosen at compile time
 *     std::size_t held = dao::used(dao::device_place{2});
 *     dao::free(dao::device_place{2}, p);
 *
 *     dao::block<dao::device_place> block(dao::device_place{2}, 4096);     frees itself
 *     dao::unique_ptr<float[], dao::cpu_place> numbers = dao::make_unique<float[]>(dao::cpu_place{}, 100);
 *     std::vector<float, dao::allocator<float, dao::pinned_place>> staging(100, dao::pinned_place{0});
 *     dao::memory_resource resource(dao::cpu_place{});                     for std::pmr containers
 *     void *q = dao::alloc_async(dao::device_place{2}, 4096, stream.get()); in the order of a stream
 *     dao::memory memory(dao::device_place{0}, 4096);                      a counted handle: a copy retains
 *     dao::executor executor(config);                                      kernels on more tensors than fit
 *     dao::plan plan(problem);                                             offsets for known lifetimes
 *
 * Failed calls throw dao::error. Those that take std::nothrow or are noexcept return their result, with
 * dao_last_status() and dao_last_message(). Containers' allocators throw dao::bad_alloc, which is a
 * std::bad_alloc. Compiled without exceptions, a throw becomes std::terminate(), as in the standard library.
 * Device memory, which the host cannot access, is refused at compile time for containers and objects.
 *
 * Unless stated otherwise, threads, waits and costs are those of the C function of the same name, and an
 * object is used by one thread at a time.
 */
#ifndef DAO_DAO_HPP
#define DAO_DAO_HPP

#include <dao/container.hpp>
#include <dao/executor.hpp>
#include <dao/handle.hpp>
#include <dao/place.hpp>
#include <dao/plan.hpp>

#endif
