#!/bin/sh
# chat.sh KVRT PYTHON TINY: what kvrt chat says to people whose lines come through a pipe: of its commands, of room, of a session that goes on, of models
# without a chat template.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/llama_gqa_f32.gguf
in_a_folder

# no model: kvrt chat names those that ./dev model fetched, by lines to type
mkdir -p cache/kvrt/models
touch cache/kvrt/models/b.gguf "cache/kvrt/models/a b.gguf" cache/kvrt/models/c.part
XDG_CACHE_HOME=$work/cache exits 1 chat
tail -n +4 err >lines
printf 'Here are:\n  %s chat -m "%s"\n  %s chat -m %s\n' "$kvrt" "$work/cache/kvrt/models/a b.gguf" "$kvrt" "$work/cache/kvrt/models/b.gguf" | cmp -s - lines ||
  fail "kvrt chat names the models that are here: $(cat err)"
XDG_CACHE_HOME=$work/cache exits 1 run -p a
is 3 "$(wc -l <err | tr -d ' ')" "lines of kvrt run without a model: $(cat err)"
cp "$model" cache/kvrt/models/b.gguf
echo Hello | sh -c "$(tail -1 lines) -n 2" >out 2>err || fail "the line that kvrt chat names: $(cat err)"

# the commands of a chat: options that are none, arguments that none takes; commands that make room; a store that can only be read
talk() {
  lines=$1
  shift
  status=0
  printf '%b' "$lines" | "$kvrt" chat -m "$model" --ignore-eos --temp 0 "$@" >out 2>err || status=$?
}
# a command that fails ends a chat of lines from a pipe
talk 'Hello\n' -n 4
mv out once
mistaken() {
  talk "Hello\n$1\nHello\n" -n 4
  grep -qF -e "$2" err || fail "a chat's commands: no \"$2\": $(cat err)"
  is "1" "$status" "exit code of a chat with $1: $(cat err)"
  cmp -s out once || fail "a chat goes on after $1: $(cat out)"
}
mistaken '/save --overwite' '/save: unknown option --overwite; did you mean --overwrite? (INVALID)'
mistaken '/fork --name x' '/fork: unknown option --name (INVALID)'
mistaken '/forget it' '/forget takes no argument it'
mistaken '/stats x' '/stats takes no argument x'
mistaken '/quit now' '/quit takes no argument now'
mistaken '/sav' 'no command /sav'
mistaken '/retry later' '/retry takes a seed, a whole number from 0, not later (INVALID)'
mistaken '/retry 1 2' '/retry takes a seed, a whole number from 0, not "1 2" (INVALID)'
mistaken '/retry 99999999999999999999' '/retry takes a seed'
mistaken /forget 'there is no turn before the last one'
talk 'Hello\n/fork other\nHello\n' -n 4 --store taken
is 0 "$status" "a fork: $(cat err)"
talk 'Hello\n/fork other\nHello\n' -n 4 --store taken --session again
is 3 "$status" "a fork whose name is taken: $(cat err)"
cmp -s out once || fail "a chat goes on after a fork that was refused: $(cat out)"
# line ends as Windows has them, and white space after a command, are no part of a line
talk 'Hello\r\n/retry\r\n/fork \tother \t\r\n/stats \nHello\r\n/exit \r\nHello\r\n' -n 4 --store ends
is "0 1" "$status $(grep -c '^the chat goes on in other$' err)" "lines that end in blanks: $(cat err)"
exits 0 store show ends other --json
is "Hello 4" "$(json out 'j["messages"][0]["content"] + " " + str(len(j["messages"]))')" "messages of lines that end in blanks"
for day in 1 2 3; do
  talk 'Hello\n/fork\n' -n 4 --store days --domain d
  [ $day = 1 ] && number= || number=-$day
  is "0 1" "$status $(grep -c "^the chat goes on in chat-fork$number\$" err)" "a fork on day $day: $(cat err)"
