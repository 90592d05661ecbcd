# SPDX-License-Identifier: Apache-2.0
# Packages for Debian: `cpack -G DEB` in a build folder, or ./dev package. A component of the installation is
# a package. Plug-ins that need more than libdao are in none: who has that software builds them beside it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dao)
# A package has to name an address; who gives packages to others sets their own.
set(CPACK_PACKAGE_CONTACT "The authors of libdao <noreply@github.com>" CACHE STRING
    "Who answers for packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL dao dao-dev dao-tools)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_finish.cmake)
set(CPACK_DAO_VERSION ${PROJECT_VERSION})
set(CPACK_DAO_SOURCE ${PROJECT_SOURCE_DIR})

set(library libdao${DAO_SOVERSION}) # Debian's rule: the name of the shared library, with its version
set(CPACK_DEBIAN_DAO_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_DAO_DESCRIPTION "memory of accelerators: the library
 Places, stream-ordered allocators, plans for repeating steps, and an executor
 for kernels whose tensors exceed the device; with plug-ins for PyTorch, CuPy
 and malloc.")
file(WRITE ${PROJECT_BINARY_DIR}/package/shlibs
    "libdao ${DAO_SOVERSION} ${library} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_DAO_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/shlibs
    ${PROJECT_BINARY_DIR}/package/triggers)
set(CPACK_DEBIAN_DAO-DEV_PACKAGE_NAME libdao-dev)
set(CPACK_DEBIAN_DAO-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DAO-DEV_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_DAO-DEV_DESCRIPTION "memory of accelerators: headers, documents and examples
 What a program that uses libdao is built with, by CMake or pkg-config.")
set(CPACK_DEBIAN_DAO-TOOLS_PACKAGE_NAME dao-tools)
set(CPACK_DEBIAN_DAO-TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_DAO-TOOLS_DESCRIPTION "memory of accelerators: the command dao
 Looks at recorded steps of programs, runs them in less memory, plans and
 simulates them, and watches running processes.")
include(CPack)
