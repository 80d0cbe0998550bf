#!/bin/sh
# plan.sh KVRT PYTHON TINY: kvrt plan's figures and words.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/llama_gqa_f32.gguf
in_a_folder

# plan: published figures, a real file, a plan that does not fit, and ones that cannot be
exits 0 plan --layers 32 --kv-heads 32 --head-dim 128 --context 131072 --memory 64G --json
is "524288 68719476736 True 1 131072" "$(json out '" ".join(str(j[k]) for k in ["kv_bytes_per_token", "kv_bytes", "fits", "sessions_max", "context_max"])')" "a plan of 64 GiB"
exits 0 plan --layers 32 --kv-heads 32 --head-dim 128 --context 131072 --memory 65535M --json
is "False 0 131040" "$(json out 'str(j["fits"]) + " " + str(j["sessions_max"]) + " " + str(j["context_max"])')" "1 MiB less"
exits 0 plan --layers 32 --kv-heads 32 --head-dim 128 --context 3072 --shared 2048 --sessions 1000 --memory 8G
grep -q '1,026,048 tokens stored instead of 3,072,000' out || fail "plan, sharing: $(cat out)"
grep -q 'does not fit into 8.00 GiB' out || fail "plan, does not fit: $(cat out)"
for kv in f16:524288 bf16:524288 f32:1048576 int8:266240 fp8:266240 int4:147456; do
  exits 0 plan --layers 32 --kv-heads 32 --head-dim 128 --context 64 --kv "${kv%:*}" --json
  is "$kv" "$(json out 'j["kv_format"] + ":" + str(j["kv_bytes_per_token"])')" "a plan with that KV"
done
exits 0 plan --layers 32 --kv-heads 32 --head-dim 128 --context 64 --kv-k int8 --json
is "int8 f16 395264" "$(json out 'j["kv_format"] + " " + j["kv_format_v"] + " " + str(j["kv_bytes_per_token"])')" "a plan with a pair"
exits 0 plan --layers 32 --kv-heads 32 --head-dim 128 --context 64 --kv fp8 --kv-v bf16
grep -q '^KV *K fp8, V bf16: 386.0 KiB a token' out || fail "plan, a pair: $(cat out)"
exits 0 plan -m "$model" --context 100 --block-tokens 16 --json
is "7 True" "$(json out 'str(j["session_units"]) + " " + str(j["fits"])')" "plan of a file"
exits 0 plan -m "$model"
exits 1 plan
exits 1 plan -m "$model" --layers 3
exits 14 plan -m "$tiny/vocab_only.gguf"
exits 2 plan -m none.gguf
exits 0 plan -m "$tiny/row_gemma2.gguf" --context 1024
for line in '^KV .* a token; a unit: 32 tokens of 1 layer, 32.0 KiB$' '^ *1 layer, window 16: ' '^sessions  *1 in 50 units, and one of zeros: 1.59 MiB$'; do
  grep -q "$line" out || fail "plan of a model with windows, no line like $line: $(cat out)"
done
exits 0 plan -m "$tiny/row_granitehybrid.gguf"
grep -q '^boundary  *20.0 KiB at each place to go back to; the pool has room for 1$' out || fail "plan of states: $(cat out)"
exits 0 plan -m "$tiny/row_gemma2.gguf" --context 1
grep -q '^sessions  *1 in 4 units, the fewest that a pool has, and one of zeros: ' out || fail "plan of one token: $(cat out)"
exits 0 plan -m "$model"
grep -q '^KV .*a unit: 32 tokens of 2 layers, 8.00 KiB$' out || fail "plan, a unit: $(cat out)"
grep -qE '^at most  *[0-9,]+ sessions of 1,024 tokens$' out || fail "plan, a context that is the model's: $(cat out)"
exits 0 plan -m "$model" --memory 10K
grep -q '^at most  *no session: weights and scratch alone do not fit$' out || fail "plan, weights that do not fit: $(cat out)"
exits 0 plan -m "$model" --memory 1000K
grep -q '^at most  *no session of 1,024 tokens, but one of [1-9]' out || fail "plan, a shorter session: $(cat out)"
exits 8 plan -m "$model" --context 99999999
grep -q -- '--context is 99999999' err || fail "plan, no option named: $(cat err)"
# What a session's bytes hold: the last block is not full, and units have more than their layers and states need.
exits 0 plan -m "$tiny/row_granitehybrid.gguf" --block-tokens 16
for line in '^groups  *1 layer: 96 B for every token, 32 B of them unused$' '^  *2 layers, recurrent: two states of 15.8 KiB, each in 11 units, 16.5 KiB$' '^session .* 129.0 KiB; 74.0 % used, 26.0 % waste$'; do
  grep -q "$line" out || fail "plan of recurrent layers, no line like $line: $(cat out)"
done
exits 0 plan -m "$tiny/row_granitehybrid.gguf" --block-tokens 16 --json
is "16896 1" "$(json out 'str(j["boundary_bytes"]) + " " + str(j["boundaries"])')" "plan of boundaries: a state in 11 units of 1,536 bytes"
is "16128 0.74" "$(json out 'str(j["recurrent_bytes"]) + " " + str(round(j["used"], 2))')" "plan of recurrent layers"
is "everything 0 recurrent 0 1536" "$(json out '" ".join(g["kind"] + " " + str(g["window"]) for g in j["kv_groups"]) + " " + str(j["unit_bytes"])')" "plan: kinds of groups"
exits 0 plan -m "$model" --json
is True "$(json out 'j["units"] * j["unit_bytes"] == j["kv_bytes"]')" "plan: units of a pool without windows"
echo "plan: ok"
