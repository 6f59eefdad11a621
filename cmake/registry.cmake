# registry/*.json -> one C file of the registry layer, checked on the way by tools/embed_registry.c (which shares the library's own checker).
if(TARGET accel_registry AND TARGET accel_core)
  file(GLOB registry_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/registry/*.json ${PROJECT_SOURCE_DIR}/registry/models/*.json)
  add_executable(accel_embed_registry tools/embed_registry.c src/registry/schema.c $<TARGET_OBJECTS:accel_core>)
  target_include_directories(accel_embed_registry PRIVATE src)
  target_link_libraries(accel_embed_registry PRIVATE accel_options PkgConfig::ACCEL_CJSON Threads::Threads ${CMAKE_DL_LIBS} m)
  set_target_properties(accel_embed_registry PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)
  if(EMSCRIPTEN) # it runs in node, on the machine's files
    target_link_options(accel_embed_registry PRIVATE -sNODERAWFS -sEXIT_RUNTIME)
  endif()
  set(registry_c ${PROJECT_BINARY_DIR}/registry_data.c)
  add_custom_command(OUTPUT ${registry_c}
    COMMAND accel_embed_registry ${registry_c} ${PROJECT_SOURCE_DIR}/registry
    DEPENDS accel_embed_registry ${registry_files} VERBATIM COMMENT "Checking and embedding registry/")
  target_sources(accel_registry PRIVATE ${registry_c})
endif()
