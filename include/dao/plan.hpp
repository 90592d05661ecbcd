/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * C++: plans of offsets, planners, and plans of swapped steps, as in plan.h and swap.h. See dao.hpp.
 */
#ifndef DAO_PLAN_HPP
#define DAO_PLAN_HPP

#include <dao/handle.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace dao
{

namespace detail
{

inline dao_status_t plan_retain(::dao_plan_t *handle) noexcept
{
    return ::dao_plan_retain(handle) != nullptr ? DAO_OK : DAO_ERR_INVALID;
}

inline dao_status_t plan_release(::dao_plan_t *handle) noexcept
{
    ::dao_plan_release(handle);
    return DAO_OK;
}

} // namespace detail

/** An immutable, counted plan of offsets. Members that are not noexcept throw dao::error. */
class plan : public detail::counted<::dao_plan_t, detail::plan_retain, detail::plan_release>
{
  public:
    plan() noexcept = default;

    /** As dao_plan_make(). */
    explicit plan(const dao_plan_problem_t &problem, const dao_planner_config_t *config = nullptr)
        : counted(
              detail::made<::dao_plan_t>([&](auto **out) { return ::dao_plan_make(&problem, config, out); }))
    {
    }

    /** Takes over a reference. */
    [[nodiscard]] static plan take(::dao_plan_t *handle) noexcept
    {
        return plan(handle);
    }

    /** Returns the number of buffers. */
    [[nodiscard]] std::size_t size() const noexcept
    {
        return ::dao_plan_count(get());
    }

    /** DAO_PLAN_NOWHERE for a buffer that is not placed. */
    [[nodiscard]] std::uint64_t offset(std::size_t buffer) const noexcept
    {
        return ::dao_plan_offset(get(), buffer);
    }

    /** DAO_PLAN_ANY_POOL for a buffer that is not placed. */
    [[nodiscard]] std::uint32_t pool(std::size_t buffer) const noexcept
    {
        return ::dao_plan_pool(get(), buffer);
    }

    [[nodiscard]] dao_plan_report_t report() const
    {
        dao_plan_report_t report;
        check(::dao_plan_report_get(get(), &report));
        return report;
    }

  private:
    explicit plan(::dao_plan_t *handle) noexcept : counted(handle)
    {
    }
};

/**
 * Works on one problem, of which it has a copy; its destructor cancels the work. Members throw dao::error.
 */
class planner : public detail::owned<::dao_planner_t, ::dao_planner_destroy>
{
  public:
    planner() noexcept = default;

    /** As dao_planner_create(). */
    explicit planner(const dao_plan_problem_t &problem, const dao_planner_config_t *config = nullptr)
        : owned(detail::made<::dao_planner_t>(
              [&](auto **out) { return ::dao_planner_create(&problem, config, out); }))
    {
    }

    /** Works in this thread, as dao_planner_work(). Returns true if it is done. */
    bool work(std::uint64_t steps = 0)
    {
        bool is_done = false;
        check(::dao_planner_work(get(), steps, &is_done));
        return is_done;
    }

    /** Works in the background. */
    void start()
    {
        check(::dao_planner_start(get()));
    }

    /** Waits for work in the background. Returns false after a timeout. */
    [[nodiscard]] bool wait(std::chrono::nanoseconds timeout)
    {
        std::int64_t timeout_ns = timeout.count() > 0 ? timeout.count() : 0;
        dao_status_t status = ::dao_planner_wait(get(), static_cast<std::uint64_t>(timeout_ns));
        if (status != DAO_ERR_NOT_READY) {
            check(status);
        }
        return status == DAO_OK;
    }

    void cancel()
    {
        check(::dao_planner_cancel(get()));
    }

    /** Returns the best plan so far. */
    [[nodiscard]] plan best() const
    {
        return plan::take(
            detail::made<::dao_plan_t>([&](auto **out) { return ::dao_planner_best(get(), out); }));
    }
};

/** Computes the bound of a swapped step, or throws dao::error. As dao_swap_find_bound(). */
[[nodiscard]] inline dao_swap_bound_t swap_bound(const dao_swap_problem_t &problem)
{
    dao_swap_bound_t bound;
    check(::dao_swap_find_bound(&problem, &bound));
    return bound;
}

/** A plan of a swapped step. Members that are not noexcept throw dao::error. */
class swap_plan : public detail::owned<::dao_swap_plan_t, ::dao_swap_plan_destroy>
{
  public:
    swap_plan() noexcept = default;

    /** As dao_swap_plan_make(). */
    explicit swap_plan(const dao_swap_problem_t &problem, const dao_swap_plan_config_t *config = nullptr)
        : owned(detail::made<::dao_swap_plan_t>(
              [&](auto **out) { return ::dao_swap_plan_make(&problem, config, out); }))
    {
    }

    /** Borrowed, as long as the plan; NULL without one. */
    [[nodiscard]] const dao_swap_schedule_t *schedule() const noexcept
    {
        return ::dao_swap_plan_schedule(get());
    }

    /** Computes its time, as planned or with the times of `config`. */
    [[nodiscard]] dao_swap_replay_t replay(const dao_swap_replay_config_t *config = nullptr) const
    {
        dao_swap_replay_t replay;
        check(::dao_swap_plan_replay(get(), config, &replay));
        return replay;
    }
};

} // namespace dao

#endif
