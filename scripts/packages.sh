# packages.sh - Debian packages, installed when they are missing.  Sourced by setup and test; CONTRIBUTING.md gives each one's reason.

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# install_packages NAME...: quick when all are there; one apt-get run otherwise.
install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] && return 0
  echo "installing: ${missing[*]}" >&2
  as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a >&2 # what an interrupted installation left
  as_root apt-get update -q >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

build_packages=(gcc libc6-dev cmake ninja-build pkg-config git ca-certificates python3 python3-pip libcjson-dev libjpeg62-turbo-dev libpng-dev zlib1g-dev libsqlite3-dev libmicrohttpd-dev libopenblas-pthread-dev libcmocka-dev opencl-c-headers libvulkan-dev glslc)
deb_packages=(dpkg-dev debhelper dh-python lintian mmdebstrap libhsa-runtime-dev libjpeg-dev libmpich-dev libopenmpi-dev)
