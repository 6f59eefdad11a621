# modules.cmake - GLSL text of the kernels (embed.cmake's folder IN) to SPIR-V in C, deflated, run at build:
#   cmake -DGLSLC=<glslc> -DIN=<folder> -DDEF=<gpu_kernels.def> -DOUT=<file> -P modules.cmake
# OUT defines gpu_spirv[].  A kernel whose text did not change, nor this file, is not compiled again.
include(${CMAKE_CURRENT_LIST_DIR}/../gpu_kernels.cmake)
gpu_kernel_list(${DEF} kernels)
set(out "/* made by modules.cmake */\n#include \"gpu/spirv/gpu_spirv.h\"\n")
set(list "")
foreach(kernel IN LISTS kernels)
  gpu_kernel_fields("${kernel}")
  set(text ${IN}/${name}.txt)
  set(spirv ${IN}/${name}.inc)
  if(NOT EXISTS ${text})
    continue() # of another API
  endif()
  if(NOT EXISTS ${spirv} OR ${text} IS_NEWER_THAN ${spirv} OR ${CMAKE_CURRENT_LIST_FILE} IS_NEWER_THAN ${spirv})
    file(READ ${text} body) # the C preprocessor that made it passes no line of these two on
    set(more "")
    if(body MATCHES "spirv_instruction")
      set(more "#extension GL_EXT_spirv_intrinsics : require\n")
    endif()
    if(body MATCHES "subgroupAdd")
      set(more "#extension GL_KHR_shader_subgroup_basic : require\n#extension GL_KHR_shader_subgroup_arithmetic : require\n")
    endif()
    if(body MATCHES "coopMatLoadNV")
      string(APPEND more "#extension GL_KHR_shader_subgroup_basic : require\n#extension GL_KHR_memory_scope_semantics : require\n"
        "#extension GL_NV_cooperative_matrix : require\n#extension GL_NV_integer_cooperative_matrix : require\n"
        "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require\n")
    endif()
    file(WRITE ${IN}/${name}.comp "#version 450\n#extension GL_EXT_control_flow_attributes : require\n${more}${body}")
    execute_process(COMMAND ${GLSLC} -O --target-env=vulkan1.1 -fshader-stage=compute -o ${IN}/${name}.spv ${IN}/${name}.comp
      ERROR_VARIABLE problem RESULT_VARIABLE rc)
    if(NOT rc EQUAL 0)
      message(FATAL_ERROR "kernel ${name}:\n${problem}")
    endif()
    file(SIZE ${IN}/${name}.spv bytes)
    file(ARCHIVE_CREATE OUTPUT ${IN}/${name}.gz PATHS ${IN}/${name}.spv FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
    file(READ ${IN}/${name}.gz flags OFFSET 3 LIMIT 1 HEX)
    if(NOT flags STREQUAL "00")
      message(FATAL_ERROR "kernel ${name}: gzip's header is longer than ten bytes")
    endif()
    file(READ ${IN}/${name}.gz deflated OFFSET 10 HEX) # past the header, which has the time
    string(REGEX REPLACE "(..)" "0x\\1," deflated "${deflated}")
    file(WRITE ${spirv} "static const uint8_t deflated_${name}[] = {${deflated}};\nenum { bytes_${name} = ${bytes} };\n")
  endif()
  string(APPEND out "#include \"${spirv}\"\n")
  string(APPEND list "  [GPU_K_${id}] = {deflated_${name}, sizeof deflated_${name}, bytes_${name}},\n")
endforeach()
file(WRITE ${OUT} "${out}const gpu_shader gpu_spirv[GPU_KERNELS] = {\n${list}};\n")
