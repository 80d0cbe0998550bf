#!/bin/sh
# folders.sh BUILD SOURCE CC: wherever a packager puts the folders of an installation, absolute ones apart from the prefix too (Nix, Guix), its .pc
# files and its CMake package serve a program in C, and its own program looks for its library there. It installs what BUILD has, by configurations
# of its own.
set -eu
build=$1 source=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "folders: $*"
  exit 1
}
unset LD_LIBRARY_PATH PKG_CONFIG_LIBDIR 2>/dev/null || true
awk '$0 == "```c" {on = 1; next} /^```$/ {if (on) exit} on' "$source/include/README.md" >"$work/example.c"
cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C)
find_package(kvrt REQUIRED CONFIG)
add_executable(shared example.c)
target_link_libraries(shared PRIVATE kvrt::kvrt)
add_executable(static example.c)
target_link_libraries(static PRIVATE kvrt::static)
END

# try WHAT LIBDIR INCLUDEDIR BINDIR DATAROOTDIR: as CMake is given them; relative ones are below the prefix.
try() {
  what=$1 prefix=$work/prefix
  rm -rf "$work/build" "$prefix" "$work/apart" "$work/consumer"
  cmake -G Ninja -S "$source" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Release -DKVRT_TESTS=OFF -DKVRT_SAMPLES=OFF -DKVRT_CUDA=OFF \
    -DKVRT_STATIC=ON -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR="$2" -DCMAKE_INSTALL_INCLUDEDIR="$3" -DCMAKE_INSTALL_BINDIR="$4" \
    -DCMAKE_INSTALL_DATAROOTDIR="$5" >"$work/log" 2>&1 || fail "$what: configure: $(cat "$work/log")"
  rm -rf "$work/build/lib" "$work/build/bin"
  cp -a "$build/lib" "$work/build"
  for component in kvrt_Runtime kvrt_Development; do
    cmake --install "$work/build" --component $component >"$work/log" 2>&1 || fail "$what: install: $(cat "$work/log")"
  done
  for place in "$2" "$3" "$5"; do
    case $place in /*) ;; *) place=$prefix/$place ;; esac
    [ -d "$place" ] || fail "$what: nothing in $place"
  done
  case $2 in /*) libdir=$2 ;; *) libdir=$prefix/$2 ;; esac
  case $4 in /*) bindir=$4 ;; *) bindir=$prefix/$4 ;; esac
  # The program is not built here: where will it look?
  rpath=$(sed -n 's/^ *NEW_RPATH "\(.*\)")$/\1/p' "$work/build/cmake_install.cmake" | sed "s|^\\\\\$ORIGIN|$bindir|")
  mkdir -p "$bindir"
  [ "$(cd "$rpath" && pwd)" = "$libdir" ] || fail "$what: the program in $bindir looks for libraries in $rpath, expected $libdir"
  for name in kvrt kvrt-static; do
    # shellcheck disable=SC2046 # words
    "$cc" -std=c99 -Werror -Wl,--no-undefined "$work/example.c" -o "$work/$name" $(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs $name) \
      >"$work/log" 2>&1 || fail "$what: pkg-config $name: $(cat "$work/log")"
  done
  LD_LIBRARY_PATH=$libdir ldd "$work/kvrt" | grep -qF "=> $libdir/libkvrt.so.0 " || fail "$what: pkg-config kvrt links another library"
  [ -f "$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --variable=abi kvrt)" ] || fail "$what: pkg-config --variable=abi kvrt names no file"
  cmake -S "$work" -B "$work/consumer" -DCMAKE_C_COMPILER="$cc" -Dkvrt_DIR="$libdir/cmake/kvrt" >"$work/log" 2>&1 || fail "$what: find_package: $(cat "$work/log")"
  cmake --build "$work/consumer" >"$work/log" 2>&1 || fail "$what: find_package: does not build: $(cat "$work/log")"
  ldd "$work/consumer/shared" | grep -qF "=> $libdir/libkvrt.so.0 " || fail "$what: find_package links another library"
}
apart=$work/apart
try "all absolute" "$apart/lib64" "$apart/include" "$apart/bin" "$apart/share"
try "an absolute folder of headers" lib "$apart/include" bin share
try "deep" lib/x86_64-linux-gnu include/kvrt libexec/kvrt/bin share
echo "folders: ok"
