#!/usr/bin/env python3
"""The machine code of the kernels in libkvrt_cuda: registers, shared memory, stack, and how full a multiprocessor gets.

  resources.py [--arch N] [--json] [--exact] LIBRARY|OBJECT...   a line per kernel; read from the device code itself
  resources.py --self-test NVCC                                  the known figures of a planted kernel are found

A kernel that keeps anything in local memory (registers that were spilled, arrays that are indexed) is a fault and the exit code 1, but for
the kernels that LOCAL permits; so is one that fits no multiprocessor as it is launched, and one whose dynamic shared memory LAUNCHES lacks.
Occupancy is warps of those that a multiprocessor can hold, by threads, registers and shared memory; it knows no other limit.
"""
import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass

SOURCE = pathlib.Path(__file__).resolve().parents[2]

# Kernels that may use the stack: MOST BYTES, why. A number may only go down.
LOCAL = {}

HEAD_DIM, MATVEC_THREADS, COLS = 128, 256, 4096  # of the launches below, where they decide


def decode_bytes(_, wide, biased):
    heads, mine = (16, 2) if wide == "true" else (8, 1)
    return 4 * 8192 + HEAD_DIM // 16 * 32 * mine * 16 + heads * max(HEAD_DIM, 4 * 64) * 4 + heads * bias_pairs(biased) * 8


def bias_pairs(biased):
    return HEAD_DIM // 2 if biased == "true" else 0


def tile_bytes(formats, dims, _):
    dims = int(dims)
    keys = 64 if dims <= 128 else 32
    return 4 * keys * dims + keys + (2 * keys * dims + 8 * keys if formats in ("Alike<I8>", "Alike<F8>", "Unlike") else 0)


def matvec_threads(kernel):
    return MATVEC_THREADS * (2 if split_name(kernel)[1][1] == "16" else 1)


