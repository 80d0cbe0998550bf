#!/bin/sh
# symbols.sh HEADER LIST LIBRARY MAP: the library exports exactly the functions of the header, which are exactly the frozen list, each in the
# version node of the map; all it imports is bound when it is loaded; its soname and the libraries that it needs are as promised.
set -eu
header=$1 list=$2 library=$3 map=$4
bad=0
say() { echo "symbols: $*"; bad=1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tr '\n' ' ' <"$header" | grep -oE 'KVRT_API [a-z0-9_ *]*kvrt_[a-z_]+\(' | grep -oE 'kvrt_[a-z_]+\($' | tr -d '(' | LC_ALL=C sort -u >"$work/header"
nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | LC_ALL=C sort -u >"$work/library"
awk '$2 == "{" {node = $1} /^ +kvrt_/ {sub(";", ""); print $1 "@@" node}' "$map" | LC_ALL=C sort >"$work/versioned"
sed 's/@@.*//' "$work/versioned" | LC_ALL=C sort | diff "$list" - || say "kvrt.map differs from the frozen list"
[ -s "$list" ] || say "empty list"
diff "$list" "$work/header" || say "kvrt.h differs from the frozen list (adding a function: append it to the list; removing one: never)"
diff "$work/versioned" "$work/library" || say "the library's exports differ from kvrt.map"

readelf -d "$library" >"$work/dynamic"
grep -q 'SONAME.*\[libkvrt\.so\.0\]' "$work/dynamic" || say "soname is not libkvrt.so.0: $(grep SONAME "$work/dynamic" || echo none)"
grep -q 'FLAGS.*BIND_NOW' "$work/dynamic" || say "is not bound when it is loaded (-z now)"
readelf -lW "$library" | grep -q GNU_RELRO || say "has no GNU_RELRO segment"
sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' "$work/dynamic" >"$work/needed"
while read -r needed; do
  case $needed in
    libc.so.6 | libm.so.6 | libstdc++.so.6 | libgcc_s.so.1 | libpthread.so.0 | libdl.so.2 | ld-linux*.so.*) ;;
    libsqlite3.so.0 | libzstd.so.1 | libpcre2-8.so.0 | libsodium.so.23) ;;
    libasan.so.* | libubsan.so.* | libtsan.so.*) ;;  # sanitizer builds
    libcuda* | libcublas* | libnv* | libkvrt_cuda*) say "needs $needed: without a driver it would not load" ;;
    *) say "needs $needed" ;;
  esac
done <"$work/needed"
# Nothing that prints, exits or handles signals on its own.
nm -D --undefined-only "$library" | grep -E ' (exit|_exit|abort|signal|sigaction|printf|puts|perror|longjmp)(@|$)' >"$work/guest" || true
[ "${KVRT_RELEASE:-0}" = 1 ] && [ -s "$work/guest" ] && say "imports: $(tr '\n' ' ' <"$work/guest")"
exit $bad
