#!/usr/bin/env python3
"""wrap.py KVRT MODEL: answers of kvrt run and kvrt chat are broken at words on a terminal, with wide characters and code, and when the window changes
its size; a pipe gets their bytes."""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unicodedata

kvrt, model = sys.argv[1:]
WORDS = "The keeper of the lighthouse on the long island wrote every evening what the sea did and which ships went by, and who had come for dinner. "
WIDE = "灯台守は毎晩、海の様子と通り過ぎた船の名前を日誌に書き、誰が夕食に来たかも記した。「明日は嵐になる」と彼は言った。"
ADDRESS = "https://example.org/" + "a-long-path/" * 12
CODE = "```python\nprint('a line of code that is longer than the window is left to the terminal', 1, 2, 3, 4, 5, 6, 7, 8, 9)\n    if x: pass\n```\n"
TEXT = WORDS * 3 + "\n\n" + WIDE + "\n* an item: grüße, naïve\n" + CODE + "See " + ADDRESS + " for more, or ask. " + WORDS
os.environ.update(KVRT_CACHE="", TERM="xterm", LC_ALL="C")
signal.alarm(300)


def columns(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def shown(width, *words, resize=None):
    """What the command writes to a terminal of this width. resize: (after so many characters, to this width)."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        os.execv(kvrt, [kvrt, *words])
    out = b""
    try:
        while data := os.read(fd, 1024):
            out += data
            if resize and len(out) >= resize[0]:
                fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, resize[1], 0, 0))
                resize = None
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, out
    return re.sub("\x1b\\[[0-9;]*[A-Za-z]|.*\r(?!\n)", "", out.decode()).split("\r\n")


def literal(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'


def write_grammar(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write("root ::= " + literal(text) + "\n")


def by_grammar(width, text):
    """The lines of an answer of this text."""
    write_grammar("answer.gbnf", text)
    lines = shown(width, "run", "-m", model, "-p", "Hello", "--grammar", "answer.gbnf", "-n", "4000")
    return lines[:next(i for i, line in enumerate(lines) if "prompt token" in line)]


def answers(width, lines, *options):
    """What a chat of these lines writes to a terminal of this width, while its input and its remarks are elsewhere."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    subprocess.run([kvrt, "chat", "-m", model, "--temp", "0", *options], input=lines.encode(), stdout=slave, stderr=subprocess.DEVNULL, check=True)
    os.close(slave)
    out = b""
    try:
        while data := os.read(master, 65536):
            out += data
    except OSError:
        pass
    os.close(master)
    return out.decode().replace("\r\n", "\n")


def check(lines, text, width, what):
    """The lines say the text, break no word, are no wider than the window, and no word would have fitted on the line before it."""
    squeeze = lambda s: "".join(s.split())
    assert squeeze("".join(lines)) == squeeze(text), (what, lines)
    whole = {word for word in text.split() if columns(word) == len(word)}
    found = {word for line in lines for word in line.split()}
    assert whole <= found, (what, "broken", whole - found)
    own = text.split("\n")
    for line, after in zip(lines, [*lines[1:], ""]):
        if line in own or line in CODE or ADDRESS in line:
            continue
        assert columns(line) <= width, (what, columns(line), line)
        ends = any(line and piece.rstrip().endswith(line) for piece in own)
        first = after.split(" ")[0]
        first = re.match(f"[{WIDE}]", after) and re.match(r".[、。」]*", after)[0] or first
        assert ends or columns(line) + bool(columns(first) == len(first)) + columns(first) > width, (what, "broken early", line, after)
        assert after[:1] not in "、。」" or not after, (what, "begins a line", after)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    write_grammar("text.gbnf", TEXT)
    run = ["run", "-m", model, "-p", "Hello", "--grammar", "text.gbnf", "-n", "4000"]
    piped = subprocess.run([kvrt, *run], capture_output=True, check=True, stdin=subprocess.DEVNULL).stdout
    assert piped == TEXT.encode() + b"\n", piped
    for width in (80, 100, 60, 41):
        lines = shown(width, *run)
        end = next(i for i, line in enumerate(lines) if "prompt token" in line)
        check(lines[:end], TEXT, width, f"run, {width} columns")
    for _ in range(20):  # a busy machine may tell of the size when all is written
        lines = shown(80, *run, resize=(300, 50))
        text = [line for line in lines if line not in CODE and ADDRESS not in line and "prompt token" not in line]
        if max(map(columns, text[-3:])) <= 50:
            break
    else:
        raise AssertionError(text)
    assert {word for word in WORDS.split()} <= {word for line in lines for word in line.split()}, lines

    # Code: a fence ends by one of its kind that is as long; marks around words in a line are no fence.
    code = "0123456789 " * 8
    text = f"```kvrt run``` shows it.\n{WORDS}\n````text\n{code}\n```\n{code}\n~~~~\n````sh\n{code}\n````\n{WORDS.strip()}\n~~~\n{code}\n~~~"
    lines = by_grammar(50, text)
    assert lines.count(code) == 4 and max(columns(line) for line in lines if line != code) <= 50, lines
    assert by_grammar(50, "one\r\ntwo\r\r\nthree\r")[:3] == ["one", "two\\x0d", "three\\x0d"], "line ends as Windows has them"
    # A picture of several characters is whole: a colour of skin, and what a joiner joins.
    keeper, thumb, sailor = "\U0001f469\U0001f3fd\u200d\U0001f4bb", "\U0001f44d\U0001f3fd", "\U0001f9d1\u200d\u2708\ufe0f"
    for width in range(21, 29):
        lines = by_grammar(width, (keeper + thumb + sailor) * 6)
        assert len(lines) > 2 and all(re.fullmatch(f"({keeper}|{thumb}|{sailor})+", line) for line in lines), lines
    # An answer that is cut within code goes on in it.
    text = "```\n" + "0123456789 " * 60 + "\n```\n"
    write_grammar("code.gbnf", text)
    out = answers(50, "Hello\n/continue\n/continue\n", "--grammar", "code.gbnf", "-n", "60")
    assert out.count("\n") == 4 and len(out) > 100 and text.replace("\n", "").startswith(out.replace("\n", "")), out

    # A chat: its answers, and the messages that it shows when it goes on.
    write_grammar("words.gbnf", WORDS.strip())
    chat = ["chat", "-m", model, "--store", "store", "--temp", "0"]
    subprocess.run([kvrt, *chat, "--grammar", "words.gbnf"], input="Hello\n".encode(), capture_output=True, check=True)
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
        os.execv(kvrt, [kvrt, *chat, "--grammar", "words.gbnf"])
    out = b""
    for keys in (b"Hello\r", b"/quit\r", b""):
        seen = len(out)
        while keys and b"\x1b[?2004h> " not in out[seen:]:
            out += os.read(fd, 65536)
        os.write(fd, keys)
    try:
        while data := os.read(fd, 65536):
            out += data
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, out
    lines = re.sub("\x1b\\[[?0-9;]*[A-Za-z]", "", out.decode()).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    begins = [i for i, line in enumerate(lines) if "The keeper of" in line]
    assert len(begins) == 2 and lines[begins[0]].startswith("assistant: The keeper"), lines
    for at in begins:
        said = lines[at:at + 4]
        assert max(map(columns, said)) <= 50 and set(WORDS.split()) <= set(" ".join(said).split()), said
# Help: as wide as the terminal.
for width in (80, 100):
    for words in (["--help"], ["run", "--help"], ["chat", "--help"], ["store", "ls", "--help"]):
        lines = shown(width, *words)
        assert max(map(columns, lines)) <= width and max(map(columns, lines)) > width - 20, (width, words, lines)
print("wrap: ok")
