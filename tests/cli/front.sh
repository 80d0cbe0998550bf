#!/bin/sh
# front.sh KVRT PYTHON TINY: the program's words to people: for mistakes, in help; defaults, units.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/llama_gqa_f32.gguf
in_a_folder

# says TEXT ARGUMENT...: exit code 1, the text in the message, nothing on standard output
says() {
  text=$1
  shift
  exits 1 "$@"
  grep -qF -e "$text" err || fail "kvrt $*: expected \"$text\", found: $(cat err)"
  is "" "$(cat out)" "standard output of kvrt $*"
}
# hint WORD ARGUMENT...: the message suggests the word; no word: it suggests none
hint() {
  word=$1
  shift
  exits 1 "$@"
  is "$word" "$(sed -n 's/.*; did you mean \(.*\)?.*/\1/p' err)" "the suggestion of kvrt $*: $(cat err)"
}

# unknown commands
says "unknown command stor; did you mean store? (INVALID)" stor
hint store stor ls DIR
hint perplexity perp
hint tokenize tokinize
hint "" frobnicate
hint gc store cg DIR
hint verify store verfiy
hint demo demoo
says "unknown option --modle; did you mean --model?" run --modle "$model" -p a
hint --model run --modle="$model" -p a
hint --session run --ses x
hint --temp run --temperature 1
hint --grammar run --grammer x
hint --priority store pin --prio 3 a b
hint --kv-k plan --kvk f16
hint --kv plan --kvx f16
hint "" run --frobnicate
hint "" run -x
hint "" "$("$python" -c 'print("x" * 100000)')"
says "kvrt run takes no argument foo" run foo -m "$model" -p a
says 'kvrt run takes no argument "a b"' run "a b" -m "$model" -p a
hint "-m $model" run "$model"
hint "-m $model" plan "$model" --context 5

# a command without the rest is answered with its help
for command in "" store plan "store rm"; do
  # shellcheck disable=SC2086 # no word, or two
  says "(INVALID)" $command
  # shellcheck disable=SC2086
  "$kvrt" $command --help >whole
  tail -n "$(wc -l <whole)" err | cmp -s - whole || fail "kvrt $command: no help: $(cat err)"
done
says "a command is expected" store
says "a command is expected"
says "-m FILE, or --layers, --kv-heads and --head-dim is required" plan
for command in demo completion; do grep -q "^  $command " whole && fail "kvrt store rm --help has $command"; done
exits 0 help
for command in demo completion; do grep -q "^  $command " out || fail "kvrt help lacks $command"; done
exits 0 help completion
exits 0 demo --help
if grep -q -e --stage -e 'or set KVRT_STORE' out; then fail "the demo's help: $(cat out)"; fi

# ranges, choices and numbers
says "--decode: 0 is not between 1 and 4096" bench -m "$model" --decode 0
says "--threads: 257 is not between 0 and 256" run -m "$model" -p a --threads 257
says "--top-p: 3 is not between 0 and 1" run -m "$model" -p a --top-p 3
says "--temp: nan is not between 0 and 100" run -m "$model" -p a --temp nan
says "--temp: a number is expected, found warm" run -m "$model" -p a --temp warm
says "--kv: fp4 is none of f16, bf16, f32, int8, fp8, int4" run -m "$model" -p a --kv fp4
says "--kv-v: int5 is none of f16, bf16, f32, int8, fp8, int4" plan -m "$model" --kv-v int5
says "--kv: a value is expected, found ''" run -m "$model" -p a --kv ''
says "--memory: a value is expected, found ''" plan -m "$model" --memory ''
says "at most one of --kv-bytes, --context is expected, more are given" run -m "$model" -p a --kv-bytes 1G --context 64
says "--codec: gzip is none of none, zstd" bench -m "$model" --codec gzip
says "-n: 99999999999 is too large" run -m "$model" -p a -n 99999999999
says "--truncate: a whole number from 0 is expected, found -1" run -m "$model" -p a --truncate -1
says "-n: a value is expected" run -m "$model" -p a -n
says "--model is given more than once" run -m "$model" -m "$model" -p a
says "at most one of --prompt, --file, --tokens is expected, more are given" run -m "$model" -p a -f b
says "one of --prompt, --file is expected" tokenize -m "$model"
says "--ignore-eos excludes --grammar" run -m "$model" -p a --ignore-eos --grammar x
if grep -E 'INT in|not in range|UINT|Excludes' err; then fail "CLI11's words"; fi

