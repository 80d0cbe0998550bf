#!/usr/bin/env python3
"""record.py PROGRAM MODEL DOCUMENTS-MODEL: runs what the pictures show, and writes what happened, into files beside this one.

chat.json    two terminals, byte by byte: a chat is killed by kill -9 in the middle of an answer, and goes on in a new process. Five runs; the one
             whose first answer took the median time to its first token is kept.
forest.json  what `kvrt store` says of a store with 40 sessions: four conversations and their forks
rag.json     when three processes that ask the other model about a document saw their first tokens
"""
import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import platform
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time

HERE = pathlib.Path(__file__).parent
RUNS, COLUMNS, PATIENCE = 5, 100, 60
PROMPT, CHAT = "$ ", "> "
FIRST, SECOND = "What happened in the storm?", "Write a letter to your brother about the storm and the hens."
CHAT_COMMAND = "kvrt chat -m model.gguf --store memory --session ann --temp 0 -n 64"
KILL_AFTER = 205  # bytes of the second answer: a chat saves an answer every 64 tokens, its question counted


class Recording(list):
    """What terminals showed: [seconds, terminal, text]. What happens while it is off took no time."""

    on = True
    left_out = 0.0

    def add(self, pane, data):
        if self.on:
            self.append([round(time.monotonic() - self.left_out, 3), pane, data.decode("utf-8", "surrogateescape")])

    @contextlib.contextmanager
    def off(self):
        begin, self.on = time.monotonic(), False
        yield
        self.left_out, self.on = self.left_out + time.monotonic() - begin, True


class Shell:
    """A bash in a terminal of its own; what it shows goes to the recording."""

    def __init__(self, recording, pane, folder, environment):
        self.recording, self.pane, self.new = recording, pane, b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "--noediting"], environment)
        fcntl.fcntl(self.fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)  # no other shell keeps this terminal open
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            data = os.read(self.fd, 65536)
            self.recording.add(self.pane, data)
            self.new += data

    def until(self, done):
        end = time.monotonic() + PATIENCE
        while not done(self.new):
            if time.monotonic() > end:
                raise TimeoutError(f"waited {PATIENCE} s; the terminal shows {self.new!r}")
            self.read(0.05)

    def rest(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.02)

    def keys(self, text):
        """As a person types it."""
        for character in text:
            os.write(self.fd, character.encode())
            self.rest(0.03)
        self.rest(0.3)

    def enter(self):
        self.new = b""
        os.write(self.fd, b"\n")

    def answered(self, mark):
        """Until the prompt is there again."""
        self.until(lambda said: re.sub(rb"\x1b\[[?0-9;]*[A-Za-z]", b"", said).endswith(b"\n" + mark.encode()))
        self.rest(0.6)

    def command(self, text, mark):
        self.keys(text)
        self.enter()
        self.answered(mark)
        return self.new.decode()

    def child(self):
        return int(pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text())

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def first_token(stats):
    found = re.search(r"last answer: (\d+) prompt tokens \((\d+) memory, (\d+) disk, (\d+) computed\), first token after (\d+) ms", stats)
    return dict(zip(("prompt_tokens", "memory", "disk", "computed", "ms"), map(int, found.groups())))


def chat(folder, environment):
    recording = Recording()
    shells = one, two = [Shell(recording, pane, folder, environment) for pane in (0, 1)]
    for shell in shells:
        shell.until(lambda said: said == PROMPT.encode())
    one.rest(0.8)
    one.command(CHAT_COMMAND + ' --system "$(cat keeper.txt)"', CHAT)
    one.command(FIRST, CHAT)
    with recording.off():
        before = first_token(one.command("/stats", CHAT))
    two.keys(f"kill -9 {one.child()}")
    one.keys(SECOND)
    one.enter()
    one.until(lambda said: len(said) > KILL_AFTER)
    two.enter()
    one.until(lambda said: said.endswith(PROMPT.encode()))
    two.rest(0.1)
    one.rest(1)
    goes_on = one.command(CHAT_COMMAND, CHAT)
    one.command("/continue", CHAT)
    with recording.off():
        after = first_token(one.command("/stats", CHAT))
    for shell in shells:
        shell.close()
    start = recording[0][0]
    tokens, disk, resume = map(int, re.search(r"ann goes on: (\d+) tokens, (\d+) from disk, in (\d+) ms", goes_on).groups())
    return {
        "before": before, "resumed": {"tokens": tokens, "disk": disk, "ms": resume}, "after": after,
        "recording": [[round(at - start, 3), pane, text] for at, pane, text in recording],
    }


