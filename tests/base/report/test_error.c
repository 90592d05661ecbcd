/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes: every one has a name and a text; each thread keeps its own last error. */
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a process that has no more keys for what threads own: 0, or the number of the first wrong answer. */
static int fail_without_keys(void)
{
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0) {
    }
    return dao_error(DAO_ERR_BUSY, "nobody reads it") != DAO_ERR_BUSY            ? 1
           : dao_last_status() != DAO_ERR_BUSY                                   ? 2
           : strcmp(dao_last_message(), dao_status_text(dao_last_status())) != 0 ? 3
                                                                                 : 0;
}

/* First: the process asks once for the key of messages. */
static void a_failure_without_memory_for_its_message_has_its_text(void)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(fail_without_keys());
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
}

static void every_code_has_its_name_and_text(void)
{
#define CHECK_CODE(number, name, text)                                                                       \
    CU_ASSERT_EQUAL(DAO_##name, number);                                                                     \
    CU_ASSERT_STRING_EQUAL(dao_status_name(DAO_##name), "DAO_" #name);                                       \
    CU_ASSERT_STRING_EQUAL(dao_status_text(DAO_##name), text);
    DAO_STATUS_LIST(CHECK_CODE)
#undef CHECK_CODE
    CU_ASSERT_STRING_EQUAL(dao_status_name((dao_status_t)9999), "DAO_ERR_UNKNOWN");
    CU_ASSERT_STRING_EQUAL(dao_status_text((dao_status_t)9999), "unknown status");
}

static void the_library_tells_its_version(void)
{
    CU_ASSERT_STRING_EQUAL(dao_version(), DAO_VERSION_STRING);
}

static void shows(const char *text, const char *expected)
{
    CU_ASSERT_EQUAL(dao_error(DAO_ERR_INVALID, "%s", text), DAO_ERR_INVALID);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), expected);
}

static void a_prefix_is_made_printable_too(void)
{
    char text[DAO_ERROR_MESSAGE_BYTES];
    (void)dao_error(DAO_ERR_INVALID, "b");
    dao_error_prefix("a\n\xff: ");
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "a??: b");
    (void)dao_error(DAO_ERR_INVALID, "\xc3\xa4");
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 2] = '\0'; /* room for the first byte of the character */
    dao_error_prefix("%s", text);
    CU_ASSERT_EQUAL(strlen(dao_last_message()), sizeof(text) - 1);
    CU_ASSERT_EQUAL(dao_last_message()[sizeof(text) - 2], '?');
}

/* Names of the program's are in messages, whatever they are made of. */
static void a_message_is_one_line_of_utf8(void)
{
    shows("a\nb\x7f\x1b[31m", "a?b??[31m");
    shows("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
    shows("\xff \xc3 \xe2\x82 \xf0\x9f\x98", "? ? ?? ???");         /* no first byte, and what is cut */
    shows("\xc0\x80 \xe0\x80\x80 \xf0\x80\x80\x80", "?? ??? ????"); /* not the shortest form */
    shows("\xf5\x80\x80\x80", "????");                              /* none of Unicode begins so */
    shows("\xed\xa0\x80 \xf4\x90\x80\x80 \xc2\x85", "??? ???? ??"); /* a surrogate, too large, a control */
}

static void a_failure_is_kept_with_its_message(void)
{
    CU_ASSERT_EQUAL(dao_error_vendor(DAO_ERR_BACKEND, 42, "call %d failed", 7), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), 42);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "call 7 failed");
    dao_error_prefix("kernel \"%s\": ", "add");
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "kernel \"add\": call 7 failed");
    CU_ASSERT_EQUAL(dao_last_vendor_code(), 42);
    (void)dao_error(DAO_ERR_INVALID, "%s, again", dao_last_message());
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "kernel \"add\": call 7 failed, again");
    CU_ASSERT_EQUAL(dao_last_vendor_code(), 0);
}

static void a_failure_without_a_message_has_not_the_last_ones(void)
{
    (void)dao_error(DAO_ERR_BUSY, "the one before");
    CU_ASSERT_EQUAL(dao_error(DAO_ERR_INVALID, "%s", ""), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "before"));
}

static void a_long_message_is_cut(void)
{
    char text[2 * DAO_ERROR_MESSAGE_BYTES];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)dao_error(DAO_ERR_INVALID, "%s", text);
    CU_ASSERT_EQUAL(strlen(dao_last_message()), DAO_ERROR_MESSAGE_BYTES - 1);
    dao_error_prefix("%s", text);
    CU_ASSERT_EQUAL(strlen(dao_last_message()), DAO_ERROR_MESSAGE_BYTES - 1);
}

static void *fail_elsewhere(void *user)
{
    *(bool *)user = dao_last_status() == DAO_OK && dao_last_message()[0] == '\0';
    (void)dao_error(DAO_ERR_OVERFLOW, "elsewhere");
    return NULL;
}

static void each_thread_has_its_own(void)
{
    (void)dao_error(DAO_ERR_INVALID, "here");
    bool was_clean = false;
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "elsewhere", fail_elsewhere, &was_clean), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_TRUE(was_clean);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "here");
}

static void a_record_carries_a_failure_to_another_time(void)
{
    dao_error_record_t record;
    (void)dao_error_vendor(DAO_ERR_BACKEND, 3, "first");
    dao_error_save(&record, DAO_ERR_COPY_FAILED);
    (void)dao_error(DAO_ERR_INVALID, "second");
    CU_ASSERT_EQUAL(dao_error_restore(&record), DAO_ERR_COPY_FAILED);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_COPY_FAILED);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), 3);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "first");
}

static CU_TestInfo tests[] = {
    {"a failure without memory for its message has its text",
     a_failure_without_memory_for_its_message_has_its_text},
    {"every code has its name and text", every_code_has_its_name_and_text},
    {"the library tells its version", the_library_tells_its_version},
    {"a message is one line of UTF-8", a_message_is_one_line_of_utf8},
    {"a prefix is made printable, too", a_prefix_is_made_printable_too},
    {"a failure is kept with its message", a_failure_is_kept_with_its_message},
    {"a failure without a message has not the last one's", a_failure_without_a_message_has_not_the_last_ones},
    {"a long message is cut", a_long_message_is_cut},
    {"each thread has its own", each_thread_has_its_own},
    {"a record carries a failure to another time", a_record_carries_a_failure_to_another_time},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"error", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
