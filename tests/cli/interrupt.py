#!/usr/bin/env python3
"""interrupt.py KVRT MODEL: Ctrl-C in kvrt chat stops the answer and not the program; the next answer comes."""
import signal
import subprocess
import sys

kvrt, model = sys.argv[1:]
chat = subprocess.Popen([kvrt, "chat", "-m", model, "--ignore-eos", "-n", "100000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ask(text):
    chat.stdin.write(text + "\n")
    chat.stdin.flush()


ask("Hello")
assert chat.stdout.read(1), chat.stderr.read()  # the answer has begun, and would go on until the context of 1024 tokens is full
chat.send_signal(signal.SIGINT)
ask("/rewind")
ask("Hello again")
ask("/stats")
out, err = chat.communicate(timeout=600)
if chat.returncode != 0 or err.count("(stopped;") != 1 or "tokens are left" not in err or "last answer:" not in err:
    sys.exit(f"exit {chat.returncode}, {err.count('(stopped;')} answers stopped: {err}")
print("one answer stopped, the next one came")
