#!/bin/sh
# run.sh KVRT PYTHON TINY: the behaviour that scripts rely on.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/llama_gqa_f32.gguf
in_a_folder

text="The lamp is lit at dusk; the log says who came, who left and what the wind did. Nobody is late for dinner on the island."

# help, version, exit codes
exits 0 --help
exits 0 --version
for command in "store ls" "store stat" "store show" "store graph" "store rm" "store mv" "store pin" "store unpin" "store ttl" "store gc" "store verify" "store repair"; do
  # shellcheck disable=SC2086 # two words
  exits 0 $command --help
done
for command in run chat tokenize detokenize template logits perplexity inspect bench plan store doctor; do
  exits 0 $command --help
done
exits 1
exits 1 nonsense
exits 1 run -m "$model" -n 1
exits 1 run -m "$model" -p a --tokens 1
exits 1 run -m "$model" --tokens 1,x
exits 1 run -m "$model" --tokens 1,,2
exits 1 run -m "$model" --tokens ,1
exits 2 run -m none.gguf -p a
exits 2 store ls nowhere
grep -q 'kvrt: .*NOT_FOUND' err || fail "no reason for NOT_FOUND: $(cat err)"
is "" "$(cat out)" "standard output after a failure"

# text
exits 0 tokenize -m "$model" -p "$text" --json
json out '",".join(map(str, j["tokens"]))' >ids
exits 0 tokenize -m "$model" -p "$text"
is "$(cat ids)" "$(cat out)" "tokenize without --json"
exits 0 detokenize -m "$model" --tokens "$(cat ids)"
is "$text" "$(cat out)" "detokenize"
exits 0 detokenize -m "$tiny/vocab_only.gguf" --tokens @ids
is "$text" "$(cat out)" "detokenize, ids from a file, of a model without weights"
printf '%s' "$text" | "$kvrt" tokenize -m "$model" -f - >out
is "$(cat ids)" "$(cat out)" "tokenize, standard input"
exits 0 tokenize -m "$model" -p '<|im_end|>' --special
is 2 "$(cat out)" "a special token"
echo '[{"role": "user", "content": "Hi"}]' >messages
exits 0 template -m "$tiny/vocab_only.gguf" --messages messages
grep -q '<|im_start|>user' out || fail "template: $(cat out)"
echo '{{ messages[0].content }}!' >jinja
exits 0 template --template jinja --messages messages
is "Hi!" "$(head -n 1 out)" "a template of one's own, without a model"
printf '{{ documents[0].t }}{{ tools|length }}{{ enable_thinking }}{{ mood.name }}{{ add_generation_prompt }}' > jinja
echo '[{"t": "D"}]' > documents
exits 0 template --template jinja --messages messages --documents documents --tools documents --var enable_thinking=false --var 'mood={"name": "calm"}' --no-generation-prompt
is "D1FalsecalmFalse" "$(head -n 1 out)" "documents, tools and variables of a template"
exits 1 template --template jinja --messages messages --var enable_thinking
exits 1 template --template jinja --messages messages --var tools=1
exits 14 run -m "$tiny/vocab_only.gguf" -p a -n 1

# An empty answer says why, where the file has a chat template
echo 'root ::= ""' >nothing.gbnf
exits 0 run -m "$model" -p "$text" --grammar nothing.gbnf -n 4
grep -q -e '--chat asks it by its chat template' err || fail "run, an empty answer: $(cat err)"
exits 0 run -m "$model" -p "$text" --chat --grammar nothing.gbnf -n 4
grep -q -e '--chat asks' err && fail "run --chat, an empty answer: $(cat err)"

# run: keys, sums, the same answer however it is computed
exits 0 run -m "$model" -p "$text" -n 8 --digest --json
keys='text tokens prompt_tokens reused_memory reused_disk prefilled reuse_stopped ttft_ms tpot_ms finish_reason logits_sha256'
for key in $keys; do
  json out "j['$key']" >/dev/null || fail "run --json lacks $key"
