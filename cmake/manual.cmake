# The manual page and bash completion of the accel tool, printed by the tool itself from its tables of commands and options.
# Cross builds go without.
if(NOT CMAKE_CROSSCOMPILING)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/accel.1 ${PROJECT_BINARY_DIR}/accel.bash
    COMMAND accel_tool help --man > ${PROJECT_BINARY_DIR}/accel.1
    COMMAND accel_tool help --completion > ${PROJECT_BINARY_DIR}/accel.bash
    DEPENDS accel_tool VERBATIM COMMENT "Manual page and completion")
  add_custom_target(accel_manual ALL DEPENDS ${PROJECT_BINARY_DIR}/accel.1 ${PROJECT_BINARY_DIR}/accel.bash)
  install(FILES ${PROJECT_BINARY_DIR}/accel.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${PROJECT_BINARY_DIR}/accel.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME accel)
endif()
