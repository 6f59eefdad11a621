#!/usr/bin/env bash
# intel_opencl.sh COMMAND...: runs it where Intel's OpenCL runtime for processors is the only driver.
# ACCEL_INTEL_OPENCL: a prefix with its libraries (scripts/test makes one from PyPI).  Exit code 77:
# it is not set.  Where it is, a command that skips for want of a device fails.
driver=${ACCEL_INTEL_OPENCL:+$ACCEL_INTEL_OPENCL/lib/libintelocl.so}
[ -n "$driver" ] || { echo "skip: ACCEL_INTEL_OPENCL is not set"; exit 77; }
[ -f "$driver" ] || { echo "there is no $driver"; exit 1; }
vendors=$(mktemp -d)
trap 'rm -rf "$vendors"' EXIT
echo "$driver" >"$vendors/intel.icd"
OCL_ICD_VENDORS=$vendors "$@"
code=$?
[ $code = 77 ] && code=1
exit $code