done
# /continue: of an answer that the model has ended, and of a part of it
printf 'root ::= "abc"' >abc.gbnf
printf 'Hello\n/continue\n' | "$kvrt" chat -m "$model" --grammar abc.gbnf >out 2>err && fail "/continue of an ended answer: $(cat err)"
grep -q 'no answer was cut short' err || fail "/continue of an ended answer: $(cat err)"
printf 'Hello\n/stats\n' | "$kvrt" chat -m "$model" --grammar abc.gbnf >out 2>err || fail "a chat with a grammar: $(cat err)"
tokens=$(sed -n 's/^\([0-9]*\) tokens of .*/\1/p' err)
printf 'Hello\n/rewind %s\n/continue\n' $((tokens - 2)) | "$kvrt" chat -m "$model" -n 3 --grammar abc.gbnf >out 2>err || fail "/continue after /rewind: $(cat err)"
# the grammar is read once, and a fault of it is told before the first question: no question is left without an answer
bound() {
  lines=$1
  shift
  status=0
  printf '%b' "$lines" | "$kvrt" chat -m "$model" --temp 0 "$@" >out 2>err || status=$?
}
bound 'Hello\n' --grammar none.gbnf --store typo
is "2 1" "$status $(grep -c '^kvrt: cannot open none.gbnf: No such file' err)" "a chat whose grammar is not there: $(cat err)"
printf 'root ::= "a' >torn.gbnf
bound 'Hello\n' --grammar torn.gbnf --store typo
is "1 1" "$status $(grep -c '^kvrt: cannot follow torn.gbnf: .*(INVALID)$' err)" "a chat whose grammar is torn: $(cat err)"
[ ! -e typo ] || fail "a chat without its grammar made a store"
# /continue goes on within the grammar, also in another process; an answer without one has none to go on with
printf 'root ::= "name: " [a-f]{30}' >name.gbnf
for with in "" "--reasoning-max 5"; do
  # shellcheck disable=SC2086 # words
  bound 'Hello\n/continue\n/continue\n' --grammar name.gbnf -n 4 --store cut --session a $with
  # shellcheck disable=SC2086
  bound '/continue\n/continue\n/continue\n/continue\n/continue\n/continue\n/continue\n' --grammar name.gbnf -n 6 --store cut --session a $with
  exits 0 store show cut a --json
  is True "$(json out '__import__("re").fullmatch("name: [a-f]{30}", j["messages"][-1]["content"]) is not None')" "/continue of an answer by a grammar: $(cat out)"
  exits 0 store rm cut a
done
talk 'Hello\n' -n 2 --store cut --session free
bound '/continue\n' -n 2 --store cut --session free --grammar name.gbnf
is "1 1" "$status $(grep -c '^(/retry answers again, by the grammar from the beginning)$' err)" "/continue of a free answer by a grammar: $(cat err)"
exits 1 chat -m "$model" --continue-grammar
mkfifo once.gbnf
cat abc.gbnf >once.gbnf &
bound 'Hello\n/retry\nHello\n' --grammar once.gbnf
is "0 abc abc abc" "$status $(tr '\n' ' ' <out | sed 's/ $//')" "a grammar that can be read only once: $(cat err)"
# /save under another name says that the chat goes on there
talk 'Hello\n/save\n/save --overwrite chat\n' -n 4 --store names
is "0 0" "$status $(grep -c 'goes on' err)" "/save under the chat's own name: $(cat err)"
talk '/save backup\nHello\n' -n 4 --store names
is "0 1" "$status $(grep -c '^the chat goes on in backup$' err)" "/save under another name: $(cat err)"
exits 0 store stat names chat --json
kept=$(json out 'j["tokens"]')
exits 0 store stat names backup --json
is True "$(json out "j['tokens'] > $kept")" "tokens of the session that the chat went on in: $(cat out)"
talk '/save --overwite\n' -n 4 --store commands
talk 'Hello\n' -n 4 --store commands
exits 0 store ls commands
is 1 "$(grep -c ' never' out)" "sessions of a chat with mistaken options"
talk 'Hello\n' --context 64 -n 1000
is "1 0" "$(grep -c '/rewind removes the turn; a larger --context' err) $(grep -c /forget err)" "one turn fills the context: $(cat err)"
is 1 "$(grep -c '^(the context is full: 64 tokens)$' err)" "a full context: $(cat err)"
talk 'Hello\n/stats\n' --kv-bytes 20K -n 1000
is "1 1" "$(grep -c 'a larger --kv-bytes gives more room' err) $(grep -c '^64 tokens of 64 (the room in --kv-bytes; ' err)" "one turn fills --kv-bytes: $(cat err)"
talk 'Hello\n/stats\n' -n 2000
is "1 1" "$(grep -c "(/rewind removes the turn; the model's context has no more than 1024 tokens)" err) $(grep -c "^1024 tokens of 1024 (the model's context)" err)" \
  "one turn fills the model's context: $(cat err)"