# sizes, in and out
says "--memory: a size like 512M or 8G is expected" plan --memory 1x
says "--memory: a size like 512M or 8G is expected" plan --memory .5G
says "--memory: 16E is too large" plan --memory 16E
for size in 2147483648 2097152K 2G 2g 2GB 2GiB "2 GiB" 2.0G; do
  exits 0 plan --layers 1 --kv-heads 1 --head-dim 64 --context 9 --memory "$size" --json
  grep -q '"memory_bytes": 2147483648,' out || fail "--memory $size: $(cat out)"
done
exits 0 plan --layers 1 --kv-heads 1 --head-dim 64 --context 9 --memory 1.5M
grep -q 'fits into 1.50 MiB' out || fail "--memory 1.5M: $(cat out)"
exits 0 plan -m "$model" --context 1
grep -q '^session  *1 token in 1 unit, .*KiB' out || fail "plan, one token: $(cat out)"
exits 0 run -m "$model" -p a -n 1 --store store --session one
grep -qE 'saved one \(2 tokens.* [0-9.]+ (KiB|B) written' err || fail "bytes of a save: $(cat err)"
exits 0 store ls store
grep -qE '^1 session, 2 tokens; .* (KiB|B) in all$' out || fail "store ls, one session: $(cat out)"
exits 0 store stat store
grep -q ' 1 session$' out || fail "store stat, one session: $(cat out)"
is "1 1" "$(grep -c 'in 1 segment:' out) $(grep -c '^  evicted  0 resumes found KV given up for want of room$' out)" "store stat, one session: $(cat out)"
for command in "store stat store one" "store ls store" "inspect $model" "doctor store"; do
  # shellcheck disable=SC2086 # several words
  exits 0 $command
  if grep -E '[0-9] (kB|MB|GB)\b|\b1 (sessions|tokens|chunks|files|segments|tensors|CPUs|threads)\b' out; then fail "kvrt $command: units or plurals"; fi
done

