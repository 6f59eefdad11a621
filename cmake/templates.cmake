# templates/*.in, embedded in the accel tool.
file(GLOB templates CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/templates/*.in)
set(templates_c ${PROJECT_BINARY_DIR}/templates_data.c)
add_custom_command(OUTPUT ${templates_c}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${templates_c} -DFOLDER=${PROJECT_SOURCE_DIR}/templates -DPATTERN=*.in -DINCLUDE=cli/cli_templates.h
    -DTYPE=cli_template -DTABLE=cli_templates -P ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake
  DEPENDS ${templates} ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake VERBATIM COMMENT "Embedding templates/")
target_sources(accel_tool PRIVATE ${templates_c})
