/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * C++: the executor, its tensors and its steps as objects. See executor.h and command_list.h for what they
 * do, and dao.hpp.
 */
#ifndef DAO_EXECUTOR_HPP
#define DAO_EXECUTOR_HPP

#include <dao/handle.hpp>

#include <cstddef>
#include <cstdint>

namespace dao
{

namespace detail
{

inline void executor_end(::dao_executor_t *handle) noexcept
{
    (void)::dao_executor_destroy(handle); /* an error that no sync() has reported is lost here */
}

inline void source_end(::dao_source_t *handle) noexcept
{
    (void)::dao_source_release(handle); /* it is open */
}

} // namespace detail

/** A file or memory of the program's that managed tensors are made of, which hold it. Members that are not
    noexcept throw dao::error. */
class source : public detail::owned<::dao_source_t, detail::source_end>
{
  public:
    source() noexcept = default;

    /** As dao_source_open(). */
    explicit source(const char *path, dao_source_cache_t cache = DAO_SOURCE_CACHE_AUTO)
        : owned(detail::made<::dao_source_t>([&](auto **out) { return ::dao_source_open(path, cache, out); }))
    {
    }

    /** As dao_source_adopt(); `drop` must not throw. */
    source(const void *address, std::size_t size_bytes, void (*drop)(void *) = nullptr, void *user = nullptr)
        : owned(detail::made<::dao_source_t>(
              [&](auto **out) { return ::dao_source_adopt(address, size_bytes, drop, user, out); }))
    {
    }

    [[nodiscard]] std::uint64_t size() const noexcept
    {
        return ::dao_source_size(get());
    }
};

/** An executor; its end runs what is queued. Its tensors and steps may outlive it, but only to
    be released. Members throw dao::error. */
class executor : public detail::owned<::dao_executor_t, detail::executor_end>
{
  public:
    executor() noexcept = default;

    /** As dao_executor_create(); all zero means defaults. */
    explicit executor(const dao_executor_config_t &config)
        : owned(
              detail::made<::dao_executor_t>([&](auto **out) { return ::dao_executor_create(&config, out); }))
    {
    }

    /** @param kernel  As for dao_executor_push(); its functions must not throw. */
    void push(const dao_kernel_t &kernel)
    {
        check(::dao_executor_push(get(), &kernel));
    }

    void sync()
    {
        check(::dao_executor_sync(get()));
    }

    /** As dao_executor_capacity_set(). */
    void set_capacity(std::size_t capacity_bytes)
    {
        check(::dao_executor_capacity_set(get(), capacity_bytes));
    }

    /** As dao_executor_step_begin(). */
    void step_begin()
    {
        check(::dao_executor_step_begin(get()));
    }

    /** As dao_executor_step_end(). */
    void step_end()
    {
        check(::dao_executor_step_end(get()));
    }

    [[nodiscard]] dao_executor_stats_t stats() const
    {
        dao_executor_stats_t stats;
        check(::dao_executor_stats_get(get(), &stats));
        return stats;
    }
};

/**
 * A counted handle to a tensor whose bytes an executor moves. Members that are not noexcept throw dao::error.
 */
class managed : public detail::counted<::dao_managed_t, ::dao_managed_retain, ::dao_managed_release>
{
  public:
    managed() noexcept = default;

    /** As dao_managed_create(). */
    managed(const executor &on, const dao_managed_config_t &config)
        : counted(detail::made<::dao_managed_t>(
              [&](auto **out) { return ::dao_managed_create(on.get(), &config, out); }))
    {
    }

    /** As dao_managed_create_from(). */
    managed(const executor &on, const dao_managed_config_t &config, const source &from,
            std::uint64_t offset_bytes)
        : counted(detail::made<::dao_managed_t>([&](auto **out) {
              return ::dao_managed_create_from(on.get(), &config, from.get(), offset_bytes, out);
          }))
    {
    }

    /** Takes over a reference. */
    [[nodiscard]] static managed take(::dao_managed_t *handle) noexcept
    {
        return managed(handle);
    }

    /** Adds a reference to a borrowed handle. */
    [[nodiscard]] static managed share(::dao_managed_t *handle)
    {
        return managed(retained(handle));
    }

    /** As dao_managed_view(). */
    [[nodiscard]] managed view(std::size_t offset_bytes, std::size_t size_bytes) const
    {
        return managed(detail::made<::dao_managed_t>(
            [&](auto **out) { return ::dao_managed_view(get(), offset_bytes, size_bytes, out); }));
    }

    void write(const void *source, std::size_t size_bytes)
    {
        check(::dao_managed_write(get(), source, size_bytes));
    }

    void read(void *destination, std::size_t size_bytes) const
    {
        check(::dao_managed_read(get(), destination, size_bytes));
    }

    /** As dao_managed_write_async(); `done` must not throw. */
    void write_async(std::size_t offset_bytes, const void *source, std::size_t size_bytes,
                     dao_transfer_done_t done, void *user)
    {
        check(::dao_managed_write_async(get(), offset_bytes, source, size_bytes, done, user));
    }

    /** As dao_managed_read_async(); `done` must not throw. */
    void read_async(std::size_t offset_bytes, void *destination, std::size_t size_bytes,
                    dao_transfer_done_t done, void *user) const
    {
        check(::dao_managed_read_async(get(), offset_bytes, destination, size_bytes, done, user));
    }

    /** As dao_managed_pin(). @return Its device address, until it is unpinned. */
    void *pin()
    {
        void *address = nullptr;
        check(::dao_managed_pin(get(), &address));
        return address;
    }

    /** As dao_managed_unpin(). */
    void unpin()
    {
        check(::dao_managed_unpin(get()));
    }

    [[nodiscard]] std::size_t size() const noexcept
    {
        return ::dao_managed_size(get());
    }

    [[nodiscard]] std::uint64_t id() const noexcept
    {
        return ::dao_managed_id(get());
    }

  private:
    explicit managed(::dao_managed_t *handle) noexcept : counted(handle)
    {
    }
};

/** Kernels that are registered first and run afterwards. Members throw dao::error. */
class command_list : public detail::owned<::dao_command_list_t, ::dao_command_list_destroy>
{
  public:
    command_list() noexcept = default;

    explicit command_list(const executor &on)
        : owned(detail::made<::dao_command_list_t>(
              [&](auto **out) { return ::dao_command_list_create(on.get(), out); }))
    {
    }

    /** @param kernel  As for dao_command_list_push(); its functions must not throw. */
    void push(const dao_kernel_t &kernel)
    {
        check(::dao_command_list_push(get(), &kernel));
    }

    /** The content is not needed after the kernels so far. */
    void discard(const managed &tensor)
    {
        check(::dao_command_list_discard(get(), tensor.get()));
    }

    /** Every run copies the bytes, which stay the caller's, when it gets there. */
    void write(const managed &tensor, const void *source, std::size_t size_bytes)
    {
        check(::dao_command_list_write(get(), tensor.get(), source, size_bytes));
    }

    [[nodiscard]] std::size_t least_capacity() const
    {
        std::size_t bytes = 0;
        check(::dao_command_list_least_capacity(get(), &bytes));
        return bytes;
    }

    void plan(std::uint64_t work_limit = 0)
    {
        check(::dao_command_list_plan(get(), work_limit));
    }

    void run()
    {
        check(::dao_command_list_run(get()));
    }
};

} // namespace dao

#endif
