#!/bin/sh
# build.sh OUT: compiles the binding with mcs into OUT/netstandard2.0 and OUT/netstandard2.1, each Kvrt.dll with Kvrt.xml. They differ in
# AsyncInterfaces.cs: netstandard2.0 has no IAsyncEnumerable.
set -eu
source=$(cd "$(dirname "$0")" && pwd)/src out=$1
for target in netstandard2.0 netstandard2.1; do
  mkdir -p "$out/$target"
  set -- "$source"/*.cs
  if [ $target = netstandard2.0 ]; then
    set --
    for file in "$source"/*.cs; do
      [ "${file##*/}" = AsyncInterfaces.cs ] || set -- "$@" "$file"
    done
  fi
  "${MCS:-mcs}" -langversion:7.2 -target:library -unsafe -optimize -warn:4 -warnaserror -doc:"$out/$target/Kvrt.xml" -out:"$out/$target/Kvrt.dll" "$@"
done
