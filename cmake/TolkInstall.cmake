# SPDX-License-Identifier: MIT
#
# install(): headers, both libraries and the compiler's, the tool, a CMake package (tolk::tolk, tolk::tolk_static) and
# tolk.pc. Nothing installed names the folder it was built in.
include(CMakePackageConfigHelpers)

set(tolk_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tolk)
install(TARGETS tolk tolk_static EXPORT tolkTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# libtolk.so looks for it in the folder that it is in itself.
install(TARGETS tolk_llvm_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET tolk-jit)
    file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
    set_target_properties(tolk-jit PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS tolk-jit DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tolk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(EXPORT tolkTargets NAMESPACE tolk:: DESTINATION ${tolk_cmake_dir})

configure_package_config_file(cmake/tolkConfig.cmake.in ${PROJECT_BINARY_DIR}/tolkConfig.cmake
                              INSTALL_DESTINATION ${tolk_cmake_dir})
# 0.x promises nothing from one minor to the next.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tolkConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tolkConfig.cmake ${PROJECT_BINARY_DIR}/tolkConfigVersion.cmake
        DESTINATION ${tolk_cmake_dir})

# pkg-config finds the prefix from where tolk.pc lies, so the folder can be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
list(JOIN tolk_deps_private_libs " " pc_private_libs)
configure_file(cmake/tolk.pc.in ${PROJECT_BINARY_DIR}/tolk.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tolk.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
