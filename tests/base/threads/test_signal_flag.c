/* SPDX-License-Identifier: Apache-2.0 */
/* A signal sets the flag, where the program has left it to others; a handler of the program's stays. */
#define _GNU_SOURCE
#include "base/threads/signal_flag.h"
#include "tests/support/suite.h"

#include <signal.h>

static volatile sig_atomic_t program_count;

static void count(int signal_number)
{
    (void)signal_number;
    program_count++;
}

static void count_with_info(int signal_number, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    count(signal_number);
}

static void set_default(void)
{
    CU_ASSERT_NOT_EQUAL(signal(SIGUSR1, SIG_DFL), SIG_ERR);
    program_count = 0;
}

static void the_names_are_of_signals_that_mean_nothing_else(void)
{
    CU_ASSERT_EQUAL(dao_signal_number("USR1"), SIGUSR1);
    CU_ASSERT_EQUAL(dao_signal_number("SIGUSR2"), SIGUSR2);
    CU_ASSERT_EQUAL(dao_signal_number("SIGHUP"), SIGHUP);
    CU_ASSERT_EQUAL(dao_signal_number("WINCH"), SIGWINCH);
    CU_ASSERT_EQUAL(dao_signal_number("SIGTERM"), 0);
    CU_ASSERT_EQUAL(dao_signal_number("SIG"), 0);
    CU_ASSERT_EQUAL(dao_signal_number(""), 0);
}

static void a_signal_sets_the_flag_once(void)
{
    CU_ASSERT_TRUE_FATAL(dao_signal_flag_begin(SIGUSR1));
    CU_ASSERT_FALSE(dao_signal_flag_take());
    CU_ASSERT_EQUAL(raise(SIGUSR1), 0);
    CU_ASSERT_TRUE(dao_signal_flag_take());
    CU_ASSERT_FALSE(dao_signal_flag_take());
    CU_ASSERT_EQUAL(raise(SIGUSR1), 0);
    dao_signal_flag_end(SIGUSR1);
    CU_ASSERT_EQUAL(signal(SIGUSR1, SIG_DFL), SIG_DFL); /* it does what it did before */
    CU_ASSERT_TRUE_FATAL(dao_signal_flag_begin(SIGUSR1));
    CU_ASSERT_FALSE(dao_signal_flag_take()); /* the one of before is forgotten */
    dao_signal_flag_end(SIGUSR1);
}

static void a_handler_of_the_program_stays(void)
{
    struct sigaction with_info = {.sa_sigaction = count_with_info, .sa_flags = SA_SIGINFO};
    CU_ASSERT_NOT_EQUAL(signal(SIGUSR1, count), SIG_ERR);
    CU_ASSERT_FALSE(dao_signal_flag_begin(SIGUSR1));
    CU_ASSERT_EQUAL(raise(SIGUSR1), 0);
    CU_ASSERT_EQUAL(program_count, 1);
    CU_ASSERT_EQUAL(sigaction(SIGUSR1, &with_info, NULL), 0);
    CU_ASSERT_FALSE(dao_signal_flag_begin(SIGUSR1));
    set_default();
    CU_ASSERT_TRUE_FATAL(dao_signal_flag_begin(SIGUSR1));
    CU_ASSERT_EQUAL(sigaction(SIGUSR1, &with_info, NULL), 0); /* the program takes it meanwhile */
    dao_signal_flag_end(SIGUSR1);
    CU_ASSERT_EQUAL(raise(SIGUSR1), 0);
    CU_ASSERT_EQUAL(program_count, 1);
    CU_ASSERT_FALSE(dao_signal_flag_take());
}

static void a_signal_that_nobody_can_take_is_refused(void)
{
    CU_ASSERT_FALSE(dao_signal_flag_begin(SIGKILL));
    CU_ASSERT_FALSE(dao_signal_flag_begin(0));
}

static CU_TestInfo tests[] = {
    {"the names are of signals that mean nothing else", the_names_are_of_signals_that_mean_nothing_else},
    {"a signal sets the flag once", a_signal_sets_the_flag_once},
    {"a handler of the program stays", a_handler_of_the_program_stays},
    {"a signal that nobody can take is refused", a_signal_that_nobody_can_take_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"signal flag", NULL, NULL, set_default, set_default, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
