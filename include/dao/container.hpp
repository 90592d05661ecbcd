/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * C++: memory that frees itself, and the standard library's containers at a place. See dao.hpp.
 */
#ifndef DAO_CONTAINER_HPP
#define DAO_CONTAINER_HPP

#include <dao/place.hpp>

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <utility>

namespace dao
{

/* ---- memory that frees itself ---- */

/** One block of raw memory at a place. Moved, never copied. */
template <typename Place> class block
{
  public:
    block() noexcept
    {
        detail::require_place<Place>();
    }

    /** Allocates, or throws dao::error. Size 0 is an empty block. */
    block(Place where, std::size_t size_bytes)
        : place_(where), address_(dao::alloc(where, size_bytes)), size_bytes_(size_bytes)
    {
    }

    /** Allocates, or stays empty: ask with `if (block)`. */
    block(Place where, std::size_t size_bytes, const std::nothrow_t &) noexcept
        : place_(where), address_(dao::alloc(where, size_bytes, std::nothrow)),
          size_bytes_(address_ != nullptr ? size_bytes : 0)
    {
    }

    block(block &&other) noexcept
        : place_(other.place_), address_(std::exchange(other.address_, nullptr)),
          size_bytes_(std::exchange(other.size_bytes_, 0))
    {
    }

    block &operator=(block &&other) noexcept
    {
        block(std::move(other)).swap(*this);
        return *this;
    }

    ~block()
    {
        (void)dao::free(place_, address_); /* cannot fail; after dao_finalize() it is gone already */
    }

    void swap(block &other) noexcept
    {
        std::swap(place_, other.place_);
        std::swap(address_, other.address_);
        std::swap(size_bytes_, other.size_bytes_);
    }

    /** Releases the address to the caller, who frees it with dao::free(). */
    [[nodiscard]] void *release() noexcept
    {
        size_bytes_ = 0;
        return std::exchange(address_, nullptr);
    }

    /** Frees the block now. */
    void reset() noexcept
    {
        block empty;
        empty.place_ = place_;
        empty.swap(*this);
    }

    [[nodiscard]] void *get() const noexcept
    {
        return address_;
    }

    /** Returns the bytes that were asked for. */
    [[nodiscard]] std::size_t size() const noexcept
    {
        return size_bytes_;
    }

    [[nodiscard]] Place place() const noexcept
    {
        return place_;
    }

    explicit operator bool() const noexcept
    {
        return address_ != nullptr;
    }

  private:
    Place place_ = {};
    void *address_ = nullptr;
    std::size_t size_bytes_ = 0;
};

/** An object, or with T[] an array of objects, at a place. Moved, never copied. Where the host cannot touch
    the memory, objects are trivially copyable, and neither constructed nor accessed here. See
    make_unique(). */
template <typename T, typename Place> class unique_ptr
{
  public:
    using element_type = std::remove_extent_t<T>;
    using pointer = element_type *;

    static_assert(std::is_same_v<T, element_type> || std::is_same_v<T, element_type[]>,
                  "dao: unique_ptr holds a T or a T[] without a bound");
    static_assert(detail::is_host_v<Place> || std::is_trivially_copyable_v<element_type>,
                  "dao: what lives in device memory has to be trivially copyable");
    static_assert(alignof(element_type) <= detail::place_calls<Place>::alignment_bytes,
                  "dao: unique_ptr aligns no further than its place does");

    unique_ptr() noexcept = default;

    unique_ptr(std::nullptr_t) noexcept
    {
    }

    /** Takes over memory whose objects are alive: `size / sizeof(element_type)` of them. */
    explicit unique_ptr(block<Place> &&memory) noexcept : memory_(std::move(memory))
    {
    }

    unique_ptr(unique_ptr &&other) noexcept = default;

    unique_ptr &operator=(unique_ptr &&other) noexcept
    {
        unique_ptr(std::move(other)).memory_.swap(memory_);
        return *this;
    }

    ~unique_ptr()
    {
        if constexpr (!std::is_trivially_destructible_v<element_type>) {
            std::destroy_n(get(), size());
        }
    }

    /** Destroys and frees now. The place stays. */
    void reset() noexcept
    {
        const unique_ptr old(std::move(*this));
    }

    /** Releases the objects to the caller, who destroys them and frees the address with dao::free(). */
    [[nodiscard]] pointer release() noexcept
    {
        return static_cast<pointer>(memory_.release());
    }

    [[nodiscard]] pointer get() const noexcept
    {
        return static_cast<pointer>(memory_.get());
    }

    /** Returns the number of objects. */
    [[nodiscard]] std::size_t size() const noexcept
    {
        return memory_.size() / sizeof(element_type);
    }

    [[nodiscard]] Place place() const noexcept
    {
        return memory_.place();
    }

    explicit operator bool() const noexcept
    {
        return static_cast<bool>(memory_);
    }

    [[nodiscard]] element_type &operator*() const noexcept
    {
        detail::require_host<Place>();
        static_assert(!std::is_array_v<T>, "dao: an array is looked at with []");
        return *get();
    }

    [[nodiscard]] pointer operator->() const noexcept
    {
        return &**this;
    }

    [[nodiscard]] element_type &operator[](std::size_t index) const noexcept
    {
        detail::require_host<Place>();
        static_assert(std::is_array_v<T>, "dao: one object is accessed with * and ->");
        return get()[index];
    }

  private:
    block<Place> memory_;
};

namespace detail
{

/* Returns the bytes of an array, or throws an Error with DAO_ERR_OVERFLOW. */
template <typename T, typename Error> std::size_t array_bytes(std::size_t count)
{
    if (count > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T)) {
        raise<Error>(DAO_ERR_OVERFLOW, "an array of so many elements has more bytes than a size can tell");
    }
    return count * sizeof(T);
}

} // namespace detail

