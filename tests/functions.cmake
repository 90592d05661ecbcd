# SPDX-License-Identifier: Apache-2.0
# What the CMakeLists.txt of each folder of tests calls. A suite is named by its file, wherever that lies;
# other sources are named by their path from tests/.
set(DAO_TEST_FOLDER ${CMAKE_CURRENT_LIST_DIR})

# dao_suite(OUT NAME): the file of a suite: names are unique, and the folders are those of the sources.
file(GLOB_RECURSE dao_suites CONFIGURE_DEPENDS RELATIVE ${DAO_TEST_FOLDER} test_*)
function(dao_suite out name)
    set(found ${dao_suites})
    list(FILTER found INCLUDE REGEX "(^|/)${name}\\.[a-z]+$")
    list(LENGTH found count)
    if(NOT count EQUAL 1)
        message(FATAL_ERROR "There are ${count} files of the suite ${name}, not 1: ${found}")
    endif()
    set(${out} ${DAO_TEST_FOLDER}/${found} PARENT_SCOPE)
endfunction()

# dao_test_program(NAME SOURCES...): a test program, on whatever gives it dao_backend_ops(). Sources may be
# the objects of another one.
function(dao_test_program name)
    set(sources)
    foreach(source IN LISTS ARGN)
        if(NOT source MATCHES "^\\$<")
            cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${DAO_TEST_FOLDER})
        endif()
        list(APPEND sources ${source})
    endforeach()
    add_executable(${name} ${sources})
    target_link_libraries(${name} PRIVATE dao_test_support)
    if(TARGET dao_cpu_objects)
        target_link_libraries(${name} PRIVATE dao_cpu_objects)
    endif()
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name})
endfunction()

