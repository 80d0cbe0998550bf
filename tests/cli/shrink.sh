#!/bin/sh
# shrink.sh KVRT PYTHON TINY: kvrt store shrink: what it converts, what goes on from that, and what it refuses.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/with_bias_qwen2.gguf
in_a_folder
tokens=$("$python" -c 'print(",".join(str((i * i + 7 * i) % 90 + 3) for i in range(200)))')

exits 0 run -m "$model" --tokens "$tokens" -n 1 --store store --session ann --json
exits 0 run -m "$model" --tokens 7,8 -n 6 --store store --session ann --no-save --json --digest
cp out exact
is True "$(json out 'j["reused_disk"] > 190')" "the KV that was saved: $(cat out)"
exits 0 store shrink store -m "$model" --json
is "1 0 1" "$(json out '" ".join(str(j["sessions" + of]) for of in ("", "_converted", "_warm"))')" "nothing is a month old"
sleep 1.1
exits 0 store shrink store -m "$model" --older-than 1s --domain other --json
is 0 "$(json out 'j["sessions"]')" "of another domain"
exits 0 store shrink store -m "$model" --older-than 1s --json
is "1 True" "$(json out 'str(j["sessions_converted"]) + " " + str(j["bytes_after"] < 0.5 * j["bytes_before"])')" "shrunk: $(cat out)"
exits 0 store shrink store -m "$model" --older-than 1s
grep -q 'converted 0 of 1 session' out || fail "twice: $(cat out)"
grep -q 'left 1 session: converted before' out || fail "twice: $(cat out)"
exits 0 store verify store

exits 0 store show store ann
grep -q '^  KV      in int4$' out || fail "the format of rounded KV: $(cat out)"

# by default it is computed again, and exact
exits 0 run -m "$model" --tokens 7,8 -n 6 --store store --session ann --no-save --json --digest
is "0 other_numerics" "$(json out 'str(j["reused_disk"]) + " " + j["reuse_stopped"]')" "computed again"
for key in tokens logits_sha256; do
  is "$(json exact "j['$key']")" "$(json out "j['$key']")" "$key, computed again"
done
exits 0 run -m "$model" --tokens 7,8 -n 6 --store store --session ann --no-save --accept-foreign-kv --json --digest
is True "$(json out 'j["reused_disk"] > 190')" "the rounded KV: $(cat out)"
[ "$(json out 'j["logits_sha256"]')" != "$(json exact 'j["logits_sha256"]')" ] || fail "rounded KV gave the exact logits"

exits 1 store shrink store -m "$model" --to fp8
exits 1 store shrink store
exits 1 store shrink store -m "$model" --older-than never
exits 2 store shrink nowhere -m "$model"
exits 0 store shrink store -m "$tiny/llama_gqa_f32.gguf" --older-than 1s
grep -q 'left 1 session: of another model' out || fail "another model: $(cat out)"
status=0
"$kvrt" store shrink store -m "$model" --kv int8 >out 2>err || status=$?
[ "$status" != 0 ] && grep -q 'open with KV in int8;.*UNSUPPORTED' err || fail "a pool in int8: $status $(cat err)"
echo "cli shrink: ok"
