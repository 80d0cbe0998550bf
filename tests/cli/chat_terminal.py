"""A chat of kvrt at a terminal of its own, for the tests of what a person does there: sys.argv is [.., KVRT, MODEL]."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

kvrt, model = sys.argv[1:]
PASTE = "\x1b[200~{}\x1b[201~"
LEFT, UP, HOME = "\x1b[D", "\x1b[A", "\x01"
PATIENCE = 300


def patched(to, context, sampling):
    """The model with another context_length, and general.sampling.* in its file."""
    with open(model, "rb") as file:
        data = bytearray(file.read())
    at = data.index(b"llama.context_length") + len("llama.context_length")
    data[at:at + 8] = struct.pack("<II", 4, context)
    pairs = b""
    for key, value in sampling.items():
        name = b"general.sampling." + key.encode()
        pairs += struct.pack("<Q", len(name)) + name + (struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<Ii", 5, value))
    padding = -(len(pairs) + 8 + 3 + 4 + 8) % 32  # so that the tensors stay where they are aligned
    pairs += struct.pack("<Q", 3) + b"pad" + struct.pack("<IQ", 8, padding) + b"." * padding
    data[16:24] = struct.pack("<Q", struct.unpack("<Q", data[16:24])[0] + len(sampling) + 1)
    data[24:24] = pairs
    with open(to, "wb") as file:
        file.write(data)
    return to


def control_job(report, go):
    """A shell's part for a job in the foreground: this process goes on as the job, in a group of its own. Whatever stops or ends the job is
    reported, and a byte has it go on."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:  # by the job alone: after its exec a shell may not
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        return
    while True:
        status = os.waitpid(job, os.WUNTRACED)[1]
        os.write(report, struct.pack("i", status))
        if not os.read(go, 1) or not os.WIFSTOPPED(status):
            os._exit(0)
        os.kill(job, signal.SIGCONT)


def waits_for(lock, pid):
    """True: the process has opened the file of the lock, which this one holds."""
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") == lock for fd in os.listdir(f"/proc/{pid}/fd"))
    except FileNotFoundError:  # closed meanwhile
        return False


class Chat:
    def __init__(self, model, store, *options, tokens=2, columns=80, job=False, ready=True):
        self.store, self.seen, self.all = store, "", ""
        (self.report, report), (go, self.go) = os.pipe(), os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0 and job:
            os.close(self.go)
            control_job(report, go)
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
            os.environ.pop("NO_COLOR", None)
            os.execv(kvrt, [kvrt, "chat", "-m", model, "--store", store, "-n", str(tokens), "--ignore-eos", *options])
        os.close(report)  # so that the end of the shell is seen
        os.close(go)
        if ready:
            self.prompt()

    def prompt(self):
        """Waits until Ctrl-C is a key, which is so a moment after the prompt is drawn."""
        said = self.wait("\x1b[?2004h> ")
        self.reads()
        return said

    def reads(self):
        end = time.monotonic() + PATIENCE
        while termios.tcgetattr(self.fd)[6][termios.VINTR] != b"\0":
            if time.monotonic() > end:
                sys.exit("Ctrl-C is no key")

    def wait(self, text):
        """Waits until the terminal has shown this, after the text that was waited for before."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            data = os.read(self.fd, 65536) if ready else b""
            if not data:
                sys.exit(f"no {text!r} on the terminal: {self.seen[:1000]!r} ... {self.seen[-1000:]!r}")
            self.seen += data.decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        self.all += before + text
        return before

    def until(self, count):
        """Waits until so many characters more have come."""
        while len(self.seen) < count:
            self.seen += os.read(self.fd, 65536).decode(errors="replace")

    def type(self, keys):
        data = keys.encode()
        while data:  # a terminal takes a few KiB at a time, and its echo must be read
            _, writable, _ = select.select([], [self.fd], [], 0.01)
            if writable:
                data = data[os.write(self.fd, data[:1024]):]
            if select.select([self.fd], [], [], 0)[0]:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")

    def say(self, keys):
        """A line that is answered: the next prompt comes with its brackets."""
        self.type(keys + "\r")
        return self.prompt()

    def stop_beside_key(self, pid, delay):
        """A stop as the line is drawn, or just before the next wait for a key."""
        self.type("x\x7f")
        time.sleep(delay * 1e-5)
        os.kill(pid, signal.SIGTSTP)

    def keys_arrive(self):
        """After a stop: the mode is the editor's again."""
        self.wait("\x1b[?2004h")
        self.reads()
        self.type("q")
        self.wait("q")
        self.type("\x7f")

    def end(self, keys="/quit\r"):
        """No colour is left on."""
        if (["0"] + re.findall("\x1b\\[([0-9;]*)m", self.all))[-1] != "0":
            sys.exit(f"a colour is left on: {self.all!r}")
        self.type(keys)
        return self.status()

    def became(self):
        """The way in which a job was stopped, or ended."""
        if not select.select([self.report], [], [], PATIENCE)[0]:
            sys.exit(f"nothing became of it: {self.seen!r}")
        report = os.read(self.report, 4)
        return struct.unpack("i", report)[0] if report else sys.exit(f"the shell ended before its job: {self.seen!r}")

    def status(self):
        """The exit code; self.seen has the output until then."""
        try:
            while data := os.read(self.fd, 65536):
                self.seen += data.decode(errors="replace")
        except OSError:
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)

    def tokens(self):
        stat = subprocess.run([kvrt, "store", "stat", self.store, "chat", "--json"], capture_output=True, check=True).stdout
        return json.loads(stat)["tokens"]

    def messages(self, name="chat"):
        shown = subprocess.run([kvrt, "store", "show", self.store, name, "--json"], capture_output=True, check=True).stdout
        return json.loads(shown)["messages"]


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: {found!r}, expected {wanted!r}")
