#!/bin/sh
# speculation.sh KVRT PYTHON TINY: --lookup, --draft, --prediction and --draft-max: the same text, what came of it, and what is refused.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/llama_gqa_f32.gguf
again=5,6,7,8,5,6,7,8,5,6,7,8
in_a_folder
cp "$model" draft.gguf
printf 'root ::= x x x x x x x x\nx ::= "abab"\n' >abab  # answers repeat what lookup finds

# run: the same answer, with figures
exits 0 run -m "$model" --tokens "$again" -n 40 --grammar abab --json
json out 'j["tokens"]' >want
is "0 0" "$(json out 'str(j["drafted"]) + " " + str(j["accepted"])')" "without speculation"
json out 'j["text"]' >text
for how in --lookup "--draft draft.gguf" "--prediction text" "--draft draft.gguf --lookup --draft-max 3"; do
  # shellcheck disable=SC2086 # words
  exits 0 run -m "$model" --tokens "$again" -n 40 --grammar abab --draft-min 3 --json $how
  is "$(cat want)" "$(json out 'j["tokens"]')" "the answer with $how"
  is True "$(json out '0 <= j["accepted"] <= j["drafted"] and j["drafted"] > 0')" "figures with $how: $(cat out)"
  # shellcheck disable=SC2086 # words
  exits 0 run -m "$model" --tokens "$again" -n 40 --grammar abab --temp 1 --seed 3 --json $how
  json out 'j["tokens"]' >sampled
  exits 0 run -m "$model" --tokens "$again" -n 40 --grammar abab --temp 1 --seed 3 --json
  is "$(cat sampled)" "$(json out 'j["tokens"]')" "a drawn answer with $how"
done
exits 0 run -m "$model" --tokens "$again" -n 8 --lookup
grep -q ', [0-9]* drafted, [0-9]* accepted$' err || fail "no figures: $(cat err)"
exits 0 run -m "$model" --tokens "$again" -n 8
if grep -q drafted err; then fail "figures without speculation: $(cat err)"; fi

# A session that goes on in another process with a draft
exits 0 run -m "$model" --tokens "$again" -n 40 --ignore-eos --json
json out 'j["tokens"][20:]' >want
exits 0 run -m "$model" --store s --session a --tokens "$again" -n 20 --ignore-eos
exits 0 run -m "$model" --store s --session a -n 20 --ignore-eos --draft draft.gguf --json
is "$(cat want)" "$(json out 'j["tokens"]')" "the other half, with a draft"

# chat
printf 'Hello\n/stats\n' | "$kvrt" chat -m "$model" --temp 0 -n 12 >said 2>err || fail "chat: $(cat err)"
printf 'Hello\n/stats\n' | "$kvrt" chat -m "$model" --temp 0 -n 12 --lookup --draft draft.gguf >out 2>err || fail "chat with a draft: $(cat err)"
is "$(cat said)" "$(cat out)" "a chat with a draft"
grep -q '^last answer: .* tok/s, [0-9]* drafted, [0-9]* accepted$' err || fail "chat has no figures: $(cat err)"

# bench
exits 0 bench -m "$model" --prompt none --depth 0 --append none --batch 2 --state none --runs 1 --decode 8 --draft draft.gguf --lookup --json
is True "$(json out '0 <= j["decode_at_0_accepted"] <= j["decode_at_0_drafted"]')" "figures of bench"

# plan: a draft's memory counts
exits 0 plan -m "$model" --context 100 --json
json out 'j["total_bytes"]' >alone
exits 0 plan -m "$model" --context 100 --draft draft.gguf --json
is "$(cat alone) $(($(cat alone) * 2))" "$(json out 'str(j["draft"]["total_bytes"]) + " " + str(j["total_bytes"])')" "the sum of two models"
exits 0 plan -m "$model" --context 100 --sessions 3 --memory 4M --json
json out 'j["sessions_max"]' >alone
exits 0 plan -m "$model" --context 100 --sessions 3 --memory 8M --draft draft.gguf --json
is "$(cat alone)" "$(json out 'j["sessions_max"]')" "twice the memory for two models"
exits 0 plan -m "$model" --context 100 --draft draft.gguf
grep -q '^draft  *[0-9.]* [KM]iB: weights .*, scratch .*, KV .* a token)$' out || fail "plan has no draft: $(cat out)"
exits 1 plan --layers 3 --kv-heads 1 --head-dim 16 --context 64 --draft draft.gguf
exits 2 plan -m "$model" --draft nowhere.gguf

# What is refused
exits 1 run -m "$model" -p a --draft-max 4
grep -q 'give --lookup, --draft FILE or --prediction FILE' err || fail "--draft-max alone: $(cat err)"
exits 1 run -m "$model" -p a --lookup --draft-max 33
exits 1 run -m "$model" -p a --prediction -
exits 2 run -m "$model" -p a --prediction nowhere
exits 2 run -m "$model" -p a --draft nowhere.gguf
grep -q '^kvrt: --draft: cannot .* nowhere.gguf: ' err || fail "a draft that is not there: $(cat err)"
# One of another vocabulary is told before anything is printed, and where nothing is generated.
"$python" - "$model" <<'END'
import sys
model = open(sys.argv[1], "rb").read()
b, c = b"\1" + bytes(7) + b"B", b"\1" + bytes(7) + b"C"  # as GGUF has strings
assert b + c in model
open("other.gguf", "wb").write(model.replace(b + c, c + b, 1))
END
for command in "run -p a" "run -p a -n 0" bench; do
  # shellcheck disable=SC2086 # words
  exits 10 $command -m "$model" --draft other.gguf
  is "" "$(cat out)" "output of kvrt $command with a draft of another vocabulary"
  grep -q '^kvrt: cannot draft with .*other.gguf: --draft: token' err || fail "a draft of another vocabulary: $(cat err)"
done
exits 1 run -m "$model" -p a --lookup=maybe
grep -q '^kvrt: --lookup: a flag takes no value, found maybe' err || fail "a flag with a value: $(cat err)"
