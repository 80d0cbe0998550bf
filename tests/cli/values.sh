#!/bin/sh
# values.sh KVRT PYTHON TINY: wrong values from people and programs: nothing, too much, and files that are none. Each has a message and the
# class of its mistake; none ends the program otherwise. And where the weights are kept.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/llama_gqa_f32.gguf
in_a_folder

# refused CODE WORD ARGUMENT...: with that code, and a message that has the word; nothing on standard output
refused() {
  code=$1 word=$2
  shift 2
  exits "$code" "$@"
  grep -q -e "$word" err || fail "kvrt $*: expected a message with \"$word\", found: $(cat err)"
  is "" "$(cat out)" "standard output of kvrt $*"
}

# no value at all
for option in --session --store --fork-from -n --seed --temp --top-k --top-p --truncate --threads --isa --kv --device --cache-dir --cache-bytes \
  --grammar --json-schema --stop --tokens -f -m --prefill-chunk --block-tokens; do
  refused 1 "$option" run -m "$model" -p a "$option" ''
done
refused 1 --session chat -m "$model" --session ''
refused 1 -n chat -m "$model" -n ''
refused 1 DIR store ls ''
refused 1 NAME store stat . ''
refused 1 NEW store mv . a ''
refused 1 TIME store ttl . a ''
refused 1 MODEL inspect ''
refused 1 --output logits -m "$model" --tokens 1 -o ''
refused 1 --messages template -m "$model" --messages ''
refused 1 --memory plan -m "$model" --memory ''
for option in --prompt --depth --append --batch --state --runs --decode --codec; do
  refused 1 "$option" bench -m "$model" "$option" ''
done
# nothing after an equals sign: the next word is not the value
for option in --session --store --fork-from --seed --temp --truncate --threads --kv --cache-dir --grammar --stop; do
  refused 1 "$option: a value is expected" run -m "$model" -p a "$option=" --json
done
refused 1 '--session: a value is expected' run -m "$model" -p a -n 1 --store unset --session= --domain x
[ ! -e unset ] || fail "a session without a name made a store"
refused 1 '--json: a flag takes no value' run -m "$model" -p a --json=
exits 0 tokenize -m "$model" --prompt= --json
is '{"tokens": []}' "$(cat out)" "tokens of --prompt="
exits 0 run -m "$model" -p a -n 1 --store equals --domain= --session=--x=
exits 0 store ls equals --json
is 1 "$(grep -c '^{"name": "--x=", "domain": "", ' out)" "a session --x=: $(cat out)"
exits 0 tokenize -m "$model" -p --x=
is "$(printf '%s' --x= | "$kvrt" tokenize -m "$model" -f -)" "$(cat out)" "the tokens of --x="
exits 0 tokenize -m "$model" -p ''
is "" "$(cat out)" "tokens of an empty prompt"

# a word in brackets is itself, for a session, a text and a name in a message
for name in ann '[ann]' '[]' '[a,b]'; do exits 0 run -m "$model" -p a -n 1 --store store --session "$name"; done
exits 0 store rm store '[ann]' '[]' '[a,b]'
exits 0 store ls store --json
is 1 "$(grep -c '^{"name": "ann", ' out)$(sed 1d out)" "sessions after [ann] was removed: $(cat out)"
exits 2 store rm store '[ann]'
grep -q 'cannot remove "\[ann\]": ' err || fail "store rm [ann]: $(cat err)"
printf 'root ::= "ENDS[END]"' >ends.gbnf
for stop in '--stop [END]' '--stop=[END]'; do
  # shellcheck disable=SC2086 # one word, or two
  exits 0 run -m "$model" -p a --grammar ends.gbnf $stop --stop '[]'
  is ENDS "$(cat out)" "$stop"
done
exits 0 tokenize -m "$model" -p '[Hello]'
is "$(printf '[Hello]' | "$kvrt" tokenize -m "$model" -f -)" "$(cat out)" "the tokens of [Hello]"
refused 1 'kvrt run takes no argument "\[a\]"' run -m "$model" -p a '[a]'

# numbers that are none, or too large
for number in 99999999999 99999999999999999999999 -1 010 0x10 1e3 5x ' 5' 1.5; do
  refused 1 "whole number\|-n" run -m "$model" -p a -n "$number"
  refused 1 "whole number\|--top-k" run -m "$model" -p a --top-k "$number"
