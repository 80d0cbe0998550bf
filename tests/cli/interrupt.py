#!/usr/bin/env python3
"""interrupt.py KVRT MODEL: Ctrl-C in kvrt chat stops the answer and not the program; the next answer comes."""
import signal
import subprocess
import sys
import time

kvrt, model = sys.argv[1:]
chat = subprocess.Popen([kvrt, "chat", "-m", model, "--ignore-eos", "-n", "100000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ask(text):
    chat.stdin.write(text + "\n")
    chat.stdin.flush()


def interrupt_answer():
    assert chat.stdout.read(1), chat.stderr.read()  # the answer has begun; it would go on until the context is full
    time.sleep(0.02)
    chat.send_signal(signal.SIGINT)


ask("Hello")
interrupt_answer()
ask("/rewind")
ask("Hello again")
interrupt_answer()
out, err = chat.communicate(timeout=60)
stopped = err.count("(stopped;")
# The context of the tiny model may be full before the signal comes; then there was nothing to stop.
if chat.returncode != 0 or "tokens are left" not in err or stopped == 0:
    sys.exit(f"exit {chat.returncode}, {stopped} answers stopped: {err}")
print(f"{stopped} answers stopped")
