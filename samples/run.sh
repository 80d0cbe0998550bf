#!/bin/sh
# run.sh PROGRAMS [MODEL [OTHER...]]: runs every sample and checks its output, shared_prefix also with the other models. Without MODEL: the real
# one, KVRT_MODEL or the cache's.
set -eu
programs=$1
model=${2:-${KVRT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/kvrt/models/SmolLM2-135M-Instruct.Q4_1.gguf}}
[ -r "$model" ] || {
  echo "samples: no model $model"
  exit 77
}
work=$(mktemp -d)
# A sample that fails ends the script: say so, and what it said.
ended() {
  status=$?
  [ $status = 0 ] || echo "samples: ended with status $status after:" "$(cat "$work/out" "$work/err" 2>/dev/null || true)"
  rm -rf "$work"
}
trap ended EXIT
# said FILE TEXT: the sample printed it.
said() {
  grep -q "$2" "$1" || {
    echo "samples: expected \"$2\", found:"
    cat "$1"
    exit 1
  }
}

printf 'Who are you?\nWhat did I ask "first"?\n' | "$programs/chat" "$model" 8 >"$work/out" 2>"$work/err"
said "$work/err" "prompt tokens"
[ "$(grep -c 'prompt tokens' "$work/err")" = 2 ] || said "$work/err" "two answers"
# What the model cannot take is one message, however long it is, and does not end the chat.
{
  printf 'No UTF-8: \377\n'
  head -c 100000 /dev/zero | tr '\0' a
  printf '\nWho are you?\n'
} | "$programs/chat" "$model" 8 >"$work/out" 2>"$work/err"
for what in '(INVALID)' '(LIMIT)' 'prompt tokens'; do
  [ "$(grep -c "$what" "$work/err")" = 1 ] || said "$work/err" "$what once"
done

text="The harbour master keeps a list of every boat, its owner, its colours and the day it came. The list is long, and this is how it begins:"
"$programs/resume" "$model" "$work/store" ann "$text" 8 >"$work/out" 2>"$work/err"
said "$work/err" "new conversation"
"$programs/resume" "$model" "$work/store" ann " And then" 8 >"$work/out" 2>"$work/err"
said "$work/err" "resumed: [1-9][0-9]* tokens from disk"

"$programs/best_of_n" "$model" "$text" 3 8 >"$work/out" 2>"$work/err"
said "$work/out" "^=== best: [123]"
said "$work/err" "seed 3: [1-9][0-9]* of [1-9][0-9]* prompt tokens shared"

{
  printf '%s\n' "$text"
  for i in 1 2 3 4 5 6 7; do printf 'Request %s of seven is short.\n' "$i"; done
} | "$programs/server_loop" "$model" 6 >"$work/out" 2>"$work/err"
[ "$(grep -c ': done: [1-6] tokens' "$work/out")" = 8 ] || said "$work/out" "eight answers"
said "$work/err" '^kvrt_done_total{model=".*",reason="\(max_tokens\|eos\)"} [1-8]$'
# Half a line does not hold up the answer to the line before.
rm "$work/out"
# shellcheck disable=SC2094 # the writer waits for the answer
{
  printf 'This line is whole.\nThis one '
  tries=0
  until grep -q '^1: done' "$work/out" 2>/dev/null; do
    sleep 0.1
    [ $((tries += 1)) != 600 ] || exit # without the other half
  done
  printf 'comes in two parts.\nThis is the third.\n'
} | "$programs/server_loop" "$model" 6 >"$work/out" 2>"$work/err"
said "$work/out" '^3: done: [1-6] tokens'

"$programs/tools" "$model" "What is 17 + 25?" >"$work/out" 2>"$work/err"
said "$work/out" '^call: {"name":"add","arguments":{"[ab]":[-+.e0-9]*,"[ab]":[-+.e0-9]*}}$'
said "$work/out" "^tool: -\{0,1\}[0-9]"
said "$work/err" "^\[tool: [1-9][0-9]* tokens"
said "$work/err" "^\[assistant: [1-9][0-9]* prompt tokens, [1-9]"

shift
[ $# = 0 ] || shift
for model in "$model" "$@"; do
  rm -rf "$work/shared"
  "$programs/shared_prefix" "$model" "$work/shared" >"$work/out" 2>"$work/err"
  said "$work/out" "^ann: .* 0 from disk"
  said "$work/out" "^bob: .* [1-9][0-9]* from disk"
  "$programs/shared_prefix" "$model" "$work/shared" >"$work/out" 2>"$work/err"
  said "$work/out" "^ann: .* [1-9][0-9]* from disk"
  said "$work/out" "^bob: .* [1-9][0-9]* from disk"
done
echo "samples: ok"
