#!/bin/sh
# archive.sh ARCHIVE SOURCE CC: libkvrt.a that holds its dependencies shows kvrt.h's symbols alone, works in a program in C that
# is linked with nothing of C++ and is no newer than glibc 2.34, and leaves a host its own SQLite.
set -eu
archive=$1 source=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "archive: $*"
  exit 1
}
nm -g --defined-only "$archive" 2>/dev/null | awk 'NF == 3 {print $3}' | LC_ALL=C sort >"$work/shown"
sed -n 's/^ *\(kvrt_[a-z0-9_]*\);.*/\1/p' "$source/runtime/api/kvrt.map" | LC_ALL=C sort >"$work/public"
cmp -s "$work/shown" "$work/public" || fail "other symbols than kvrt.map: $(LC_ALL=C comm -3 "$work/shown" "$work/public" | head -5 | tr '\n' ' ')"

awk '$0 == "```c" {on = 1; next} /^```$/ {if (on) exit} on' "$source/include/README.md" >"$work/example.c"
cp "$source/tests/golden/tiny/llama_gqa_f32.gguf" "$work/model.gguf"
# A host with an SQLite of its own, of which nothing works.
echo 'int calls; int sqlite3_step(void) { return ++calls; } int sqlite3_open_v2(void) { return ++calls; }' >"$work/host.c"
"$cc" -std=c99 -I"$source/include" "$work/example.c" "$work/host.c" "$archive" -o "$work/example" -lm -ldl -pthread 2>"$work/log" ||
  fail "does not link: $(head -5 "$work/log")"
sh "$(dirname "$0")/glibc.sh" "$work/example" || fail "a program with it needs more"
for run in 1 2; do (cd "$work" && ./example >"out$run") || fail "the README's example exits $?"; done
grep -aq '^(ann goes on: [1-9]' "$work/out2" || fail "the README's example does not go on"
echo "archive: ok, $(wc -l <"$work/public") symbols"
