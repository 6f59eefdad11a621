#!/usr/bin/env bash
# validated.sh COMMAND...: runs it under Vulkan's validation layer with its checks of synchronisation; fails when the command does or
# the layer complains.  Exit code 77: the layer is not installed.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/vk_layer_settings.txt" <<END
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn
khronos_validation.log_filename = $work/log
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
END
VK_LOADER_DEBUG=layer VK_LAYER_SETTINGS_PATH=$work/vk_layer_settings.txt VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation "$@" 2>"$work/loader"
code=$?
grep -v '^\(DEBUG\|INFO\|LAYER\|WARNING | LAYER\)' "$work/loader" >&2
grep -q 'Inserted device layer "VK_LAYER_KHRONOS_validation"' "$work/loader" || { echo "skip: the validation layer is not there"; [ $code = 0 ] && exit 77; exit $code; }
[ -s "$work/log" ] && { head -c 4000 "$work/log"; exit 1; }
exit $code
