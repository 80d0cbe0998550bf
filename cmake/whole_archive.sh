#!/bin/sh
# whole_archive.sh ARCHIVE MAP LD NM OBJCOPY AR LIBRARY...: makes of libkvrt.a one object that holds what it uses of the other archives. It has the
# symbols of kvrt.map alone, so that a program may carry other versions of these libraries.
set -eu
archive=$1 map=$2 ld=$3 nm=$4 objcopy=$5 ar=$6
shift 6
work=$(mktemp -d "$archive.XXXXXX")
trap 'rm -rf "$work"' EXIT
sed -n 's/^ *\(kvrt_[a-z0-9_]*\);.*/\1/p' "$map" >"$work/public"
# shellcheck disable=SC2046 # words
"$ld" -r -o "$work/all.o" --force-group-allocation --gc-sections $(sed 's/^/-u /' "$work/public") \
  --whole-archive "$archive" --no-whole-archive --start-group "$@" --end-group
# objcopy leaves unique symbols alone, but not weak ones.
"$nm" "$work/all.o" | awk '$2 == "u" {print $3}' >"$work/unique"
"$objcopy" --weaken-symbols="$work/unique" "$work/all.o"
"$objcopy" --strip-unneeded --keep-global-symbols="$work/public" "$work/all.o" "$work/kvrt.o"
"$ar" rcD "$work/libkvrt.a" "$work/kvrt.o"
mv "$work/libkvrt.a" "$archive"
