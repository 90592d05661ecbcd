/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file InfiniCore's allocators over libdao's places, and places over InfiniCore's allocators. A header
 * alone: InfiniCore's own class is the template's argument, so that nothing here depends on its version.
 *
 *     #include "allocators/memory_allocator.hpp"        // InfiniCore's
 *     #include <dao/dao_infinicore.hpp>
 *     device_memory_allocator_ =                          // in the constructor of its Runtime
 *         std::make_unique<dao::infinicore_allocator<MemoryAllocator>>(place, stream_);
 *
 * docs/paddle.md shows more.
 */
#ifndef DAO_INFINICORE_HPP
#define DAO_INFINICORE_HPP

#include <dao/dao.hpp>

#include <cstddef>
#include <cstdio>
#include <new>

namespace dao
{

/**
 * An allocator of InfiniCore's kind: `std::byte *allocate(size_t)`, `void deallocate(std::byte *)`. With the
 * runtime's stream its blocks follow that, as InfiniCore's own do: what is deallocated may be used at once by
 * later work of the stream. Without, a block of a device is free when the device's work is done, which
 * `deallocate` waits for. Blocks may outlive the allocator's last use; they are the place's.
 *
 * `allocate` throws std::bad_alloc where the place has nothing, ::dao_last_message() says why; 0 bytes are
 * nullptr. `deallocate` never throws: InfiniCore calls it from destructors; a failure is a message on the
 * standard error.
 *
 * Threads: any. Waits: as dao_alloc_native() and dao_free_native(), or as above. Cost: as those.
 */
template <class Base> class infinicore_allocator final : public Base
{
  public:
    /** Of any place, whose blocks follow no stream. */
    explicit infinicore_allocator(dao_place_t where) noexcept : place_(where)
    {
    }

    /** Of a device's place, whose blocks follow a stream: the vendor's handle, such as a cudaStream_t. */
    infinicore_allocator(dao_place_t where, void *stream) noexcept
        : place_(where), follows_(where.kind == DAO_PLACE_KIND_DEVICE), stream_(stream)
    {
    }

    std::byte *allocate(std::size_t size_bytes) override
    {
        void *address = follows_ ? ::dao_alloc_native(place_.index, size_bytes, stream_)
                                 : ::dao_alloc(place_, size_bytes);
        if (address == nullptr && size_bytes > 0) {
            throw std::bad_alloc();
        }
        return static_cast<std::byte *>(address);
    }

    void deallocate(std::byte *address) noexcept override
    {
        if (address != nullptr && free(address) != DAO_OK) {
            (void)std::fprintf(stderr, "libdao: %s\n", ::dao_last_message());
        }
    }

  private:
    dao_status_t free(std::byte *address) noexcept
    {
        if (follows_) {
            return ::dao_free_native(place_.index, address, stream_);
        }
        dao_status_t status =
            place_.kind != DAO_PLACE_KIND_CPU ? ::dao_device_synchronize(place_.index) : DAO_OK;
        return status == DAO_OK ? ::dao_free(place_, address) : status;
    }

    dao_place_t place_;
    bool follows_ = false;
    void *stream_ = nullptr;
};

/**
 * Makes a place of what an allocator of InfiniCore's gives, as ::dao_place_register().
 *
 * @param allocator  Of InfiniCore's kind; outlives the place: dao_finalize() gives its memory back.
 * @param memory     All fields of dao_own_memory_t but `user`, `obtain` and `release`, which are set here:
 * name and capacity at least; copies and events where the host cannot touch the memory. Other functions of it
 * get the allocator as `user`.
 * @param out_place  Written only on DAO_OK.
 * @return As dao_place_register(). What the allocator throws is DAO_ERR_NO_DEVICE_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
template <class Allocator>
[[nodiscard]] dao_status_t infinicore_place_register(Allocator &allocator, dao_own_memory_t memory,
                                                     dao_place_t *out_place) noexcept
{
    memory.user = &allocator;
    memory.obtain = [](void *user, std::size_t size_bytes, void **out_address) noexcept {
        try {
            *out_address = static_cast<Allocator *>(user)->allocate(size_bytes);
            return *out_address != nullptr ? DAO_OK : DAO_ERR_NO_DEVICE_MEMORY;
        } catch (...) {
            return DAO_ERR_NO_DEVICE_MEMORY;
        }
    };
    memory.release = [](void *user, void *address, std::size_t size_bytes) noexcept {
        (void)size_bytes;
        try {
            static_cast<Allocator *>(user)->deallocate(static_cast<std::byte *>(address));
            return DAO_OK;
        } catch (...) {
            return DAO_ERR_BACKEND;
        }
    };
    return ::dao_place_register(&memory, out_place);
}

} // namespace dao

#endif
