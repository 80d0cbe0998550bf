#!/bin/sh
# glibc.sh FILE...: each file asks for no library but those that a glibc of 2.34 and a compiler's libgcc_s bring, for no symbol of a newer
# glibc, and for none of libstdc++'s.
set -eu
newest=2.34
status=0
for file in "$@"; do
  needed=$(readelf -dW "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  [ -n "$needed" ] || { echo "glibc: $file needs nothing: it is no file to look at"; exit 1; }
  for library in $needed; do
    case $library in
      libc.so.6 | libm.so.6 | libgcc_s.so.1 | ld-linux-x86-64.so.2 | libkvrt.so.0) ;;
      *) echo "glibc: $file needs $library" && status=1 ;;
    esac
  done
  for version in $(readelf -VW "$file" | grep -oE '(GLIBC|GLIBCXX|CXXABI)_[0-9.]+' | sort -u); do
    case $version in
      GLIBC_*)
        [ "$(printf '%s\n' "${version#GLIBC_}" $newest | sort -V | tail -1)" = $newest ] || {
          echo "glibc: $file needs $version, and $newest is promised: $(nm -D --undefined-only "$file" | grep -F "@$version" | tr -s ' \n' ' ')"
          status=1
        }
        ;;
      *) echo "glibc: $file needs $version" && status=1 ;;
    esac
  done
done
[ $status = 0 ] && echo "glibc: ok, $# files need glibc $newest"
exit $status
