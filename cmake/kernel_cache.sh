#!/usr/bin/env bash
# kernel_cache.sh COMPILER ARGUMENT... -o OUTPUT INPUT: what ccache is to C, for hipcc, nvcc and glslc, which it does not know.
# Gives what the same compiler made of the same text with the same arguments, from ${XDG_CACHE_HOME:-~/.cache}/accel/kernels; compiles what is not there.
# INPUT holds all of the text but the compiler's own headers.  A launcher for ACCEL_KERNEL_LAUNCHER; scripts/test takes it.
set -euo pipefail
input=${*: -1} output=${*: -2:1}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/accel/kernels
key=$({ stat -L -c '%n %s %Y' "$1" && printf '%s\n' "${@:2:$#-3}" && cat "$input"; } | sha256sum)
made=$folder/${key%% *}
if [ -f "$made" ]; then
  cp "$made" "$output"
  touch -c "$made" # the least recently used ones go
  exit
fi
"$@"
mkdir -p "$folder"
cp "$output" "$made.$$"
mv "$made.$$" "$made"
find "$folder" -type f -mtime +30 -delete
