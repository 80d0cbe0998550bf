#!/usr/bin/env python3
"""A store's log has exactly the operations on its files that the kernel saw: nothing goes past Env and the SQLite shim.

  audit.py POWER_CUT      runs `POWER_CUT --log DIR` under strace and compares, call by call. Exit 77 where strace cannot trace.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

KINDS = {
    "mkdir": "mkdir", "mkdirat": "mkdir",
    "write": "write", "pwrite64": "write", "writev": "write", "pwritev": "write", "pwritev2": "write",
    "ftruncate": "truncate", "truncate": "truncate", "fallocate": "write",
    "fsync": "sync", "fdatasync": "sync", "sync_file_range": "sync",
    "rename": "rename", "renameat": "rename", "renameat2": "rename", "link": "rename", "linkat": "rename",
    "unlink": "unlink", "unlinkat": "unlink", "rmdir": "unlink",
    "copy_file_range": "write", "sendfile": "write", "splice": "write",
}
CALL = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)\) += (-?\d+)")


SEGMENT = re.compile(r"[0-9a-f]{32}\.seg$")


def named(kind, path):
    """A segment is open while it moves from tmp/ to segs/: what goes to it by its descriptor is told by its name alone."""
    moved = SEGMENT.search(path) if kind in ("write", "truncate", "sync") else None
    return kind, moved[0] if moved else path


def path_of(kind, arguments):
    """The first path that a call names: that of a descriptor, or a name and the directory that it is in."""
    if kind in ("write", "truncate", "sync"):
        found = re.search(r"\d+<([^>]*)>", arguments)
        return found and found[1]
    found = re.search(r'(?:(?:\d+|AT_FDCWD)<([^>]*)>, )?"([^"]*)"', arguments)
    return found and os.path.join(found[1] or "", found[2])


def traced(trace, root):
    """(kind, path) of every call that succeeded in changing something under root."""
    counts = collections.Counter()
    for line in trace:
        call = CALL.match(line)
        if not call or call[3].startswith("-") or call[1] not in KINDS:
            continue
        kind = KINDS[call[1]]
        path = path_of(kind, call[2])
        if not path or not (path + "/").startswith(root + "/") or path.endswith("-shm"):  # no data: made anew from the log
            continue
        counts[named("syncdir" if kind == "sync" and os.path.isdir(path) else kind, path)] += 1
    return counts


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not shutil.which("strace"):
        print("skipped: strace is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        root, trace = os.path.join(directory, "store"), os.path.join(directory, "trace")
        command = ["strace", "-f", "-y", "-qq", "-s", "0", "-o", trace, "-e", "trace=" + ",".join(KINDS)]
        run = subprocess.run([*command, sys.argv[1], "--log", root], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if run.returncode != 0 and re.search("ptrace|PTRACE", run.stderr):
            print("skipped: tracing is not permitted here")
            sys.exit(77)
        if run.returncode != 0:
            sys.exit(f"exit {run.returncode}: {run.stderr}")
        logged = collections.Counter()
        for line in run.stdout.splitlines():
            kind, path = line.split(" ", 1)
            if kind != "create":  # an open that may or may not have made the file: the calls after it are compared
                logged[named(kind, path)] += 1
        with open(trace, encoding="utf-8", errors="replace") as f:
            seen = traced(f, root)
    wrong = [(key, seen[key], logged[key]) for key in sorted(seen.keys() | logged.keys()) if seen[key] != logged[key]]
    for (kind, path), kernel, ours in wrong:
        print(f"{kind} {path.removeprefix(root + '/')}: the kernel saw {kernel}, the log has {ours}")
    print(f"{sum(logged.values())} operations in the log, {len(wrong)} differences")
    sys.exit(1 if wrong or sum(logged.values()) < 100 else 0)


main()
