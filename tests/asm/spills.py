#!/usr/bin/env python3
"""Compiled kernels whose hot loops keep values on the stack, which compilers do without a word and which costs up to half the speed.

  spills.py [--all] [--min N] [--exact] OBJECT|FOLDER...   a line per loop, then its stack accesses; --all: permitted loops as well
  spills.py --self-test COMPILER                 a planted spill is found, and a loop that has none is not

A folder is searched for the objects of the kernel tables (kernels_*.o, the scalar one is no hot code). A hot loop is an innermost one
that uses ymm or zmm registers. An access to the stack at a fixed offset counts: every store of a vector register; everything
else, constants, pointers and counters that found no register, where it is more than one in 12 instructions. An array that is
indexed, (%rsp,%rax,4), is no spill. The exit code is 1 where a loop has more than exceptions.txt permits; with --exact also where an
exception is out of date.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

HEAD = re.compile(r"^[0-9a-f]+ <(.*)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\s*([^#]*)")
STACK = re.compile(r"(?<!%[cdefgs]s:)(?:-?0x[0-9a-f]+)?\((%rsp|%rbp)\)")
VECTOR = re.compile(r"%[xyz]mm\d")
WIDE = re.compile(r"%[yz]mm\d")
READ_SHARE = 12  # of so many instructions one may read from the stack a value that was put there before the loop
PREFIXES = {"rep", "repz", "lock", "bnd", "notrack", "data16", "cs", "{evex}", "{vex}"}


@dataclass
class Instruction:
    address: int
    name: str
    operands: str


@dataclass
class Loop:
    where: str  # object
    function: str
    first: int
    last: int
    length: int
    stores: list = field(default_factory=list)  # of vector registers
    others: list = field(default_factory=list)

    def spills(self):
        return len(self.stores) + (len(self.others) if len(self.others) * READ_SHARE > self.length else 0)


def functions_of(path):
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "-C", path], check=True, capture_output=True, text=True).stdout
    name, code = None, []
    for line in text.splitlines():
        head, found = HEAD.match(line), LINE.match(line)
        if head:
            if code:
                yield name, code
            name, code = head[1], []
        elif found:
            mnemonic, operands = found[2], found[3].strip()
            while mnemonic in PREFIXES and operands:
                mnemonic, _, operands = operands.partition(" ")
            code.append(Instruction(int(found[1], 16), mnemonic, operands.strip()))
    if code:
        yield name, code


def loops_of(code):
    """Address ranges of the innermost loops: backward branches, those to one place taken together."""
    begin, end = code[0].address, code[-1].address
    ranges = {}
    for i in code:
        target = re.match(r"([0-9a-f]+) <", i.operands) if i.name.startswith("j") else None
        if target and begin <= int(target[1], 16) <= i.address <= end:
            first = int(target[1], 16)
            ranges[first] = max(ranges.get(first, 0), i.address)
    spans = list(ranges.items())
    return [a for a in spans if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)]


def hot_loops(path):
    for function, code in functions_of(path):
        # %rbp is an ordinary register unless the function makes it its frame.
        frame = any(i.name == "mov" and i.operands == "%rsp,%rbp" for i in code)
        for first, last in loops_of(code):
            body = [i for i in code if first <= i.address <= last]
            if not any(WIDE.search(i.operands) for i in body):
                continue
            loop = Loop(pathlib.Path(path).name, function, first, last, len(body))
            for i in body:
                base = STACK.search(i.operands)
                if base and i.name != "lea" and (base[1] == "%rsp" or frame):
                    (loop.stores if VECTOR.search(i.operands) and i.operands.endswith(")") else loop.others).append(i)
            yield loop


def objects_of(arguments):
    found = []
    for argument in map(pathlib.Path, arguments):
        found += sorted(argument.rglob("*kernels_*.o")) if argument.is_dir() else [argument]
    return [p for p in found if "kernels_" in p.name and "_scalar" not in p.name]


def read_exceptions():
    """[(regular expression, most accesses)]"""
    lines = (pathlib.Path(__file__).parent / "exceptions.txt").read_text().splitlines()
    rows = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    return [(re.compile(row[1].strip()), int(row[0])) for row in rows]


def short(name):
    """Without namespaces that all kernels share and without the arguments."""
    name = re.sub(r" \[clone [^]]*\]$", "", re.sub(r"\(anonymous namespace\)::|kvrt::", "", name))
    depth = 0
    for i in range(len(name) - 1, -1, -1) if name.endswith(")") else []:
        depth += {")": 1, "(": -1}.get(name[i], 0)
        if depth == 0:
            return name[:i]
    return name


def report(loop):
    print(f"{loop.where}: {short(loop.function)}: loop {loop.first:x}..{loop.last:x} of {loop.length} instructions: "
          f"{len(loop.stores)} vector stores and {len(loop.others)} other stack accesses")
    for i in sorted(loop.stores + loop.others, key=lambda i: i.address):
        print(f"    {i.address:6x}: {i.name} {i.operands}")


def check(arguments, show_all, least, exact):
    paths = objects_of(arguments)
    loops = [loop for path in paths for loop in hot_loops(path)]
    if not loops:
        sys.exit(f"no hot loop in {len(paths)} kernel objects of {' '.join(arguments)}: nothing was checked")
    exceptions = read_exceptions()
    used, faults = set(), 0
    for loop in sorted(loops, key=lambda l: -l.spills()):
        permitted = 0
        for pattern, most in exceptions:
            if loop.spills() and pattern.search(f"{loop.where}: {short(loop.function)}"):
                permitted = max(permitted, most)
                used.add(pattern)
        bad = loop.spills() > permitted
        faults += bad
        if (bad or show_all) and loop.spills() >= least:
            report(loop)
    for pattern, _ in exceptions:
        if exact and pattern not in used:
            print(f"exceptions.txt: nothing of {pattern.pattern} spills any more: remove its line")
            faults += 1
    print(f"{len(paths)} objects, {len(loops)} hot loops, {faults} faults")
    return 1 if faults else 0


PLANTED = """
#include <immintrin.h>
void sums(const float* x, long n, float* out) {
  __m256 a[%d];
  #pragma GCC unroll 64
  for (int k = 0; k < %d; ++k) a[k] = _mm256_loadu_ps(out + 8 * k);
  #pragma GCC unroll 1
  for (long i = 0; i < n; ++i) {
    const __m256 f = _mm256_broadcast_ss(x + i);
    #pragma GCC unroll 64
    for (int k = 0; k < %d; ++k) a[k] = _mm256_fmadd_ps(f, a[k], f);
  }
  #pragma GCC unroll 64
  for (int k = 0; k < %d; ++k) _mm256_storeu_ps(out + 8 * k, a[k]);
}
"""


def self_test(compiler):
    with tempfile.TemporaryDirectory() as folder:
        for accumulators, spills in ((8, False), (24, True)):  # there are 16 registers
            source, target = f"{folder}/planted.c", f"{folder}/kernels_planted.o"
            pathlib.Path(source).write_text(PLANTED % ((accumulators,) * 4))
            subprocess.run([*compiler, "-x", "c", "-O2", "-mavx2", "-mfma", "-c", source, "-o", target], check=True)
            counts = [loop.spills() for loop in hot_loops(target)]
            # Each accumulator that found no register is loaded and stored in every round.
            if len(counts) != 1 or (counts[0] < 2 * (accumulators - 16) if spills else counts[0] > 0):
                sys.exit(f"{accumulators} accumulators: stack accesses by loop {counts}; expected one loop, {'with' if spills else 'without'} spills")
    print("the planted spill was found, and none where there is none")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--min", type=int, default=0, help="show loops with at least N accesses")
    parser.add_argument("--exact", action="store_true", help="an exception that is not needed is a fault (other compilers may need others)")
    parser.add_argument("--self-test", nargs="+", metavar="COMPILER")
    parser.add_argument("objects", nargs="*")
    a = parser.parse_args()
    if a.self_test:
        self_test(a.self_test)
    if a.objects or not a.self_test:
        sys.exit(check(a.objects, a.all, a.min, a.exact))


if __name__ == "__main__":
    main()
