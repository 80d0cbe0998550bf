#!/bin/sh
# run.sh BUILD SOURCE CC CXX PYTHON STATIC: the installed tree serves C and C++ programs by find_package and by pkg-config, also after it was moved,
# with the oldest CMake too (beside PYTHON); the README's lines on building and installing work as they are. STATIC: 1: libkvrt.a is there.
set -eu
build=$1 source=$2 cc=$3 cxx=$4 python=$5 old_cmake=$(dirname "$5")/cmake static=$6
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

# find_package and the soname promise the same: a request for an older one of the same major number gets this, for another one nothing.
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
# needs FILE LIBRARY: the dynamic linker is asked for it.
needs() { readelf -d "$1" | grep -q "NEEDED.*\[$2"; }
if [ "$static" = 1 ]; then
  "$work/cmake/consumer_static" "$model" || fail "the program with libkvrt.a exits $?"
  needs "$work/cmake/consumer_static" libkvrt && fail "the program with libkvrt.a asks for libkvrt.so"
fi

# The oldest CMake that the README names; and a project that has kvrt in its own build gets the library alone.
case $("$old_cmake" --version) in "cmake version 3.22."*) ;; *) fail "$old_cmake is not CMake 3.22: $("$old_cmake" --version)" ;; esac
grep -q "cmake_minimum_required(VERSION 3.22)" "$source/CMakeLists.txt" || fail "CMakeLists.txt asks for another CMake than the one that is tested"
(cd "$source" && "$old_cmake" --preset user -B "$work/user") >"$work/log" 2>&1 || fail "CMake 3.22, preset user: $(cat "$work/log")"
"$old_cmake" -G Ninja -S "$source/tests/consumer/project" -B "$work/old" -DCMAKE_PREFIX_PATH="$work/prefix" -DEXAMPLE_CPP="$work/example.cc" >"$work/log" 2>&1 ||
  fail "CMake 3.22, find_package: $(cat "$work/log")"
mkdir "$work/within"
printf 'cmake_minimum_required(VERSION 3.22)\nproject(within C CXX)\nadd_subdirectory(%s kvrt)\n' "$source" >"$work/within/CMakeLists.txt"
"$old_cmake" -G Ninja -S "$work/within" -B "$work/within/build" >"$work/log" 2>&1 ||
  fail "within another project: $(cat "$work/log")"
for capability in 80 86 89 90 100 120; do # what the README says that libkvrt_cuda has code for, unless a preset said otherwise
  for folder in user within/build; do
    sed -n 's/^KVRT_CUDA_ARCHITECTURES:[A-Z]*=//p' "$work/$folder/CMakeCache.txt" | tr ';' '\n' | grep -qxE "$capability(-real)?" ||
      fail "$folder: libkvrt_cuda has no code of $capability"
  done
done
grep -q '"KVRT_CUDA_ARCHITECTURES": "[0-9]' "$source/CMakePresets.json" && fail "a preset has a list of devices of its own"
grep -qx KVRT_CUDA:STRING=OFF "$work/within/build/CMakeCache.txt" || fail "within another project CUDA is not off"
targets=$(cd "$work/within/build" && ninja -t targets all | sed -n 's/^\(kvrt[a-z_]*\): phony$/\1/p' | tr '\n' ' ')
case $targets in *kvrt_cli* | *kvrt_cuda* | *kvrt_tests*) fail "within another project there are targets $targets" ;; *kvrt*) ;; *) fail "no target kvrt: $targets" ;; esac

export PKG_CONFIG_LIBDIR="$library/pkgconfig" # it asks for no other package
# shellcheck disable=SC2046 # words
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$source/tests/consumer/project/main.c" -o "$work/consumer" $(pkg-config --cflags --libs kvrt) ||
  fail "pkg-config: does not build"
"$work/consumer" "$model" || fail "the program built by pkg-config exits $?"
[ -f "$(pkg-config --variable=abi kvrt)" ] || fail "pkg-config --variable=abi kvrt names no file"

block c "$source/include/README.md" >"$work/example.c"
grep -q kvrt_session_resume "$work/example.c" || fail "no example in include/README.md"
# shellcheck disable=SC2046
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$work/example.c" -o "$work/example" $(pkg-config --cflags --libs kvrt) || fail "the example in C does not build"
cp "$model" "$work/model.gguf"
(cd "$work" && ./example >first && ./example >second) || fail "the example in C exits $?"
grep -aq '^(ann goes on' "$work/first" && fail "the README's example found a session at its first run"
grep -aq '^(ann goes on: [1-9][0-9]* tokens came from the disk)' "$work/second" || fail "the README's example does not say at its second run that it goes on"

# shellcheck disable=SC2046
"$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror "$work/example.cc" -o "$work/example_cpp" $(pkg-config --cflags --libs kvrt) ||
  fail "the C++ example does not build"
