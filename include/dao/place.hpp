/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * C++: places, errors, and memory at a place by address. See dao.hpp.
 */
#ifndef DAO_PLACE_HPP
#define DAO_PLACE_HPP

#include <dao/dao.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <type_traits>

namespace dao
{

/* ---- places ---- */

using cpu_place = ::dao_cpu_place_t;       /**< the host: dao::cpu_place{} */
using pinned_place = ::dao_pinned_place_t; /**< page-locked for a device: dao::pinned_place{1} */
using device_place = ::dao_device_place_t; /**< a device's own memory: dao::device_place{2} */
using place = ::dao_place_t;               /**< any of them, known only at run time */

/**
 * Returns the place of a type of its own as one that is known at run time. Threads: any. Waits: never. Cost:
 * O(1).
 */
[[nodiscard]] constexpr ::dao_place_t place_of(cpu_place) noexcept
{
    return {DAO_PLACE_KIND_CPU, 0};
}

[[nodiscard]] constexpr ::dao_place_t place_of(pinned_place where) noexcept
{
    return {DAO_PLACE_KIND_PINNED, where.index};
}

[[nodiscard]] constexpr ::dao_place_t place_of(device_place where) noexcept
{
    return {DAO_PLACE_KIND_DEVICE, where.index};
}

[[nodiscard]] constexpr ::dao_place_t place_of(::dao_place_t where) noexcept
{
    return where;
}

/* ---- errors ---- */

/** What a failed call leaves behind: its code, the vendor's code, and its message. Copies need no memory. */
class failure
{
  public:
    /** Takes the vendor's code and the message from this thread's last error, if that has the same code. */
    explicit failure(dao_status_t status) noexcept : status_(status)
    {
        bool is_last = ::dao_last_status() == status;
        vendor_code_ = is_last ? ::dao_last_vendor_code() : 0;
        (void)std::snprintf(text_, sizeof(text_), "%s: %s", ::dao_status_name(status),
                            is_last ? ::dao_last_message() : ::dao_status_text(status));
    }

    /** A failure that no call of the library has told: its message is `sentence`. */
    failure(dao_status_t status, const char *sentence) noexcept : status_(status)
    {
        (void)std::snprintf(text_, sizeof(text_), "%s: %s", ::dao_status_name(status), sentence);
    }

    [[nodiscard]] dao_status_t status() const noexcept
    {
        return status_;
    }

    [[nodiscard]] int vendor_code() const noexcept
    {
        return vendor_code_;
    }

    /** The name of the code and the message: "DAO_ERR_LIMIT: device:0: ...". */
    [[nodiscard]] const char *message() const noexcept
    {
        return text_;
    }

  private:
    static constexpr std::size_t text_bytes = 512; /* longer ones are cut */

    dao_status_t status_;
    int vendor_code_ = 0;
    char text_[text_bytes] = {};
};

/** A call of the library that failed. */
class error : public std::exception, public failure
{
  public:
    explicit error(dao_status_t status) noexcept : failure(status)
    {
    }

    error(dao_status_t status, const char *sentence) noexcept : failure(status, sentence)
    {
    }

    [[nodiscard]] const char *what() const noexcept override
    {
        return message();
    }
};

/** An allocation for a standard container that failed. */
class bad_alloc : public std::bad_alloc, public failure
{
  public:
    explicit bad_alloc(dao_status_t status) noexcept : failure(status)
    {
    }

    bad_alloc(dao_status_t status, const char *sentence) noexcept : failure(status, sentence)
    {
    }