done
is True "$(json out 'j["prompt_tokens"] == j["reused_memory"] + j["reused_disk"] + j["prefilled"]')" "the parts of prompt_tokens"
is "8 max_tokens" "$(json out 'str(len(j["tokens"])) + " " + j["finish_reason"]')" "tokens and reason"
cold=$(json out 'j["logits_sha256"]')
for variant in "--isa scalar" "--threads 1" "--block-tokens 16" "--prefill-chunk 7"; do
  # shellcheck disable=SC2086 # two words
  exits 0 run -m "$model" -p "$text" -n 8 --digest --json $variant
  is "$cold" "$(json out 'j["logits_sha256"]')" "logits with $variant"
done

# run: each KV format is one of its own
for kv in f16 bf16 f32 int8 fp8 int4; do
  exits 0 run -m "$model" -p "$text" -n 8 --digest --json --kv "$kv"
  json out 'j["logits_sha256"]' >>digests
done
is 6 "$(sort -u digests | wc -l)" "digests of six KV formats"
is "$cold" "$(head -n 1 digests)" "the default is f16"
exits 1 run -m "$model" -p "$text" -n 8 --kv fp4
for pair in "--kv-k int8" "--kv-v int8" "--kv int8 --kv-v fp8" "--kv-k fp8 --kv-v f16" "--kv-k int8 --kv-v int4"; do
  # shellcheck disable=SC2086 # several words
  exits 0 run -m "$model" -p "$text" -n 8 --digest --json $pair
  json out 'j["logits_sha256"]' >>digests
done
is 11 "$(sort -u digests | wc -l)" "digests of formats and pairs"
exits 0 run -m "$model" -p "$text" -n 8 --digest --json --kv-k int8 --kv-v int8
is 1 "$(json out 'j["logits_sha256"]' | grep -cxFf - digests)" "int8 for each is int8"

# run: an answer that fits its grammar, cut and gone on with
printf 'root ::= [a-f]{12}\n' >gbnf
exits 0 run -m "$model" -p "$text" --grammar gbnf --store store --session hex -n 5
printf '%s' "$(cat out)" >hex
exits 0 run -m "$model" --continue-grammar --store store --session hex -n 20
printf '%s' "$(cat out)" >>hex
grep -qx '[a-f]\{12\}' hex || fail "an answer that fits [a-f]{12}: $(cat hex)"
echo '{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false}' >schema
exits 0 run -m "$model" -p "$text" --json-schema schema -n 20
is bool "$("$python" -c 'import json; print(type(json.load(open("out"))["a"]).__name__)')" "an answer by a JSON schema"
echo '{"type": "array", "uniqueItems": true}' >schema
exits 14 run -m "$model" -p "$text" --json-schema schema -n 20
grep -q uniqueItems err || fail "no reason for UNSUPPORTED: $(cat err)"
exits 1 run -m "$model" -p "$text" --json-schema schema --grammar gbnf
exits 0 store rm store hex

# perplexity, against the rows of logits; inspect
printf '%s\n' "$text" "$text" "$text" "$text" "$text" "$text" >long
exits 0 perplexity -m "$model" -f long --context 64 --json
cp out got
exits 0 tokenize -m "$model" -f long
cut -d, -f1-64 out >ids
exits 0 logits -m "$model" --tokens @ids --all -o rows
cat >score.py <<'END'
import json, numpy as np
got, ids = json.load(open("got")), [int(i) for i in open("ids").read().split(",")]
rows = np.fromfile("rows", "<f4").reshape(64, -1).astype(np.float64)
rows -= np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True)) + rows.max(1, keepdims=True)
want = -np.mean([rows[p, ids[p + 1]] for p in range(32, 63)])
print(abs(got["nll"] - want) < 1e-5 if got["windows"] == 1 else got["windows"] > 1 and got["tokens_scored"] == 31 * got["windows"])
END
is True "$("$python" score.py)" "perplexity over all windows"
exits 0 perplexity -m "$model" -f long --context 64 --chunks 1 --json
cp out got
is True "$("$python" score.py)" "the perplexity of the first window: $(cat got)"
exits 1 perplexity -m "$model" -f gbnf
exits 2 perplexity -m "$model" -f nothing
# weights that give no numbers are an error where a number is asked for, and a remark where rows are data
"$python" -c 'import sys; b = open(sys.argv[1], "rb").read(); open("nan.gguf", "wb").write(b[:-1024] + b"\xff" * 1024)' "$model"
for command in "perplexity -f long --context 64 --json" "perplexity -f long --context 64" "run -p a -n 1 --json"; do
  # shellcheck disable=SC2086 # several words
  exits 13 $command -m nan.gguf
  grep -q "logits of position [0-9]* .*hold a NaN or an infinity: the model's weights may hold one, or the device failed (DEVICE)" err ||
    fail "$command of NaN: $(cat err)"
  if grep -qi nan out; then fail "$command of NaN: $(cat out)"; fi