/** Makes one object on the host or in pinned memory. Throws dao::error, and what T's constructor throws. */
template <typename T, typename Place, typename... Arguments, std::enable_if_t<!std::is_array_v<T>, int> = 0>
[[nodiscard]] unique_ptr<T, Place> make_unique(Place where, Arguments &&...arguments)
{
    detail::require_host<Place>();
    block<Place> memory(where, sizeof(T));
    ::new (memory.get()) T(std::forward<Arguments>(arguments)...);
    return unique_ptr<T, Place>(std::move(memory));
}

/** Makes `count` objects, each as T{}, on the host or in pinned memory. Throws as above. */
template <typename T, typename Place, std::enable_if_t<std::is_array_v<T>, int> = 0>
[[nodiscard]] unique_ptr<T, Place> make_unique(Place where, std::size_t count)
{
    using element_type = std::remove_extent_t<T>;
    detail::require_host<Place>();
    block<Place> memory(where, detail::array_bytes<element_type, error>(count));
    std::uninitialized_value_construct_n(static_cast<element_type *>(memory.get()), count);
    return unique_ptr<T, Place>(std::move(memory));
}

/** Allocates `count` trivial objects at any place, uninitialized. Throws dao::error. */
template <typename T, typename Place>
[[nodiscard]] unique_ptr<T, Place> make_unique_for_overwrite(Place where, std::size_t count = 1)
{
    using element_type = std::remove_extent_t<T>;
    static_assert(std::is_trivially_default_constructible_v<element_type> &&
                      std::is_trivially_destructible_v<element_type>,
                  "dao: only trivial objects need not be made");
    return unique_ptr<T, Place>(block<Place>(where, detail::array_bytes<element_type, error>(count)));
}

/* ---- the standard library's containers ---- */

