/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * All of libdao for C++17: a face over the C headers, without a library of its own.
 *
 *     void *p = dao::alloc(dao::device_place{2}, 4096);      the allocator is picked when this is compiled
 *     std::size_t held = dao::used(dao::device_place{2});
 *     dao::free(dao::device_place{2}, p);
 *
 *     dao::block<dao::device_place> block(dao::device_place{2}, 4096);     frees itself
 *     dao::unique_ptr<float[], dao::cpu_place> numbers = dao::make_unique<float[]>(dao::cpu_place{}, 100);
 *     std::vector<float, dao::allocator<float, dao::pinned_place>> staging(100, dao::pinned_place{0});
 *     dao::memory_resource resource(dao::cpu_place{});                     for std::pmr containers
 *     void *q = dao::alloc_async(dao::device_place{2}, 4096, stream.get());  for the work of a stream
 *     dao::memory memory(dao::device_place{0}, 4096);                      a counted handle: a copy retains
 *     dao::executor executor(config);                                      more tensors than fit
 *     dao::plan plan(problem);                                             offsets for lives that are known
 *
 * Calls that fail throw dao::error; those that take std::nothrow or are noexcept answer instead, with
 * dao_last_status() and dao_last_message(). Containers' allocators throw dao::bad_alloc, which is a
 * std::bad_alloc. Compiled without exceptions, what would throw calls std::terminate(), as the standard
 * library's own calls do. What the host cannot touch (device memory) is refused at compile time where a
 * container or an object would touch it.
 *
 * Threads, waits and costs are those of the C function of the same name, unless a comment says otherwise. An
 * object of a class here belongs to one thread at a time.
 */
#ifndef DAO_DAO_HPP
#define DAO_DAO_HPP

#include <dao/container.hpp>
#include <dao/executor.hpp>
#include <dao/handle.hpp>
#include <dao/place.hpp>
#include <dao/plan.hpp>

#endif