# the library's messages name options
exits 8 run -m "$model" -p a --kv-bytes 1
grep -q -- '--kv-bytes is 1, the KV of 64 tokens, the least there is, needs 16K: raise it' err || fail "--kv-bytes 1: $(cat err)"
exits 8 run -m "$model" -p a --kv-bytes 1K
grep -q -- '--kv-bytes is 1K, the KV of' err || fail "--kv-bytes 1K: $(cat err)"
exits 8 run -m "$model" -p a --kv-bytes 100000T
grep -q -- '--kv-bytes is 100000T, this machine has [0-9.]* [GT]iB of memory: lower it' err || fail "--kv-bytes 100000T: $(cat err)"
says "--layers, --kv-heads and --head-dim are given together with -m" plan -m "$model" --layers 3
says "--layers is given without --kv-heads and --head-dim" plan --layers 3
says "--kv-heads and --head-dim are given without --layers" plan --kv-heads 3 --head-dim 4
says "--shared is 9, expected at most the 5 of --context" plan -m "$model" --shared 9 --context 5
exits 8 plan -m "$model" --sessions 4000000000
grep -q -- ' --sessions is 4000000000, the limit' err || fail "plan --sessions: $(cat err)"
exits 8 plan --layers 99999 --kv-heads 1 --head-dim 4 --context 5
grep -q -- ' --layers is 99999, the limit' err || fail "plan --layers: $(cat err)"
exits 8 plan --layers 9 --kv-heads 1 --head-dim 99999 --context 5
grep -q -- ' --head-dim is 99999, the limit' err || fail "plan --head-dim: $(cat err)"
says "--context is 0, expected a length" plan --layers 1 --kv-heads 1 --head-dim 64
says "--step-ms is 99999999" bench -m "$model" --step-ms 99999999
says "--device-index is 1" run -m "$model" -p a --device-index 1
says "--prompt-gemm is for CUDA" run -m "$model" -p a --prompt-gemm fp8
says "--isa is for the CPU" run -m "$model" -p a --device cuda --isa scalar
says "--prompt-gemm is fp8, expected f16 with --determinism strict" run -m "$model" -p a --device cuda --prompt-gemm fp8 --determinism strict
exits 1 run -m "$model" -p a --continue-grammar
grep -q 'the grammar cannot go on, the session' err || fail "--continue-grammar: $(cat err)"
exits 1 run -m "$model" -p a --stop "$("$python" -c 'print("x" * 999)')"
grep -q -- '--stop: number 0 has 999 bytes' err || fail "--stop: $(cat err)"
cp "$model" kv_bytes_max.gguf
exits 14 run -m "$tiny/vocab_only.gguf" -p a -n 1
exits 8 run -m kv_bytes_max.gguf -p a --kv-bytes 1
grep -q -- 'cannot open the model kv_bytes_max.gguf: --kv-bytes is 1' err || fail "a file with a field's name: $(cat err)"

for context in 2 33 64; do
  exits 8 run -m "$model" -p "$(seq 1 100)" --context $context
  grep -q -- "raise --context, which is $context\( and has room for 64 in whole blocks\)\? (LIMIT)" err || fail "--context $context: $(cat err)"
done

