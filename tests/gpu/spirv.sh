#!/usr/bin/env bash
# spirv.sh FOLDER: every module in it is valid SPIR-V for Vulkan 1.1, those that no driver here can run among them.  Exit code 77: spirv-val
# (Debian: spirv-tools) is not there.
command -v spirv-val >/dev/null || { echo "skip: spirv-val is not there"; exit 77; }
n=0
for module in "$1"/*.spv; do
  spirv-val --target-env vulkan1.1 "$module" || { echo "$module"; exit 1; }
  n=$((n + 1))
done
echo "$n modules"
[ -e "$1/linear_cooperative_f16.spv" ]
