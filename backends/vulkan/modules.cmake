# modules.cmake - GLSL text of the kernels (embed.cmake's folder IN) to SPIR-V in C, run at build:
#   cmake -DGLSLC=<glslc> -DIN=<folder> -DDEF=<kernels.def> -DOUT=<file> -P modules.cmake
# OUT defines vlk_modules[].  A kernel whose text did not change is not compiled again.
file(STRINGS ${DEF} lines REGEX "^GPU_KERNEL\\(")
set(out "/* made by modules.cmake */\n#include \"vulkan/vlk.h\"\n")
set(list "")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^GPU_KERNEL\\(([a-z0-9_]+)" whole "${line}")
  set(name ${CMAKE_MATCH_1})
  set(text ${IN}/${name}.txt)
  set(spirv ${IN}/${name}.inc)
  if(NOT EXISTS ${text})
    continue() # of another API
  endif()
  if(NOT EXISTS ${spirv} OR ${text} IS_NEWER_THAN ${spirv})
    file(READ ${text} body) # the C preprocessor that made it passes no line of these two on
    set(more "")
    if(body MATCHES "spirv_instruction")
      set(more "#extension GL_EXT_spirv_intrinsics : require\n")
    endif()
    file(WRITE ${IN}/${name}.comp "#version 450\n#extension GL_EXT_control_flow_attributes : require\n${more}${body}")
    execute_process(COMMAND ${GLSLC} -O --target-env=vulkan1.1 -fshader-stage=compute -mfmt=num -o ${spirv}.new ${IN}/${name}.comp
      ERROR_VARIABLE problem RESULT_VARIABLE rc)
    if(NOT rc EQUAL 0)
      message(FATAL_ERROR "kernel ${name}:\n${problem}")
    endif()
    file(RENAME ${spirv}.new ${spirv})
  endif()
  string(APPEND out "static const uint32_t words_${name}[] = {\n#include \"${spirv}\"\n};\n")
  string(APPEND list "  [GPU_K_${name}] = {words_${name}, sizeof words_${name}},\n")
endforeach()
file(WRITE ${OUT} "${out}const vlk_module vlk_modules[GPU_KERNELS] = {\n${list}};\n")
