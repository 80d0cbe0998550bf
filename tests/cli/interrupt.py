#!/usr/bin/env python3
"""interrupt.py KVRT MODEL: Ctrl-C in kvrt chat stops the answer and not the program, and the next answer comes; in kvrt run it, a polite
kill, a terminal that closes and a reader that goes away end the program with all computed tokens saved. The output on a terminal."""
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time

from chat_terminal import waits_for

kvrt, model = sys.argv[1:]
for name in ("SIGINT", "SIGHUP"):  # the program leaves ignored signals ignored, and nohup or a shell's job may have this test ignore them
    signal.signal(signal.Signals[name], signal.SIG_DFL)
chat = subprocess.Popen([kvrt, "chat", "-m", model, "--ignore-eos", "-n", "100000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupt(process, name):
    """A terminal that closes sends two SIGHUP: the shell's, and the kernel's when the shell has gone."""
    process.send_signal(signal.Signals[name])
    if name == "SIGHUP":
        time.sleep(0.0005)
        process.send_signal(signal.SIGHUP)


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
    for name, tokens, sent in (("in", "100000", "SIGTERM"), ("after", "5", "SIGTERM"), ("hangup", "100000", "SIGHUP")):
        command = [kvrt, "chat", "-m", model, "--ignore-eos", "-n", tokens, "--store", store, "--session", name]
        chat = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        chat.stdin.write(b"Hello\n")
        chat.stdin.flush()
        out = chat.stdout.read(1)
        while name == "after" and not out.endswith(b"\n"):
            out += chat.stdout.read(1)
        interrupt(chat, sent)
        rest, err = chat.communicate(timeout=600)
        shown = json.loads(subprocess.run([kvrt, "store", "show", store, name, "--json"], capture_output=True, check=True).stdout)
        answer = ",".join(map(str, shown["tokens"][shown["spans"][1]["begin"]:]))
        saved = subprocess.run([kvrt, "detokenize", "-m", model, "--tokens", answer], capture_output=True, check=True).stdout
        if chat.returncode != 5 or b"interrupted; what was computed is saved" not in err or saved.decode(errors="replace") + "\n" != (out + rest).decode():
            sys.exit(f"chat, {sent} {name} an answer: exit {chat.returncode}, {saved} of {out + rest} saved: {err.decode()}")
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


def taken(pid, number):
    """Sends a signal and waits until the program has it."""
    os.kill(pid, number)
    deadline = time.monotonic() + 3
    with open(f"/proc/{pid}/status") as file:
        while int(file.read().split("ShdPnd:")[1].split()[0], 16) & 1 << (number - 1) and time.monotonic() < deadline:
            file.seek(0)
    time.sleep(0.05)


# Ctrl-C before the first prompt: here a chat waits for its store. It ends as soon as it can, nothing is asked or saved; a second one ends it at once.
with tempfile.TemporaryDirectory() as work:
    store = os.path.realpath(work) + "/store"
    subprocess.run([kvrt, "run", "-m", model, "--chat", "-p", "Hello", "-n", "60", "--ignore-eos", "--store", store, "--session", "old"], capture_output=True, check=True)
    for name, count, code, said in (("old", 1, 5, b"kvrt: cannot resume old: "), ("new", 1, 5, b"interrupted\n"), ("new", 2, -signal.SIGINT, b"")):
        with open(store + "/lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            chat = subprocess.Popen([kvrt, "chat", "-m", model, "--store", store, "--session", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while not waits_for(store + "/lock", chat.pid):
                assert chat.poll() is None, chat.communicate()
            for _ in range(count):
                taken(chat.pid, signal.SIGINT)
        out, err = chat.communicate(b"Hello\n", timeout=600) if count == 1 else (b"", b"")
        if chat.wait(600) != code or out or not err.startswith(said) or err.count(b"\n") != count % 2:
            sys.exit(f"{count} Ctrl-C before the first prompt of {name}: exit {chat.returncode}: {out} {err}")
    listed = subprocess.run([kvrt, "store", "ls", store, "--json"], capture_output=True, check=True, text=True).stdout
    assert listed.count("\n") == 1 and json.loads(listed)["revision"] == 1, listed

with tempfile.TemporaryDirectory() as store:
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE"):
        run = subprocess.Popen([kvrt, "run", "-m", model, "-p", "Hello", "--ignore-eos", "-n", "100000", "--store", store, "--session", name],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert run.stdout.read(1), run.stderr.read()
        if name == "SIGPIPE":  # the reader goes away
            run.stdout.close()
            run.stdout = None
        else:
            interrupt(run, name)
        out, err = run.communicate(timeout=600)
        stat = subprocess.run([kvrt, "store", "stat", store, name, "--json"], capture_output=True, text=True, check=True)
        tokens = json.loads(stat.stdout)["tokens"]
        if run.returncode != 5 or "interrupted" not in err or f"saved {name} ({tokens} tokens" not in err or tokens < 2:
            sys.exit(f"{name}: exit {run.returncode}, {tokens} tokens in the store: {err}")

with tempfile.TemporaryDirectory() as store:  # a save that is refused after Ctrl-C: another process has taken the name meanwhile
    run = subprocess.Popen([kvrt, "run", "-m", model, "-p", "Hello", "--ignore-eos", "-n", "100000", "--store", store, "--session", "name"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout.read(1), run.stderr.read()
    run.send_signal(signal.SIGSTOP)
    subprocess.run([kvrt, "run", "-m", model, "-p", "Hello", "-n", "1", "--store", store, "--session", "name"], capture_output=True, check=True)
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGCONT)
    out, err = run.communicate(timeout=600)
    if run.returncode != 3 or "\ninterrupted\n" not in err or "is saved" in err:
        sys.exit(f"a save that is refused after Ctrl-C: exit {run.returncode}: {err}")

# What the parent ignores is ignored: by nohup, or by a shell in whose background the program runs.
def ignores():
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


for command, text, tokens in ((["run", "-p", "Hello"], None, "300"), (["chat"], "Hello\n", "300")):
    run = subprocess.Popen([kvrt, *command, "-m", model, "--ignore-eos", "--temp", "0", "-n", tokens], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, preexec_fn=ignores, bufsize=0)
    if text:
        run.stdin.write(text.encode())
    assert run.stdout.read(1), run.stderr.read()
    for number in (signal.SIGINT, signal.SIGHUP):
        run.send_signal(number)
    out, err = run.communicate(timeout=600)
    if run.returncode or b"interrupted" in err or b"stopped" in err:
        sys.exit(f"{command[0]} with ignored signals: exit {run.returncode}: {err.decode()}")

# A chat whose standard error is closed still takes signals: a hint that cannot be written, and a kill.
chat = subprocess.Popen(f'exec "{kvrt}" chat -m "{model}" --ignore-eos -n 4 2>&-', shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
chat.stdin.write(b"Hello\n")
for byte in iter(lambda: chat.stdout.read(1), b"\n"):
    assert byte, chat.wait()
chat.send_signal(signal.SIGINT)
time.sleep(0.05)
chat.send_signal(signal.SIGTERM)
if chat.wait(600) != 5:
    sys.exit(f"a chat without standard error, after Ctrl-C and SIGTERM: exit {chat.returncode}")


def on_terminal(command):
    """What it writes to one."""
    master, slave = pty.openpty()
    program = subprocess.Popen(command, stdout=slave)
    os.close(slave)
    shown = b""
    try:
        while data := os.read(master, 4096):
            shown += data
    except OSError:  # EIO: the program's end is closed
        pass
    os.close(master)
    assert program.wait() == 0, shown
    return shown.decode()


with tempfile.TemporaryDirectory() as work:
    text = "\x1b]0;title\x07 \u202e\u009b2J"
    for name, content in (("messages", json.dumps([{"role": "user", "content": text}])), ("jinja", "{{ messages[0].content }}")):
        with open(f"{work}/{name}", "w") as file:
            file.write(content)
    show = [kvrt, "template", "--template", f"{work}/jinja", "--messages", f"{work}/messages"]
    assert subprocess.run(show, capture_output=True, check=True).stdout.decode() == text, "a pipe has the text's own bytes"
    shown = on_terminal(show)
    assert "\\x1b]0;title\\x07 \\u202e\\u009b2J" in shown and "\x1b" not in shown, repr(shown)
    # JSON may have some of these as they are.
    odd = "a\u009b\u202eb"
    os.symlink(model, f"{work}/{odd}.gguf")
    subprocess.run([kvrt, "run", "-m", model, "-p", "Hello", "-n", "1", "--store", f"{work}/store", "--session", odd], capture_output=True, check=True)
    for words in (["inspect", f"{work}/{odd}.gguf"], ["store", "show", f"{work}/store", odd]):
        exact = subprocess.run([kvrt, *words, "--json"], capture_output=True, check=True).stdout.decode()
        shown = on_terminal([kvrt, *words, "--json"])
        assert odd in exact and "a\\u009b\\u202eb" in shown and not {"\u009b", "\u202e"} & set(shown), repr(shown)
        assert json.loads(shown) == json.loads(exact), shown

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
