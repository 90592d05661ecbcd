/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options: values by type, their limits, defaults, rules between options, help and completion;
   and the tables of the commands themselves. */
#define _POSIX_C_SOURCE 200809L /* fileno */
#include "bench/commands.h"
#include "tests/support/suite.h"
#include "tests/tools/output.h"
#include "tools/commands.h"
#include "tools/options/complain.h"

#include "base/report/error.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct settings {
    const char *text;
    const char *path;
    const char *folder;
    uint32_t color;
    uint64_t count, share, size, rate, time, budget;
    dao_capacity_t capacity;
    int parsed;
    bool is_loud;
} settings_t;

DAO_OPTION_NAMES(color_at, "red", "green", "dark-green")

static dao_status_t parse_roman(const char *text, void *field)
{
    if (strcmp(text, "IV") != 0) {
        return dao_error(DAO_ERR_INVALID, "\"%s\" is not IV", text);
    }
    *(int *)field = 4;
    return DAO_OK;
}

static const dao_option_t options[] = {
    {.name = "text",
     .type = DAO_OPTION_TYPE_TEXT,
     DAO_OPTION_FIELD(settings_t, text),
     .value = "T",
     .help = "t"},
    {.name = "o",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, path),
     .value = "OUT",
     .help = "o"},
    {.name = "color",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, color),
     .value = "COLOR",
     .name_at = color_at,
     .preset = "green",
     .prefix = "dir:",
     .text_offset = offsetof(settings_t, folder),
     .help = "of the line"},
    {.name = "count",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, count),
     .value = "N",
     .least = 2,
     .most = 16,
     .preset = "3",
     .help = "how many"},
    {.name = "share",
     .type = DAO_OPTION_TYPE_DECIMAL,
     DAO_OPTION_FIELD(settings_t, share),
     .value = "X",
     .most = 100,
     .noun = "share",
     .help = "s"},
    {.name = "size",
     .type = DAO_OPTION_TYPE_BYTES,
     DAO_OPTION_FIELD(settings_t, size),
     .value = "SIZE",
     .least = 1,
     .most = 32 << 10,
     .help = "s"},
    {.name = "rate",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, rate),
     .value = "RATE",
     .least = 1,
     .preset = "50GB/s",
     .help = "r"},
    {.name = "time",
     .type = DAO_OPTION_TYPE_TIME,
     DAO_OPTION_FIELD(settings_t, time),
     .value = "TIME",
     .most = UINT64_C(3600000000000),
     .help = "t"},
    {.name = "budget",
     .type = DAO_OPTION_TYPE_SECONDS,
     DAO_OPTION_FIELD(settings_t, budget),
     .value = "S",
     .most = 10,
     .help = "b"},
    {.name = "capacity",
     .type = DAO_OPTION_TYPE_CAPACITY,
     DAO_OPTION_FIELD(settings_t, capacity),
     .value = "SIZE",
     .help = "c"},
    {.name = "roman",
     .type = DAO_OPTION_TYPE_PARSED,
     DAO_OPTION_FIELD(settings_t, parsed),
     .value = "R",
     .parse = parse_roman,
     .help = "r"},
    {.name = "loud", .type = DAO_OPTION_TYPE_FLAG, DAO_OPTION_FIELD(settings_t, is_loud), .help = "l"},
    {.name = NULL},
};

static const dao_option_rule_t rules[] = {
    {"share", "size", true, "--share needs --size"},
    {"loud", "count", false, "--loud has no --count"},
    {.option = NULL},
};

static const dao_command_t command = {
    .program = "test",
    .name = "paint",
    .arguments = "FILE",
    .summary = "paints",
    .details = "Paints a file.",
    .options = options,
    .rules = rules,
    .least_arguments = 1,
    .most_arguments = 2,
};

enum { WORD_COUNT_MAX = 12 };

/* Parses words, NULL behind the last. Returns the exit code, or -1 if the command would go on. */
static int parse(const char *const *words, settings_t *settings, dao_arguments_t *arguments,
                 char out_text[OUTPUT_BYTES])
{
    char *argv[WORD_COUNT_MAX];
    static char copies[WORD_COUNT_MAX][64];
    int argc = 0, exit_code = 77;
    for (; words[argc] != NULL && argc < WORD_COUNT_MAX; argc++) {
        (void)snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    *settings = (settings_t){.text = NULL};
    catch_output();
    bool goes_on = dao_options_parse(&command, argc, argv, settings, arguments, &exit_code);
    take_output(out_text);
    return goes_on ? -1 : exit_code;
}

#define WORDS(...)                                                                                           \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

static void check_refused(const char *const *words, const char *complaint)
{
    settings_t settings;
    dao_arguments_t arguments;
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(parse(words, &settings, &arguments, text), DAO_EXIT_USAGE);
    if (strstr(text, complaint) == NULL) {
        (void)printf("    \"%s\" is not in: %s\n", complaint, text);
        CU_FAIL("a complaint");
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Try \"test paint --help\"."));
}

