/* SPDX-License-Identifier: Apache-2.0 */
/* Words go to the next line where they would not fit. */
#define _GNU_SOURCE
#include "tools/print/lines.h"

#include "tools/base/progress.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    COLUMNS_USUAL = 80,
    COLUMNS_MIN = 40, /* narrower terminals are taken for the usual one */
    SENTENCE_BYTES = 1024,
    SENTENCE_INDENT = 2,
};

size_t dao_output_columns(void)
{
    struct winsize size = {0};
    bool is_terminal = isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return is_terminal && size.ws_col >= COLUMNS_MIN ? size.ws_col : COLUMNS_USUAL;
}

void dao_output_words(const char *text, size_t column, size_t indent)
{
    size_t columns = dao_output_columns();
    bool is_first = true;
    dao_progress_hide();
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        if (!is_first && column + 1 + length > columns) {
            (void)printf("\n%*s", (int)indent, "");
            column = indent;
            is_first = true;
        }
        (void)printf("%s%.*s", is_first ? "" : " ", (int)length, text);
        column += length + (is_first ? 0 : 1);
        is_first = false;
        text += length;
        text += strspn(text, " \n");
    }
    (void)putchar('\n');
}

void dao_output_say(const char *format, ...)
{
    char sentence[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    (void)printf("%*s", SENTENCE_INDENT, "");
    dao_output_words(sentence, SENTENCE_INDENT, 2 * (size_t)SENTENCE_INDENT);
}