done
exits 0 logits -m nan.gguf --tokens 1,2 --all -o rows
grep -q '^kvrt: warning: 2 rows with a NaN or an infinity$' err || fail "logits of NaN: $(cat err)"
exits 0 inspect "$model"
grep -q 'general.architecture = "llama"' out || fail "inspect: $(cat out)"
exits 0 inspect "$model" --json --all
is "llama []" "$(json out 'j["metadata"]["general.architecture"] + " " + str(j["refused"])')" "inspect --json"
exits 2 inspect none.gguf
exits 9 inspect gbnf

# run: across processes
exits 0 run -m "$model" -p "$text" -n 0 --store store --session ann --json
is prefilled "$(json out 'j["finish_reason"]')" "-n 0"
exits 0 run -m "$model" -p "$text" -n 0
is "" "$(grep 'first after\|tok/s' err)" "times of an answer with -n 0"
exits 0 run -m "$model" --store store --session ann -n 1 --no-save --kv int8/int4
grep -q '^(ann goes on; its KV is computed again: it was saved in f16, and is int8/int4 now)$' err || fail "KV of another format: $(cat err)"
exits 0 store show store ann
grep -q '^  KV      in f16$' out || fail "the format of saved KV: $(cat out)"
exits 0 run -m "$model" --store store --session ann -n 1 --no-save --block-tokens 16
grep -q '^(ann goes on; its KV is computed again: it was saved with --block-tokens 32)$' err || fail "KV of another block size: $(cat err)"
exits 0 run -m "$model" --store store --session ann -n 1 --no-save
is "" "$(grep 'computed again' err)" "KV of the same format"
exits 0 run -m "$model" --store store --session ann -n 8 --digest --json --no-save
is "$cold" "$(json out 'j["logits_sha256"]')" "logits after a resume"
is True "$(json out 'j["reused_disk"] >= j["prompt_tokens"] // 32 * 32')" "blocks from disk"
exits 0 run -m "$model" --store store --fork-from ann --session bob -p " And" -n 4 --json
exits 0 run -m "$model" --store store --session bob --truncate 9 -n 1 --json
is 9 "$(json out 'j["prompt_tokens"]')" "--truncate"
exits 0 run -m "$model" --store store --session eve --chat -p "Who are you?" -n 4
exits 2 run -m "$model" --store store --fork-from nobody --session new -p a
exits 1 run -m "$model" --store store -p a
grep -q -- --no-save err || fail "--store without --session: $(cat err)"
exits 3 run -m "$model" --store store --fork-from ann --session bob -p a -n 4
grep -q -- --overwrite err || fail "a name that is taken: $(cat err)"
is "" "$(cat out)" "tokens before a save that must fail"
exits 0 run -m "$model" --store store --fork-from ann --session bob --overwrite --codec none --durability kv -p a -n 4 --json

# remarks that nobody can be told change no exit code; a result that cannot be computed leaves its file as it was
for to in /dev/full closed; do
  status=0
  if [ $to = closed ]; then
    "$kvrt" run -m "$model" -p "$text" -n 4 >out 2>&- </dev/null || status=$?
  else
    "$kvrt" run -m "$model" -p "$text" -n 4 >out 2>$to </dev/null || status=$?
  fi
  is 0 $status "exit code without standard error ($to)"
done
status=0
"$kvrt" store ls nowhere 2>/dev/full || status=$?
is 2 $status "exit code of an error without standard error"
cp rows kept
exits 1 logits -m "$model" --tokens 99999 -o kept
cmp -s rows kept || fail "logits that cannot be computed took the file"
exits 11 logits -m "$model" --tokens 1,2 -o .
grep -q 'Is a directory' err || fail "logits into a directory: $(cat err)"
exits 1 perplexity -m "$model" -f long --context 2

