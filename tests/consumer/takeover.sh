#!/bin/sh
# takeover.sh SHARED STATIC SOURCE CC c|rust|go COMPILER: hosts that carry SQLite, zstd, PCRE2 or libsodium of other versions. libkvrt with its libraries
# inside (STATIC) works and never calls the host's; the one that needs them (SHARED) works where they are its own, else it says whose they are.
set -eu
shared=$1 static=$2 source=$3 cc=$4 language=$5 compiler=$6
here=$source/tests/consumer
model=$source/tests/golden/tiny/llama_gqa_f32.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "takeover: $*"
  exit 1
}
mkdir "$work/shared" "$work/static"
cp "$shared" "$work/shared/libkvrt.so.0"
cp "$static" "$work/static/libkvrt.so.0"
ln -s libkvrt.so.0 "$work/shared/libkvrt.so"

# run KIND PROGRAM [ARGUMENT...]: its exit status is in $status, its output in $work/out.
run() {
  kind=$1
  shift
  rm -rf "$work/store"
  status=0
  LD_LIBRARY_PATH=$work/$kind "$@" >"$work/out" 2>&1 || status=$?
}
works() {
  run "$@"
  { [ "$status" = 0 ] && grep -q "^worked" "$work/out"; } || fail "$*: exits $status: $(cat "$work/out")"
}
# refuses TEXT...: the program was refused in good order, with every text in the message.
refuses() {
  [ "$status" = 3 ] || fail "exits $status, expected 3: $(cat "$work/out")"
  for text in "$@"; do
    grep -qF -- "$text" "$work/out" || fail "no \"$text\" in: $(cat "$work/out")"
  done
}
file_of() { ldd "$work/shared/libkvrt.so.0" | awk -v name="lib$1.so" 'index($1, name) == 1 {print $3}'; }

# ---- C ------------------------------------------------------------------------------------------------------------------------------

# fakes NAME: the functions of a library that kvrt calls, in an archive; a call counts, and returns no success.
fakes() {
  nm -D --undefined-only "$work/shared/libkvrt.so.0" | awk '{sub("@.*", "", $NF); print $NF}' | LC_ALL=C sort >"$work/wanted"
  nm -D --defined-only "$(file_of "$1")" | awk '{sub("@.*", "", $NF); print $NF}' | LC_ALL=C sort | LC_ALL=C comm -12 "$work/wanted" - >"$work/names"
  [ "$(wc -l <"$work/names")" -ge 4 ] || fail "libkvrt calls little of $1: $(cat "$work/names")"
  {
    echo 'extern int host_calls;'
    case $1 in
      sqlite3) echo 'const char* sqlite3_libversion(void) { return ++host_calls, "0.0.1-host"; }' ;;
      zstd) echo 'const char* ZSTD_versionString(void) { return ++host_calls, "0.0.1-host"; }' ;;
      sodium) echo 'const char* sodium_version_string(void) { return ++host_calls, "0.0.1-host"; }' ;;
      pcre2-8) printf '#include <string.h>\nint pcre2_config_8(unsigned what, void* to) { return ++host_calls, what == 11 && to ? (strcpy(to, "0.0.1-host"), 11) : -1; }\n' ;;
    esac
    grep -vE '^(sqlite3_libversion|ZSTD_versionString|sodium_version_string|pcre2_config_8)$' "$work/names" | sed 's/.*/long &(void) { return ++host_calls, -1; }/'
  } >"$work/$1.c"
  "$cc" -c -fPIC "$work/$1.c" -o "$work/$1.o"
  ar rc "$work/libhost_$1.a" "$work/$1.o"
}
# host NAME SOURCE FLAG...: links a program with libkvrt; which of the two is found when it runs.
host() {
  name=$1 code=$2
  shift 2
  "$cc" -I"$source/include" "$here/$code" -o "$work/$name" "$@" -L"$work/shared" -lkvrt -ldl || fail "$name does not link"
}
whole() {
  for library in "$@"; do printf ' %s' -Wl,--whole-archive "$work/libhost_$library.a" -Wl,--no-whole-archive; done
}

