"""The facts about a machine and a build without which a figure cannot be believed."""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def cpu():
    text = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    return {key: match[1] for key in ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
            if (match := re.search(rf"^{key}\s*: (.*)$", text, re.MULTILINE))}


def compiler(build):
    """The compiler and flags of the kernel files: the figures are theirs."""
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    kernels = {pathlib.Path(c["file"]).name: c["command"] for c in commands if "/runtime/compute/cpu/kernels_" in c["file"]}
    program = next(word for word in next(iter(kernels.values())).split() if "ccache" not in word)
    flags = {name: " ".join(w for w in command.split() if w.startswith(("-O", "-m", "-f"))) for name, command in kernels.items()}
    return {"compiler": (output([program, "--version"]) or program).splitlines()[0], "kernel_flags": flags}


def of_machine(a, peer):
    thp = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    build = pathlib.Path(a.build)
    if not a.kvrt.exists() or not (build / "bin/peak").exists():
        sys.exit(f"{build} has no bin/kvrt or bin/peak: ./dev bench builds them")
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "cpu": cpu(), "threads": a.threads,
            "kernel": os.uname().release, "transparent_hugepage": thp.read_text().strip() if thp.exists() else None, "load_before": os.getloadavg(),
            "commit": output(["git", "-C", ROOT, "rev-parse", "HEAD"]), "changed_files": output(["git", "-C", ROOT, "status", "--porcelain"]),
            **compiler(build), "peer": peer, "arguments": sys.argv[1:]}


def ceilings_now(a):
    return json.loads(output([pathlib.Path(a.build) / "bin/peak", str(a.threads)]) or sys.exit("bin/peak failed"))


def peak(a):
    """The ceilings, and a warning where two threads are not twice one: then something else runs here, or the CPUs share a core."""
    ceilings = ceilings_now(a)
    every = ceilings["all"]
    print(f"{ceilings['cpu']}, {a.threads} threads: reads {every['read_gb_s']:.1f} GB/s; GMAC/s: fma {every['fma_256']:.0f} (512 bits: "
          f"{every['fma_512']:.0f}), maddubs {every['maddubs_256']:.0f}, vpdpbusd {every['dot_512']:.0f}", flush=True)
    warn(ceilings, a.threads)
    return ceilings


def warn(ceilings, threads):
    one, every = ceilings["one"], ceilings["all"]
    if not one["fma_256"]:
        return
    # One thread at its best, all at their usual: a busy neighbour shows in the middle pass, not in the best.
    ceilings["fma_scaling"] = scaling = every["fma_256_median"] / one["fma_256"]
    if scaling < 0.9 * threads:
        print(f"WARNING: {threads} threads multiply {scaling:.2f} times as fast as one: the machine is not quiet, or its CPUs share a core; "
              "figures of this run are no measurements", flush=True)


def write_text(folder):
    path = os.path.join(folder, "text")
    with open(path, "w") as file:
        for day in range(1, 1200):
            file.write(f"Day {day}: wind {day * 7 % 31} knots, {day * 13 % 97} birds on the north beach, lamp oil {day * 5 % 53} litres.\n")
    return path


def finish(result, a):
    result["load_after"] = os.getloadavg()
    result["peak_after"] = ceilings_now(a)
    warn(result["peak_after"], a.threads)
    path = pathlib.Path(a.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nall runs: {path}", file=sys.stderr)


if __name__ == "__main__":  # record.py BUILD
    print(json.dumps(compiler(sys.argv[1]), indent=1))
