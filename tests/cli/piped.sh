#!/bin/sh
# piped.sh KVRT PYTHON TINY: a pipe or a file at standard input is the prompt of a kvrt run whose line has none.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/llama_gqa_f32.gguf
in_a_folder

"$kvrt" run -m "$model" -p 'The lamp' -n 4 >want 2>/dev/null </dev/null
printf 'The lamp' | "$kvrt" run -m "$model" -n 4 >out 2>err || fail "a pipe into run: $(cat err)"
cmp -s out want || fail "a pipe into run: $(cat out err)"
printf 'The lamp' >prompt
"$kvrt" run -m "$model" -n 4 >out 2>err <prompt || fail "a file into run: $(cat err)"
cmp -s out want || fail "a file into run: $(cat out err)"
echo not this | "$kvrt" run -m "$model" -p 'The lamp' -n 4 >out 2>/dev/null
cmp -s out want || fail "a pipe beside -p: $(cat out)"
"$kvrt" run -m "$model" -n 4 --store piped --session a -f - <prompt >out 2>/dev/null
cmp -s out want || fail "-f - of a session: $(cat out)"
# A session goes on without a prompt: what a loop reads, or a pipe that nobody writes to, is not its.
mkfifo idle
exec 3<>idle
"$kvrt" run -m "$model" -n 2 --store piped --session a <idle >out 2>err || fail "an idle pipe beside a session: $(cat err)"
exec 3>&-
printf 'a\na\n' | while read -r name; do "$kvrt" run -m "$model" -n 2 --store piped --session "$name" >/dev/null 2>&1 && echo "$name"; done >out
is 2 "$(wc -l <out | tr -d ' ')" "sessions of a list that a loop reads: $(cat out)"
status=0
printf '' | "$kvrt" run -m "$model" >out 2>err || status=$?
is "1 1" "$status $(grep -c 'give a prompt: ' err)" "an empty pipe alone: $(cat err)"
echo "piped: ok"
