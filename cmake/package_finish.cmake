# SPDX-License-Identifier: Apache-2.0
# Before a package is made of what was installed for it: what Debian's policy asks for, and a plain
# installation does not need. CPack runs it once for each component, or once for all of them.
file(GLOB components LIST_DIRECTORIES ON ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(component IN LISTS components)
    cmake_path(GET component FILENAME name)
    string(TOUPPER "${name}" upper)
    set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    if(NOT package)
        continue()
    endif()
    set(usr ${component}/usr)
    set(documents ${usr}/share/doc/${package})
    file(MAKE_DIRECTORY ${documents})
    configure_file(${CPACK_DAO_SOURCE}/cmake/copyright ${documents}/copyright COPYONLY)
    # in form a changelog of Debian's; what has changed is in CHANGELOG.md, among the documents
    file(WRITE ${documents}/changelog.Debian "dao (${CPACK_DAO_VERSION}-1) unstable; urgency=medium\n\n"
        "  * A build of version ${CPACK_DAO_VERSION}.\n\n"
        " -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 2026 00:00:00 +0000\n")
    file(GLOB_RECURSE pages ${usr}/share/man/man*/*.[1-9])
    execute_process(COMMAND gzip -9 -n -f ${documents}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
    file(GLOB_RECURSE libraries ${usr}/lib*/*.so)
    foreach(library IN LISTS libraries)
        if(NOT IS_SYMLINK ${library}) # what is in /usr needs no path of its own
            file(RPATH_REMOVE FILE ${library})
        endif()
    endforeach()
endforeach()