    [[nodiscard]] const char *what() const noexcept override
    {
        return message();
    }
};

namespace detail
{

template <typename Error> [[noreturn]] inline void raise(dao_status_t status)
{
#if defined(__cpp_exceptions)
    throw Error(status);
#else
    (void)status;
    std::terminate();
#endif
}

template <typename Error> [[noreturn]] inline void raise(dao_status_t status, const char *sentence)
{
#if defined(__cpp_exceptions)
    throw Error(status, sentence);
#else
    (void)status;
    (void)sentence;
    std::terminate();
#endif
}

} // namespace detail

/**
 * Throws dao::error for any answer but DAO_OK: `dao::check(dao_init(nullptr))`. Threads: any. Waits: never.
 * Cost: O(1).
 */
inline void check(dao_status_t status)
{
    if (status != DAO_OK) {
        detail::raise<error>(status);
    }
}

/**
 * Returns the place of the live block at an address, or throws dao::error. As dao_address_place().
 *
 * Threads: any. Waits: never. Cost: O(places that were used * log blocks).
 */
[[nodiscard]] inline place place_at(const void *address)
{
    place found = {DAO_PLACE_KIND_CPU, 0};
    check(::dao_address_place(address, &found));
    return found;
}

/**
 * Makes a place of a program's own memory, or throws dao::error. As dao_place_register().
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
[[nodiscard]] inline place register_place(const ::dao_own_memory_t &memory)
{
    place made = {DAO_PLACE_KIND_CPU, 0};
    check(::dao_place_register(&memory, &made));
    return made;
}

/* ---- chosen at compile time ---- */

namespace detail
{

/* The functions of a type of place. This one is for types that are no place. */
template <typename Place> struct place_calls {
    static constexpr bool is_place = false;
};

template <> struct place_calls<cpu_place> {
    static constexpr bool is_place = true;
    static constexpr bool is_single = true; /* all values mean the same place */
    static constexpr std::size_t alignment_bytes = 64;

    static void *alloc(cpu_place where, std::size_t size_bytes) noexcept
    {
        return ::dao_alloc_cpu(where, size_bytes);
    }

    static dao_status_t free(cpu_place where, void *address) noexcept
    {
        return ::dao_free_cpu(where, address);
    }

    static std::size_t used(cpu_place where) noexcept
    {
        return ::dao_used_cpu(where);
    }
};

template <> struct place_calls<pinned_place> {
    static constexpr bool is_place = true;
    static constexpr bool is_single = false;
    static constexpr std::size_t alignment_bytes = 256;

    static void *alloc(pinned_place where, std::size_t size_bytes) noexcept
    {
        return ::dao_alloc_pinned(where, size_bytes);
    }

    static dao_status_t free(pinned_place where, void *address) noexcept
    {
        return ::dao_free_pinned(where, address);
    }

    static std::size_t used(pinned_place where) noexcept
    {
        return ::dao_used_pinned(where);
    }
};

template <> struct place_calls<device_place> {
    static constexpr bool is_place = true;
    static constexpr bool is_single = false;
    static constexpr std::size_t alignment_bytes = 256;

    static void *alloc(device_place where, std::size_t size_bytes) noexcept
    {
        return ::dao_alloc_device(where, size_bytes);
    }

    static dao_status_t free(device_place where, void *address) noexcept
    {
        return ::dao_free_device(where, address);
    }

    static std::size_t used(device_place where) noexcept
    {
        return ::dao_used_device(where);
    }
};

template <> struct place_calls<place> {
    static constexpr bool is_place = true;
    static constexpr bool is_single = false;
    static constexpr std::size_t alignment_bytes = 64; /* of the kind with the smallest alignment */

    static void *alloc(place where, std::size_t size_bytes) noexcept
    {
        return ::dao_alloc(where, size_bytes);
    }

    static dao_status_t free(place where, void *address) noexcept
    {
        return ::dao_free(where, address);
    }

    static std::size_t used(place where) noexcept
    {
        return ::dao_used(where);
    }
};

template <typename Place> constexpr void require_place() noexcept
{
    static_assert(
        place_calls<Place>::is_place,
        "dao: this is no place; places are dao::cpu_place, dao::pinned_place, dao::device_place and "
        "dao::place");
}

/* For calls that access the memory on the host. */
template <typename Place> constexpr void require_host() noexcept
{
    require_place<Place>();
    static_assert(!std::is_same_v<Place, device_place>,
                  "dao: the host cannot touch device memory; use dao::cpu_place or dao::pinned_place");
    static_assert(!std::is_same_v<Place, place>,
                  "dao: a dao::place may be a device's; use dao::cpu_place or dao::pinned_place");
}

template <typename Place>
inline constexpr bool is_host_v = std::is_same_v<Place, cpu_place> || std::is_same_v<Place, pinned_place>;

} // namespace detail

/** Allocates at a place: NULL where that fails. As dao_alloc(). */
template <typename Place>
[[nodiscard]] void *alloc(Place where, std::size_t size_bytes, const std::nothrow_t &) noexcept
{
    detail::require_place<Place>();
    return detail::place_calls<Place>::alloc(where, size_bytes);
}

/** Allocates at a place, or throws dao::error. Size 0 returns NULL and is no error. As dao_alloc(). */
template <typename Place> [[nodiscard]] void *alloc(Place where, std::size_t size_bytes)
{
    void *address = dao::alloc(where, size_bytes, std::nothrow);
    if (address == nullptr && size_bytes != 0) {
        detail::raise<error>(::dao_last_status());
    }
    return address;
}

/** As alloc(), aligned and counted as wanted, or throws dao::error. As dao_alloc_with(). */
template <typename Place>
[[nodiscard]] void *alloc(Place where, std::size_t size_bytes, const dao_alloc_options_t &options)
{
    detail::require_place<Place>();
    void *address = ::dao_alloc_with(place_of(where), size_bytes, &options);
    if (address == nullptr && size_bytes != 0) {
        detail::raise<error>(::dao_last_status());
    }
    return address;
}

/** Frees a block of alloc() at the same place. Never throws; returns what dao_free() returns. */
template <typename Place> dao_status_t free(Place where, void *address) noexcept
{
    detail::require_place<Place>();
    return detail::place_calls<Place>::free(where, address);
}

/** Returns the bytes handed out at a place. As dao_used(). */
template <typename Place> [[nodiscard]] std::size_t used(Place where) noexcept
{
    detail::require_place<Place>();
    return detail::place_calls<Place>::used(where);
}

/** Reads the statistics of a place, or throws dao::error. As dao_stats_get(). */
template <typename Place> [[nodiscard]] dao_stats_t stats(Place where)
{
    dao_stats_t result = {};
    check(::dao_stats_get(place_of(where), &result));
    return result;
}

/** Releases cached memory and returns the bytes that were released, or throws dao::error. As dao_trim(). */
template <typename Place> std::size_t trim(Place where, std::size_t keep_bytes = 0)
{
    std::size_t released_bytes = 0;
    check(::dao_trim(place_of(where), keep_bytes, &released_bytes));
    return released_bytes;
}

/** Copies bytes between any two places and waits for them, or throws dao::error. As dao_copy(). */
template <typename To, typename From>
void copy(To dst_place, void *dst, From src_place, const void *src, std::size_t size_bytes)
{
    check(::dao_copy(place_of(dst_place), dst, place_of(src_place), src, size_bytes));
}

/** Returns the address by which a device's kernels reach a byte of pinned or registered memory, or throws
    dao::error. As dao_host_device_address_query(). */
[[nodiscard]] inline void *device_address(device_place device, void *address)
{
    void *result = nullptr;
    check(::dao_host_device_address_query(device.index, address, &result));
    return result;
}

/** Returns how one device can access another one, or throws dao::error. As dao_peer_query(). */
[[nodiscard]] inline dao_peer_info_t peer_info(device_place device, device_place peer)
{
    dao_peer_info_t result = {};
    check(::dao_peer_query(device.index, peer.index, &result));
    return result;
}

/** Lets a device access another one's memory, or throws dao::error. As dao_peer_enable(). */
inline void enable_peer(device_place device, device_place peer)
{
    check(::dao_peer_enable(device.index, peer.index));
}

/** Counts this thread's allocations for a tag, until the scope ends. As dao_tag_set_current(). */
class tag_scope
{
  public:
    explicit tag_scope(dao_tag_t tag) noexcept : before_(::dao_tag_set_current(tag))
    {
    }