escape=$(printf 'e\033[31m')
exits 0 run -m "$model" -p "$text" -n 1 --store store --session "$escape"
grep -qF 'saved "e\x1b[31m"' err || fail "a name's control characters: $(cat err)"
exits 0 store rm store "$escape"
status=0
(ulimit -f 1 && exec "$kvrt" logits -m "$model" --tokens "$(seq -s , 3 60)" --all -o many) >out 2>err </dev/null || status=$?
is 11 $status "exit code past the file size limit: $(cat err)"
[ ! -e many ] || fail "a part of the logits is left behind"

# run: text that a stop string held back comes with the end
exits 0 run -m "$model" -p "$text" -n 8
cat out >whole
exits 0 run -m "$model" -p "$text" -n 8 --stop "$(tail -c 3 whole | head -c 2)never"
is "$(cat whole)" "$(cat out)" "the text with a stop string that began and did not come"

# store
exits 0 store ls store --json
is 3 "$(wc -l <out | tr -d ' ')" "lines of store ls"
exits 0 store stat store ann --json
is ann "$(json out 'j["name"]')" "store stat"
exits 0 store stat store
exits 0 store mv store bob rob --json
is "bob rob" "$(json out 'j["renamed"] + " " + j["name"]')" "store mv"
exits 2 store stat store bob
exits 3 store mv store rob ann
grep -q 'kvrt: .*CONFLICT' err || fail "no reason for CONFLICT: $(cat err)"
exits 2 store mv store bob x
exits 1 store mv store rob
exits 0 store mv store rob bob
exits 0 store pin store bob --json
is "bob 1" "$(json out 'j["name"] + " " + str(j["pinned"])')" "store pin"
exits 0 store pin store bob --priority 7 --json
is 7 "$(json out 'j["pinned"]')" "store pin --priority"
exits 0 store pin store bob
exits 1 store pin store bob --priority 256
exits 2 store pin store nobody
for time in 1 2s 1m 12h 30d; do
  exits 0 store ttl store bob $time --json
done
is True "$(json out 'abs(j["expires_unix_ms"] / 1000 - __import__("time").time() - 30 * 86400) < 100')" "store ttl 30d"
exits 0 store stat store bob --json
is 1 "$(json out 'j["pinned"]')" "pinned in store stat"
exits 0 store stat store bob
grep -q 'expires .*; pinned' out || fail "store stat: $(cat out)"
exits 0 store ls store
grep -q 'bob .*pinned' out || fail "store ls: $(cat out)"
grep -q 'ann .*never' out || fail "store ls: $(cat out)"
for time in 0 x 1x -1 1.5 "" 999999999999999999999 18446744073709551615d 99999999d; do
  exits 1 store ttl store bob "$time"
  [ -s err ] || fail "store ttl \"$time\": no reason"
done
exits 0 store ttl store bob never
is "bob never expires" "$(cat out)" "store ttl never"
exits 0 store ttl store bob 1
exits 0 store ttl store eve 1
sleep 1.1
exits 2 store stat store eve
exits 0 store stat store bob
exits 0 store gc store --json
is "1 True True" "$(json out 'str(j["sessions_removed"]) + " " + str(j["chunks_removed"] > 0) + " " + str(j["bytes_freed"] > 0)')" "store gc"
for key in segments_removed ms; do
  json out "j['$key']" >/dev/null || fail "store gc --json lacks $key"
