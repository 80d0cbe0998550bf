#!/bin/sh
# versions.sh LIBRARY INCLUDE MAP CC: a program that uses a function of the newest version node is refused when it starts by a library
# without that node, and the message names it; one that does not use it starts.
set -eu
library=$1 include=$2 map=$3 cc=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "versions: $*"
  exit 1
}
mkdir "$work/new" "$work/old"
cp "$library" "$work/new/libkvrt.so.0"
ln -s libkvrt.so.0 "$work/new/libkvrt.so"

# The older library: the map without its last node, and stubs of the functions that are left.
node=$(sed -n 's/^\(KVRT_[0-9.]*\) {.*/\1/p' "$map" | tail -1)
sed "/^$node {/,\$d" "$map" >"$work/old.map"
newest=$(sed -n "/^$node {/,\$s/^ *\(kvrt_[a-z_]*\);/\1/p" "$map" | head -1)
oldest=$(sed -n 's/^ *\(kvrt_version\);/\1/p' "$work/old.map")
{ [ -n "$newest" ] && [ -n "$oldest" ]; } || fail "kvrt.map: no function of $node, or kvrt_version is not of an older node"
grep -o 'kvrt_[a-z_]*;' "$work/old.map" | sed 's/\(.*\);/int \1(void);\nint \1(void) { return 0; }/' >"$work/old.c"
"$cc" -shared -fPIC -Wl,-soname,libkvrt.so.0 -Wl,--version-script="$work/old.map" "$work/old.c" -o "$work/old/libkvrt.so.0"

# Bound as late as can be: still it is the start that is refused.
for function in "$newest" "$oldest"; do
  cat >"$work/$function.c" <<END
#include <kvrt.h>
#include <stdio.h>
int main(int argc, char** argv) {
  (void)argv;
  puts("started");
  fflush(stdout);
  return argc > 1 && ((int (*)(void))$function)() == -1;
}
END
  "$cc" -std=c99 -w -I"$include" -Wl,-z,lazy "$work/$function.c" -o "$work/$function" -L"$work/new" -lkvrt
  [ "$(LD_LIBRARY_PATH=$work/new "$work/$function")" = started ] || fail "$function: does not start with the library"
done
[ "$(LD_LIBRARY_PATH=$work/old "$work/$oldest")" = started ] || fail "$oldest: does not start with an older library"
if LD_LIBRARY_PATH=$work/old "$work/$newest" >"$work/out" 2>"$work/err"; then fail "$newest: starts with an older library"; fi
[ -s "$work/out" ] && fail "$newest: refused only after the start"
grep -q "version .$node. not found" "$work/err" || fail "$newest: $(cat "$work/err")"
cat "$work/err"

echo "versions: ok"