    tag_scope(const tag_scope &) = delete;
    tag_scope &operator=(const tag_scope &) = delete;

    ~tag_scope()
    {
        (void)::dao_tag_set_current(before_);
    }

  private:
    dao_tag_t before_;
};

/**
 * The scope is a step at a place. As dao_step_begin() and dao_step_end().
 */
class step_scope
{
  public:
    /** Throws dao::error. */
    template <typename Place> explicit step_scope(Place where) : place_(place_of(where))
    {
        check(::dao_step_begin(place_));
    }

    step_scope(const step_scope &) = delete;
    step_scope &operator=(const step_scope &) = delete;

    ~step_scope()
    {
        (void)::dao_step_end(place_); /* errors were reported by the begin */
    }

  private:
    dao::place place_;
};

/** Sets the key of this thread's requests, until the scope ends. As dao_step_plan_key_set(). */
class key_scope
{
  public:
    explicit key_scope(std::uint64_t key) noexcept : before_(::dao_step_plan_key_set(key))
    {
    }

    key_scope(const key_scope &) = delete;
    key_scope &operator=(const key_scope &) = delete;

    ~key_scope()
    {
        (void)::dao_step_plan_key_set(before_);
    }

  private:
    std::uint64_t before_;
};

/** Starts the library, and stops it as the scope ends. As dao_init() and dao_finalize(). */
class library
{
  public:
    /** @param config  Borrowed for the call; NULL means all defaults. Throws dao::error. */
    explicit library(const dao_config_t *config = nullptr)
    {
        check(::dao_init(config));
    }

    library(const library &) = delete;
    library &operator=(const library &) = delete;

    ~library()
    {
        (void)::dao_finalize(); /* leaks were reported to the log */
    }
};

} // namespace dao

#endif