done
exits 0 store gc store
grep -q '^removed 0 sessions' out || fail "store gc: $(cat out)"
is "" "$(cat err)" "a progress bar where standard error is no terminal"
exits 2 store gc nowhere
exits 0 store unpin store bob
exits 2 store stat store bob
exits 0 run -m "$model" --store store --session bob -p "$text" -n 1 --json
exits 0 store rm store bob
exits 2 store stat store bob
exits 0 store verify store
segment=$(find store -type f -size +1k ! -name '*.db*' ! -name '*catalog*' | head -n 1)
[ -n "$segment" ] || fail "no segment file in the store"
"$python" -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(0, 2); n = f.tell() // 2; f.seek(n); b = f.read(64); f.seek(n); f.write(bytes(255 - x for x in b))' "$segment"
exits 9 store verify store
[ -s out ] || fail "verify says nothing about a damaged segment"
exits 0 run -m "$model" --store store --session ann -n 8 --digest --json --no-save
is "$cold" "$(json out 'j["logits_sha256"]')" "logits after a resume from a damaged store"
exits 0 store repair store --json
is mended "$(json out 'j["outcome"]')" "store repair: a bad segment"
exits 0 store verify store
exits 0 store repair store
grep -q 'all is well' out || fail "store repair of a sound store: $(cat out)"
cp -r store torn && chmod 700 torn
"$python" -c 'f = open("torn/catalog.db", "r+b"); f.write(bytes(100))'
exits 9 store verify torn
exits 0 store repair torn --json
is "rebuilt 0 0" "$(json out 'j["outcome"] + " " + str(j["sessions_lost"]) + " " + str(j["chunks_orphaned"])')" "store repair: a catalog without a header"
exits 0 store verify torn
exits 0 run -m "$model" --store torn --session ann -n 8 --digest --json --no-save
is "$cold" "$(json out 'j["logits_sha256"]')" "logits after a resume from a repaired store"
cp -r store emptied && chmod 700 emptied && rm -f emptied/catalog.db*
exits 9 store verify emptied
grep -q 'kvrt store repair' err || fail "a missing catalog: the error does not name repair: $(cat err)"
exits 9 store repair emptied
grep -q 'chunks belong to no session' out || fail "store repair without a catalog: $(cat out)"
grep -q 'emptied/damaged-1' out err || fail "store repair without a catalog does not name damaged-1: $(cat out err)"
[ -n "$(ls emptied/damaged-1)" ] || fail "store repair without a catalog: damaged-1 is empty"
exits 0 store verify emptied
exits 0 store repair emptied
exits 2 store repair nowhere

# logits
exits 0 logits -m "$model" --tokens @ids -o rows --all
exits 0 logits -m "$model" --tokens @ids -o row
cmp -s row "$(tail -c "$(wc -c <row)" rows >last && echo last)" || fail "the last of all rows is another than the last row"

# --context: so many tokens have memory, in whole blocks, and no more than the model's own
exits 0 run -m "$model" --tokens 5,6,7 -n 1000 --ignore-eos --context 64 --json
is "context_full 64" "$(json out 'j["finish_reason"] + " " + str(3 + len(j["tokens"]))')" "run --context 64"
exits 8 run -m "$model" --tokens 5 -n 1 --context 5000
grep -q -- '--context is 5000, .* 1024' err || fail "run --context 5000: $(cat err)"
exits 1 run -m "$model" --tokens 5 -n 1 --context 64 --kv-bytes 1M

# chat and doctor
printf 'Hello\n' | "$kvrt" chat -m "$model" --store store --domain guests --session talk -n 2 >out 2>err || fail "chat --domain: $(cat err)"
exits 0 store stat store talk --domain guests --json
exits 2 store stat store talk
exits 1 chat -m "$model" --session ann
grep -q -- '--session requires --store' err || fail "chat --session without --store: $(cat err)"
for command in "" run; do
  if "$kvrt" $command --help >/dev/full 2>err; then fail "$command --help to a full device"; fi
  is "kvrt: cannot write to standard output: No space left on device (IO)" "$(cat err)" "$command --help to a full device"
done
printf 'Hello\n/stats\n/rewind\n/fork other\nHello again\n/save third\n' | "$kvrt" chat -m "$model" --store store --session talk -n 6 >out 2>err || fail "chat: $(cat err)"
exits 0 store stat store talk
exits 0 store stat store other
exits 0 store stat store third
# chat leaves text that is in no message as it is: alone, after a chat, and before an answer; an answer that is still to begin is none
chats() { printf '%s\n' "$2" | "$kvrt" chat -m "$model" --store texts --session "$1" -n 4 >out 2>err; }
exits 0 run -m "$model" -p "$text" -n 4 --store texts --session text
chats talk Hello || fail "chat: $(cat err)"
chats talk "Hello again" || fail "chat, once more: $(cat err)"
exits 0 run -m "$model" -p " And then" -n 4 --store texts --session talk
exits 0 run -m "$model" --chat -p Hello -n 0 --store texts --session begun
exits 0 run -m "$model" -p " Sure," -n 4 --store texts --session begun
for name in text talk begun; do
  exits 0 store show texts $name --json
  cp out before
  status=0
  chats $name Hi || status=$?
  is "3 1" "$status $(grep -c "$name holds text that is in no message.*: kvrt run can go on.*--session.*(CONFLICT)" err)" "chat of text, $name: $(cat err)"
  exits 0 store show texts $name --json
  cmp -s out before || fail "chat changed the text of $name"
