# src/serve, the server of `accel serve`; without libmicrohttpd the command says what is missing.
pkg_check_modules(ACCEL_MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.71)
if(ACCEL_MICROHTTPD_FOUND)
  file(GLOB serve_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/serve/*.c)
  list(REMOVE_ITEM serve_sources ${PROJECT_SOURCE_DIR}/src/serve/serve_absent.c)
  file(GLOB page_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/serve/page/*)
  set(page_c ${PROJECT_BINARY_DIR}/serve_page_data.c)
  add_custom_command(OUTPUT ${page_c}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${page_c} -DFOLDER=${PROJECT_SOURCE_DIR}/src/serve/page -DPATTERN=* -DINCLUDE=serve/serve_page.h
      -DTYPE=serve_page_file -DTABLE=serve_page_files -P ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake
    DEPENDS ${page_files} ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake VERBATIM COMMENT "Embedding src/serve/page")
  list(APPEND serve_sources ${page_c})
else()
  message(STATUS "libmicrohttpd is missing: accel serve is left out (libmicrohttpd-dev)")
  set(serve_sources ${PROJECT_SOURCE_DIR}/src/serve/serve_absent.c ${PROJECT_SOURCE_DIR}/src/serve/serve_config.c ${PROJECT_SOURCE_DIR}/src/serve/serve_log.c)
endif()
add_library(accel_serve STATIC EXCLUDE_FROM_ALL ${serve_sources}) # also for unit tests
target_link_libraries(accel_serve PUBLIC accel_bench)
if(ACCEL_MICROHTTPD_FOUND)
  target_link_libraries(accel_serve PUBLIC PkgConfig::ACCEL_MICROHTTPD)
endif()
target_link_libraries(accel_tool PRIVATE accel_serve)
# Units for systemd: `systemctl enable --now accel-serve.socket` once /etc/accel/serve.json is there.
configure_file(${PROJECT_SOURCE_DIR}/share/systemd/accel-serve.service.in ${PROJECT_BINARY_DIR}/accel-serve.service @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/accel-serve.service ${PROJECT_SOURCE_DIR}/share/systemd/accel-serve.socket
  DESTINATION ${CMAKE_INSTALL_DATADIR}/accel/systemd)
