#!/bin/sh
# rust.sh SOURCE WORK CARGO LIBRARY-DIRECTORY: the crates' own tests, built in WORK, and the first program of their README, as it is printed. With
# PRELOAD the test programs run with these libraries first; rustdoc could not have them, so its tests are left to the build without.
set -eu
source=$1 work=$2 cargo=$3
mkdir -p "$work"
PATH=$(dirname "$cargo"):$PATH # its own rustc and rustdoc
export PATH KVRT_LIB_DIR="$4" LD_LIBRARY_PATH="$4" KVRT_SOURCE_DIR="$source" CARGO_TARGET_DIR="$work/target"
unset RUSTC RUSTDOC RUSTFLAGS || true
cd "$source/bindings/rust"
if [ -n "${PRELOAD:-}" ]; then
  triple=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
  export "CARGO_TARGET_${triple}_RUNNER=env LD_PRELOAD=$(echo "$PRELOAD" | tr ' ' :)" # cargo splits it at spaces
  "$cargo" build --offline --locked --examples # a test runs the sample
  exec "$cargo" test --offline --locked --workspace --lib --tests
fi
"$cargo" test --offline --locked --workspace

rm -rf "$work/first"
mkdir -p "$work/first/src" "$work/first/run"
sed -n "/^\`\`\`rust\$/,/^\`\`\`\$/p" README.md | sed "/^\`\`\`/d" >"$work/first/src/main.rs"
[ "$(wc -l <"$work/first/src/main.rs")" -le 25 ]
printf '[package]\nname = "first"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nkvrt = { path = "%s/bindings/rust/kvrt" }\n[workspace]\n' "$source" \
  >"$work/first/Cargo.toml"
cp "$source/tests/golden/tiny/llama_gqa_f32.gguf" "$work/first/run/model.gguf"
# As its user has it: pkg-config knows the library, or the build says what to do.
unset KVRT_LIB_DIR
export CARGO_TARGET_DIR="$work/first/target" # cargo would remember that it found the library the last time
export PKG_CONFIG_LIBDIR="$work/first"
if "$cargo" build --quiet --offline --manifest-path "$work/first/Cargo.toml" 2>"$work/first/told" || ! grep -q "finds no kvrt: install libkvrt" "$work/first/told"; then
  echo "rust.sh: without a library the build says:"
  cat "$work/first/told"
  exit 1
fi
printf 'libdir=%s\nName: kvrt\nDescription: of the build\nVersion: 0\n' "$LD_LIBRARY_PATH" >"$work/first/kvrt.pc"
cd "$work/first/run"
for expected in 0 '[1-9][0-9]*'; do
  "$cargo" run --quiet --offline --manifest-path ../Cargo.toml >out
  grep -q "^reused $expected of [1-9][0-9]* tokens\$" out || {
    echo "rust.sh: expected \"reused $expected of\", found:"
    cat out
    exit 1
  }
done
