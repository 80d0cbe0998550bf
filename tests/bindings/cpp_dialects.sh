#!/bin/sh
# cpp_dialects.sh COMPILER SOURCE: kvrt.hpp compiles without a warning as C++17 and C++20, with and without exceptions and RTTI.
set -eu
compiler=$1 source=$2 bad=0
for standard in 17 20; do
  for without in "" "-fno-exceptions -fno-rtti"; do
    # shellcheck disable=SC2086 # words
    "$compiler" -std=c++$standard $without -fsyntax-only -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wpedantic -Werror \
      -I"$source/include" -I"$source/bindings/cpp" "$source/tests/bindings/cpp_every_call.cc" || {
      echo "cpp_dialects: C++$standard $without"
      bad=1
    }
  done
done
exit $bad