/* ---- tests ---- */

static void values_are_read_by_their_types(void)
{
    settings_t settings;
    dao_arguments_t arguments;
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(parse(WORDS("a.txt", "--color=dark-green", "-o", "b", "--count", "16", "--share", "37.5",
                                "--size", "32KiB", "--", "--loud"),
                          &settings, &arguments, text),
                    -1);
    CU_ASSERT_STRING_EQUAL(arguments.words[0], "a.txt");
    CU_ASSERT_STRING_EQUAL(arguments.words[1], "--loud"); /* behind the -- */
    CU_ASSERT_EQUAL(settings.color, 2);
    CU_ASSERT_STRING_EQUAL(settings.path, "b");
    CU_ASSERT_EQUAL(settings.count, 16);
    CU_ASSERT_EQUAL(settings.share, 37500000);
    CU_ASSERT_EQUAL(settings.size, 32 << 10);
    CU_ASSERT_FALSE(settings.is_loud);
    CU_ASSERT_EQUAL(parse(WORDS("a", "--time", "2us", "--budget", "0.25", "--capacity", "50%", "--roman",
                                "IV", "--rate=1kB/s", "--loud"),
                          &settings, &arguments, text),
                    -1);
    CU_ASSERT_EQUAL(settings.time, 2000);
    CU_ASSERT_EQUAL(settings.budget, 250000000);
    CU_ASSERT_EQUAL(settings.capacity.millionths, 50000000);
    CU_ASSERT_EQUAL(settings.parsed, 4);
    CU_ASSERT_EQUAL(settings.rate, 1000);
    CU_ASSERT_TRUE(settings.is_loud);
}

static void defaults_hold_where_nothing_is_given(void)
{
    settings_t settings;
    dao_arguments_t arguments;
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(parse(WORDS("a", "--time", "0"), &settings, &arguments, text), -1);
    CU_ASSERT_EQUAL(settings.color, 1);
    CU_ASSERT_EQUAL(settings.count, 3);
    CU_ASSERT_EQUAL(settings.rate, 50000000000);
    CU_ASSERT_EQUAL(settings.size, 0);
    CU_ASSERT_PTR_NULL(settings.text);
    CU_ASSERT_FALSE(dao_option_is_given(&arguments, "count"));
    CU_ASSERT_TRUE(dao_option_is_given(&arguments, "time"));
}

static void a_name_may_have_a_prefix(void)
{
    settings_t settings;
    dao_arguments_t arguments;
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(parse(WORDS("a", "--color", "dir:shades"), &settings, &arguments, text), -1);
    CU_ASSERT_EQUAL(settings.color, 3);
    CU_ASSERT_STRING_EQUAL(settings.folder, "dir:shades");
    check_refused(WORDS("a", "--color", "dir:"), "--color: \"dir:\" is no color");
}

static void what_is_wrong_is_named(void)
{
    check_refused(WORDS("a", "--color", "blue"),
                  "--color: \"blue\" is no color: there are red, green, dark-green, dir:...");
    check_refused(WORDS("a", "--count", "1"), "--count: \"1\" is no number from 2 to 16");
    check_refused(WORDS("a", "--count", "17"), "--count: \"17\" is no number from 2 to 16");
    check_refused(WORDS("a", "--count", "3.5"), "is no number from 2 to 16");
    check_refused(WORDS("a", "--count", "99999999999999999999"), "is no number from 2 to 16");
    check_refused(WORDS("a", "--count", "-3"), "is no number from 2 to 16");
    check_refused(WORDS("a", "--size", "1", "--share", "100.000001"), "is no share from 0 to 100");
    check_refused(WORDS("a", "--time", "3601s"), "--time: \"3601s\" is not from 0ns to 3600s");
    check_refused(WORDS("a", "--size", "33KiB"), "--size: \"33KiB\" is not from 1 to 32KiB");
    check_refused(WORDS("a", "--size", "0"), "--size: 0 is nothing");
    check_refused(WORDS("a", "--rate", "fast"), "--rate: ");
    check_refused(WORDS("a", "--budget", "0"), "\"0\" is no number of seconds from 0.000000001 to 10");
    check_refused(WORDS("a", "--budget", "10.000000001"), "is no number of seconds");
    check_refused(WORDS("a", "--capacity", "lots"), "such as 50% or 180MiB");
    check_refused(WORDS("a", "--roman", "V"), "--roman: \"V\" is not IV");
    check_refused(WORDS("a", "--loud=1"), "option \"--loud\" takes no value");
    check_refused(WORDS("a", "-o"), "option \"-o\" needs a value: -o OUT");
    check_refused(WORDS("a", "-o", "b", "-o", "c"), "option \"-o\" is given twice");
    check_refused(WORDS("a", "--cont", "3"), "did you mean \"--count\"?");
    check_refused(WORDS("a", "-x"), "unknown option \"-x\"");
    check_refused(WORDS("a", "b", "c"), "\"c\" is one argument too many");
    check_refused(WORDS("a", ""), "an argument is empty");
    check_refused(WORDS("--loud"), "FILE is missing");
}