def machine():
    with open("/proc/cpuinfo") as file:
        name = re.search(r"model name\s*: (.*)", file.read())[1]
    return f"{name.replace('(R)', '')}, {os.cpu_count()} CPUs, {platform.system()}"


DOCUMENT = "docs/USING.md"
ASKED = ("Which variables name the model and the store?", "How do I check a store?", "What does kvrt doctor do?")


def documents(kvrt, model):
    """Three processes that ask about a document, from an empty store and without weights that are ready."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": "bindings/python", "KVRT_LIBRARY": str(pathlib.Path(kvrt).parents[1] / "lib/libkvrt.so.0"),
                                    "KVRT_CACHE": folder + "/weights", "PYTHONDONTWRITEBYTECODE": "1"}
        for question in ASKED:
            command = [sys.executable, "bindings/python/examples/rag.py", model, folder + "/store", question, DOCUMENT]
            said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE / "../..", env=environment).stderr
            found = re.search(r"\((\d+) of (\d+) tokens came from the disk; first token after ([\d.]+) s\)", said)
            runs.append({"disk": int(found[1]), "tokens": int(found[2]), "seconds": float(found[3])})
            print(runs[-1], file=sys.stderr)
    return {"document": DOCUMENT, "model": pathlib.Path(model).name, "runs": runs}


PEOPLE = ("keeper of the lighthouse", "cook of the island", "postman of the bay", "doctor of the village")
QUESTIONS = ("What happened in the storm?", "What did the captain send?", "Who is afraid of the stairs?")
MORE = ("And then?", "Who saw it?")


def forest(folder, environment):
    """Four conversations that begin alike, each with three forks, and two of each fork: 40 sessions."""
    log = (HERE / "keeper.txt").read_text().rstrip("\n").partition("log")[2]

    def run(*arguments):
        command = ["kvrt", "run", "-m", "model.gguf", "--store", "memory", "--durability", "process", *arguments]
        subprocess.run(command, capture_output=True, check=True, stdin=subprocess.DEVNULL, cwd=folder, env=environment)

    for tree, person in enumerate(PEOPLE):
        root = f"{tree}"
        run("--session", root, "--chat", "-n", "0", "-p", f"You are the {person}. Answer from this log{log}")
        for fork, question in enumerate(QUESTIONS):
            run("--fork-from", root, "--session", f"{root}-{fork}", "--chat", "-p", question, "-n", "32")
            for leaf, more in enumerate(MORE):
                run("--fork-from", f"{root}-{fork}", "--session", f"{root}-{fork}-{leaf}", "--chat", "-p", more, "-n", "48")

    def read(*arguments):
        command = ["kvrt", "store", *arguments, "--json"]
        return [json.loads(line) for line in subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment).stdout.splitlines()]

    sessions = []
    for entry in sorted(read("ls", "memory"), key=lambda entry: entry["name"]):
        shown = read("show", "memory", entry["name"])[0]
        chunks = [[chunk["key"][:16], chunk["begin"], chunk["end"], chunk["bytes"]] for chunk in shown["chunks"]]
        sessions.append({"name": entry["name"], "block_tokens": shown["block_tokens"], "tokens": entry["tokens"], "chunks": chunks})
    return {"sessions": sessions, "store": read("stat", "memory")[0]}


def place(folder, kvrt, model):
    """A folder as a user has it, with the model in it, and the environment of its programs."""
    shutil.copy(HERE / "keeper.txt", folder)
    os.symlink(model, f"{folder}/model.gguf")
    return {"PATH": f"{pathlib.Path(kvrt).parent}:/usr/bin:/bin", "HOME": folder, "TERM": "xterm", "LC_ALL": "C.UTF-8", "PS1": PROMPT,
            "KVRT_CACHE": os.path.expanduser("~/.cache/kvrt/weights")}


def main():
    kvrt, model, reader = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:])
    version = subprocess.run([kvrt, "version"], capture_output=True, text=True, check=True).stdout.split("\n")
    about = {
        "date": datetime.date.today().isoformat(), "machine": machine(), "kvrt": version[0],
        "isa": version[1].split()[1].rstrip(","), "model": pathlib.Path(model).name,
    }
    read = documents(kvrt, reader)
    runs = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(chat(folder, place(folder, kvrt, model)))
            print({key: value["ms"] for key, value in runs[-1].items() if key != "recording"}, file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        stored = forest(folder, place(folder, kvrt, model))
    runs.sort(key=lambda one: one["before"]["ms"])
    for name, what in (("chat", runs[RUNS // 2]), ("forest", stored), ("rag", read)):
        text = json.dumps(about | what)
        lines = text.replace("[[", "[\n[").replace("], [", "],\n[") if name == "chat" else text.replace('{"name"', '\n{"name"')
        (HERE / f"{name}.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
