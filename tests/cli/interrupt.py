#!/usr/bin/env python3
"""interrupt.py KVRT MODEL: Ctrl-C in kvrt chat stops the answer and not the program, and the next answer comes; in kvrt run it, a polite
kill, a terminal that closes and a reader that goes away end the program with all computed tokens saved. The output on a terminal."""
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile

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
if chat.returncode != 0 or err.count("(stopped;") != 1 or "left: " not in err or "last answer:" not in err:
    sys.exit(f"exit {chat.returncode}, {err.count('(stopped;')} answers stopped: {err}")
with tempfile.TemporaryDirectory() as store:  # a polite kill of a chat, in an answer and after it: all printed text is saved, to the last token
    for name, tokens in (("in", "100000"), ("after", "5")):
        command = [kvrt, "chat", "-m", model, "--ignore-eos", "-n", tokens, "--store", store, "--session", name]
        chat = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        chat.stdin.write(b"Hello\n")
        chat.stdin.flush()
        out = chat.stdout.read(1)
        while name == "after" and not out.endswith(b"\n"):
            out += chat.stdout.read(1)
        chat.send_signal(signal.SIGTERM)
        rest, err = chat.communicate(timeout=600)
        shown = json.loads(subprocess.run([kvrt, "store", "show", store, name, "--json"], capture_output=True, check=True).stdout)
        answer = ",".join(map(str, shown["tokens"][shown["spans"][1]["begin"]:]))
        saved = subprocess.run([kvrt, "detokenize", "-m", model, "--tokens", answer], capture_output=True, check=True).stdout
        if chat.returncode != 5 or b"interrupted; what was computed is saved" not in err or saved.decode(errors="replace") + "\n" != (out + rest).decode():
            sys.exit(f"chat, SIGTERM {name} an answer: exit {chat.returncode}, {saved} of {out + rest} saved: {err.decode()}")
    chat = subprocess.Popen([kvrt, "chat", "-m", model, "--ignore-eos", "-n", "100000", "--store", store], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, bufsize=0)
    chat.stdin.write(b"Hello\n")
    assert chat.stdout.read(1)
    chat.stdout.close()  # the reader goes away
    code, err = chat.wait(600), chat.stderr.read()
    subprocess.run([kvrt, "store", "stat", store, "chat"], capture_output=True, check=True)
    if code != 128 + signal.SIGPIPE or err:
        sys.exit(f"chat without a reader: exit {code}: {err.decode()}")
with tempfile.TemporaryDirectory() as store:  # the part of an answer that an autosave kept before kill -9 goes on
    chat = [kvrt, "chat", "-m", model, "--ignore-eos", "--store", store, "-n"]
    killed = subprocess.Popen(chat + ["900"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    killed.stdin.write(b"Hello\n")
    while subprocess.run([kvrt, "store", "stat", store, "chat"], capture_output=True).returncode:
        pass
    killed.kill()
    killed.communicate()
    run = subprocess.run(chat + ["5"], input="/continue\n", capture_output=True, text=True, errors="replace")
    if run.returncode or "goes on:" not in run.stderr or "\n(cut; /continue goes on)\n" not in run.stderr or "kvrt:" in run.stderr:
        sys.exit(f"/continue after kill -9: exit {run.returncode}: {run.stderr}")
with tempfile.TemporaryDirectory() as store:
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE"):
        run = subprocess.Popen([kvrt, "run", "-m", model, "-p", "Hello", "--ignore-eos", "-n", "100000", "--store", store, "--session", name],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert run.stdout.read(1), run.stderr.read()
        if name == "SIGPIPE":  # the reader goes away
            run.stdout.close()
            run.stdout = None
        else:
            run.send_signal(signal.Signals[name])
        out, err = run.communicate(timeout=600)
        stat = subprocess.run([kvrt, "store", "stat", store, name, "--json"], capture_output=True, text=True, check=True)
        tokens = json.loads(stat.stdout)["tokens"]
        if run.returncode != 5 or "interrupted" not in err or f"saved {name} ({tokens} tokens" not in err or tokens < 2:
            sys.exit(f"{name}: exit {run.returncode}, {tokens} tokens in the store: {err}")

with tempfile.TemporaryDirectory() as work:
    text = "\x1b]0;title\x07 \u202e\u009b2J"
    for name, content in (("messages", json.dumps([{"role": "user", "content": text}])), ("jinja", "{{ messages[0].content }}")):
        with open(f"{work}/{name}", "w") as file:
            file.write(content)
    show = [kvrt, "template", "--template", f"{work}/jinja", "--messages", f"{work}/messages"]
    assert subprocess.run(show, capture_output=True, check=True).stdout.decode() == text, "a pipe has the text's own bytes"
    master, slave = pty.openpty()
    subprocess.run(show, stdout=slave, check=True)
    os.close(slave)
    shown = os.read(master, 4096).decode()
    assert "\\x1b]0;title\\x07 \\u202e\\u009b2J" in shown and "\x1b" not in shown, repr(shown)

with tempfile.TemporaryDirectory() as work:
    bench = [kvrt, "bench", "-m", model, "--prompt", "8", "--depth", "0", "--batch", "1", "--state", "64", "--runs", "1000"]
    run = subprocess.Popen(bench + ["--decode", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": work})
    while not os.listdir(work) and run.poll() is None:
        pass
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=600)
    if run.returncode != 5 or os.listdir(work):
        sys.exit(f"bench: exit {run.returncode}, {os.listdir(work)} left: {err}")

print("one answer stopped, the next one came")
