# The module of browsers: everything in one .wasm with emscripten's loader beside it, accel-wasm.js, or accel-wasm-threads.js
# with shared memory.  scripts/wasm puts both and src/browser's own files into one folder.
set(accel_wasm_name accel-wasm)
if(ACCEL_WASM_THREADS)
  set(accel_wasm_name accel-wasm-threads)
endif()
file(GLOB browser_sources CONFIGURE_DEPENDS src/browser/*.c)
list(TRANSFORM ACCEL_BUILTIN_PLUGINS PREPEND accel_plugin_ OUTPUT_VARIABLE builtin_targets)
add_executable(accel_wasm ${browser_sources} ${accel_layer_objects})
set_target_properties(accel_wasm PROPERTIES OUTPUT_NAME ${accel_wasm_name})
target_link_libraries(accel_wasm PRIVATE accel_options ${builtin_targets} PkgConfig::ACCEL_CJSON PkgConfig::ACCEL_PICTURES m)
# -O1: the code is clang's, and binaryen's passes over it, which make it a sixth smaller, take minutes.
# WORKERFS reads a page's files part by part, NODEFS those of the machine for tests in node.
target_link_options(accel_wasm PRIVATE -O1 --no-entry -lworkerfs.js -lnodefs.js -sMODULARIZE -sEXPORT_NAME=accelWasm -sENVIRONMENT=web,worker,node
  -sFORCE_FILESYSTEM -sALLOW_MEMORY_GROWTH -sINITIAL_MEMORY=64MB -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=2MB -sEXPORTED_FUNCTIONS=_malloc,_free
  -sEXPORTED_RUNTIME_METHODS=FS,WORKERFS,NODEFS,wasmMemory,UTF8ToString,stringToUTF8,lengthBytesUTF8)
if(ACCEL_WASM_THREADS)
  # Workers start with the module: while a call runs, nobody could start one.  Some more than there are processors, for files that are read ahead.
  target_link_options(accel_wasm PRIVATE -Wno-pthreads-mem-growth "-sPTHREAD_POOL_SIZE=(typeof navigator=='object'?navigator.hardwareConcurrency:4)+4")
endif()