talk '/stats\n' --context 10
is 1 "$(grep -c "^0 tokens of 64 (--context 10 in whole blocks; the model's context is 1024)$" err)" "/stats with --context 10: $(cat err)"
talk 'Hello\n/rewind 60\nHello\n/stats\n/rewind 40\nWho\n' -n 30
is "1 1" "$(grep -c '^(the answer is cut here: /continue goes on from here)$' err) $(grep -c 'cuts the user message in two: the next message drops the rest' err)" \
  "/rewind into the middle of messages: $(cat err)"
grep -q '^([0-9]* tokens from token [0-9]* on are dropped: no message has them)$' err || fail "a message after half a one: $(cat err)"
grep -q '^reuse stopped at token .*: what follows is new$' err || fail "/stats in words: $(cat err)"
# --system: with the first question, so that a chat without one takes no name; of a session that has begun it says what else may be done
talk '' -n 4 --store lamps --system 'You are a lamp.'
exits 2 store stat lamps chat
talk 'Hello\nHello\n' -n 4 --store lamps --system 'You are the moon.'
exits 0 store show lamps chat --json
is "system user assistant user assistant You are the moon." "$(json out '" ".join([m["role"] for m in j["messages"]] + [j["messages"][0]["content"]])')" "a system message"
talk 'Hello\n' -n 4 --store lamps --system 'You are a lamp.'
is "0 1" "$status $(grep -c '^(--system is for a new session, this one goes on as it began; --session NAME begins another, kvrt store rm removes this one)$' err)" \
  "a system message of a session that has begun: $(cat err)"
talk '' --store commands --session q -n 4
talk 'Hello\n' --store commands --session q -n 4
talk '/continue\n' --store commands --session q -n 4
is "1 0" "$(grep -c '^(cut; /continue goes on)$' err) $(grep -c '^kvrt:' err)" "a chat that goes on after an answer that was cut: $(cat err)"
exits 0 run -m "$model" --chat -p Hello -n 0 --store commands --session asked
talk '' --store commands --session asked --kv fp8
is "1 1" "$(grep -c '^(not answered yet; /continue answers)$' err) $(grep -c '^asked goes on: .* ms; its KV is computed again: it was saved in f16, and is ' err)" \
  "a chat that goes on with a question, and with another --kv: $(cat err)"
talk "$(seq -s ' ' 100)\n" -n 4 --context 64
is "1 0" "$(grep -c '(a larger --context' err) $(grep -c /forget err)" "a message longer than the context: $(cat err)"
talk 'Hello\nHello\nHello\nHello\n' --context 192 -n 60
is 1 "$(grep -c '/forget drops the oldest turn' err)" "several turns fill the context: $(cat err)"
# a session that a larger pool made: it is read, says how to go on, is made shorter, and goes on from its KV
talk 'Hello\nHello\nHello\n' --store long --session long -n 60
talk '/history\nHello\n' --store long --session long -n 4 --context 128
is "8 3 1" "$status $(grep -c '^user: Hello$' err) $(grep -c '^(long has [0-9]* tokens, there is room for 128: it can be read and made shorter)$' err)" "a chat longer than its room: $(cat err)"
is "2 1" "$(grep -c '^(/forget drops the oldest turn, /rewind the last one; a larger --context gives more room, ' err) $(grep -c '[0-9]* tokens need .* the pool has 4, which hold 128 tokens: truncate or erase, or raise --context, which is 128 (LIMIT)$' err)" \
  "how a chat longer than its room may go on: $(cat err)"
talk '/rewind 100\n/continue\n/stats\n' --store long --session long -n 4 --context 128
is "0 1" "$status $(grep -c '^last answer: 100 prompt tokens (0 memory, 96 disk, 4 computed)' err)" "a chat that was made shorter: $(cat err)"
exits 8 run -m "$model" --store long --session long --chat -p Hello -n 4 --context 64
exits 0 run -m "$model" --store long --session long --truncate 40 -p Hello -n 4 --context 64 --json
grep -q '"reused_disk": 32, .*"reuse_stopped": "new_tokens"' out || fail "a run of a session that was made shorter: $(cat out)"
# a session that another chat has open: it is said before the answer, by the process that comes second; the one that saves second is refused
exits 0 run -m "$model" --chat -p Hello -n 4 --store twice --session both
mkfifo typed
"$kvrt" chat -m "$model" --ignore-eos -n 4 --store twice --session both <typed >/dev/null 2>first &
other=$!
exec 3>typed
until grep -q '^both goes on' first || ! kill -0 $other; do sleep 0.1; done
told="^(both is open in process $other, too: once one of the two has saved, saves of the other are refused; "
exits 0 run -m "$model" --chat -p Hello -n 4 --store twice --session both --no-save
is 0 "$(cat err first | grep -c 'is open in')" "a run that saves nothing beside a chat: $(cat err first)"
for options in "--overwrite replaces what that one saves meanwhile" "--fork-from both --session NAME goes on under another name"; do
  [ "${options%% *}" = --overwrite ] && overwrite=--overwrite || overwrite=
  # shellcheck disable=SC2086 # one word or none
  exits 0 run -m "$model" --chat -p Hello -n 4 --store twice --session both $overwrite
  is 1 "$(grep -c -e "$told$options)$" err)" "a run beside a chat: $(cat err)"