def matvec_bytes(kernel):
    name, (_, columns, own) = split_name(kernel)
    rows = min(int(columns), 8192 // COLS)
    sums, stage = matvec_threads(kernel) // 32 * int(columns) * 16 * 4, rows * COLS * 4
    if own == "false":
        return sums
    return sums + stage if name == "PlainKernel" else max(sums, stage) + (rows if rows <= 2 else (rows + 1) // 2 * 2) * (COLS // 32 | 1) * 44


def state_bytes(_):
    return 2 * 8 * HEAD_DIM * 4


STATE_WORDS = "return 2 * batch_for(numbers) * numbers * static_cast<uint32_t>(sizeof(float));"

# A launcher's additions to the device code: threads of a block where they are fewer than __launch_bounds__ permits, or a function; bytes of dynamic
# shared memory by the kernel's template arguments, and the words of cuda/ that say the same. Every kernel with KVRT_DYNAMIC_SHARED stands here.
LAUNCHES = {
    "attend_part": (None, decode_bytes, "kPartWarps * kRingBytes + query_bytes(k_dim) + row_bytes(k_dim) + Heads<wide>::kCount * bias_pairs * 8"),
    "attend_part_plain": (None, lambda _, biased: 4 * (256 + HEAD_DIM + 2 * bias_pairs(biased)) * 4,
                          "kPlainHeads * (kSplitTokens + k_dim + 2 * a.bias.of.pairs) * static_cast<uint32_t>(sizeof(float))"),
    "merge_parts": (HEAD_DIM, None, None),
    "attend_tile": (None, tile_bytes, "kBytes = 2 * kTileBytes + 2 * kRawBytes + 4 * kScaleBytes + kKeys;"),
    "gemm_kernel": (None, lambda _: 4 * 64 * 40 * 2, "kShared = 4 * kBuffer * sizeof(uint16_t);"),
    "matvec_kernel": (matvec_threads, matvec_bytes, "args->own_at + (plain ? stage : own_quant_bytes(count, args->cols))"),
    "act_mul_kernel": (256, None, None),
    "add_bias_kernel": (256, None, None),
    "scan_kernel": (None, state_bytes, STATE_WORDS),
    "delta_kernel": (None, state_bytes, STATE_WORDS),
}

# The limits of a multiprocessor, by compute capability: warps, blocks, KB of shared memory. All have 65,536 registers.
LIMITS = {75: (32, 16, 64), 80: (64, 32, 164), 86: (48, 16, 100), 89: (48, 24, 100), 90: (64, 32, 228), 100: (64, 32, 228), 120: (48, 24, 100)}

FATBIN, CUBIN, COMPRESSED = 0xBA55ED50, 2, 0xA000
REGISTERS, FRAME, MIN_STACK, MAX_THREADS, EXACT_THREADS = 0x2F, 0x11, 0x12, 0x05, 0x10  # attributes of .nv.info


@dataclass
class Kernel:
    arch: int
    name: str
    registers: int
    static_shared: int
    local: int  # bytes of a thread
    threads: int
    dynamic_shared: int = 0
    blocks: int = 0  # on a multiprocessor
    occupancy: float = 0.0


# ---- device code: ELF files within a fat binary


def cubins_of(data):
    """(compute capability, ELF file) for all in the bytes of a library or an object."""
    at = data.find(struct.pack("<I", FATBIN))
    while at >= 0:
        head, size = struct.unpack_from("<HQ", data, at + 6)
        end = at + head + size
        part = at + head
        while part < end and at % 8 == 0:
            kind, _, head, size = struct.unpack_from("<HHIQ", data, part)
            if kind == CUBIN:
                if struct.unpack_from("<Q", data, part + 40)[0] & COMPRESSED:
                    sys.exit("the device code is compressed: build with nvcc --no-compress")
                yield struct.unpack_from("<I", data, part + 28)[0], data[part + head : part + head + size]
            part += head + size
        at = data.find(struct.pack("<I", FATBIN), end if at % 8 == 0 else at + 4)


def text_at(data, at):
    return data[at : data.index(b"\0", at)].decode()


def attributes_of(info):
    """(attribute, value) of a .nv.info section."""
    at = 0
    while at < len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:  # value is a length
            yield attribute, info[at : at + value]
            at += value
        else:
            yield attribute, value


def kernels_of(arch, elf):
    (table,), (count, names) = struct.unpack_from("<Q", elf, 0x28), struct.unpack_from("<HH", elf, 0x3C)
    rows = [struct.unpack_from("<IIQQQQIIQQ", elf, table + 64 * i) for i in range(count)]
    sections = {text_at(elf, rows[names][4] + row[0]): row for row in rows}

    def content(row):
        return elf[row[4] : row[4] + row[5]]

    symbols = content(sections[".symtab"])
    strings = rows[sections[".symtab"][6]][4]
    of = {}  # attributes by symbol
    for attribute, value in attributes_of(content(sections[".nv.info"])):
        if attribute in (REGISTERS, FRAME, MIN_STACK):
            symbol, number = struct.unpack("<II", value)
            name = text_at(elf, strings + struct.unpack_from("<I", symbols, 24 * symbol)[0])
            of.setdefault(name, {})[attribute] = number
    for section, row in sections.items():
        name = section.removeprefix(".nv.info.")
        if name == section:
            continue
        own = dict(attributes_of(content(row)))
        threads = own.get(EXACT_THREADS) or own.get(MAX_THREADS)
        x, y, z = struct.unpack("<III", threads) if threads else (1024, 1, 1)
        shared = sections.get(f".nv.shared.{name}")
        # From 8.0 on the section has the system's part ahead of the kernel's.
        yield Kernel(arch, name, of[name][REGISTERS], max(0, shared[5] - reserved(arch)) if shared else 0,
                     max(of[name].get(FRAME, 0), of[name].get(MIN_STACK, 0)), x * y * z)


def reserved(arch):
    return 1024 if arch >= 80 else 0


# ---- names


def enumerators():
    """{"DType": {8: "Q8_0"}} of the enumerations that kernels are made for."""
    found = {}
    for header in [*SOURCE.glob("runtime/compute/**/*.h"), *SOURCE.glob("cuda/**/*.h")]:
        for name, body in re.findall(r"enum class (\w+)[^{;]*\{([^}]*)\}", header.read_text()):
            number = -1
            for item in re.sub(r"//.*", "", body).split(","):
                word = re.match(r"\s*k?(\w+)\s*(?:=\s*(\d+))?", item)
                if word:
                    number = int(word[2]) if word[2] else number + 1
                    found.setdefault(name, {})[number] = word[1]
    return found


def readable(names):
    enums = enumerators()
    out = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout.splitlines()

    def value(match):
        return enums.get(match[1], {}).get(int(match[2]), match[2])

    short = {}
    for name, text in zip(names, out):
        text = re.sub(r"\(anonymous namespace\)::|kvrt::|cuda::|^void ", "", text)
        depth = 0
        for i in range(len(text) - 1, -1, -1) if text.endswith(")") else []:
            depth += {")": 1, "(": -1}.get(text[i], 0)
            if depth == 0:
                text = text[:i]
                break
        text = re.sub(r"\((\w+)\)(\d+)u?", lambda m: ("false", "true")[int(m[2])] if m[1] == "bool" else value(m), text)
        short[name] = re.sub(r"\((?:unsigned )?\w+\)(\d+)|\b(\d+)u\b", lambda m: m[1] or m[2], text).replace("> >", ">>")
    return short


def split_name(name):
    """f<A<B, 1>, 2>": its base "f" and its template arguments."""
    base, _, rest = name.partition("<")
    arguments, depth = [""] if rest else [], 0
    for letter in rest.removesuffix(">"):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            arguments.append("")
        else:
            arguments[-1] += letter
    return base, [a.strip() for a in arguments]


def launch_faults():
    """The entries that differ between LAUNCHES and cuda/."""
    texts = [path.read_text() for path in sorted([*SOURCE.glob("cuda/**/*.cu"), *SOURCE.glob("cuda/**/*.h")])]
    dynamic = {name for text in texts for name in dynamic_in(text)}
    everything = re.sub(r"\s+", " ", " ".join(texts))
    for name in sorted(dynamic - LAUNCHES.keys()):
        yield f"LAUNCHES: {name} has dynamic shared memory: how much?"
    for name, (_, count, words) in LAUNCHES.items():
        if count and name not in dynamic:
            yield f"LAUNCHES: {name} has no dynamic shared memory any more"
        elif count and words not in everything:
            yield f"LAUNCHES: cuda/ says no more `{words}`: how much shared memory has {name} now?"


def dynamic_in(text):
    """Kernels of a file that use dynamic shared memory."""
    name = None
    for match in re.finditer(r"__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s+)?(\w+)\(|KVRT_DYNAMIC_SHARED\((?!name\))", text):
        if match[1]:
            name = match[1]
        elif name:
            yield name


# ---- occupancy


def up(n, unit):
    return (n + unit - 1) // unit * unit


def occupy(k):
    """Blocks on a multiprocessor, and the share of its warps."""
    if k.arch not in LIMITS:
        return 0, 0.0
    most_warps, most_blocks, shared_kb = LIMITS[k.arch]
    warps = up(k.threads, 32) // 32
    by_registers = 65536 // up(k.registers * 32, 256) // 4 * 4 // warps  # a quarter of the registers to each scheduler
    shared = up(k.static_shared + k.dynamic_shared + reserved(k.arch), 128 if k.arch >= 80 else 256)
    blocks = min(most_blocks, most_warps // warps, by_registers, shared_kb * 1024 // shared if shared else most_blocks)
    return blocks, blocks * warps / most_warps


def complete(kernels):
    """Names, the additions of the launchers, and occupancy."""
    short = readable([k.name for k in kernels])
    for k in kernels:
        k.name = short[k.name]
        base, arguments = split_name(k.name)
        threads, dynamic, _ = LAUNCHES.get(base, (None, None, None))
        threads = threads(*arguments) if callable(threads) else threads
        k.threads = min(threads or k.threads, k.threads)
        k.dynamic_shared = dynamic(*arguments) if dynamic else 0
        k.blocks, k.occupancy = occupy(k)
    return kernels


# ---- the report


def faults_of(kernels, exact):
    faults, used = [], set()
    for k in kernels:
        base, _ = split_name(k.name)
        permitted = LOCAL.get(base, (0, ""))[0]
        if k.local:
            used.add(base)
        if k.local > permitted:
            faults.append(f"{k.name}, {k.arch}: {k.local} bytes of local memory a thread, permitted {permitted}")
        if k.arch in LIMITS and k.blocks == 0:
            faults.append(f"{k.name}, {k.arch}: a block of {k.threads} threads, {k.registers} registers each and "
                          f"{k.static_shared + k.dynamic_shared} bytes of shared memory fits no multiprocessor")
    faults += launch_faults()
    if exact:
        faults += [f"LOCAL: nothing of {name} is in local memory any more: remove its line" for name in LOCAL if name not in used]
    return faults


def report(kernels):
    if not kernels:
        return
    width = max(len(k.name) for k in kernels)
    print(f"{'kernel':<{width}} arch  regs  shared static + dynamic  local  threads  blocks  occupancy")
    for k in sorted(kernels, key=lambda k: (k.arch, k.name)):
        occupancy = f"{100 * k.occupancy:.0f} %" if k.arch in LIMITS else "-"
        print(f"{k.name:<{width}} {k.arch:4} {k.registers:5} {k.static_shared:14} + {k.dynamic_shared:7} {k.local:6} {k.threads:8} {k.blocks:7} {occupancy:>10}")


def check(a):
    kernels = []
    for path in a.objects:
        for arch, elf in cubins_of(pathlib.Path(path).read_bytes()):
            kernels += kernels_of(arch, elf) if a.arch in (None, arch) else []
    if not kernels:
        sys.exit(f"no device code{f' for {a.arch}' if a.arch else ''} in {' '.join(a.objects)}: nothing was checked")
    complete(kernels)
    faults = faults_of(kernels, a.exact)
    if a.json:
        print(json.dumps({"kernels": [asdict(k) for k in kernels], "faults": faults}, indent=1))
        return 1 if faults else 0
    report(kernels)
    for fault in faults:
        print(fault)
    print(f"{len(kernels)} kernels, {len(faults)} faults")
    return 1 if faults else 0


# ---- self-test

PLANTED = """
__global__ void __launch_bounds__(96) in_local(const int* at, float* x) {
  float a[100];
  for (int i = 0; i < 100; ++i) a[i] = x[at[i]];
  for (int i = 0; i < 100; ++i) x[i] = a[at[i]];
}
__global__ void __launch_bounds__(256) in_shared(float* x) {
  __shared__ float a[1000];
  a[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = a[999 - threadIdx.x];
}
"""
# threads, registers, shared bytes on 9.0: blocks. As the CUDA runtime's cudaOccupancyMaxActiveBlocksPerMultiprocessor counts them.
OCCUPIES = (((256, 32, 0), 8), ((128, 168, 0), 3), ((128, 128, 0), 4), ((128, 64, 57344), 4), ((1024, 64, 0), 1), ((32, 16, 0), 32), ((128, 255, 232448), 1))


def self_test(nvcc):
    for (threads, registers, shared), blocks in OCCUPIES:
        counted, _ = occupy(Kernel(90, "", registers, shared, 0, threads))
        if counted != blocks:
            sys.exit(f"{threads} threads, {registers} registers, {shared} bytes: {counted} blocks, expected {blocks}")
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/planted.cu", f"{folder}/planted.o"
        pathlib.Path(source).write_text(PLANTED)
        subprocess.run([*nvcc, "-arch=sm_90", "-c", source, "-o", target], check=True)
        kernels = {k.name: k for arch, elf in cubins_of(pathlib.Path(target).read_bytes()) for k in kernels_of(arch, elf)}
        complete(list(kernels.values()))
        found = {k.name: (k.local, k.static_shared, k.threads, k.registers > 0) for k in kernels.values()}
        if found != {"in_local": (400, 0, 96, True), "in_shared": (0, 4000, 256, True)}:
            sys.exit(f"the planted kernels: found {found}")
        if not any("in_local" in fault for fault in faults_of(list(kernels.values()), False)):
            sys.exit("local memory was no fault")
    print("the planted kernels were found as they are")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, help="compute capability, 90; all that there is code for if not given")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--exact", action="store_true", help="a permission that is not needed is a fault (other compilers may need others)")
    parser.add_argument("--self-test", nargs="+", metavar="NVCC")
    parser.add_argument("objects", nargs="*")
    a = parser.parse_args()
    if a.self_test:
        self_test(a.self_test)
    if a.objects or not a.self_test:
        sys.exit(check(a))


if __name__ == "__main__":
    main()
