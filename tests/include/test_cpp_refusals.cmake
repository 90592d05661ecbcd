# SPDX-License-Identifier: Apache-2.0
# Every header compiles as C++ without a warning, alone, and all of them also without exceptions and RTTI; and
# the compiler refuses each case of cpp_refusals.cpp with the words that stand beside it. cmake
# -DCOMPILERS="..." -DSOURCE=... -DSCRATCH=... -P test_cpp_refusals.cmake
cmake_minimum_required(VERSION 3.25)
set(warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef -Wold-style-cast -Wnon-virtual-dtor
    -Werror)
file(MAKE_DIRECTORY ${SCRATCH})

file(GLOB headers RELATIVE ${SOURCE}/include ${SOURCE}/include/dao/*.h ${SOURCE}/include/dao/*.hpp)
foreach(header IN LISTS headers)
    file(WRITE ${SCRATCH}/header.cpp "#include <${header}>\n")
    set(flags -std=c++17)
    if(header MATCHES "hpp$")
        set(flags -std=c++17 -std=c++20)
    endif()
    if(header STREQUAL "dao/dao.hpp") # has all others
        list(APPEND flags -fno-exceptions,-fno-rtti)
    endif()
    set(compilers ${COMPILERS})
    if(NOT header STREQUAL "dao/dao.hpp") # whether a header has all that it needs does not depend on them
        list(GET COMPILERS 0 compilers)
    endif()
    foreach(compiler IN LISTS compilers)
        foreach(flag IN LISTS flags)
            string(REPLACE "," ";" options ${flag})
            execute_process(COMMAND ${compiler} -std=c++17 ${options} ${warnings} -I${SOURCE}/include
                -fsyntax-only ${SCRATCH}/header.cpp
                ERROR_VARIABLE said RESULT_VARIABLE result)
            if(NOT result EQUAL 0)
                message(SEND_ERROR "${compiler} ${flag} does not take <${header}>:\n${said}")
            endif()
        endforeach()
    endforeach()
endforeach()

set(source ${SOURCE}/tests/include/cpp_refusals.cpp)
file(STRINGS ${source} cases REGEX "CASE == [1-9]")
list(LENGTH cases count)
if(count LESS 13)
    message(SEND_ERROR "only ${count} cases were found")
endif()
set(number 0)
foreach(compiler IN LISTS COMPILERS)
    # What all cases begin with is compiled once.
    math(EXPR number "${number} + 1")
    set(beginning ${SCRATCH}/beginning_${number}.hpp)
    file(WRITE ${beginning} "#include <dao/dao.hpp>\n#include <vector>\n")
    set(command ${compiler} -std=c++17 -I${SOURCE}/include)
    execute_process(COMMAND ${command} -x c++-header ${beginning} -o ${beginning}.gch
        COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND command -include ${beginning} -fsyntax-only ${source})
    execute_process(COMMAND ${command} -DCASE=0 COMMAND_ERROR_IS_FATAL ANY)
    foreach(case IN LISTS cases)
        if(NOT case MATCHES "CASE == ([0-9]+) +// (.+)")
            message(FATAL_ERROR "no words of the compiler stand beside ${case}")
        endif()
        set(words "${CMAKE_MATCH_2}")
        execute_process(COMMAND ${command} -DCASE=${CMAKE_MATCH_1} ERROR_VARIABLE said RESULT_VARIABLE result)
        if(result EQUAL 0)
            message(SEND_ERROR "${compiler} takes ${case}")
        elseif(NOT said MATCHES "error: [^\n]*${words}")
            message(SEND_ERROR "${compiler} refuses ${case} with other words:\n${said}")
        endif()
    endforeach()
    message(STATUS "${compiler}: ${count} cases refused")
endforeach()