done
talk 'Hello\n' -n 4 --store twice --session both
is "0 1" "$status $(grep -c -e "$told/fork NAME goes on under another name)$" err)" "a chat beside a chat: $(cat err)"
echo Hello >&3
exec 3>&-
status=0
wait $other || status=$?
is "3 1" "$status $(grep -c '^kvrt: cannot save both: session was saved elsewhere' first)" "the chat that saves second: $(cat first)"
talk 'Hello\n' -n 4 --store twice --session both
is "0 0" "$status $(grep -c 'is open in' err)" "a chat alone: $(cat err)"
mkdir fixed
# shellcheck disable=SC2016 # for the inner shell
fixed='mount --bind commands fixed && mount -o remount,ro,bind fixed && printf "Hello\n" | "$0" chat -m "$1" -n 4 --store fixed'
if [ "$(id -u)" = 0 ] && unshare -m mount --bind commands fixed 2>/dev/null; then
  unshare -m sh -c "$fixed" "$kvrt" "$model" >out 2>err || fail "a chat of a store that can only be read: $(cat err)"
  is "1 0" "$(grep -c '(fixed is read-only: nothing of this chat will be saved)' err) $(grep -c kvrt: err)" "a store that can only be read: $(cat err)"
else
  echo "chat: mounting is not permitted here: a store that can only be read was not tried"
fi

# a model without a chat template
"$python" -c 'import sys; b = open(sys.argv[1], "rb").read(); open("plain.gguf", "wb").write(b.replace(b"tokenizer.chat_template", b"tokenizer.chat_templat_"))' "$model"
exits 0 run -m plain.gguf -p a -n 1
for command in chat "demo --store shown"; do
  # shellcheck disable=SC2086 # one word, or three
  exits 14 $command -m plain.gguf
  is "kvrt: plain.gguf has no chat template, so no message can be rendered: kvrt run" "$(head -n 1 err | cut -d ' ' -f 1-14)" "kvrt $command without a chat template"
done
is " no" "$(cat out) $([ -e shown ] && echo yes || echo no)" "what a demo without a chat template begins"
exits 0 inspect plain.gguf
grep -q '^it has no chat template: kvrt run ' out || fail "inspect without a chat template: $(tail -n 3 out)"
exits 0 inspect "$model"
is "kvrt runs it" "$(tail -n 1 out)" "inspect with a chat template"

# a context that the demo's conversation does not fit into
exits 8 demo -m "$tiny/row_qwen35.gguf" --store short
is "(the demo needs a model with a longer context, or more --kv-bytes)" "$(tail -n 1 err)" "a demo that does not fit"
# its options are those of its processes
exits 8 demo -m "$model" --store small --kv-bytes 64K
exits 14 demo -m "$model" --store none --device cuda --cuda-library "$work/none.so"
grep -q none.so err || fail "a demo with a library that is not there: $(cat err)"
echo "chat: ok"
