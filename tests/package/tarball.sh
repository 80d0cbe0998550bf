#!/bin/sh
# tarball.sh DIST SOURCE CC: the tarball in DIST works from any folder: its program, and programs in C built with it by pkg-config and by find_package, shared
# and static, before and after it is moved; it names no folder of its build and needs what glibc.sh permits.
set -eu
dist=$1 source=$2 cc=$3 here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "tarball: $*"
  exit 1
}
set -- "$dist"/kvrt-*-linux-*.tar.gz
{ [ $# = 1 ] && [ -e "$1" ]; } || fail "expected one tarball in $dist, found $*"
tarball=$1
tar -C "$work" -xzf "$tarball"
set -- "$work"/kvrt-*
[ $# = 1 ] || fail "expected one folder in $tarball, found $*"
mv "$1" "$work/first"
for file in bin/kvrt include/kvrt.h include/kvrt.hpp lib/libkvrt.so.0 lib/libkvrt.so lib/libkvrt.a lib/pkgconfig/kvrt.pc lib/pkgconfig/kvrt-static.pc \
  lib/cmake/kvrt/kvrtConfig.cmake share/doc/kvrt/LICENSE share/doc/kvrt/THIRD_PARTY_NOTICES share/doc/kvrt/kvrt.spdx.json share/man/man1/kvrt.1; do
  [ -s "$work/first/$file" ] || fail "no $file"
done
tar -tvzf "$tarball" --numeric-owner | awk '$2 != "0/0" || $1 ~ /^.....w|^........w|[sStT]/' | grep . && fail "files with another owner, or that others can write"
sh "$here/glibc.sh" "$work/first/bin/kvrt" "$work/first"/lib/*.so* || fail "needs more than is promised"
sh "$here/archive.sh" "$work/first/lib/libkvrt.a" "$source" "$cc" || fail "libkvrt.a"
grep -rlF "$(cd "$source" && pwd)" "$work/first" && fail "a file names the folder that it was built in"

awk '$0 == "```c" {on = 1; next} /^```$/ {if (on) exit} on' "$source/include/README.md" >"$work/example.c"
cp "$source/tests/golden/tiny/llama_gqa_f32.gguf" "$work/model.gguf"
cat >"$work/CMakeLists.txt" <<'END_OF_CMAKE'
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C)
find_package(kvrt 0.1 REQUIRED CONFIG)
add_executable(shared example.c)
target_link_libraries(shared PRIVATE kvrt::kvrt)
add_executable(static example.c)
target_link_libraries(static PRIVATE kvrt::static)
END_OF_CMAKE
goes_on() {
  rm -rf "$work/memory"
  (cd "$work" && "$@" >out && "$@" >out) || fail "$* exits $?"
  grep -aq '^(ann goes on: [1-9]' "$work/out" || fail "$* does not go on"
}
is_static() { ! readelf -d "$1" | grep -q 'NEEDED.*libkvrt' || fail "$1 asks for libkvrt.so"; }
unset LD_LIBRARY_PATH PKG_CONFIG_PATH 2>/dev/null || true
export PKG_CONFIG_LIBDIR=/nowhere # no other package is asked for: not zstd's, not SQLite's
for place in first "second place/kvrt"; do
  mkdir -p "$(dirname "$work/$place")"
  [ "$place" = first ] || mv "$work/first" "$work/$place"
  root=$work/$place
  (cd "$work" && "$root/bin/kvrt" run -m model.gguf -p lighthouse -n 4 >/dev/null) || fail "$place: the program exits $?"
  cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$root" -DCMAKE_C_COMPILER="$cc" >"$work/log" 2>&1 || fail "$place: find_package: $(cat "$work/log")"
  cmake --build "$work/build" >"$work/log" 2>&1 || fail "$place: find_package: does not build: $(cat "$work/log")"
  goes_on "$work/build/shared"
  goes_on "$work/build/static"
  is_static "$work/build/static"
  rm -rf "$work/build"
  for flags in "" --define-prefix; do
    for name in kvrt kvrt-static; do
      eval "set -- $(PKG_CONFIG_LIBDIR="$root/lib/pkgconfig" pkg-config $flags --cflags --libs $name)"
      "$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$work/example.c" -o "$work/$name" "$@" || fail "$place: pkg-config $flags $name: does not build"
      goes_on env LD_LIBRARY_PATH="$root/lib" "$work/$name"
    done
    is_static "$work/kvrt-static"
  done
done
echo "tarball: ok"