if [ "$static" = 1 ]; then
  # shellcheck disable=SC2046
  "$cc" -std=c99 "$work/example.c" -o "$work/example_static" $(pkg-config --static --cflags --libs kvrt | sed 's/-lkvrt /-l:libkvrt.a /') ||
    fail "the example in C does not build with libkvrt.a"
  needs "$work/example_static" libkvrt && fail "the README's example asks for libkvrt.so"
  # shellcheck disable=SC2046 # kvrt-static asks for the packages under it
  "$cc" -std=c99 "$work/example.c" -o "$work/example_static" $(env -u PKG_CONFIG_LIBDIR PKG_CONFIG_PATH="$library/pkgconfig" pkg-config --cflags --libs kvrt-static) ||
    fail "the example in C does not build by kvrt-static.pc"
  needs "$work/example_static" libkvrt && fail "the README's example by kvrt-static.pc asks for libkvrt.so"
  (cd "$work" && ./example_static >third && grep -aq '^(ann goes on' third) || fail "the README's example with libkvrt.a exits $?"
fi

# The README's program in Python goes on with the conversation that the one in C began, and with its own.
block python "$source/README.md" >"$work/readme.py"
grep -q kvrt.Runtime "$work/readme.py" || fail "no Python example in README.md"
in_python() { PYTHONPATH="$source/bindings/python" KVRT_LIBRARY="$library/libkvrt.so.0" PYTHONDONTWRITEBYTECODE=1 "$python" -W error readme.py; }
for run in 1 2; do
  (cd "$work" && in_python >third) || fail "the README's example exits $?"
  grep -aq '^(ann goes on: [1-9][0-9]* tokens came from the disk)' "$work/third" || fail "the README's example does not say in run $run that it goes on"
done
rm -rf "$work/memory"
(cd "$work" && in_python >third) || fail "the README's example exits $?"
grep -aq '^(ann goes on' "$work/third" && fail "the README's example found a session at its first run"

# The README has apt-get install the packages that .ci/apt.txt names for the library and the program.
named() { sed -n '/^sudo apt-get install/,/[^\\]$/p' "$source/README.md" | sed 's/^sudo apt-get install -y//; s/\\$//' | tr -s ' ' '\n' | grep . | sort; }
listed() { sed -e '/^# tests/,$d' -e '/^#/d' "$source/.ci/apt.txt" | sort; }
[ "$(named)" = "$(listed)" ] || fail "README.md has apt-get install $(named | tr '\n' ' '), and .ci/apt.txt has $(listed | tr '\n' ' ')"

# The README's lines for installing and linking, in a home of its own and, where mounting is permitted, in /usr/local.
mkdir -p "$work/home" "$work/lines/build"
ln -s "$build" "$work/lines/build/user"
cp "$work/example.c" "$work/model.gguf" "$work/lines"
lines() { awk -v with="$1" '$0 == "```sh" {on = 1; text = ""; next} /^```$/ {if (on && index(text, with)) print text; on = 0} on {text = text $0 "\n"}' "$source/README.md"; }
lines 'HOME/.local' | sed "s|^cmake --install \(.*\)|for c in kvrt_Runtime kvrt_Development kvrt_Tools; do cmake --install \1 --component \$c; done|" >"$work/home.sh"
lines 'sudo ldconfig' | sed "s|^sudo cmake --install build/user|for c in kvrt_Runtime kvrt_Development kvrt_Tools; do cmake --install build/user --prefix /usr/local --component \$c; done|; s|sudo ||" >"$work/local.sh"
for script in home local; do [ "$(wc -l <"$work/$script.sh")" -gt 1 ] || fail "the README has no lines for $script"; done
# shellcheck disable=SC2016 # for the inner shell
try='cd "$0/lines" && rm -rf example memory && sh -eu "$0/$1.sh" >"$0/log" 2>&1 && ./example >>"$0/log" 2>&1'
env -u LD_LIBRARY_PATH -u PKG_CONFIG_LIBDIR HOME="$work/home" sh -c "$try" "$work" home || fail "the README's lines for a home of one's own: $(cat "$work/log")"
# shellcheck disable=SC2016
isolated='mkdir "$0/etc" "$0/usrlocal" && cp -a /etc/. "$0/etc" && mount --bind "$0/etc" /etc && mount --bind "$0/usrlocal" /usr/local'
if [ "$(id -u)" = 0 ] && unshare -m sh -c "$isolated" "$work" 2>/dev/null; then
  rm -rf "${work:?}/etc" "$work/usrlocal"
  env -u LD_LIBRARY_PATH -u PKG_CONFIG_LIBDIR PATH=/usr/bin:/bin:/usr/sbin:/sbin unshare -m sh -c "$isolated && $try" "$work" local ||
    fail "the README's lines for /usr/local: $(cat "$work/log")"
else
  echo "consumer: mounting is not permitted here: /usr/local was not tried"
fi

rm -rf "$work/memory"
(cd "$work" && "$work/cmake/example" && ./example_cpp >second) || fail "the C++ example exits $?"
cat "$work/second"
grep -a '^reused [1-9]' "$work/second" || fail "the C++ example did not go on"

"$work/prefix/bin/kvrt" --version || fail "the installed program exits $?"
for file in man/man1/kvrt.1 man/man1/kvrt-store-gc.1 bash-completion/completions/kvrt zsh/site-functions/_kvrt fish/vendor_completions.d/kvrt.fish; do
  [ -s "$work/prefix/share/$file" ] || fail "share/$file is not installed"
done
echo "consumer: ok"
