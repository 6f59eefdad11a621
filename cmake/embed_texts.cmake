# Text files of a folder -> one C file with a table of them, so that an installed tool needs no files of its own.
#
#   cmake -DOUTPUT=x.c -DFOLDER=templates -DPATTERN=*.in -DINCLUDE=cli/cli_templates.h -DTYPE=cli_template -DTABLE=cli_templates -P cmake/embed_texts.cmake
#
# defines `const TYPE TABLE[]` of {name without .in, text} and `const size_t TYPE_count`.
file(GLOB files ${FOLDER}/${PATTERN})
set(text "/* Made of ${FOLDER} by cmake/embed_texts.cmake. */\n#include \"${INCLUDE}\"\n\n")
set(rows "")
set(n 0)
foreach(path IN LISTS files)
  get_filename_component(name ${path} NAME)
  string(REGEX REPLACE "\\.in$" "" name ${name})
  file(READ ${path} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  string(APPEND text "static const char text_${n}[] = {\n${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", text_${n}},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUTPUT} "${text}\nconst ${TYPE} ${TABLE}[] = {\n${rows}};\nconst size_t ${TYPE}_count = ${n};\n")
