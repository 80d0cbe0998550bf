#!/usr/bin/env python3
"""store_interrupt.py KVRT MODEL: Ctrl-C in kvrt store verify and gc ends them with CANCELLED, a message, and a whole store.

The terminal is stopped, as Ctrl-S does it, so that the program waits in the first stroke of its progress bar until the signal is there."""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import termios
import time

kvrt, model = sys.argv[1:]
CANCELLED = 5


def run(*arguments):
    return subprocess.run([kvrt, *arguments], capture_output=True, text=True, timeout=600)


def save(store, name):
    done = run("run", "-m", model, "--store", store, "--session", name, "-p", f"The lamp of {name} is lit at dusk.", "-n", "1")
    assert done.returncode == 0, done.stderr


def interrupted(*arguments):
    """The exit code, and the text that the terminal showed."""
    master, slave = pty.openpty()
    termios.tcflow(slave, termios.TCOOFF)
    program = subprocess.Popen([kvrt, *arguments], stdin=slave, stdout=subprocess.PIPE, stderr=slave, env={**os.environ, "TERM": "xterm"},
                               start_new_session=True)
    status = pathlib.Path(f"/proc/{program.pid}/status")
    deadline = time.monotonic() + 600
    while int(status.read_text().split("SigCgt:")[1].split()[0], 16) & (1 << (signal.SIGINT - 1)) == 0:  # it handles SIGINT now
        assert program.poll() is None, f"{arguments} ended with {program.returncode} before Ctrl-C"
        assert time.monotonic() < deadline, "no handler of SIGINT"
        time.sleep(0.001)
    program.send_signal(signal.SIGINT)
    termios.tcflow(slave, termios.TCOON)
    os.close(slave)
    text = b""
    try:
        while data := os.read(master, 4096):
            text += data
    except OSError:  # EIO: the program's end is closed
        pass
    out = program.communicate(timeout=600)[0]
    os.close(master)
    assert out == b"", out
    return program.returncode, text.decode()


def expect_stopped(store, command, bar, *words):
    code, text = interrupted("store", command, store)
    assert code == CANCELLED, f"{command}: exit {code}: {text!r}"
    assert bar in text and "%" in text, f"{command}: no progress bar: {text!r}"
    for word in ("(CANCELLED)", *words):
        assert word in text, f"{command}: no {word!r} in {text!r}"
    whole = run("store", "verify", store)
    assert whole.returncode == 0, whole.stdout + whole.stderr


with tempfile.TemporaryDirectory() as directory:
    store = directory + "/store"
    for name in ("ann", "bob", "eve"):
        save(store, name)
    expect_stopped(store, "verify", "verifying", "stopped")
    for name in ("ann", "bob"):
        assert run("store", "ttl", store, name, "1").returncode == 0
    time.sleep(1.1)
    expect_stopped(store, "gc", "collecting", "stopped")
    done = run("store", "gc", store, "--json")
    assert done.returncode == 0, done.stderr
    info = json.loads(run("store", "stat", store, "--json").stdout)
    kept = json.loads(run("store", "stat", store, "eve", "--json").stdout)
    assert info["sessions"] == 1 and info["chunks"] == kept["chunks"] and info["chunk_bytes"] == kept["bytes"], (info, kept)
print("verify and gc were stopped, and the store is whole")
