/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the form in which steps are written, which docs/formats.md tells: what the library and the command
   both write.

       dao-step 1
       tensor w 9408 tag=weight
       tensor y 3211264
       op aten::conv2d 812.375 module=conv1 pure <x <w >y ^x +t:1048576 -t
       end                                                                   */
#ifndef DAO_BASE_STEP_FORM_H
#define DAO_BASE_STEP_FORM_H

#include <stdint.h>
#include <stdio.h>

/* The first word of such a file. */
#define DAO_STEP_FILE_MARK "dao-step"

/* What an operand begins with, and what it does. */
typedef enum dao_step_sign {
    DAO_STEP_SIGN_READ = '<',
    DAO_STEP_SIGN_CHANGE = '*',    /* in place: reads and writes */
    DAO_STEP_SIGN_OUTPUT = '>',    /* comes to life, and is written */
    DAO_STEP_SIGN_OVERWRITE = '=', /* is written all over and not read */
    DAO_STEP_SIGN_SAVE = '^',
    DAO_STEP_SIGN_ALLOC = '+', /* a temporary begins */
    DAO_STEP_SIGN_FREE = '-',  /* a temporary ends, or a tensor after the operator */
} dao_step_sign_t;

/* The file keeps what goes wrong, for ferror(). */

/* What a word of such a file has at most, with what stands before its text. */
#define DAO_STEP_WORD_BYTES_MAX 4096

/* Writes a text as one word: blanks, control characters and % as %XX. */
void dao_step_form_put_word(FILE *file, const char *text);

/* The same of a name that tells nothing apart: what would make the word too long is left out, by whole
   letters. */
void dao_step_form_put_name(FILE *file, const char *text);

/* Writes a time in microseconds, without zeros at its end. */
void dao_step_form_put_us(FILE *file, uint64_t ns);

#endif