done
for number in -1 18446744073709551616 99999999999999999999999; do
  refused 1 "--seed" run -m "$model" -p a --seed "$number"
  refused 1 "--chunks" perplexity -m "$model" -f ids --chunks "$number"
  refused 1 "--context" plan -m "$model" --context "$number"
done
exits 0 run -m "$model" -p a -n 1 --seed 18446744073709551615
for threads in -1 257 99999999999; do
  refused 1 --threads run -m "$model" -p a --threads "$threads"
done
refused 1 --memory plan -m "$model" --memory 99999999999999999999G
refused 1 --memory plan -m "$model" --memory -1G
refused 1 --cache-bytes run -m "$model" -p a --cache-bytes 1x
for list in 0 4000000000 99999999999 -1 "1," ",1" x "1,x"; do
  refused 1 --prompt bench -m "$model" --prompt "$list"
  refused 1 --batch bench -m "$model" --batch "$list"
  refused 1 --append bench -m "$model" --append "$list"
done
refused 8 context bench -m "$model" --prompt 5000000 --depth none --batch none --state none
refused 8 context bench -m "$model" --prompt none --depth 8 --append 5000000 --batch none --state none
exits 0 run -m "$model" -p a -n 4 --reasoning-max 4294967295 --json
exits 1 run -m "$model" -p a --ignore-eos --reasoning-max 3
exits 0 run -m "$model" -p a -n 4294967295 --ignore-eos --json
grep -q '"finish_reason": *"context_full"' out || fail "-n 4294967295: $(tail -c 300 out)"

# files that are no text: endless, too long, a folder, missing
mkdir folder
printf '[]' >array
for file in /dev/zero folder none; do
  case $file in
    /dev/zero) code=8 word="/dev/zero.*64 MiB" ;;
    folder) code=11 word="folder.*directory" ;;
    none) code=2 word="none.*No such file" ;;
  esac
  refused "$code" "$word" run -m "$model" -f "$file"
  refused "$code" "$word" run -m "$model" --tokens @$file
  refused "$code" "$word" run -m "$model" -p a --grammar $file
  refused "$code" "$word" run -m "$model" -p a --json-schema $file
  refused "$code" "$word" tokenize -m "$model" -f $file
  refused "$code" "$word" detokenize -m "$model" --tokens @$file
  refused "$code" "$word" perplexity -m "$model" -f $file
  refused "$code" "$word" bench -m "$model" --prompt 8 --depth none --state none -f $file
  refused "$code" "$word" logits -m "$model" --tokens @$file -o rows
  refused "$code" "$word" template -m "$model" --messages $file
  refused "$code" "$word" template -m "$model" --messages array --tools $file
  refused "$code" "$word" template -m "$model" --messages array --documents $file
  refused "$code" "$word" template --messages array --template $file
done
refused 11 folder logits -m "$model" --tokens 1 -o folder
status=0
"$kvrt" tokenize -m "$model" -f - >out 2>err </dev/zero || status=$?
is 8 "$status" "an endless standard input"
status=0
"$kvrt" chat -m "$model" >out 2>err </dev/zero || status=$?
is 8 "$status" "an endless line of a chat"
grep -q 'a line has more than the 64 MiB' err || fail "an endless line: $(cat err)"
mkfifo pipe
refused 1 pipe run -m pipe -p a -n 1
refused 1 folder run -m folder -p a -n 1
{ printf 'Hello' >pipe & } 2>/dev/null
exits 0 tokenize -m "$model" -f pipe
wait
cp out piped
exits 0 tokenize -m "$model" -p Hello
cmp -s out piped || fail "a text from a FIFO: $(cat piped)"

# want of memory: a message and its class, and no abort. A sanitizer needs more than any limit.
"$python" -c 'print("the quick brown fox " * 3000000)' >long
# shellcheck disable=SC3045 # dash and bash have it
if (ulimit -v 1000000 && exec "$kvrt" --version) >/dev/null 2>&1; then
  status=0
  # shellcheck disable=SC3045
  (ulimit -v 260000 && exec "$kvrt" tokenize -m "$model" -f long) >out 2>err || status=$?
  is 6 "$status" "60 MB of text with little memory: $(cat err)"
  grep -q 'kvrt: .*NO_MEMORY' err || fail "little memory: $(cat err)"
