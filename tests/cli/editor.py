#!/usr/bin/env python3
"""editor.py KVRT MODEL: kvrt chat as a person at a terminal uses it. Keys, history, wide characters, pastes, Ctrl-C, Ctrl-Z, a kill, a narrow window, two
chats of one name; their results are read from the store, as JSON."""
import fcntl
import os
import pty
import re
import select
import signal
import sys
import tempfile
import termios
import time

from chat_terminal import HOME, LEFT, PASTE, PATIENCE, UP, Chat, expect, kvrt, patched, waits_for

# A chat that a failure leaves behind still writes.
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
    roomy = patched(work + "/roomy.gguf", 1 << 17, {})
    chat = Chat(roomy, work + "/store", "--temp", "0")
    chat.say("held" + LEFT * 2 + "l" + "\x05\x7fo")  # he|ld, hel|ld, to the end, d taken back
    chat.say("grüße 日本" + LEFT + "の" + HOME + "¡")
    chat.say(UP + UP + "!")
    lines = "first\rsecond line\r\tthird"
    placeholder = chat.say("look: " + PASTE.format(lines) + " ok?")
    if "[paste 1: 3 lines]" not in placeholder or "second line" in placeholder:
        sys.exit(f"a paste of three lines is not shown as one: {placeholder!r}")
    chat.say(PASTE.format("/stats\r"))
    chat.say(PASTE.format("a\tb\x1b[31m"))  # as it is, and not to the terminal
    chat.say(PASTE.format("lf\nlf") + PASTE.format("crlf\r\ncrlf"))
    chat.say("gone: " + PASTE.format("a\rb") + "\x7f" + PASTE.format("c\rd") + LEFT + "\x1b[3~" + PASTE.format("e\rf") + "\x17!")  # each as one
    said = chat.say("changed: " + PASTE.format("g\rh") + "\x1bb\x04" + PASTE.format("i\rj") + "\x14")
    expect("is not sent" in said, True, f"a placeholder that was changed: {said!r}")
    expect("is not sent" in chat.say(UP + "\x15"), False, "a line that was cut whole")
    # F5, F12, page up and down, Shift-Up, Shift-Tab; words, Home and End, Ctrl-Delete
    chat.say("of words" + "\x1b[15~\x1b[24~\x1b[5~\x1b[6~\x1b[1;2A\x1b[Z" + "\x1b[1;5D" + "two " + "\x1b[1~" + "line " + "\x1b[4~" + " gone\x1b[1;5D\x1b[3;5~" + "end" +
             "\x1b[H\x1b[1;5C" + "s")
    for dropped in ("taken back\x03", "\x1b[200~a paste that does not end\x03"):
        chat.type(dropped)
        chat.wait("^C")
        chat.prompt()
    help_text = chat.say("/help")
    for verb in ("/continue", "/retry", "/rewind", "/fork", "/forget", "/history", "/save", "/stats", "/quit"):
        if verb not in help_text:
            sys.exit(f"/help lacks {verb}: {help_text!r}")
    expect(max(map(len, help_text.split("\r\n"))) < 80, True, "the width of /help")
    expect(chat.end(), 0, "exit")
    wanted = ["hello", "¡grüße 日の本", "hello!", "look: first\nsecond line\n\tthird ok?", "/stats\n", "a\tb\x1b[31m", "lf\nlfcrlf\ncrlf", "gone: !",
              "lines of two words end"]
    found = [m["content"] for m in chat.messages() if m["role"] == "user"]
    expect(found, wanted, "messages")

    # A long paste, whose answer is stopped in its prefill.
    chat = Chat(roomy, work + "/long", "--temp", "0")
    long = "".join(f"{i} " for i in range(12000)) + "é"
    chat.type(PASTE.format(long) + "\r\x03")
    chat.wait("(stopped;")
    chat.prompt()
    expect(chat.end(), 0, "exit")
    expect([m["content"] for m in chat.messages()], [long], "a paste of 60 KB")

    # Lines said before are there for the arrow up, and an answer that was cut short goes on where it ended.
    chat = Chat(roomy, work + "/store", "--temp", "0")
    chat.say(UP)
    expect(chat.end("\x04"), 0, "exit at Ctrl-D")
    before = chat.messages()
    expect([m["content"] for m in before if m["role"] == "user"][-1], wanted[-1], "the arrow up")
    length = chat.tokens()
    chat = Chat(roomy, work + "/store", "--temp", "0")
    chat.say("/continue")
    chat.say("/continue")
    expect(chat.end(), 0, "exit")
    expect((len(chat.messages()), chat.tokens() - length), (len(before), 4), "an answer of 2 tokens that went on twice")

    # The drawing of answers: as the file says, or else by kvrt's own defaults; an option comes first.
    own = "temperature 0.7, top_k 0, top_p 0, min_p 0.05, repetition penalty 0"
    files = "temperature 0.3, top_k 20, top_p 0.9, min_p 0, repetition penalty 1.1"
    suggests = {"temp": 0.3, "top_k": 20, "top_p": 0.9, "penalty_repeat": 1.1}
    for name, sampling, options, wanted in (("plain", {}, [], own), ("full", suggests, [], files), ("option", suggests, ["--temp", "0"], files.replace("0.3", "0")),
                                            ("odd", {"temp": -1.0, "top_k": -1, "min_p": 7.0}, [], own),
                                            ("some", {"top_k": 20}, [], own.replace("0.7", "1").replace("top_k 0", "top_k 20").replace("min_p 0.05", "min_p 0"))):
        chat = Chat(patched(f"{work}/{name}.gguf", 1024, sampling), f"{work}/{name}", *options)
        shown = chat.say("/stats")
        if wanted not in shown:
            sys.exit(f"{name}: no {wanted!r} in {shown!r}")
        expect(chat.end(), 0, "exit")

    # A polite kill and a terminal that closes: in an answer, and at the prompt.
    for number in (signal.SIGTERM, signal.SIGHUP):
        store = f"{work}/{number.name}"
        chat = Chat(roomy, store, "--temp", "0", tokens=100000)
        chat.type("hello\r")
        chat.wait("hello\r\n")
        chat.until(500)
        os.kill(chat.pid, number)
        expect((chat.status(), "interrupted; what was computed is saved" in chat.seen), (5, True), f"{number.name} in an answer: {chat.seen[-200:]!r}")
        chat = Chat(roomy, store, "--temp", "0")
        length = chat.tokens()
        chat.type("never sent")
        chat.wait("never sent")
        os.kill(chat.pid, number)
        expect((chat.status(), chat.tokens()), (5, length), f"{number.name} at the prompt")
        expect(chat.seen.endswith("\x1b[?2004l"), True, f"the brackets of pastes at {number.name}: {chat.seen!r}")

    # Ctrl-C right behind the line, before its answer begins.
    chat = Chat(roomy, work + "/early", "--temp", "0", tokens=100000)
    for _ in range(10):
        chat.type("hello\r\x03")
        chat.wait("(stopped;")
        chat.prompt()
    # The same where Ctrl-C is no key any more and the line is not taken yet: a signal that comes as a line is read, just before its end.
    just_before = 0
    while just_before < 3:
        begin = time.monotonic()
        os.kill(chat.pid, signal.SIGINT)
        chat.wait("leaves)\r\n> ")
        chat.type("hello\r")
        chat.wait("hello\r\n")
        if time.monotonic() - begin < 0.4:
            just_before += 1
        else:
            chat.type("\x03")  # this machine is too busy to tell
        chat.wait("(stopped;")
        chat.prompt()
    expect(chat.end(), 0, "exit")

    # Ctrl-Z where no shell controls jobs, as here; and text typed during an answer, shown once.
    chat = Chat(roomy, work + "/keys", "--temp", "0", tokens=200)
    chat.type("sus")
    chat.wait("sus")
    chat.type("\x1a")
    chat.prompt()
    for delay in range(40):
        chat.stop_beside_key(chat.pid, delay)
        chat.keys_arrive()
    chat.type("pend\r")
    chat.wait("pend\r\n")
    chat.type("typed ahead")
    said = chat.wait("\x1b[?2004h> ")
    expect("typed ahead" in said, False, f"what was typed ahead in the answer: {said!r}")
    chat.wait("typed ahead")
    chat.say("")
    expect(chat.end(), 0, "exit")
    expect([re.sub("[qx]", "", m["content"]) for m in chat.messages() if m["role"] == "user"], ["suspend", "typed ahead"], "messages")

    # Typed while an answer runs: a line longer than a terminal's 4 KiB, a paste of lines, and Ctrl-D, which ends the chat; Ctrl-C behind all that stops
    # the answer. Whatever ends the chat, the terminal is as it was.
    chat = Chat(roomy, work + "/ahead", "--temp", "0", tokens=100000)
    chat.type("go on\r")
    chat.wait("go on\r\n")
    ahead = "".join(f"{i} " for i in range(3000)) + "é"
    chat.type(ahead + "\r" + PASTE.format("two\rlines") + "\r")
    chat.type("\x03")
    for last in ("é", "[paste 1: 2 lines]"):
        chat.wait("(stopped;")
        chat.wait(last + "\r\n")
        chat.until(500)
        if last != "é":
            chat.type("\x04")
        chat.type("\x03")
    chat.wait("(stopped;")
    expect(chat.status(), 0, "exit at a Ctrl-D typed ahead")
    expect([m["content"] for m in chat.messages() if m["role"] == "user"], ["go on", ahead, "two\nlines"], "messages typed ahead")

    # Ctrl-Z stops an answer where a shell controls jobs, and Ctrl-\\ ends the chat: both find the terminal as it was, and so does a second kill.
    bare = termios.ICANON | termios.ECHO | termios.ISIG
    for keys, number in (("\x1a", signal.SIGTSTP), ("\x1c", signal.SIGQUIT)):
        for place in ("answer", "prompt", "leave"):
            chat = Chat(roomy, work + "/signals", "--temp", "0", tokens=100000, job=True)
            if place == "answer":
                chat.type("hello\r")
                chat.wait("hello\r\n")
            chat.type(keys)
            chat.wait("\x1b[?2004l")
            status = chat.became()
            expect(os.WSTOPSIG(status) if os.WIFSTOPPED(status) else os.WTERMSIG(status), number, "what became of it")
            expect(termios.tcgetattr(chat.fd)[3] & bare, bare, f"the terminal at {number.name}, {place}")
            if number == signal.SIGTSTP:
                os.write(chat.go, b"x")
                chat.wait("\x1b[?2004h")
                if place == "leave":
                    chat.reads()
                    chat.type("\x04")
                    expect(os.waitstatus_to_exitcode(chat.became()), 0, "exit at the first Ctrl-D after a stop")
                    os.close(chat.go)
                    chat.status()
                    continue
                if place == "answer":
                    chat.type("\x03")
                    chat.wait("(stopped;")
                    chat.prompt()
                chat.reads()
                chat.type("taken back\x03")
                chat.wait("^C")
                chat.prompt()
                chat.type("/quit\r")
                expect(os.waitstatus_to_exitcode(chat.became()), 0, "exit after a stop")
            os.close(chat.go)
            chat.status()

    # Ctrl-C, until it ends a chat that waits for its store before the first prompt: the second does, and the terminal is as it was.
    with open(work + "/store/lock", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        chat = Chat(roomy, work + "/store", job=True, ready=False)
        while not waits_for(os.path.realpath(lock.name), os.tcgetpgrp(chat.fd)):
            time.sleep(0.001)
        while not select.select([chat.report], [], [], 0.1)[0]:
            chat.type("\x03")
        status = chat.became()
    expect(os.WIFSIGNALED(status) and os.WTERMSIG(status), signal.SIGINT, f"two Ctrl-C before the first prompt: {chat.seen!r}")
    expect(termios.tcgetattr(chat.fd)[3] & bare, bare, "the terminal after them")
    os.close(chat.go)
    chat.status()

    # The same where a shell controls jobs.
    chat = Chat(roomy, work + "/stops", "--temp", "0", job=True)
    for delay in range(40):
        chat.stop_beside_key(os.tcgetpgrp(chat.fd), delay)
        expect(os.WIFSTOPPED(chat.became()), True, "stopped")
        os.write(chat.go, b"x")
        chat.keys_arrive()
    chat.type("\x15/quit\r")
    expect(os.waitstatus_to_exitcode(chat.became()), 0, "exit after many stops")
    os.close(chat.go)
    chat.status()

    # Two chats of one name: the one that saves last is told, at the end of the line, and may replace the other; the last save counts.
    chats = [Chat(roomy, work + "/two", "--temp", "0", tokens=8000) for _ in range(2)]  # so long that the saver, which gives way, has its turn
    chats[0].say("first")
    said = chats[1].say("second")
    expect(said.count("CONFLICT") >= 1 and "/save --overwrite replaces" in said, True, f"a name that another chat saved: {said!r}")
    expect(re.findall("[^\n]kvrt: ", said), [], f"a warning within a line: {said!r}")
    expect("warning: autosave" in said, True, f"no warning of the autosave: {said!r}")
    expect(chats[0].end(), 0, "exit of who saved first")
    said = chats[1].say("/save --overwrite")
    expect("saved chat" in said, True, f"/save --overwrite: {said!r}")
    expect(chats[1].end(), 0, "exit after a conflict that was mended")
    expect(chats[1].messages()[0]["content"], "second", "the name's conversation")
    chats = [Chat(roomy, work + "/two", "--temp", "0") for _ in range(2)]
    chats[0].say("first")
    chats[1].say("second")
    expect((chats[0].end(), chats[1].end()), (0, 3), "exit of who saved first, and of who did not save")

    # A name that another session has refuses a save; the conversation is saved all the same.
    chat = Chat(roomy, work + "/two", "--session", "third", "--temp", "0")
    chat.say("third")
    said = chat.say("/save chat")
    expect("CONFLICT" in said, True, f"/save under a name that is taken: {said!r}")
    expect(chat.end(), 0, "exit after a /save that was refused")

    # One Ctrl-D ends a text that is typed.
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(kvrt, [kvrt, "tokenize", "-m", roomy, "-f", "-"])
    os.write(fd, b"hello\n\x04")
    signal.alarm(PATIENCE)
    found = b""
    try:
        while data := os.read(fd, 4096):
            found += data
    except OSError:
        pass
    expect((os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), found.count(b",") > 0), (0, True), f"a text that is typed: {found!r}")
    signal.alarm(0)
    os.close(fd)

    # Commands that are none, a system message too late, a narrow window.
    chat = Chat(roomy, work + "/store", "--system", "You are a lamp.", columns=20)
    expect("--system is for a new session" in chat.all, True, f"--system of a session that goes on: {chat.all!r}")
    expect(max(map(len, re.findall(r"\r([^\r\n]*%)", chat.all)), default=0) < 20, True, f"a bar wider than the window: {chat.all!r}")
    said = chat.say("/hist")
    expect("did you mean /history?" in said, True, f"/hist: {said!r}")
    expect(chat.end(), 0, "exit")
print("keys, history, pastes and Ctrl-C arrive as they should")
