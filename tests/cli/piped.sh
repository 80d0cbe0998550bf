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
# What the line names is read before the store is made, and a pipe that stays silent can be interrupted.
exits 2 run -m "$model" --store early --session a -f none.txt
exits 2 run -m "$model" --store early --session a --tokens @none.txt
exits 2 run -m "$model" --store early --session a -p a --grammar none.gbnf
exits 1 run -m "$model" --store early --session a --tokens 1,x
[ ! -e early ] || fail "a file that is not there, and a store was made"
cat >silent.py <<'END'
import pathlib, signal, subprocess, sys, time
kvrt, model = sys.argv[1:]
signal.signal(signal.SIGINT, signal.SIG_DFL)  # for the program
for words in (["run"], ["run", "-f", "-"], ["run", "--tokens", "@-"], ["run", "-p", "a", "--grammar", "-"], ["bench", "-f", "-"], ["chat", "--grammar", "-"]):
    for number in (signal.SIGINT, signal.SIGTERM):
        waits = subprocess.Popen([kvrt, words[0], "-m", model, *words[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        asleep = 0
        while asleep < 20:  # for 0.1 s: it waits for the pipe
            asleep = asleep + 1 if pathlib.Path(f"/proc/{waits.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S" else 0
            time.sleep(0.005)
        waits.send_signal(number)
        assert waits.wait(60) == -number, (words, number, waits.returncode)
END
"$python" silent.py "$kvrt" "$model" || fail "a pipe that stays silent"
status=0
printf '' | "$kvrt" run -m "$model" >out 2>err || status=$?
is "1 1" "$status $(grep -c 'give a prompt: ' err)" "an empty pipe alone: $(cat err)"
echo "piped: ok"
