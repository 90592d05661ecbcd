/* SPDX-License-Identifier: Apache-2.0 */
#include "base/report/step_form.h"

#include <inttypes.h>

void dao_step_form_put_word(FILE *file, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte <= ' ' || byte == '%' || byte == 0x7f) {
            (void)fprintf(file, "%%%02X", byte);
        } else {
            (void)fputc(byte, file);
        }
    }
}

void dao_step_form_put_us(FILE *file, uint64_t ns)
{
    unsigned rest = (unsigned)(ns % 1000);
    (void)fprintf(file, "%" PRIu64, ns / 1000);
    if (rest != 0) {
        int places = rest % 100 == 0 ? 1 : rest % 10 == 0 ? 2 : 3;
        (void)fprintf(file, ".%0*u", places, places == 1 ? rest / 100 : places == 2 ? rest / 10 : rest);
    }
}
