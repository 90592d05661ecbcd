# SPDX-License-Identifier: Apache-2.0
# Installs into SCRATCH and uses what is there like a stranger: by find_package(), then by pkg-config. cmake
# -DBUILD=... -DSOURCE=... -DSCRATCH=... -DCOMPILER=... -DCXX_COMPILER=... -DFLAGS=... -DLIBDIR=...
# -DGENERATOR=... -DPLUGINS=... -DPLUGIN_INCLUDES=... -DHAS_PAGE=... -DKIND=... -P test_install.cmake KIND is
# --static where libdao is, else nothing.
cmake_minimum_required(VERSION 3.25)
function(run)
    execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/first)
file(RENAME ${SCRATCH}/first ${SCRATCH}/prefix) # nothing in it may remember where it was put

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE}/tests/consumer -B ${SCRATCH}/by_cmake
    -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix
    -DCMAKE_C_COMPILER=${COMPILER} -DCMAKE_C_FLAGS=${FLAGS} -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
    -DCMAKE_CXX_FLAGS=${FLAGS})
run(${CMAKE_COMMAND} --build ${SCRATCH}/by_cmake)
run(${SCRATCH}/by_cmake/consumer)
if(CXX_COMPILER)
    run(${SCRATCH}/by_cmake/consumer_cpp)
endif()

# The command needs nothing but what is installed with it: no library of the build.
if(EXISTS ${BUILD}/dao)
    run(${SCRATCH}/prefix/bin/dao --version)
    set(files share/bash-completion/completions/dao share/zsh/site-functions/_dao)
    if(HAS_PAGE)
        list(APPEND files share/man/man1/dao.1)
    endif()
    foreach(file IN LISTS files)
        if(NOT EXISTS ${SCRATCH}/prefix/${file})
            message(FATAL_ERROR "${file} was not installed")
        endif()
    endforeach()
endif()

set(ENV{PKG_CONFIG_PATH} ${SCRATCH}/prefix/${LIBDIR}/pkgconfig)
execute_process(COMMAND pkg-config ${KIND} --cflags --libs dao OUTPUT_VARIABLE options
    OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(options UNIX_COMMAND "${options} ${FLAGS}")
run(${COMPILER} ${SOURCE}/tests/consumer/consumer.c -o ${SCRATCH}/by_pkg_config ${options})
set(ENV{LD_LIBRARY_PATH} ${SCRATCH}/prefix/${LIBDIR})
run(${SCRATCH}/by_pkg_config)

# Each plug-in as a framework loads it: by its path alone. Not where a sanitizer has to come with the program.
if(NOT FLAGS)
    set(ENV{LD_LIBRARY_PATH})
    file(WRITE ${SCRATCH}/load.c "#include <dlfcn.h>
        int main(int argc, char **argv) { return argc == 2 && dlopen(argv[1], RTLD_NOW) != 0 ? 0 : 1; }\n")
    run(${COMPILER} ${SCRATCH}/load.c -o ${SCRATCH}/load -ldl)
    foreach(plugin IN LISTS PLUGINS)
        run(${SCRATCH}/load ${SCRATCH}/prefix/${LIBDIR}/lib${plugin}.so)
    endforeach()
endif()

# Each plug-in's header and library, by a program that has nothing but them.
set(ENV{LD_LIBRARY_PATH} ${SCRATCH}/prefix/${LIBDIR})
set(ENV{LIBRARY_PATH} ${SCRATCH}/prefix/${LIBDIR})
list(TRANSFORM PLUGIN_INCLUDES PREPEND -isystem)
foreach(plugin IN LISTS PLUGINS)
    file(WRITE ${SCRATCH}/${plugin}.c "#include <dao/${plugin}.h>\nint main(void) { return 0; }\n")
    run(${COMPILER} ${PLUGIN_INCLUDES} ${SCRATCH}/${plugin}.c -o ${SCRATCH}/by_${plugin} -Wl,--no-as-needed
        -l${plugin} ${options})
    run(${SCRATCH}/by_${plugin})
endforeach()
