# SPDX-License-Identifier: Apache-2.0
# Builds libdao once more, as a static library, and uses it as test_install.cmake does the shared one. What is
# hidden stays so: a shared library that has all of it exports what test_exports.cmake says. cmake
# -DSOURCE=... -DSCRATCH=... -DCOMPILER=... -DCXX_COMPILER=... -DLIBDIR=... -DGENERATOR=... -DNM=...
# -DREADELF=... -DBACKEND=... -DANNOTATOR=... -DLAUNCHER=... -DBUILD_TYPE=... -DFLAGS=...
# -DWERROR=... -P test_static.cmake
# LAUNCHER is what the compiler is started by, such as ccache, or nothing; FLAGS are those of the type.
cmake_minimum_required(VERSION 3.25)
string(TOUPPER "${BUILD_TYPE}" type)
function(run)
    execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(build ${SCRATCH}/build)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${build} -DBUILD_SHARED_LIBS=OFF -DDAO_BACKEND=${BACKEND}
    -DDAO_TESTS=OFF -DDAO_TOOLS=OFF -DDAO_EXAMPLES=OFF -DDAO_ANNOTATOR=${ANNOTATOR}
    -DCMAKE_C_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DDAO_WERROR=${WERROR}
    "-DCMAKE_C_FLAGS_${type}=${FLAGS}"
    "-DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER}" -DCMAKE_INSTALL_LIBDIR=${LIBDIR})
run(${CMAKE_COMMAND} --build ${build} --target dao --parallel 2)

run(${CMAKE_COMMAND} -DBUILD=${build} -DSOURCE=${SOURCE} -DSCRATCH=${SCRATCH}/installed -DCOMPILER=${COMPILER}
    -DCXX_COMPILER=${CXX_COMPILER} -DLIBDIR=${LIBDIR} -DGENERATOR=${GENERATOR} -DKIND=--static
    -P ${SOURCE}/tests/install/test_install.cmake)

set(whole ${SCRATCH}/libwhole.so)
run(${COMPILER} -shared -o ${whole} -Wl,--whole-archive ${build}/libdao.a -Wl,--no-whole-archive -pthread)
run(${CMAKE_COMMAND} -DNM=${NM} -DREADELF=${READELF} -DLIBRARY=${whole} -DHEADERS=${SOURCE}/include/dao
    -DBACKEND=${BACKEND} -DIS_STATIC=ON -P ${SOURCE}/tests/install/test_exports.cmake)
