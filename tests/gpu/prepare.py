#!/usr/bin/env python3
"""Puts all that gpu_check.py needs into a folder that works wherever it is moved to: programs, libraries, models of the tests. ./dev gpu-check
--prepare builds it all and calls this.

  prepare.py BUILD FOLDER [--model FILE] [--emulated]

The content of a folder that was prepared before is replaced. --emulated: programs over the emulation, to try out folder and program.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

import gpu_parts

HERE = pathlib.Path(__file__).resolve().parent
TINY = HERE.parent / "golden/tiny"
MOST_BYTES = 45_000_000  # with code for one architecture, and no model


def strip(source, target):
    subprocess.run(["strip", "--strip-unneeded", "-o", target, source], check=True)


def cuda_runtime(plugin):
    """libcudart, where the library wants it: a machine with a driver need not have it."""
    out = subprocess.run(["ldd", plugin], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(libcudart\.so\S*) => (\S+)", out)
    return [(found[1], pathlib.Path(found[2]))] if found else []


def elsewhere(path):
    """The places where the dynamic linker looks for a file's libraries and that do not move with it."""
    out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    places = [place for line in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", out) for place in line.split(":")]
    return [place for place in places if place and not place.startswith("$ORIGIN")]


def bytes_of(path):
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) if path.is_dir() else path.stat().st_size


def fill(build, folder, emulated):
    for name in ("bin", "lib", "tiny"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True)
    for target in gpu_parts.programs(emulated):
        name = "kvrt" if target == "kvrt_cli" else target
        strip(build / "bin" / name, folder / "bin" / name)
    plugin = "libkvrt_cuda_emulated.so" if emulated else "libkvrt_cuda.so"
    libraries = [(name, build / "lib" / name) for name in ("libkvrt.so.0", plugin)]
    for name, path in libraries + cuda_runtime(build / "lib" / plugin):
        strip(path, folder / "lib" / name)
    shutil.copytree(TINY, folder / "tiny")
    for name in ("gpu_check.py", "gpu_parts.py", "gpu_summary.py", "torch_peer.py"):
        shutil.copy(HERE / name, folder)
    if (build / "build.json").is_file():
        shutil.copy(build / "build.json", folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--emulated", action="store_true")
    a = parser.parse_args()
    fill(a.build, a.folder, a.emulated)
    fixed = [f"{path}: {place}" for kind in ("bin", "lib") for path in (a.folder / kind).iterdir() for place in elsewhere(path)]
    if fixed:
        sys.exit("prepare.py: the folder could not be moved; libraries are looked for in\n  " + "\n  ".join(fixed))
    record = json.loads((a.folder / "build.json").read_text()) if (a.folder / "build.json").is_file() else {}
    architectures, total = record.get("architectures", ""), bytes_of(a.folder)
    kinds = {**{kind: bytes_of(a.folder / kind) for kind in ("bin", "lib", "tiny")}, "total": total}
    print(", ".join(f"{kind} {size / 1e6:.1f} MB" for kind, size in kinds.items()) + (f", for {architectures}" if architectures else ""))
    for path in sorted((a.folder / "lib").iterdir()):
        print(f"  {path.name} {path.stat().st_size / 1e6:.1f} MB")
    if ";" not in architectures and not a.emulated and total > MOST_BYTES:
        sys.exit(f"prepare.py: {total / 1e6:.1f} MB for one architecture, {MOST_BYTES / 1e6:.0f} at most")
    if a.model:
        shutil.copy(a.model, a.folder)
        print(f"  {a.model.name} {a.model.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