static void rules_hold_between_options(void)
{
    check_refused(WORDS("a", "--share", "1"), "--share needs --size");
    check_refused(WORDS("a", "--loud", "--count", "3"), "--loud has no --count");
}

static void help_tells_ranges_names_and_defaults(void)
{
    settings_t settings;
    dao_arguments_t arguments;
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(parse(WORDS("--nonsense", "-h"), &settings, &arguments, text), DAO_EXIT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "usage: test paint FILE [options]\n\nPaints a file.\n"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "--color COLOR          of the line: red, green, dark-green (default: green)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "--count N              how many (2 to 16; default: 3)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "--size SIZE            s (1 to 32KiB)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "--rate RATE            r (default: 50GB/s)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "-o OUT                 o\n"));
}

static void words_are_what_completion_offers(void)
{
    settings_t settings;
    dao_arguments_t arguments;
    char text[OUTPUT_BYTES];
    CU_ASSERT_EQUAL(parse(WORDS("--words", "--color"), &settings, &arguments, text), DAO_EXIT_OK);
    CU_ASSERT_STRING_EQUAL(text, "red\ngreen\ndark-green\n");
    CU_ASSERT_EQUAL(parse(WORDS("--words", "--count"), &settings, &arguments, text), DAO_EXIT_OK);
    CU_ASSERT_STRING_EQUAL(text, "");
    CU_ASSERT_EQUAL(parse(WORDS("--words"), &settings, &arguments, text), DAO_EXIT_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "--text\n-o\n--color\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "--help\n"));
}

/* ---- the tables of the commands ---- */

static const dao_command_t *const commands[] = {
    &dao_command_info,        &dao_command_plan,
    &dao_command_replay,      &dao_command_run,
    &dao_command_simulate,    &dao_command_bench_gpu,
    &dao_command_bench_plan,  &dao_command_bench_swap,
    &dao_command_bench_alloc, &command,
};

static void the_commands_tables_are_right(void)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        CU_ASSERT_TRUE(dao_options_are_valid(commands[i]));
    }
}

/* Each name of each option is its index, and each default can be read. */
static void the_commands_names_and_defaults_are_read(void)
{
    static unsigned char settings[1 << 16];
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        for (const dao_option_t *option = commands[i]->options; option->name != NULL; option++) {
            if (option->preset != NULL) {
                CU_ASSERT_EQUAL(dao_option_read(option, option->preset, settings), DAO_OK);
            }
            const char *name;
            for (uint32_t k = 0; option->name_at != NULL && (name = option->name_at(k)) != NULL; k++) {
                uint32_t index;
                CU_ASSERT_EQUAL(dao_option_read(option, name, settings), DAO_OK);
                memcpy(&index, settings + option->offset, sizeof(index));
                CU_ASSERT_EQUAL(index, k);
            }
        }
    }
}

static void wrong_tables_are_found(void)
{
    dao_option_t wrong[] = {options[3], {.name = NULL}};
    dao_command_t other = {.program = "test", .name = "other", .options = wrong};
    CU_ASSERT_TRUE(dao_options_are_valid(&other));
    wrong[0].size = sizeof(uint32_t);
    CU_ASSERT_FALSE(dao_options_are_valid(&other));
    wrong[0] = options[3];
    wrong[0].least = 17;
    CU_ASSERT_FALSE(dao_options_are_valid(&other));
    wrong[0] = options[3];
    other.rules = rules;
    CU_ASSERT_FALSE(dao_options_are_valid(&other));
    other.rules = NULL;
    wrong[0].value = NULL;
    CU_ASSERT_FALSE(dao_options_are_valid(&other));
}

static CU_TestInfo tests[] = {
    {"values are read by their types", values_are_read_by_their_types},
    {"defaults hold where nothing is given", defaults_hold_where_nothing_is_given},
    {"a name may have a prefix", a_name_may_have_a_prefix},
    {"what is wrong is named", what_is_wrong_is_named},
    {"rules hold between options", rules_hold_between_options},
    {"help tells ranges, names and defaults", help_tells_ranges_names_and_defaults},
    {"words are what completion offers", words_are_what_completion_offers},
    {"the commands' tables are right", the_commands_tables_are_right},
    {"the commands' names and defaults are read", the_commands_names_and_defaults_are_read},
    {"wrong tables are found", wrong_tables_are_found},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"options", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
