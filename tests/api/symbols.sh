#!/bin/sh
# symbols.sh HEADER LIST LIBRARY: the library exports exactly the functions of the header, which are exactly the frozen list, all in one
# version node; its soname and what it needs are as promised.
set -eu
header=$1 list=$2 library=$3
bad=0
say() { echo "symbols: $*"; bad=1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tr '\n' ' ' <"$header" | grep -oE 'KVRT_API [a-z0-9_ *]*kvrt_[a-z_]+\(' | grep -oE 'kvrt_[a-z_]+\($' | tr -d '(' | LC_ALL=C sort -u >"$work/header"
nm -D --defined-only "$library" | awk '$3 != "KVRT_0.1" && $3 != "KVRT_0.1@@KVRT_0.1" {print $3}' | LC_ALL=C sort -u >"$work/library"
sed 's/$/@@KVRT_0.1/' "$list" >"$work/versioned"
[ -s "$list" ] || say "empty list"
diff "$list" "$work/header" || say "kvrt.h differs from the frozen list (adding a function: append it to the list; removing one: never)"
diff "$work/versioned" "$work/library" || say "the library's exports differ from the frozen list"

readelf -d "$library" >"$work/dynamic"
grep -q 'SONAME.*\[libkvrt\.so\.0\]' "$work/dynamic" || say "soname is not libkvrt.so.0: $(grep SONAME "$work/dynamic" || echo none)"
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
