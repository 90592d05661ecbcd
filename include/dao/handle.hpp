/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * C++: the handles of the C headers as objects: streams, events, memory, tensors. See dao.hpp.
 */
#ifndef DAO_HANDLE_HPP
#define DAO_HANDLE_HPP

#include <dao/place.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace dao
{

/* ---- handles ---- */

namespace detail
{

/* Returns the handle that a call of the C headers makes, or throws. */
template <typename Handle, typename Make> [[nodiscard]] Handle *made(Make make)
{
    Handle *handle = nullptr;
    check(make(&handle));
    return handle;
}

/* A handle that is counted: a copy retains, the last one to go frees. */
template <typename Handle, dao_status_t (*retain)(Handle *), dao_status_t (*release_handle)(Handle *)>
class counted
{
  public:
    counted() noexcept = default;

    counted(const counted &other) noexcept : handle_(other.handle_)
    {
        if (handle_ != nullptr) {
            (void)retain(handle_); /* `other` holds a reference: it cannot fail */
        }
    }

    counted(counted &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
    {
    }

    counted &operator=(counted other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }

    ~counted()
    {
        (void)release_handle(handle_); /* NULL is allowed, and our reference is one */
    }

    /** Returns the handle for calls of the C headers, borrowed. */
    [[nodiscard]] Handle *get() const noexcept
    {
        return handle_;
    }

    /** Releases the reference to the caller, who drops it later. */
    [[nodiscard]] Handle *release() noexcept
    {
        return std::exchange(handle_, nullptr);
    }

    /** Drops the reference now. */
    void reset() noexcept
    {
        (void)release_handle(release());
    }

    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }

  protected:
    explicit counted(Handle *handle) noexcept : handle_(handle)
    {
    }

    [[nodiscard]] static Handle *retained(Handle *handle)
    {
        check(retain(handle));
        return handle;
    }

  private:
    Handle *handle_ = nullptr;
};

/* A handle with one owner. */
template <typename Handle, auto destroy> class owned
{
  public:
    owned() noexcept = default;

    owned(owned &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
    {
    }

    owned &operator=(owned &&other) noexcept
    {
        owned taken(std::move(other));
        std::swap(handle_, taken.handle_);
        return *this;
    }

    ~owned()
    {
        (void)destroy(handle_); // a refusal stays in last_status()
    }

    /** Returns the handle for calls of the C headers, borrowed. */
    [[nodiscard]] Handle *get() const noexcept
    {
        return handle_;
    }

    /** Releases the handle to the caller, who destroys it. */
    [[nodiscard]] Handle *release() noexcept
    {
        return std::exchange(handle_, nullptr);
    }

    /** Destroys it now. */
    void reset() noexcept
    {
        (void)destroy(release());
    }

    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }

  protected:
    explicit owned(Handle *handle) noexcept : handle_(handle)
    {
    }

  private:
    Handle *handle_ = nullptr;
};

} // namespace detail

class event;

/** A stream of a device; destroying it waits for its work. Members throw dao::error. */
class stream : public detail::owned<::dao_stream_t, ::dao_stream_destroy>
{
  public:
    stream() noexcept = default;

    /** As dao_stream_create(). */
    explicit stream(device_place device)
        : owned(detail::made<::dao_stream_t>(
              [&](auto **out) { return ::dao_stream_create(device.index, out); }))
    {
    }

    /** As dao_stream_adopt(): the vendor's stream stays the program's. */
    [[nodiscard]] static stream from_native(device_place device, void *native)
    {
        return stream(detail::made<::dao_stream_t>(
            [&](auto **out) { return ::dao_stream_adopt(device.index, native, out); }));
    }

    /** Takes over a handle of dao_stream_create(). */
    [[nodiscard]] static stream take(::dao_stream_t *handle) noexcept
    {
        return stream(handle);
    }

    [[nodiscard]] device_place device() const noexcept
    {
        return {::dao_stream_device(get())};
    }

    [[nodiscard]] void *native() const noexcept
    {
        return ::dao_stream_native(get());
    }

    void synchronize()
    {
        check(::dao_stream_synchronize(get()));
    }

    /** Returns true if all work that was queued so far has finished. As dao_stream_query(). */
    [[nodiscard]] bool is_done()
    {
        dao_status_t status = ::dao_stream_query(get());
        check(status == DAO_ERR_NOT_READY ? DAO_OK : status);
        return status == DAO_OK;
    }

    /** Later work here waits, on the device, for what an event stands for now. */
    inline void wait(const event &before);

    template <typename To, typename From>
    void copy(To dst_place, void *dst, From src_place, const void *src, std::size_t size_bytes)
    {
        check(::dao_stream_copy(get(), place_of(dst_place), dst, place_of(src_place), src, size_bytes));
    }

    template <typename To, typename From>
    void copy_batch(To dst_place, From src_place, const dao_copy_batch_t &batch)
    {
        check(::dao_stream_copy_batch(get(), place_of(dst_place), place_of(src_place), &batch));
    }

    void fill(void *dst, std::uint8_t value, std::size_t size_bytes)
    {
        check(::dao_stream_fill(get(), dst, value, size_bytes));
    }

    /**
     * As dao_stream_host_func().
     *
     * @param function  Must not throw.
     * @param user      Handed to it.
     */
    void host_func(::dao_host_func_t function, void *user)
    {
        check(::dao_stream_host_func(get(), function, user));
    }

  private:
    explicit stream(::dao_stream_t *handle) noexcept : owned(handle)
    {
    }
};

namespace detail
{

inline void host_unregister(void *address) noexcept
{
    (void)::dao_host_unregister(address);
}

} // namespace detail

/**
 * Host memory of the program's own, registered as long as this lives. As dao_host_register(), or throws
 * dao::error.
 */
class registration : public detail::owned<void, detail::host_unregister>
{
  public:
    registration() noexcept = default;

    registration(device_place device, void *address, std::size_t size_bytes)
        : owned(made(device, address, size_bytes))
    {
    }

    /** Takes over what dao_host_register() registered. */
    [[nodiscard]] static registration take(void *address) noexcept
    {
        return registration(address);
    }

  private:
    explicit registration(void *address) noexcept : owned(address)
    {
    }

    [[nodiscard]] static void *made(device_place device, void *address, std::size_t size_bytes)
    {
        check(::dao_host_register(device.index, address, size_bytes));
        return address;
    }
};

/** A point in a stream's work. Members throw dao::error. */
class event : public detail::owned<::dao_event_t, ::dao_event_destroy>
{
  public:
    event() noexcept = default;

    /** As dao_event_create(). */
    explicit event(device_place device)
        : owned(
              detail::made<::dao_event_t>([&](auto **out) { return ::dao_event_create(device.index, out); }))
    {
    }

    /** Takes over a handle of dao_event_create(). */
    [[nodiscard]] static event take(::dao_event_t *handle) noexcept
    {
        return event(handle);
    }

    void record(::dao_stream_t *on)
    {
        check(::dao_event_record(get(), on));
    }

    void record(const stream &on)
    {
        record(on.get());
    }

    /** Returns true if what it stands for has finished. */
    [[nodiscard]] bool is_done() const
    {
        dao_status_t status = ::dao_event_query(get());
        if (status != DAO_ERR_NOT_READY) {
            check(status);
        }
        return status == DAO_OK;
    }

    void synchronize()
    {
        check(::dao_event_synchronize(get()));
    }

    /** Returns the time from another finished event to this one. */
    [[nodiscard]] std::chrono::nanoseconds since(const event &begin) const
    {
        std::int64_t elapsed_ns = 0;
        check(::dao_event_elapsed(begin.get(), get(), &elapsed_ns));
        return std::chrono::nanoseconds(elapsed_ns);
    }

  private:
    explicit event(::dao_event_t *handle) noexcept : owned(handle)
    {
    }
};

inline void stream::wait(const event &before)
{
    check(::dao_stream_wait_event(get(), before.get()));
}

namespace detail
{

/* For what is allocated and freed in a stream's order. */
template <typename Place> constexpr void require_stream_order() noexcept
{
    require_place<Place>();
    static_assert(!std::is_same_v<Place, cpu_place>,
                  "dao: host memory follows no stream; use dao::device_place or dao::pinned_place");
}

} // namespace detail

/**
 * Allocates in a stream's order, or throws dao::error; NULL is the device's compute stream. As
 * dao_alloc_async().
 */
template <typename Place>
[[nodiscard]] void *alloc_async(Place where, std::size_t size_bytes, ::dao_stream_t *on)
{
    detail::require_stream_order<Place>();
    void *address = ::dao_alloc_async(place_of(where), size_bytes, on);
    if (address == nullptr && size_bytes != 0) {
        detail::raise<error>(::dao_last_status());
    }
    return address;
}

/** Frees behind the work of a stream. Never throws: the answers are those of dao_free_async(). */
template <typename Place> dao_status_t free_async(Place where, void *address, ::dao_stream_t *on) noexcept
{
    detail::require_stream_order<Place>();
    return ::dao_free_async(place_of(where), address, on);
}

/** Allocates in the order of the vendor's stream, or throws dao::error. As dao_alloc_native(). */
[[nodiscard]] inline void *alloc_native(device_place where, std::size_t size_bytes, void *native_stream)
{
    void *address = ::dao_alloc_native(where.index, size_bytes, native_stream);
    if (address == nullptr && size_bytes != 0) {
        detail::raise<error>(::dao_last_status());
    }
    return address;
}

/** Frees behind the work of the vendor's stream. Never throws: the answers are those of dao_free_native(). */
inline dao_status_t free_native(device_place where, void *address, void *native_stream) noexcept
{
    return ::dao_free_native(where.index, address, native_stream);
}

/** Says that one more stream of the vendor's uses a block, or throws dao::error. As dao_record_native(). */
inline void record_native(device_place where, void *address, void *native_stream)
{
    check(::dao_record_native(where.index, address, native_stream));
}

/** Says that one more stream uses a block, or throws dao::error. As dao_record_stream(). */
template <typename Place> void record_stream(Place where, void *address, ::dao_stream_t *on)
{
    detail::require_stream_order<Place>();
    check(::dao_record_stream(place_of(where), address, on));
}

/**
 * What another process needs to import memory; closed with it. Members that are not noexcept throw
 * dao::error.
 */
class memory_share
{
  public:
    memory_share() noexcept = default;

    /** Takes over what dao_memory_export() gave. */
    explicit memory_share(const ::dao_share_t &share) noexcept : share_(share)
    {
    }

    memory_share(memory_share &&other) noexcept : share_(std::exchange(other.share_, none()))
    {
    }

    memory_share &operator=(memory_share &&other) noexcept
    {
        std::swap(share_, other.share_);
        return *this;
    }

    memory_share(const memory_share &) = delete;
    memory_share &operator=(const memory_share &) = delete;

    ~memory_share()
    {
        ::dao_share_close(&share_);
    }

    /** As dao_share_receive(). */
    [[nodiscard]] static memory_share receive(int socket)
    {
        ::dao_share_t share;
        check(::dao_share_receive(socket, &share));
        return memory_share(share);
    }

    /** As dao_share_send(). */
    void send(int socket) const
    {
        check(::dao_share_send(&share_, socket));
    }

    [[nodiscard]] const ::dao_share_t &get() const noexcept
    {
        return share_;
    }

  private:
    static ::dao_share_t none() noexcept
    {
        ::dao_share_t share{};
        share.descriptor = -1;
        return share;
    }

    ::dao_share_t share_ = none();
};

/** A counted handle to memory at a place. Members that are not noexcept throw dao::error. */
class memory : public detail::counted<::dao_memory_t, ::dao_memory_retain, ::dao_memory_release>
{
  public:
    memory() noexcept = default;

    /** As dao_memory_create(); `on` is borrowed, NULL is the device's compute stream. */
    template <typename Place>
    memory(Place where, std::size_t size_bytes, ::dao_stream_t *on = nullptr)
        : counted(detail::made<::dao_memory_t>(
              [&](auto **out) { return ::dao_memory_create(place_of(where), size_bytes, on, out); }))
    {
    }

    /** Takes over a reference. */
    [[nodiscard]] static memory take(::dao_memory_t *handle) noexcept
    {
        return memory(handle);
    }

    /** Adds a reference to a borrowed handle. */
    [[nodiscard]] static memory share(::dao_memory_t *handle)
    {
        return memory(retained(handle));
    }

    /** The same on a stream object, which is borrowed; an empty one is the device's compute stream. */
    template <typename Place>
    memory(Place where, std::size_t size_bytes, const stream &on) : memory(where, size_bytes, on.get())
    {
    }

    /** As dao_memory_from_pointer(). */
    template <typename Place>
    [[nodiscard]] static memory from_pointer(Place where, void *address, std::size_t size_bytes,
                                             ::dao_memory_deleter_t deleter = nullptr, void *user = nullptr)
    {
        return memory(detail::made<::dao_memory_t>([&](auto **out) {
            return ::dao_memory_from_pointer(place_of(where), address, size_bytes, deleter, user, out);
        }));
    }

    /** As dao_memory_create_shared(). */
    [[nodiscard]] static memory create_shared(device_place device, std::size_t size_bytes)
    {
        return memory(detail::made<::dao_memory_t>(
            [&](auto **out) { return ::dao_memory_create_shared(place_of(device), size_bytes, out); }));
    }

    /** As dao_memory_import(). */
    [[nodiscard]] static memory import_from(device_place device, const memory_share &share)
    {
        return memory(detail::made<::dao_memory_t>(
            [&](auto **out) { return ::dao_memory_import(place_of(device), &share.get(), out); }));
    }

    /** As dao_memory_export(). */
    [[nodiscard]] memory_share export_share() const
    {
        ::dao_share_t share;
        check(::dao_memory_export(get(), &share));
        return memory_share(share);
    }

    [[nodiscard]] memory sub_range(std::size_t offset_bytes, std::size_t size_bytes) const
    {
        return memory(detail::made<::dao_memory_t>(
            [&](auto **out) { return ::dao_memory_sub_range(get(), offset_bytes, size_bytes, out); }));
    }

    [[nodiscard]] void *address() const noexcept
    {
        return ::dao_memory_address(get());
    }

    [[nodiscard]] std::size_t size() const noexcept
    {
        return ::dao_memory_size(get());
    }

    [[nodiscard]] dao::place place() const noexcept
    {
        return ::dao_memory_place(get());
    }

    [[nodiscard]] std::uint32_t use_count() const noexcept
    {
        return ::dao_memory_use_count(get());
    }

  private:
    explicit memory(::dao_memory_t *handle) noexcept : counted(handle)
    {
    }
};

/** Lengths, strides or an order of dimensions, copied: {2, 3}, a std::vector, or a pointer and a count. More
    numbers than DAO_TENSOR_RANK_MAX are counted but not kept: every call refuses so many. */
template <typename Number> class dimensions
{
  public:
    dimensions(std::initializer_list<Number> numbers) noexcept : dimensions(numbers.begin(), numbers.size())
    {
    }

    dimensions(const std::vector<Number> &numbers) noexcept : dimensions(numbers.data(), numbers.size())
    {
    }

    dimensions(const Number *first, std::size_t count) noexcept
    {
        constexpr std::size_t most = DAO_TENSOR_RANK_MAX;
        std::copy_n(first, count < most ? count : most, numbers_);
        count_ = static_cast<std::int32_t>(count <= most ? count : most + 1);
    }

    [[nodiscard]] const Number *data() const noexcept
    {
        return numbers_;
    }

    [[nodiscard]] std::int32_t size() const noexcept
    {
        return count_;
    }

    [[nodiscard]] Number operator[](std::int32_t index) const noexcept
    {
        return numbers_[index];
    }

  private:
    Number numbers_[DAO_TENSOR_RANK_MAX] = {};
    std::int32_t count_ = 0;
};

using extents = dimensions<std::int64_t>;    /**< a shape, or strides in elements */
using axis_order = dimensions<std::int32_t>; /**< dimensions, each once */

/**
 * A counted view of memory. Members that are not noexcept throw dao::error; those that make views copy
 * nothing.
 */
class tensor : public detail::counted<::dao_tensor_t, ::dao_tensor_retain, ::dao_tensor_release>
{
  public:
    tensor() noexcept = default;

    /** Takes over a reference. */
    [[nodiscard]] static tensor take(::dao_tensor_t *handle) noexcept
    {
        return tensor(handle);
    }

    /** Adds a reference to a borrowed handle. */
    [[nodiscard]] static tensor share(::dao_tensor_t *handle)
    {
        return tensor(retained(handle));
    }

    /** As dao_tensor_empty(). */
    template <typename Place> [[nodiscard]] static tensor empty(Place where, dao_type_t type, extents shape)
    {
        return tensor(detail::made<::dao_tensor_t>([&](auto **out) {
            return ::dao_tensor_empty(place_of(where), type, shape.size(), shape.data(), out);
        }));
    }

    /** As dao_tensor_zeros(). */
    template <typename Place> [[nodiscard]] static tensor zeros(Place where, dao_type_t type, extents shape)
    {
        return tensor(detail::made<::dao_tensor_t>([&](auto **out) {
            return ::dao_tensor_zeros(place_of(where), type, shape.size(), shape.data(), out);
        }));
    }

    /** As dao_tensor_from_memory(), contiguous. */
    [[nodiscard]] static tensor from_memory(const dao::memory &memory, std::size_t offset_bytes,
                                            dao_type_t type, extents shape)
    {
        return tensor(detail::made<::dao_tensor_t>([&](auto **out) {
            return ::dao_tensor_from_memory(memory.get(), offset_bytes, type, shape.size(), shape.data(),
                                            nullptr, out);
        }));
    }

    /** As dao_tensor_from_dlpack(): takes `managed` over, unless it throws. */
    [[nodiscard]] static tensor from_dlpack(::DLManagedTensorVersioned *managed, std::uint32_t flags = 0)
    {
        return tensor(detail::made<::dao_tensor_t>(
            [&](auto **out) { return ::dao_tensor_from_dlpack(managed, flags, out); }));
    }

    /** As dao_tensor_to_dlpack(): the caller owns it, until its deleter is called. */
    [[nodiscard]] ::DLManagedTensorVersioned *to_dlpack(std::uint32_t flags = 0) const
    {
        ::DLManagedTensorVersioned *managed = nullptr;
        check(::dao_tensor_to_dlpack(get(), flags, &managed));
        return managed;
    }

    [[nodiscard]] tensor narrow(std::int32_t dimension, std::int64_t start, std::int64_t length) const
    {
        return tensor(detail::made<::dao_tensor_t>(
            [&](auto **out) { return ::dao_tensor_narrow(get(), dimension, start, length, out); }));
    }

    /**
     * Throws dao::error with DAO_ERR_INVALID, too, if `order` has not as many numbers as the tensor has
     * dimensions.
     */
    [[nodiscard]] tensor permute(axis_order order) const
    {
        if (order.size() != rank()) {
            detail::raise<error>(DAO_ERR_INVALID,
                                 "permute: an order names each of the tensor's dimensions once");
        }
        return tensor(detail::made<::dao_tensor_t>(
            [&](auto **out) { return ::dao_tensor_permute(get(), order.data(), out); }));
    }

    [[nodiscard]] tensor squeeze(std::int32_t dimension) const
    {
        return tensor(detail::made<::dao_tensor_t>(
            [&](auto **out) { return ::dao_tensor_squeeze(get(), dimension, out); }));
    }

    [[nodiscard]] tensor unsqueeze(std::int32_t dimension) const
    {
        return tensor(detail::made<::dao_tensor_t>(
            [&](auto **out) { return ::dao_tensor_unsqueeze(get(), dimension, out); }));
    }

    [[nodiscard]] tensor view(extents shape) const
    {
        return tensor(detail::made<::dao_tensor_t>(
            [&](auto **out) { return ::dao_tensor_view(get(), shape.size(), shape.data(), out); }));
    }

    /** Throws dao::error with DAO_ERR_INVALID, too, if there are not as many strides as lengths. */
    [[nodiscard]] tensor as_strided(extents shape, extents strides, std::int64_t offset_elements) const
    {
        if (shape.size() != strides.size()) {
            detail::raise<error>(DAO_ERR_INVALID, "as_strided: there is a stride for each length");
        }
        return tensor(detail::made<::dao_tensor_t>([&](auto **out) {
            return ::dao_tensor_as_strided(get(), shape.size(), shape.data(), strides.data(), offset_elements,
                                           out);
        }));
    }

    [[nodiscard]] void *address() const noexcept
    {
        return ::dao_tensor_address(get());
    }

    /** Returns a handle to the memory that it shows. */
    [[nodiscard]] dao::memory memory() const
    {
        return dao::memory::share(::dao_tensor_memory(get()));
    }

    [[nodiscard]] dao_type_t type() const noexcept
    {
        return ::dao_tensor_type(get());
    }

    [[nodiscard]] std::int32_t rank() const noexcept
    {
        return ::dao_tensor_rank(get());
    }

    [[nodiscard]] extents shape() const noexcept
    {
        return {::dao_tensor_shape(get()), static_cast<std::size_t>(rank())};
    }

    /** In elements. */
    [[nodiscard]] extents strides() const noexcept
    {
        return {::dao_tensor_strides(get()), static_cast<std::size_t>(rank())};
    }

    /** Returns the number of elements. */
    [[nodiscard]] std::int64_t count() const noexcept
    {
        return ::dao_tensor_count(get());
    }

    [[nodiscard]] bool is_contiguous() const noexcept
    {
        return ::dao_tensor_is_contiguous(get());
    }

  private:
    explicit tensor(::dao_tensor_t *handle) noexcept : counted(handle)
    {
    }
};

} // namespace dao

#endif
