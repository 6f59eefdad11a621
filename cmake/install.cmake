# Headers, pkg-config file and CMake package.  Everything is relative to the installed place: the prefix works when moved.
include(CMakePackageConfigHelpers)
# All of include/accel: accel.h with the headers it includes, and plugin.h with its list of ops.
install(DIRECTORY include/accel/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/accel FILES_MATCHING PATTERN "*.h" PATTERN "ops.def")
file(RELATIVE_PATH ACCEL_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" ACCEL_PC_PREFIX "${ACCEL_PC_PREFIX}")
configure_file(cmake/accel.pc.in accel.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/accel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT accel-targets NAMESPACE accel:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/accel)
configure_package_config_file(cmake/accel-config.cmake.in accel-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/accel)
write_basic_package_version_file(accel-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/accel-config.cmake ${PROJECT_BINARY_DIR}/accel-config-version.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/accel)
