#!/bin/sh
# configure.sh SOURCE CC CXX: what CMake makes of libraries in a place of their own, of its options and of another machine, and what CPack says of
# another generator than Debian's. Nothing is built.
set -eu
source=$1 cc=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "configure: $*"
  exit 1
}
# configure ARGUMENT...: always the same folder, which keeps its cache.
configure() { cmake -G Ninja -S "$source" -B "$work/build" "$@" >"$work/log" 2>&1; }
cached() { sed -n "s/^$1:[A-Z]*=//p" "$work/build/CMakeCache.txt"; }

# A header that CMAKE_PREFIX_PATH leads to is compiled with, and an archive is of the place of its .pc file, not the system's.
mkdir -p "$work/xxhash/include" "$work/lib/pkgconfig"
touch "$work/xxhash/include/xxhash.h"
for library in zstd edit; do
  touch "$work/lib/lib$library.a"
  # shellcheck disable=SC2016 # for pkg-config
  printf 'libdir=%s\nName: a\nDescription: a\nVersion: 1\nLibs: -L${libdir} -l%s\n' "$work/lib" $library >"$work/lib/pkgconfig/lib$library.pc"
done
PKG_CONFIG_PATH=$work/lib/pkgconfig configure -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DKVRT_TESTS=OFF -DKVRT_SAMPLES=OFF -DKVRT_STATIC_DEPS=ON \
  -DKVRT_CUDA=FALSE -DCMAKE_PREFIX_PATH="$work/xxhash" || fail "$(cat "$work/log")"
ninja -C "$work/build" -t commands CMakeFiles/kvrt_base.dir/runtime/base/hash.cc.o | grep -qF -- "-isystem $work/xxhash/include " || fail "hash.cc is compiled without the xxHash that was found"
for name in ZSTD edit; do
  found=$(cached KVRT_${name}_STATIC)
  case $found in "$work"/lib/*) ;; *) fail "the archive of $name is $found, and its .pc file is in $work/lib" ;; esac
done
[ "$(cached KVRT_SODIUM_STATIC)" != "" ] || fail "no archive of libsodium"

# CMake's words for OFF and ON, and what is neither.
grep libkvrt_cuda "$work/log" && fail "-DKVRT_CUDA=FALSE looks for a compiler of CUDA"
CUDACXX=/nowhere/nvcc configure -DKVRT_CUDA=1 && fail "-DKVRT_CUDA=1 without a compiler of CUDA: exit 0"
grep -q 'KVRT_CUDA is ON and no CUDA compiler was found' "$work/log" || fail "-DKVRT_CUDA=1: $(cat "$work/log")"
configure -DKVRT_CUDA=cpu && fail "-DKVRT_CUDA=cpu: exit 0"
grep -q 'KVRT_CUDA: expected AUTO, ON or OFF, found "cpu"' "$work/log" || fail "-DKVRT_CUDA=cpu: $(cat "$work/log")"

# A later version in the same folder is that of its packages, which are of what is built.
echo 'set(PROJECT_VERSION 9.8.7)' >"$work/later.cmake"
configure -DKVRT_CUDA=OFF -DKVRT_TOOLS=OFF -DCMAKE_PROJECT_kvrt_INCLUDE="$work/later.cmake" || fail "$(cat "$work/log")"
packed() { sed -n "s/^set($1 \"\(.*\)\")\$/\1/p" "$work/build/CPackConfig.cmake"; }
[ "$(packed CPACK_DEBIAN_PACKAGE_VERSION)" = 9.8.7 ] || fail "packages of version $(packed CPACK_DEBIAN_PACKAGE_VERSION), and the project has 9.8.7"
[ "$(packed CPACK_COMPONENTS_ALL)" = "kvrt_Runtime;kvrt_Development" ] || fail "without the program there are packages of $(packed CPACK_COMPONENTS_ALL)"
for config in CPackConfig CPackSourceConfig; do
  cpack -G TGZ --config "$work/build/$config.cmake" -B "$work/dist" >"$work/log" 2>&1 && fail "cpack -G TGZ of $config: exit 0"
  grep -q 'expected the generator DEB, found TGZ' "$work/log" || fail "cpack -G TGZ of $config: $(cat "$work/log")"
  find "$work" -name '*.tar.gz' | grep . && fail "cpack -G TGZ of $config leaves an archive"
done

echo 'set(CMAKE_SYSTEM_PROCESSOR aarch64)' >"$work/other.cmake"
configure -DCMAKE_PROJECT_kvrt_INCLUDE="$work/other.cmake" && fail "on aarch64: exit 0"
grep -q 'expected Linux on x86_64, found Linux on aarch64' "$work/log" || fail "on aarch64: $(cat "$work/log")"
echo "configure: ok"
