#!/bin/sh
# run.sh BUILD SOURCE CC CXX: the installed tree serves C and C++ programs by find_package and by pkg-config, also after it was moved.
set -eu
build=$1 source=$2 cc=$3 cxx=$4
model=$source/tests/golden/tiny/llama_gqa_f32.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "consumer: $*"
  exit 1
}

for component in kvrt_Runtime kvrt_Development kvrt_Tools; do
  cmake --install "$build" --prefix "$work/made" --component $component >"$work/log" 2>&1 || fail "install: $(cat "$work/log")"
done
mv "$work/made" "$work/prefix"
library=$(dirname "$(find "$work/prefix" -name libkvrt.so.0)")
[ -e "$library/libkvrt.so" ] || fail "no libkvrt.so beside libkvrt.so.0"
grep -rlF "$build" "$work/prefix" --include='*.cmake' --include='*.pc' --include='*.h' && fail "an installed file names the build folder"
export LD_LIBRARY_PATH="$library"
[ -f "$work/prefix/share/kvrt/kvrt.abi.json" ] || fail "no share/kvrt/kvrt.abi.json"

# find_package and the soname promise the same: what asks for an older one of the same major number gets this, of another one nothing does.
major=$(readelf -d "$library/libkvrt.so.0" | sed -n 's/.*SONAME.*\[libkvrt\.so\.\([0-9]*\)\]/\1/p')
cat >"$work/ask.cmake" <<'END'
set(PACKAGE_FIND_VERSION ${ask}.0)
set(PACKAGE_FIND_VERSION_MAJOR ${ask})
set(PACKAGE_FIND_VERSION_MINOR 0)
set(CMAKE_SIZEOF_VOID_P 8)
include(${file})
if(PACKAGE_VERSION_COMPATIBLE)
  message(FATAL_ERROR "compatible")
endif()
END
accepts() { ! cmake -Dask="$1" -Dfile="$(dirname "$(find "$work/prefix" -name kvrtConfig.cmake)")/kvrtConfigVersion.cmake" -P "$work/ask.cmake" 2>/dev/null; }
accepts "$major" || fail "the soname is libkvrt.so.$major, and find_package(kvrt $major.0) does not take it"
accepts $((major + 1)) && fail "find_package(kvrt $((major + 1)).0) takes libkvrt.so.$major"

# The first block of a language in a README, as it stands.
block() {
  awk -v fence="\`\`\`$1" '$0 == fence {on = 1; next} /^```$/ {if (on) exit} on' "$2"
}
block cpp "$source/bindings/README.md" >"$work/example.cc"
grep -q kvrt::Session "$work/example.cc" || fail "no example in bindings/README.md"
cmake -G Ninja -S "$source/tests/consumer/project" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="$cxx" -DEXAMPLE_CPP="$work/example.cc" >"$work/log" 2>&1 ||
  fail "find_package: $(cat "$work/log")"
cmake --build "$work/cmake" >"$work/log" 2>&1 || fail "find_package: does not build: $(cat "$work/log")"
"$work/cmake/consumer" "$model" || fail "the program built by find_package exits $?"

export PKG_CONFIG_LIBDIR="$library/pkgconfig" # it asks for no other package
# shellcheck disable=SC2046 # words
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$source/tests/consumer/project/main.c" -o "$work/consumer" $(pkg-config --cflags --libs kvrt) ||
  fail "pkg-config: does not build"
"$work/consumer" "$model" || fail "the program built by pkg-config exits $?"
[ -f "$(pkg-config --variable=abi kvrt)" ] || fail "pkg-config --variable=abi kvrt names no file"

block c "$source/README.md" >"$work/example.c"
grep -q kvrt_session_resume "$work/example.c" || fail "no example in README.md"
# shellcheck disable=SC2046
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$work/example.c" -o "$work/example" $(pkg-config --cflags --libs kvrt) || fail "the README's example does not build"
cp "$model" "$work/model.gguf"
(cd "$work" && ./example && ./example) || fail "the README's example exits $?"

# shellcheck disable=SC2046
"$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror "$work/example.cc" -o "$work/example_cpp" $(pkg-config --cflags --libs kvrt) ||
  fail "the C++ example does not build"
rm -rf "$work/memory"
(cd "$work" && "$work/cmake/example" && ./example_cpp >second) || fail "the C++ example exits $?"
cat "$work/second"
grep -a '^reused [1-9]' "$work/second" || fail "the C++ example did not go on"

"$work/prefix/bin/kvrt" --version || fail "the installed program exits $?"
echo "consumer: ok"