# dao_everywhere_test(NAME [SOURCES...] [LINKS LIBRARIES...]): one test program a module, NAME.c (or .cpp) and
# more sources. Builds for cuda and hip link the cpu backend into it; its dao_backend_ops() is taken before
# the library's, so that tests run on virtual devices.
function(dao_everywhere_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "" "" "LINKS")
    dao_suite(source ${name})
    dao_test_program(${name} ${source} ${test_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PRIVATE ${test_LINKS})
    if(TARGET dao_cpu_builtin)
        target_link_libraries(${name} PRIVATE dao_cpu_builtin)
    endif()
endfunction()

# dao_test(...): dao_everywhere_test() of what does not see the build's backend: builds for cuda and hip leave
# it to those for cpu, whose objects are the same. Only what is a thread's own is reached in another way for
# cuda (base/threads/thread_local.h): the suites on the loopback driver use it, which every build has, and
# those of slabs and tags, which are in every build for its sake.
function(dao_test name)
    if(DAO_BACKEND STREQUAL "cpu")
        dao_everywhere_test(${name} ${ARGN})
    else()
        dao_test_skipped(${name}
            "it does not see the build's backend; the same objects are tested in builds for cpu")
    endif()
endfunction()

# dao_one_thread_test(REASON NAME ...): dao_test() of what ThreadSanitizer has nothing to look at in.
function(dao_one_thread_test reason name)
    if(DAO_SANITIZE MATCHES thread)
        dao_test_skipped(${name} "${reason}")
    else()
        dao_test(${name} ${ARGN})
    endif()
endfunction()

# dao_unit_test(...): dao_test() of a file's functions, called from one thread, in builds with assertions
# or AddressSanitizer alone: in the others, suites of what is built on that file run its code.
if((DAO_ASSERTS OR DAO_COVERAGE) AND NOT DAO_SANITIZE MATCHES "thread|memory")
    set(DAO_TEST_UNITS ON)
endif()
set(DAO_UNIT_ELSEWHERE "one file's functions, called from one thread: dev and asan run it")
function(dao_unit_test name)
    if(DAO_TEST_UNITS)
        dao_test(${name} ${ARGN})
    else()
        dao_test_skipped(${name} "${DAO_UNIT_ELSEWHERE}")
    endif()
endfunction()

# dao_tool_test(NAME): dao_test() of a part of the command.
function(dao_tool_test name)
    dao_test(${name} LINKS dao_tool_lib)
    if(TARGET ${name})
        target_compile_definitions(${name} PRIVATE DAO_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    endif()
endfunction()

# dao_unit_tool_test(NAME) and dao_one_thread_tool_test(REASON NAME): dao_tool_test(), as above.
function(dao_unit_tool_test name)
    if(DAO_TEST_UNITS)
        dao_tool_test(${name})
    else()
        dao_test_skipped(${name} "${DAO_UNIT_ELSEWHERE}")
    endif()
endfunction()

function(dao_one_thread_tool_test reason name)
    if(DAO_SANITIZE MATCHES thread)
        dao_test_skipped(${name} "${reason}")
    else()
        dao_tool_test(${name})
    endif()
endfunction()

# dao_loopback_program(NAME SOURCES...): a test program on the loopback driver.
function(dao_loopback_program name)
    dao_test_program(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE dao_loopback)
endfunction()

# Whether the suites of a build for cpu run again on the loopback driver. Without assertions builds for cuda
# and hip do that, with the same objects; MemorySanitizer has the suites of backends/vendor/ itself.
if((DAO_ASSERTS OR DAO_COVERAGE) AND NOT DAO_SANITIZE MATCHES memory)
    set(DAO_TEST_ON_LOOPBACK ON)
endif()
set(DAO_LOOPBACK_ELSEWHERE "it runs on the driver in dev, asan, tsan and in builds for cuda and hip")

# dao_loopback_test(NAME [SOURCES...] [LINKS LIBRARIES...]): NAME.c once more, as NAME_loopback, on the
# loopback driver: the objects of the program NAME, where there is one, with the same sources, and a part of
# what takes it long.
function(dao_loopback_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "" "" "LINKS")
    if(DAO_BACKEND STREQUAL "cpu" AND NOT DAO_TEST_ON_LOOPBACK)
        dao_test_skipped(${name}_loopback "${DAO_LOOPBACK_ELSEWHERE}")
        return()
    endif()
    if(TARGET ${name})
        dao_loopback_program(${name}_loopback $<TARGET_OBJECTS:${name}>)
        set_tests_properties(${name}_loopback PROPERTIES ENVIRONMENT DAO_TEST_AGAIN=1)
    else()
        dao_suite(source ${name})
        dao_loopback_program(${name}_loopback ${source} ${test_UNPARSED_ARGUMENTS})
    endif()
    target_link_libraries(${name}_loopback PRIVATE ${test_LINKS})
endfunction()

# dao_like_real_test(NAME): the program NAME_loopback once more, with what it finds on a real device: its
# devices are portions of one (support/backends/portion.h), host functions run one after the other, and what
# takes memory back waits for the device.
function(dao_like_real_test name)
    if(DAO_SANITIZE)
        dao_test_skipped(${name}_like_real "the library's calls are those of ${name}_loopback")
    elseif(DAO_BACKEND STREQUAL "cpu" AND NOT DAO_TEST_ON_LOOPBACK)
        dao_test_skipped(${name}_like_real "${DAO_LOOPBACK_ELSEWHERE}")
    elseif(NOT DAO_BACKEND STREQUAL "cpu" AND NOT DAO_TEST_DEVICE)
        dao_test_skipped(${name}_like_real "what differs is the driver's, which builds for cpu have as well")
    else()
        add_test(NAME ${name}_like_real COMMAND ${name}_loopback)
        set_tests_properties(${name}_like_real PROPERTIES ENVIRONMENT "DAO_TEST_LIKE_REAL=1;DAO_TEST_AGAIN=1")
    endif()
endfunction()

# What tests on real devices run with: streams that are held up share no queue of the device with others, and
# no kernel is loaded behind such a stream. It is for the drivers alone.
set(DAO_DEVICE_ENVIRONMENT CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_MODULE_LOADING=EAGER GPU_MAX_HW_QUEUES=32)

# dao_device_test(NAME [LINKS LIBRARIES...]): the objects of NAME_loopback as NAME_device, on the build's real
# devices: its own are portions of those. Every build for a vendor links it; it runs where devices are
# promised.
function(dao_device_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "" "" "LINKS")
    if(DAO_BACKEND STREQUAL "cpu" OR (DAO_SANITIZE AND NOT DAO_TEST_DEVICE))
        return()
    endif()
    add_executable(${name}_device ${DAO_TEST_FOLDER}/support/backends/portion_builtin.c
        ${DAO_TEST_FOLDER}/support/backends/hold_${DAO_BACKEND}.c $<TARGET_OBJECTS:${name}_loopback>)
    target_link_libraries(${name}_device PRIVATE dao_test_support dao_cpu_objects dao_vendor ${test_LINKS})
    set_target_properties(${name}_device PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    if(DAO_TEST_DEVICE)
        add_test(NAME ${name}_device COMMAND ${name}_device)
        set_tests_properties(${name}_device PROPERTIES RESOURCE_LOCK device
            ENVIRONMENT "${DAO_DEVICE_ENVIRONMENT}")
    endif()
endfunction()

# dao_device_suite(NAME [SOURCES...] [LINKS LIBRARIES...] [NOT_LIKE_REAL] [NOT_SANITIZED REASON] [NOT_THREAD
# REASON]): NAME.c on what cuda and hip share, like a real device, and on real devices where such are
# promised.
function(dao_device_suite name)
    cmake_parse_arguments(PARSE_ARGV 1 test "NOT_LIKE_REAL" "NOT_SANITIZED;NOT_THREAD" "LINKS")
    if(DAO_SANITIZE AND test_NOT_SANITIZED)
        dao_test_skipped(${name}_loopback "${test_NOT_SANITIZED}")
    elseif(DAO_SANITIZE MATCHES thread AND test_NOT_THREAD)
        dao_test_skipped(${name}_loopback "${test_NOT_THREAD}")
    else()
        dao_loopback_test(${name} ${test_UNPARSED_ARGUMENTS} LINKS ${test_LINKS})
        dao_device_test(${name} LINKS ${test_LINKS})
    endif()
    if(NOT test_NOT_LIKE_REAL)
        dao_like_real_test(${name})
    endif()
endfunction()

# dao_begin_early(TESTS...): the longest tests of a folder, so that none runs alone at the end: a clean clone
# has no record of times.
function(dao_begin_early)
    foreach(name IN LISTS ARGN)
        if(TEST ${name})
            set_tests_properties(${name} PROPERTIES COST 100)
        endif()
    endforeach()
endfunction()

# dao_memcheck(NAMES...): the programs once more under valgrind, which finds what no sanitizer of gcc does: a
# decision by bytes that nobody has written. Leaks that nothing points to fail, too.
find_program(DAO_VALGRIND valgrind)
function(dao_memcheck)
    foreach(name IN LISTS ARGN)
        if(NOT DAO_MEMCHECK OR NOT TARGET ${name})
            continue()
        elseif(NOT DAO_VALGRIND)
            dao_test_skipped(memcheck_${name} "no valgrind")
            continue()
        endif()
        add_test(NAME memcheck_${name} COMMAND ${DAO_VALGRIND} --quiet --error-exitcode=99 --leak-check=full
            --errors-for-leak-kinds=definite $<TARGET_FILE:${name}>)
        set_tests_properties(memcheck_${name} PROPERTIES LABELS memcheck)
    endforeach()
endfunction()