# an empty prompt, a model that is none, and each name once, in quotes where it has spaces
says "kvrt: the prompt is empty (INVALID)" run -m "$model" -p '' -n 1
exits 0 inspect "$tiny/vocab_only.gguf"
is "a vocabulary without weights" "$(tail -n 1 out | cut -d: -f1)" "inspect of a vocabulary"
cp "$tiny/../../cli/lib.sh" "no model.gguf"
once() {
  text=$1 code=$2
  shift 2
  exits "$code" "$@"
  is "kvrt: $text" "$(head -n 1 err | cut -c "1-$((6 + ${#text}))")" "kvrt $*"
}
once 'cannot open the model none.gguf: No such file' 2 run -m none.gguf -p a
once 'cannot open the model "no model.gguf": at byte 0: not a GGUF file' 9 run -m "no model.gguf" -p a
once 'cannot inspect none.gguf: cannot open the model: No such' 2 inspect none.gguf
once 'cannot open the store nowhere: no store there' 2 store ls nowhere
once 'cannot open the store no/store: its parent directory is missing' 2 run -m "$model" -p a -n 1 --store no/store --session a
once "cannot inspect $tiny/../../cli/lib.sh: at byte 0: not a GGUF file: expected 47 47 55 46 (GGUF), found 23 20 73 68 (# sh) (CORRUPT)" 9 inspect "$tiny/../../cli/lib.sh"
once 'cannot open "no file": No such' 2 run -m "$model" -f "no file"
once 'cannot look up "my chat": ' 2 store stat store "my chat"

# a directory that is not for a store alone, and a demo's that is not empty
mkdir -m 1777 sticky
mkdir -m 770 mixed
mkdir -m 755 readable
touch mixed/file readable/file
for directory in sticky mixed; do
  exits 1 doctor $directory
  grep -q "^fail *store .*name a directory below it, such as $directory/store;" out || fail "doctor $directory: $(cat out)"
  if grep chmod out; then fail "doctor $directory advises chmod"; fi
done
status=0
"$kvrt" doctor readable >out 2>err || status=$?
grep -q "^warn *store .*name a directory below it, such as readable/store;" out || fail "doctor readable: $(cat out)"
exits 3 demo -m "$model" --store readable
is "" "$(cat out)" "a demo in a directory that is not empty"
grep -q 'kvrt: readable is not an empty directory.*(CONFLICT)' err || fail "a demo in a directory that is not empty: $(cat err)"

# another model's session is replaced on demand
exits 10 run -m "$tiny/llama_mha_f16.gguf" -p a -n 1 --store store --session one
exits 0 run -m "$tiny/llama_mha_f16.gguf" -p a -n 1 --store store --session one --overwrite
exits 10 run -m "$model" -p a -n 1 --store store --session one

# a reader that goes away is nobody's mistake, and a full device is one
for ignored in no yes; do
  (
    [ $ignored = no ] || trap '' PIPE
    status=0
    "$kvrt" store ls store 2>err || status=$?
    echo $status >code
  ) | true
  is "141 " "$(cat code) $(cat err)" "store ls without a reader (SIGPIPE ignored: $ignored)"
done
status=0
"$kvrt" store ls store >/dev/full 2>err || status=$?
is 11 "$status" "store ls to a full device: $(cat err)"
for command in "run -m $model -p hi -n 2" "store ls store" "chat -m $model -n 2"; do
  # shellcheck disable=SC2086 # several words
  echo Hi | "$kvrt" $command >/dev/full 2>err || true
  grep -q 'cannot write to standard output: No space left on device' err || fail "kvrt $command to a full device: $(cat err)"
done

# what a file says does not reach a terminal as it is: a value, a name, the file's own name, and what refuses them
"$python" -c 'import sys
b = open(sys.argv[1], "rb").read()
def text(key, value):
    global b
    at = b.index(key) + len(key) + 4
    length = int.from_bytes(b[at:at + 8], "little")
    b = b[:at + 8] + value[:length].ljust(length, b".") + b[at + 8 + length:]
text(b"general.architecture", b"a\x1b\n\xc2\x9b")
text(b"tokenizer.ggml.model", b"b\x1b[3")
text(b"tokenizer.ggml.pre", b"c\x1b\xc2\x9b")
b = b.replace(b"blk.0.attn_q.weight", b"blk.0.\xe2\x80\xae\xc2\x9bq.weight")
open("a\x1b\nb.gguf", "wb").write(b)' "$tiny/row_llama3.gguf"
clean() {
  if "$python" -c 'import re, sys; sys.exit(not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", sys.stdin.read()))' <"$1"; then
    fail "$2 shows control characters: $(cat -v "$1")"
  fi
}
evil=$(printf 'a\033\nb.gguf')
for model_and_more in "inspect" "inspect --all" "run -p a -m" "plan -m"; do
  # shellcheck disable=SC2086 # several words
  "$kvrt" $model_and_more "$evil" >out 2>err </dev/null && fail "kvrt $model_and_more took a file of no known kind"
  clean out "kvrt $model_and_more"
  clean err "kvrt $model_and_more"
  is "" "$(grep -v '^kvrt: ' err)" "lines that kvrt $model_and_more did not begin itself"
done
is 'a\x1b\x0ab.gguf' "$("$kvrt" inspect "$evil" | head -n 1 | cut -d : -f 1)" "a file's name"

# a part of a model, and a model of another kind
size=$(wc -c <"$model" | tr -d ' ')
head -c $((size - 1)) "$model" >part.gguf
exits 9 run -m part.gguf -p a
grep -q 'part.gguf: incomplete: .* bytes expected, .* found; download it again' err || fail "a part of a model: $(cat err)"
head -c 1000 "$model" >part.gguf
exits 9 inspect part.gguf
grep -q 'incomplete: .* bytes expected at least, 1,000 found' err || fail "a part of a header: $(cat err)"
"$python" -c 'import sys; b = open(sys.argv[1], "rb").read(); open("other.gguf", "wb").write(b.replace(b"llama", b"mamba"))' "$model"
exits 14 run -m other.gguf -p a
grep -q 'architecture "mamba" is not supported; these are: llama, qwen2,' err || fail "another architecture: $(cat err)"

# help
exits 0 --help
cp out whole
exits 0 help
cmp -s out whole || fail "kvrt help is another than --help"
for command in run "store gc" help; do
  # shellcheck disable=SC2086 # two words
  exits 0 $command --help
  cp out whole
  # shellcheck disable=SC2086
  exits 0 help $command
  cmp -s out whole || fail "kvrt help $command is another than $command --help"
done
says "kvrt plan takes no argument chat" help plan chat
hint store help stor
hint gc store gcc --help
exits 0 run --help
for text in 'Usage: kvrt run \[OPTIONS\]' '-m, --model FILE' 'or set KVRT_MODEL' '8G is 8 GiB' 'config.toml'; do
  grep -q -e "$text" out || fail "run --help lacks $text"
done
grep -A 1 '^At most one of:' out | grep -q '^  --kv-bytes ' || fail "run --help: --kv-bytes and --context do not exclude each other: $(cat out)"
is "" "$(grep -E '.{121}' out)" "lines of run --help over 120 columns"
exits 0 plan -m "$tiny/row_gemma2.gguf"
is "" "$(grep -E '.{81}' out)" "lines of plan over 80 columns"
exits 0 help store rm
grep -q '^Usage: kvrt store rm \[OPTIONS\] DIR NAME...$' out || fail "the usage of store rm: $(cat out)"

# version: the parts that it is made of
exits 0 --version
version=$(sed 's/kvrt //' out)
exits 0 version
for text in "^kvrt $version, ABI [0-9]" '^isa  *[a-z0-9]*, arithmetic cpu-' '^sqlite  *3\.' '^zstd  *1\.' '^pcre2  *10\.' '^libsodium  *1\.' '^xxhash  *0\.'; do
  grep -q "$text" out || fail "kvrt version lacks $text: $(cat out)"
done
exits 0 version --json
"$python" -c 'import json, sys
j = json.load(open("out"))
sys.exit(j["version"] != sys.argv[1] or not j["isa"] or set(j["libraries"]) != {"sqlite", "zstd", "pcre2", "libsodium", "xxhash"})' "$version" ||
  fail "version --json: $(cat out)"

# no model: three lines that say where one is found and how to name it
XDG_CACHE_HOME=$work/none exits 1 chat
is 3 "$(wc -l <err | tr -d ' ')" "lines of kvrt chat without a model: $(cat err)"
for text in huggingface.co './dev model' '-m FILE' KVRT_MODEL config.toml; do
  grep -qF -e "$text" err || fail "kvrt chat without a model lacks $text"
done

XDG_CONFIG_HOME=$work/config exits 1 chat
grep -qF "or model = \"FILE\" in $work/config/kvrt/config.toml." err || fail "kvrt chat without a model, with XDG_CONFIG_HOME: $(cat err)"

# defaults: the command line, the environment, the file
asked() { "$kvrt" tokenize "$@" -p Hello; }
"$kvrt" tokenize -m "$model" -p Hello >want
KVRT_MODEL=$model asked >out
cmp -s out want || fail "KVRT_MODEL"
KVRT_MODEL=none.gguf asked -m "$model" >out
cmp -s out want || fail "-m before KVRT_MODEL"
mkdir -p config/kvrt
file=$work/config/kvrt/config.toml
export XDG_CONFIG_HOME="$work/config"
printf '# where my models are\r\nmodel = "%s"  # the small one\r\n\r\n' "$model" >"$file"
asked >out
cmp -s out want || fail "model in config.toml"
status=0
KVRT_MODEL=$work/none.gguf asked >out 2>err || status=$?
is "2 1" "$status $(grep -c none.gguf err)" "KVRT_MODEL before config.toml"
exits 0 inspect
exits 0 plan --layers 1 --kv-heads 1 --head-dim 64 --context 9
echo '[]' >messages
echo 'x' >jinja
exits 0 template --template jinja --messages messages
KVRT_MODEL='' asked >out
cmp -s out want || fail "an empty KVRT_MODEL, which is none, before config.toml"
XDG_CONFIG_HOME=relative HOME=$work "$kvrt" tokenize -p Hello >out 2>err && fail "a relative XDG_CONFIG_HOME is no folder of defaults"
mkdir -p .config/kvrt
cp "$model" home.gguf
echo "model = '~/home.gguf'" >.config/kvrt/config.toml
(unset XDG_CONFIG_HOME && HOME=$work asked) >out
cmp -s out want || fail "config.toml in HOME/.config, and a path from the home on"

# that file in a HOME of another user
rm .config/kvrt/config.toml
mkdir .config/kvrt/config.toml
(unset XDG_CONFIG_HOME && HOME=$work asked -m "$model") >out 2>err
cmp -s out want || fail "a config.toml that cannot be read"
is "kvrt: warning: cannot read $work/.config/kvrt/config.toml: Is a directory" "$(cat err)" "a config.toml that cannot be read"
rmdir .config/kvrt/config.toml

# a default store: used where a session is named, and no reason to refuse or to save
printf 'model = "%s"\nstore = "%s"\n' "$model" "$work/mine" >"$file"
exits 0 run -p a -n 1
[ ! -e mine ] || fail "a default store alone was opened"
exits 0 run -p a -n 1 --session ann
exits 0 store stat mine ann
exits 0 store ls
grep -q '^ann ' out || fail "store ls of the default store: $(cat out)"
exits 0 store stat --store mine ann
KVRT_STORE=$work/other exits 0 run -p a -n 1 --session bob
exits 0 store stat other bob
KVRT_STORE=$work/other exits 0 run -p a -n 1 --session eve --store mine
exits 0 store stat mine eve
exits 1 run -p a -n 1 --store mine
grep -q -- --no-save err || fail "--store without --session: $(cat err)"
exits 0 run --fork-from ann -n 1
cp -r mine copy && chmod 700 copy
exits 0 store pin ann
exits 0 store mv ann lee
exits 0 store ttl lee 1h
exits 0 store rm copy ann
exits 2 store stat copy ann
exits 0 store rm lee
exits 2 store stat mine lee
exits 2 store rm lee
grep -q 'cannot remove lee: ' err || fail "store rm NAME: $(cat err)"
exits 0 run -p a -n 1 --session ann
says "NAME is required" store rm --store mine
printf 'Hi\n/save\n' | "$kvrt" chat --session talk -n 2 >out 2>err || fail "chat with defaults: $(cat err)"
exits 0 store stat mine talk

# a file that is wrong is named, with its line; commands that need none of it go on
wrong() {
  text=$1
  shift
  # shellcheck disable=SC2059 # with its line ends
  printf "$@" >"$file"
  says "$text" run -p a -n 1
  says "$text" chat
  exits 0 --help
  exits 0 run --help
}
wrong "$file:2: unknown key modle" '\nmodle = "a"\n'
wrong "$file:1: unknown key [run]" '[run]\nmodel = "/a"\n'
wrong "$file:1: model: expected a text in quotes" 'model = a\n'
wrong "$file:1: model: expected a text in quotes" 'model\n'
wrong "$file:1: store: expected a text in quotes" 'store = "/a" b\n'
wrong "$file:1: store: expected a text in quotes" 'store = "/a'
wrong "$file:1: model: expected a path that begins with / or ~/" 'model = "a.gguf"\n'
wrong "$file:1: model: expected a path that begins with / or ~/" 'model = ""\n'
exits 0 help store
rm "$file"
mkdir "$file"
says "cannot read $file: Is a directory" run -p a
rmdir "$file"
if [ "$(id -u)" != 0 ]; then
  echo 'model = "/a"' >"$file"
  chmod 0 "$file"
  says "cannot read $file: Permission denied" run -p a
fi
echo "front: ok"
