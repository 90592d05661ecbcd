/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/recording/file_name.h"

#include "base/report/error.h"
#include "base/threads/sync.h"

#include <stdio.h>
#include <string.h>

dao_status_t dao_file_name_keep(const char *variable, const char *text, const char *known,
                                char out_name[DAO_FILE_NAME_BYTES])
{
    bool is_right = text[0] != '\0' && strlen(text) < DAO_FILE_NAME_BYTES;
    for (const char *at = strchr(text, '%'); at != NULL && is_right; at = strchr(at + 2, '%')) {
        is_right = at[1] == '%' || (at[1] != '\0' && strchr(known, at[1]) != NULL);
    }
    if (!is_right) {
        return dao_error(DAO_ERR_INVALID, "%s: \"%.64s\" is no name of a file; %%p is the process%s",
                         variable, text,
                         strchr(known, 'l') != NULL ? ", %n a number, %l the place, %% a %" : ", %% a %");
    }
    (void)snprintf(out_name, DAO_FILE_NAME_BYTES, "%s", text);
    return DAO_OK;
}

bool dao_file_name_make(const char *name, dao_place_t place, uint32_t number,
                        char out_path[DAO_FILE_NAME_BYTES])
{
    char place_text[DAO_PLACE_TEXT_BYTES], text[DAO_PLACE_TEXT_BYTES];
    const char *colon = strchr(dao_place_format(place, place_text), ':');
    int kind_length = (int)(colon != NULL ? (size_t)(colon - place_text) : strlen(place_text));
    size_t length = 0;
    for (const char *at = name; *at != '\0' && length < DAO_FILE_NAME_BYTES; at++) {
        (void)snprintf(text, sizeof(text), "%c", *at);
        if (*at == '%') {
            at++;
            (void)(*at == 'p'   ? snprintf(text, sizeof(text), "%d", dao_process_self())
                   : *at == 'n' ? snprintf(text, sizeof(text), "%u", number)
                   : *at == 'l' ? snprintf(text, sizeof(text), "%.*s%s", kind_length, place_text,
                                           colon != NULL ? colon + 1 : "")
                                : snprintf(text, sizeof(text), "%%"));
        }
        length += (size_t)snprintf(out_path + length, DAO_FILE_NAME_BYTES - length, "%s", text);
    }
    return length < DAO_FILE_NAME_BYTES;
}