done
exits 0 run -m "$model" --chat -p Hello -n 1 --store texts --session cut
exits 0 store show texts cut --json
opened=$(json out 'j["spans"][1]["begin"]')
is True "$(json out 'j["spans"][0]["end"] < j["spans"][1]["begin"]')" "tokens that open an answer"
exits 0 run -m "$model" --truncate "$opened" -n 0 --store texts --session cut
chats cut /continue || fail "chat, an answer that had not begun: $(cat err)"
exits 0 store show texts cut --json
is "2 $opened" "$(json out 'str(len(j["messages"])) + " " + str(j["spans"][1]["begin"])')" "an answer that begins after a kill"
"$kvrt" doctor store >out 2>err || fail "doctor: $(cat out err)"
grep -q '^ok .*kernels' out || fail "doctor: $(cat out)"
# Without /proc, where mounting is permitted; $ORIGIN and LeakSanitizer need it, too.
export library="${kvrt%/bin/*}/lib"
# shellcheck disable=SC2016 # for the inner shell
if unshare -rm sh -c 'mkdir none && mount --bind none /proc && LD_LIBRARY_PATH=$library exec "$0" doctor' "$kvrt" >out 2>err; then
  grep -q '^ok *memory *[1-9].* is unknown: /proc\|memory *[1-9].* free of [1-9]' out || fail "doctor without /proc: $(grep memory out)"
else
  grep -q '^unshare:\|^mount:\|LeakSanitizer' err || fail "doctor without /proc: $(cat out err)"
fi

# devices: a missing library is named, and auto goes on without it
missing=$work/nowhere/libkvrt_cuda.so
exits 14 run -m "$model" -p a -n 1 --device cuda --cuda-library "$missing"
grep -q "kvrt: .*$missing.*(UNSUPPORTED)" err || fail "--device cuda without libkvrt_cuda: $(cat err)"
exits 14 plan -m "$model" --device cuda --cuda-library "$missing"
exits 0 run -m "$model" -p a -n 1 --device auto --cuda-library "$missing"
grep -q "kvrt: note: the CPU computes, not CUDA: .*$missing" err || fail "--device auto without libkvrt_cuda: $(cat err)"
exits 1 run -m "$model" -p a -n 1 --device-index 1
exits 1 run -m "$model" -p a -n 1 --prompt-gemm fp8
exits 1 run -m "$model" -p a -n 1 --device cuda --isa scalar
exits 1 run -m "$model" -p a -n 1 --device tpu
exits 0 doctor --cuda-library "$missing" --json
"$python" -c 'import json, sys
lines = [json.loads(line) for line in open("out")]
sys.exit([sys.argv[1] in l["text"] for l in lines if l["what"] == "cuda" and l["mark"] in ("ok", "warn")] != [True])' "$missing" ||
  fail "doctor --json: $(cat out)"

# bench
exits 0 bench -m "$model" --prompt 64 --depth 0,32 --append 1,5 --batch 2 --state 96 --decode 4 --runs 2 --step-ms 20 --json
[ "$(json out "j['step_ms_max']")" = 20 ] || fail "bench --step-ms 20: $(cat out)"
for key in device device_name version numerics kv_format kv_bytes_per_token prefill_64_tok_s decode_at_32_tok_s append_1_at_32_ms append_5_at_32_ms decode_batch_2_tok_s state_96 cpu isa read_gib_s; do
  json out "j['$key']" >/dev/null || fail "bench --json lacks $key"
done
is "[]" "$(json out "[key for key in j if 'at_0_ms' in key]")" "appends at depth 0, which are prompts"
echo "cli: ok"