in_c() {
  libraries="sqlite3 zstd pcre2-8 sodium"
  for library in $libraries; do
    fakes "$library"
    cat "$work/names" >>"$work/all_names"
  done

  # A host without any, and one whose code has the addresses of the very libraries: of functions that it does not define.
  host plain host.c
  works shared "$work/plain" "$model" "$work/store"
  sed 's/.*/extern int &();/' "$work/all_names" >"$work/address.c"
  awk 'BEGIN {print "void* host_address(int i) { switch (i) {"} {print "case " NR ": return (void*)" $1 ";"} END {print "} return 0; }"}' \
    "$work/all_names" >>"$work/address.c"
  "$cc" -c -O1 -w -fno-pic "$work/address.c" -o "$work/address.o"
  # shellcheck disable=SC2046
  host addresses host.c -fno-pic -no-pie "$work/address.o" $(for library in $libraries; do file_of "$library"; done)
  readelf --dyn-syms -W "$work/addresses" | awk '$7 == "UND" && $2 ~ /[1-9a-f]/' | grep -q sqlite3_finalize || fail "the program has no address of SQLite's functions"
  works shared "$work/addresses" "$model" "$work/store"

  # One library each: its symbols are exported because libkvrt imports them.
  for library in $libraries; do
    # shellcheck disable=SC2046 # words
    host "one_$library" host.c $(whole "$library")
    run shared "$work/one_$library" "$model" "$work/store"
    version=$(pkg-config --modversion "lib$library" 2>/dev/null || pkg-config --modversion "$library")
    refuses "kvrt_runtime_open: UNSUPPORTED" "found 0.0.1-host of $work/one_$library" "expected $version" " of $(file_of "$library")" KVRT_STATIC_DEPS
    [ "$(grep -o 'found ' "$work/out" | wc -l)" = 1 ] || fail "more than $library in: $(cat "$work/out")"
    works static "$work/one_$library" "$model" "$work/store"
  done
  # A part of one, which cannot tell its version.
  echo 'int host_calls_; long crypto_generichash_blake2b_update(void) { return -1; }' >"$work/part.c"
  host part host.c "$work/part.c"
  run shared "$work/part" "$model" "$work/store"
  refuses "libsodium (crypto_generichash_blake2b_update): found an unknown version of $work/part" "expected $(pkg-config --modversion libsodium)"

  # All of them, and everything exported.
  # shellcheck disable=SC2046,SC2086
  host all host.c -rdynamic $(whole $libraries)
  run shared "$work/all" "$model" "$work/store"
  refuses "SQLite (" "zstd (" "PCRE2 (" "libsodium ("
  works static "$work/all" "$model" "$work/store"
  grep -qx 'worked, 0 calls' "$work/out" || fail "the host's libraries were called: $(cat "$work/out")"
  # shellcheck disable=SC2046,SC2086
  host loader host_loader.c -rdynamic $(whole $libraries)
  run shared "$work/loader" "$work/shared/libkvrt.so.0" local
  refuses "SQLite (" "zstd (" "PCRE2 (" "libsodium ("
  works shared "$work/loader" "$work/shared/libkvrt.so.0" deep
  works static "$work/loader" "$work/static/libkvrt.so.0" local
}

# ---- Rust and Go --------------------------------------------------------------------------------------------------------------------

# Both have an sqlite3_libversion and an sqlite3_step.
in_other() {
  run shared "$work/$1"
  refuses "SQLite (sqlite3_" "found 0.0.1-host of $work/$1" "expected $(pkg-config --modversion sqlite3) of $(file_of sqlite3)"
  works static "$work/$1"
}
in_rust() {
  "$compiler" -C opt-level=1 -C link-arg=-rdynamic -L "$work/shared" -l kvrt "$here/host.rs" -o "$work/host_rust" || fail "host.rs does not build"
  in_other host_rust
}
in_go() {
  cp "$here/host.go" "$work"
  (cd "$work" && GOCACHE=$work/gocache GO111MODULE=off CC=$cc CGO_ENABLED=1 CGO_CFLAGS="-I$source/include" CGO_LDFLAGS="-L$work/shared" \
    "$compiler" build -o host_go host.go) || fail "host.go does not build"
  in_other host_go
}

"in_$language"
echo "takeover: ok"
