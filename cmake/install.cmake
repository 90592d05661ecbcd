# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts down: libdao, its headers, a CMake package (dao::dao) and dao.pc; beside these
# what the folders add, the dao command and the plug-ins. All of it can be moved.
include(CMakePackageConfigHelpers)
set(DAO_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/dao)

install(TARGETS dao EXPORT daoTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dao NAMELINK_COMPONENT dao-dev
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dao-dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/dao DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dao-dev)
install(EXPORT daoTargets NAMESPACE dao:: DESTINATION ${DAO_PACKAGE_DIR} COMPONENT dao-dev)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/dao COMPONENT dao-dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/dao COMPONENT dao-dev
    PATTERN Doxyfile EXCLUDE PATTERN CMakeLists.txt EXCLUDE PATTERN __pycache__ EXCLUDE)
# The manual pages of the interface, if ./dev docs or ./dev package has made them here.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/build/docs/man/man3 DESTINATION ${CMAKE_INSTALL_MANDIR}
    COMPONENT dao-dev OPTIONAL FILES_MATCHING PATTERN "dao_*.3" PATTERN "dao.h.3")

set(DAO_PACKAGES "")
if(DAO_IS_STATIC)
    get_property(DAO_PACKAGES GLOBAL PROPERTY DAO_NEEDS_PACKAGES)
    list(JOIN DAO_PACKAGES " " DAO_PACKAGES)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/daoConfig.cmake.in
    ${PROJECT_BINARY_DIR}/daoConfig.cmake
    INSTALL_DESTINATION ${DAO_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/daoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/daoConfig.cmake ${PROJECT_BINARY_DIR}/daoConfigVersion.cmake
    DESTINATION ${DAO_PACKAGE_DIR} COMPONENT dao-dev)

# Paths in dao.pc are relative to where it lies.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
    OUTPUT_VARIABLE DAO_PC_LIBDIR)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
    OUTPUT_VARIABLE DAO_PC_INCLUDEDIR)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
    OUTPUT_VARIABLE DAO_PC_PREFIX)
get_property(DAO_PC_NEEDS GLOBAL PROPERTY DAO_NEEDS_FLAGS)
list(JOIN DAO_PC_NEEDS " " DAO_PC_NEEDS)
configure_file(${PROJECT_SOURCE_DIR}/cmake/dao.pc.in ${PROJECT_BINARY_DIR}/dao.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dao.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dao-dev)
