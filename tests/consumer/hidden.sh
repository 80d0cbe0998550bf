#!/bin/sh
# hidden.sh LIBRARY ARCHIVE...: a library that holds these archives neither exports nor imports a symbol of theirs, so that no call inside can
# be taken over, and needs no library of theirs.
set -eu
library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for archive in "$@"; do
  nm --defined-only --extern-only "$archive" 2>/dev/null | awk 'NF == 3 {print $3}'
done | LC_ALL=C sort -u >"$work/theirs"
[ "$(wc -l <"$work/theirs")" -gt 500 ] || { echo "hidden: no symbols in $*"; exit 1; }
readelf --dyn-syms -W "$library" | awk '$1 ~ /^[0-9]+:$/ {sub("@.*", "", $8); print $8}' | LC_ALL=C sort -u >"$work/dynamic"
grep -qx kvrt_version "$work/dynamic" || { echo "hidden: $library has no kvrt_version"; exit 1; }
seen=$(LC_ALL=C comm -12 "$work/theirs" "$work/dynamic" | tr '\n' ' ')
[ -z "$seen" ] || { echo "hidden: $library exports or imports $seen"; exit 1; }
needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -E '^lib(sqlite3|zstd|pcre2|sodium)' || true)
[ -z "$needed" ] || { echo "hidden: $library needs $needed"; exit 1; }
echo "hidden: ok, $(wc -l <"$work/theirs") symbols of $# archives"
