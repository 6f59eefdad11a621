# WebAssembly (emcmake cmake --preset wasm, scripts/wasm): no library of Debian is there for it, so those that the core
# links are compiled from Debian's source packages, which scripts/wasm unpacks into ACCEL_WASM_SOURCES, a folder each.
set(ACCEL_WASM_SOURCES "" CACHE PATH "folder with the unpacked sources of cjson, zlib, libpng and libjpeg-turbo")
option(ACCEL_WASM_THREADS "workers on shared memory, for pages that are cross-origin isolated" OFF)

# Tools of the build run in node, on the machine's own files; emscripten 3.1's loader takes node's fetch for a browser's.
set(CMAKE_CROSSCOMPILING_EMULATOR node --no-experimental-fetch)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
add_compile_options(-msimd128 $<$<CONFIG:Release>:-O3>)
if(ACCEL_WASM_THREADS)
  add_compile_options(-pthread)
  add_link_options(-pthread)
endif()

# accel_wasm_library(NAME FOLDER SOURCES...): FOLDER is a pattern below ACCEL_WASM_SOURCES, sources are patterns below FOLDER.
function(accel_wasm_library name folder)
  file(GLOB root LIST_DIRECTORIES true ${ACCEL_WASM_SOURCES}/${folder})
  if(NOT root)
    message(FATAL_ERROR "no ${folder} in ACCEL_WASM_SOURCES (${ACCEL_WASM_SOURCES}): scripts/wasm fetches it")
  endif()
  list(TRANSFORM ARGN PREPEND ${root}/ OUTPUT_VARIABLE patterns)
  file(GLOB sources ${patterns})
  list(FILTER sources EXCLUDE REGEX "/(example|pngtest|cJSON_Utils|test)\\.c$")
  add_library(accel_wasm_${name} STATIC ${sources})
  target_include_directories(accel_wasm_${name} SYSTEM PUBLIC ${root} ${PROJECT_BINARY_DIR}/wasm/${name})
  target_compile_options(accel_wasm_${name} PRIVATE -O2 -w)
  set(root ${root} PARENT_SCOPE)
endfunction()

accel_wasm_library(cjson cjson-* cJSON.c)
configure_file(${root}/cJSON.h ${PROJECT_BINARY_DIR}/wasm/cjson/cjson/cJSON.h COPYONLY) # <cjson/cJSON.h>
accel_wasm_library(zlib zlib-* *.c)
configure_file(${root}/zconf.h.in ${PROJECT_BINARY_DIR}/wasm/zlib/zconf.h COPYONLY)
accel_wasm_library(png libpng1.6-* png*.c)
configure_file(${root}/scripts/pnglibconf.h.prebuilt ${PROJECT_BINARY_DIR}/wasm/png/pnglibconf.h COPYONLY)
target_link_libraries(accel_wasm_png PUBLIC accel_wasm_zlib)

# Decoding alone, as jconfig.h of Debian's library has it; lines that CMake would fill are filled here.
set(JPEG_LIB_VERSION 62)
set(VERSION 2.1.5)
set(LIBJPEG_TURBO_VERSION_NUMBER 2001005)
set(D_ARITH_CODING_SUPPORTED 1)
set(MEM_SRCDST_SUPPORTED 1)
set(BITS_IN_JSAMPLE 8)
set(BUILD wasm)
set(INLINE "inline __attribute__((always_inline))")
set(THREAD_LOCAL _Thread_local)
set(SIZE_T 4)
set(HAVE_BUILTIN_CTZL 1)
accel_wasm_library(jpeg libjpeg-turbo-* jcomapi.c jdapimin.c jdapistd.c jdarith.c jaricom.c jdatasrc.c jdcoefct.c jdcolor.c
  jddctmgr.c jdhuff.c jdicc.c jdinput.c jdmainct.c jdmarker.c jdmaster.c jdmerge.c jdphuff.c jdpostct.c jdsample.c jerror.c
  jidctflt.c jidctfst.c jidctint.c jidctred.c jquant1.c jquant2.c jutils.c jmemmgr.c jmemnobs.c jsimd_none.c)
configure_file(${root}/jconfig.h.in ${PROJECT_BINARY_DIR}/wasm/jpeg/jconfig.h)
configure_file(${root}/jversion.h.in ${PROJECT_BINARY_DIR}/wasm/jpeg/jversion.h)
configure_file(${root}/jconfigint.h.in ${PROJECT_BINARY_DIR}/wasm/jpeg/jconfigint.h)

# The names that the rest of the build links.
add_library(PkgConfig::ACCEL_CJSON ALIAS accel_wasm_cjson)
add_library(PkgConfig::ACCEL_ZLIB ALIAS accel_wasm_zlib)
add_library(accel_wasm_pictures INTERFACE)
target_link_libraries(accel_wasm_pictures INTERFACE accel_wasm_png accel_wasm_jpeg accel_wasm_zlib)
add_library(PkgConfig::ACCEL_PICTURES ALIAS accel_wasm_pictures)
add_library(PkgConfig::ACCEL_SQLITE INTERFACE IMPORTED GLOBAL) # nothing: the folder rag is left out