fi
rm long

# where weights are kept: not unless the user's directory is there to be used, in KVRT_CACHE, where --cache-dir says; and doctor's words
weights() { find "$1" -name '*.kvrtw' 2>/dev/null | wc -l | tr -d ' '; }
mkdir home
exits 0 run -m "$model" -p a -n 1
unset KVRT_CACHE XDG_CACHE_HOME
export HOME="$work/home"
exits 0 run -m "$model" -p a -n 1 --no-weight-cache
exits 0 bench -m "$model" --prompt 8 --depth none --batch none --state none --runs 1
is 0 "$(weights home)" "files of weights with --no-weight-cache"
exits 0 run -m "$model" -p a -n 1
is 1 "$(weights home/.cache/kvrt/weights)" "files of weights in ~/.cache"
is 700 "$(stat -c %a home/.cache/kvrt/weights)" "the mode of the directory"
exits 0 tokenize -m "$model" -p a
is "" "$(cat err)" "messages"
exits 0 doctor
grep -q '^ok .*cache .*home/.cache/kvrt/weights: 1 file .*at most' out || fail "doctor, cache: $(cat out)"
exits 0 doctor --cache-bytes 1K
grep -q '^warn .*cache .*1 file .*takes the place of those used longest ago' out || fail "doctor, cache past its limit: $(cat out)"
exits 0 doctor --cache-bytes 1G --cache-dir other
grep -q '^ok .*cache .*other: 0 files of weights, 0 B of 1.00 GiB at most' out || fail "doctor, --cache-dir: $(cat out)"
KVRT_CACHE=$work/named "$kvrt" run -m "$model" -p a -n 1 >out 2>err
is "1 1" "$(weights named) $(weights home)" "KVRT_CACHE"
exits 0 run -m "$model" -p a -n 1 --cache-dir given
is "1 1" "$(weights given) $(weights home)" "--cache-dir"
refused 1 no-weight-cache run -m "$model" -p a -n 1 --cache-dir given --no-weight-cache
exits 0 run -m "$tiny/llama_mha_f16.gguf" -p a -n 1 --cache-dir given --cache-bytes 200K
is 1 "$(weights given)" "files of 200 KiB together"
exits 0 run -m "$model" -p a -n 1 --cache-dir given --cache-bytes 1K
grep -q 'kvrt: warning: weights are not cached: .*--cache-bytes is 1024' err || fail "--cache-bytes 1K: $(cat err)"
KVRT_CACHE="" "$kvrt" doctor >out
grep -q '^ok .*cache .*KVRT_CACHE is empty' out || fail "doctor, an empty KVRT_CACHE: $(cat out)"
mkdir -p shared && chmod 777 shared
exits 0 doctor --cache-dir shared
grep -q '^warn .*cache .*shared: group or others can write it.*chmod 700' out || fail "doctor, a shared directory: $(cat out)"
exits 0 run -m "$model" -p a -n 1 --cache-dir shared
grep -q 'kvrt: warning: weights are not cached: .*shared' err || fail "a shared directory: $(cat err)"
unset HOME
exits 0 run -m "$model" -p a -n 1
is "" "$(grep -v '^1 prompt token: ' err)" "messages without a HOME"
exits 0 doctor
grep -q '^warn .*cache .*NOT_FOUND' out || fail "doctor without a HOME: $(cat out)"

# places that are not there
TMPDIR=$work/nowhere exits 11 bench -m "$model" --prompt 4 --depth 0 --batch 1 --state 32 --decode 1 --runs 1
is "kvrt: cannot make a directory in $work/nowhere: No such file or directory (IO)" "$(tail -n 1 err)" "bench without a place for states"
exits 2 run -m "$model" --store fresh --no-save -p a -n 1
[ ! -e fresh ] || fail "--no-save makes a store"
exits 2 run -m "$model" --store fresh --fork-from ann --session bob -p a -n 1
[ ! -e fresh ] || fail "--fork-from makes a store"
echo "values: ok"
