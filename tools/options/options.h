/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a command: one typed table, from which come parsing, range checks, complaints, help, the
   manual page and completion.

       table of dao_option_t --+--> dao_options_parse()       argv -> settings of the command
                               +--> dao_options_print_help()  --help, and tools/man.sh, which reads it
                               +--> dao_options_print_words() --words, which tools/dao.bash asks

   A command's settings are a struct of its own. Each option says where its field lies and of which type it
   is; the field has that type, always. A default is written as on the command line, and parsed by the same
   code. */
#ifndef DAO_TOOLS_OPTIONS_H
#define DAO_TOOLS_OPTIONS_H

#include "base/report/assert.h"
#include "tools/options/capacity.h"

#include <dao/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Types: symbol, and the type of the field. */
#define DAO_OPTION_TYPE_LIST(X)                                                                              \
    X(FLAG, bool)               /* true if it is given; takes no value */                                    \
    X(TEXT, const char *)       /* as it stands */                                                           \
    X(PATH, const char *)       /* a file or a folder */                                                     \
    X(NAME, uint32_t)           /* one of a list of names: its index */                                      \
    X(COUNT, uint64_t)          /* digits */                                                                 \
    X(DECIMAL, uint64_t)        /* digits, perhaps with a point: in millionths */                            \
    X(BYTES, uint64_t)          /* with a unit, see base/numbers/units.h */                                  \
    X(RATE, uint64_t)           /* bytes a second, with a unit */                                            \
    X(TIME, uint64_t)           /* ns, with a unit */                                                        \
    X(SECONDS, uint64_t)        /* a decimal number of seconds: in ns */                                     \
    X(CAPACITY, dao_capacity_t) /* a percentage of a peak, or a size */                                      \
    X(PARSED, unsigned char)    /* by a function of the option, into whatever that fills */

typedef enum dao_option_type {
#define DAO_OPTION_TYPE(symbol, field) DAO_OPTION_TYPE_##symbol,
    DAO_OPTION_TYPE_LIST(DAO_OPTION_TYPE)
#undef DAO_OPTION_TYPE
} dao_option_type_t;

#define DAO_OPTION_MILLIONTHS UINT64_C(1000000)

typedef struct dao_option {
    const char *name; /* without the dashes, which is one if the name is a letter; NULL closes a table */
    dao_option_type_t type;
    size_t offset, size;  /* of its field: DAO_OPTION_FIELD() */
    const char *value;    /* what help calls its value: "SIZE"; "MODE" makes complaints say "is no mode" */
    const char *help;     /* without range, names and default, which are added */
    const char *preset;   /* the default; NULL: the field stays as it was */
    uint64_t least, most; /* of numbers, in the unit of the option, not of its field; most 0: no limit */
    const char *noun;     /* what a number is in complaints; NULL: "number" */
    const char *(*name_at)(size_t index); /* NAME: the names; NULL behind the last */
    const char *prefix; /* NAME: a text that begins so is right as well: its index is behind the last, and */
    size_t text_offset; /* the text itself goes here */
    dao_status_t (*parse)(const char *text, void *field); /* PARSED: DAO_ERR_INVALID with a message */
} dao_option_t;

/* Where an option's field lies in the settings. */
#define DAO_OPTION_FIELD(settings, field)                                                                    \
    .offset = offsetof(settings, field), .size = sizeof(((settings *)NULL)->field)

/* Defines a function for `name_at` of some texts. */
#define DAO_OPTION_NAMES(function, ...)                                                                      \
    static const char *function(size_t index)                                                                \
    {                                                                                                        \
        static const char *const names[] = {__VA_ARGS__};                                                    \
        return index < sizeof(names) / sizeof(names[0]) ? names[index] : NULL;                               \
    }

/* Two options that need or exclude each other. */
typedef struct dao_option_rule {
    const char *option; /* NULL closes a table */
    const char *other;
    bool is_needed;      /* `option` needs `other`; else it excludes it */
    const char *message; /* what is complained */
} dao_option_rule_t;

struct dao_arguments;

/* A command: `PROGRAM NAME`. */
typedef struct dao_command {
    const char *program; /* "dao" */
    const char *name;
    const char *arguments; /* "TRACE", "[TRACE]", "" */
    const char *summary;   /* one line */
    const char *details;   /* more lines for its help */
    const dao_option_t *options;
    const dao_option_rule_t *rules;         /* NULL: none */
    size_t least_arguments, most_arguments; /* at most DAO_ARGUMENT_COUNT_MAX */
    size_t settings_bytes; /* the struct that the options' fields lie in; zero before they are read */

    /* Checks what the settings say together, and completes them; NULL: they are right. What it answers is a
       complaint about the use; DAO_ERR_IO, as of a file that cannot be written, is a failure. */
    dao_status_t (*check)(const struct dao_arguments *arguments, void *settings);

    /* Does what the command is for. *out_exit is DAO_EXIT_OK before, and holds on DAO_OK. */
    dao_status_t (*run)(const struct dao_arguments *arguments, void *settings, int *out_exit);
} dao_command_t;

enum { DAO_ARGUMENT_COUNT_MAX = 4, DAO_OPTION_COUNT_MAX = 32 };

/* What stood on the command line. */
typedef struct dao_arguments {
    const char *words[DAO_ARGUMENT_COUNT_MAX]; /* that are no options; missing ones are NULL */
    const dao_command_t *command;
    uint64_t given; /* a bit an option of the table */
} dao_arguments_t;

/* Reads what follows the command's name: fields of `settings` get their defaults, then what is given.
   `--help` prints the help, `--words` what completion offers. Returns true to go on; false to end with
   *out_exit. Complaints go to standard error. */
bool dao_options_parse(const dao_command_t *command, int argc, char **argv, void *settings,
                       dao_arguments_t *out_arguments, int *out_exit);

/* Returns true if the option, which the table has, was given, as against a default. */
static inline bool dao_option_is_given(const dao_arguments_t *arguments, const char *name)
{
    uint64_t bit = 1;
    const dao_option_t *option = arguments->command->options;
    for (; option->name != NULL && strcmp(option->name, name) != 0; option++) {
        bit <<= 1;
    }
    DAO_ASSERT(option->name != NULL);
    return (arguments->given & bit) != 0;
}

/* Returns the first of `names`, which end with NULL, that was given; NULL: none was. */
static inline const char *dao_option_first_given(const dao_arguments_t *arguments, const char *const *names)
{
    while (*names != NULL && !dao_option_is_given(arguments, *names)) {
        names++;
    }
    return *names;
}

/* Reads the value of one option into its field. DAO_ERR_INVALID or DAO_ERR_OVERFLOW, with a message that
   names the text and what is allowed. */
DAO_NODISCARD dao_status_t dao_option_read(const dao_option_t *option, const char *text, void *settings);

/* Returns true if the table is right: names differ, fields have their types' sizes, defaults can be read,
   rules name options. */
bool dao_options_are_valid(const dao_command_t *command);

/* Prints a command's help. */
void dao_options_print_help(const dao_command_t *command);

/* Prints what completion offers, a word a line: the options, or for one of them, "--policy", the names of its
   values. */
void dao_options_print_words(const dao_command_t *command, const char *option);

#endif