namespace detail
{

/* As containers need it: an address for size 0, too, and any alignment. */
template <typename Place>
void *alloc_aligned(Place where, std::size_t size_bytes, std::size_t alignment_bytes) noexcept
{
    size_bytes = size_bytes == 0 ? 1 : size_bytes;
    if (alignment_bytes <= place_calls<Place>::alignment_bytes) {
        return place_calls<Place>::alloc(where, size_bytes);
    }
    ::dao_alloc_options_t options = {};
    options.alignment_bytes = alignment_bytes;
    return ::dao_alloc_with(place_of(where), size_bytes, &options);
}

/* The place of an allocator; empty if all values of its type are one place. */
template <typename Place, bool is_single> class place_holder
{
  public:
    constexpr place_holder() noexcept = default;

    constexpr explicit place_holder(Place where) noexcept : place_(where)
    {
    }

    [[nodiscard]] constexpr Place place() const noexcept
    {
        return place_;
    }

  private:
    Place place_ = {};
};

template <typename Place> class place_holder<Place, true>
{
  public:
    constexpr place_holder() noexcept = default;

    constexpr explicit place_holder(Place) noexcept
    {
    }

    [[nodiscard]] constexpr Place place() const noexcept
    {
        return {};
    }
};

/* Chooses at compile time what an allocator stores, and refuses places that a container cannot use. */
template <typename Place> constexpr bool container_place_is_single() noexcept
{
    require_host<Place>();
    return place_calls<Place>::is_single;
}

} // namespace detail

/**
 * A standard allocator for containers on the host or in pinned memory: std::vector<T, dao::allocator<T,
 * dao::pinned_place>>. Those of one place are equal. A container that is moved or swapped takes its place
 * along; one that is assigned to stays where it is. Alignments beyond the place's own are kept. Threads: any.
 */
template <typename T, typename Place = cpu_place>
class allocator : private detail::place_holder<Place, detail::container_place_is_single<Place>()>
{
    using holder = detail::place_holder<Place, detail::container_place_is_single<Place>()>;

  public:
    using value_type = T;
    using is_always_equal = std::is_empty<holder>;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    template <typename Other> struct rebind {
        using other = allocator<Other, Place>;
    };

    constexpr allocator() noexcept = default; /* device 0, for pinned memory */

    constexpr allocator(Place where) noexcept : holder(where)
    {
    }

    template <typename Other>
    constexpr allocator(const allocator<Other, Place> &other) noexcept : holder(other.place())
    {
    }

    using holder::place;

    /** Allocates memory for `count` objects, or throws dao::bad_alloc. */
    [[nodiscard]] T *allocate(std::size_t count)
    {
        std::size_t size_bytes = detail::array_bytes<T, bad_alloc>(count);
        void *address = detail::alloc_aligned(place(), size_bytes, alignof(T));
        if (address == nullptr) {
            detail::raise<bad_alloc>(::dao_last_status());
        }
        return static_cast<T *>(address);
    }

    void deallocate(T *address, std::size_t) noexcept
    {
        (void)dao::free(place(), address); /* containers take no status */
    }
};

template <typename T, typename Other, typename Place>
[[nodiscard]] constexpr bool operator==(const allocator<T, Place> &a,
                                        const allocator<Other, Place> &b) noexcept
{
    return a.place().index == b.place().index;
}

template <typename T, typename Other, typename Place>
[[nodiscard]] constexpr bool operator!=(const allocator<T, Place> &a,
                                        const allocator<Other, Place> &b) noexcept
{
    return !(a == b);
}

/** The host or pinned memory for std::pmr containers. Those of one place are equal; compiled
    without RTTI each is equal to itself alone. Throws dao::bad_alloc. Threads: any. */
class memory_resource : public std::pmr::memory_resource
{
  public:
    memory_resource() noexcept = default; /* the host */

    template <typename Place, std::enable_if_t<detail::place_calls<Place>::is_place, int> = 0>
    explicit memory_resource(Place where) noexcept : place_(place_of(where))
    {
        detail::require_host<Place>();
    }

    [[nodiscard]] dao::place place() const noexcept
    {
        return place_;
    }

  private:
    void *do_allocate(std::size_t size_bytes, std::size_t alignment_bytes) override
    {
        void *address = detail::alloc_aligned(place_, size_bytes, alignment_bytes);
        if (address == nullptr) {
            detail::raise<bad_alloc>(::dao_last_status());
        }
        return address;
    }

    void do_deallocate(void *address, std::size_t, std::size_t) override
    {
        (void)dao::free(place_, address); /* as above */
    }

    [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#if defined(__cpp_rtti)
        auto *same = dynamic_cast<const memory_resource *>(&other);
        return same != nullptr && ::dao_place_equal(place_, same->place_);
#else
        return this == &other; /* what the other one is cannot be asked */
#endif
    }

    dao::place place_ = {};
};

} // namespace dao

#endif
