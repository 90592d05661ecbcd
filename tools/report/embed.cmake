# SPDX-License-Identifier: Apache-2.0
# cmake -DPAGE=FOLDER -DOUT=FILE -P embed.cmake: puts style and scripts of a page into its HTML, and writes
# what stands before and behind its data as a C source.
set(scripts decode lives chart offsets tree swap view main)
file(READ ${PAGE}/page.html html)
file(READ ${PAGE}/page.css style)
set(script)
foreach(name IN LISTS scripts)
    file(READ ${PAGE}/${name}.js text)
    string(APPEND script "${text}")
endforeach()

# replace(MARK TEXT): a mark by a text, whatever that holds.
function(replace mark text)
    string(FIND "${html}" "${mark}" at)
    if(at EQUAL -1)
        message(FATAL_ERROR "page.html has no ${mark}")
    endif()
    string(LENGTH "${mark}" length)
    string(SUBSTRING "${html}" 0 ${at} before)
    math(EXPR behind "${at} + ${length}")
    string(SUBSTRING "${html}" ${behind} -1 after)
    set(html "${before}${text}${after}" PARENT_SCOPE)
endfunction()

replace("@STYLE@" "${style}")
replace("@SCRIPT@" "${script}")
string(FIND "${html}" "@DATA@" at)
string(SUBSTRING "${html}" 0 ${at} begin)
math(EXPR behind "${at} + 6")
string(SUBSTRING "${html}" ${behind} -1 end)

set(source "/* Made by embed.cmake. */\n#include \"tools/report/page_parts.h\"\n")
foreach(part begin end)
    file(WRITE ${OUT}.part "${${part}}")
    file(READ ${OUT}.part hex HEX)
    file(REMOVE ${OUT}.part)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND source "const unsigned char dao_report_page_${part}[] = {${bytes}};\n"
        "const size_t dao_report_page_${part}_bytes = sizeof(dao_report_page_${part});\n")
endforeach()
file(WRITE ${OUT} "${source}")
