#!/usr/bin/env python3
"""The library of two trees, alternating, so that a machine's moods fall on both: what a change does to the speed of calls.

  tests/bench/before.py OLD NEW MODEL [--pairs 15] [--more 45] [--bound 0.98] [--only NAME...] [--json FILE]

OLD and NEW are source trees with a release build (build/release). calls.c, of the tree that this program is in, is compiled against each. A
ratio is the old time over the new one: above 1 the new tree is faster. Where a median of the first pairs is below the bound, so many more
pairs decide. Exits with 1 if one of them is below it, too.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def build(tree, out):
    lib = next(p for p in (tree / "build/release/lib", tree / "build/release") if (p / "libkvrt.so").exists())
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{tree}/include", HERE / "calls.c", f"-L{lib}", "-lkvrt", f"-Wl,-rpath,{lib.resolve()}", "-o", out], check=True)
    return out


def run(program, model, names):
    done = subprocess.run([program, model, *names], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def pairs_of(programs, model, count, first, names=()):
    rows = []
    for i in range(count):
        order = (0, 1) if (first + i) % 2 == 0 else (1, 0)
        times = {which: run(programs[which], model, names) for which in order}
        rows.append({name: [times[0][name], times[1][name]] for name in times[0]})
        print(f"\r{i + 1} of {count} pairs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return rows


def ratio(rows, name):
    return statistics.median(old / new for old, new in (row[name] for row in rows))


def show(rows, names):
    print(f"{'':14}{'old ms':>11}{'new ms':>11}{'old / new':>11}   least .. greatest of {len(rows)} pairs")
    for name in names:
        ratios = sorted(old / new for old, new in (row[name] for row in rows))
        old, new = (statistics.median(row[name][i] for row in rows) for i in (0, 1))
        print(f"{name:14}{old:11.3f}{new:11.3f}{statistics.median(ratios):11.3f}   {ratios[0]:.3f} .. {ratios[-1]:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--more", type=int, default=45)
    parser.add_argument("--bound", type=float, default=0.98)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these measurements")
    parser.add_argument("--json", type=pathlib.Path)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = [build(tree.resolve(), pathlib.Path(folder) / name) for tree, name in ((a.old, "old"), (a.new, "new"))]
        rows = pairs_of(programs, a.model, a.pairs, 0, a.only)
        names = a.only or list(rows[0])
        show(rows, names)
        slow = [name for name in names if ratio(rows, name) < a.bound]
        more = []
        if slow and a.more > 0:
            print(f"below {a.bound}: {', '.join(slow)}; {a.more} more pairs decide")
            more = pairs_of(programs, a.model, a.more, a.pairs, slow)
            show(more, slow)
            slow = [name for name in slow if ratio(more, name) < a.bound]
    if a.json:
        a.json.write_text(json.dumps({"pairs": rows, "more": more}, indent=1) + "\n")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
