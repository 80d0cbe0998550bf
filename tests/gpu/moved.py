#!/usr/bin/env python3
"""Whether a folder that prepare.py made works where it was moved to, with the tests over the emulation: moved.py BUILD."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MOST_FILES, MOST_BYTES = 8, 16 << 20  # of results
SOME = [word for name in ("doctor", "gpu_rows", "bench copies", "bench step", "api_kv_formats") for word in ("--part", name)]


def expect(truth, what):
    if not truth:
        sys.exit(f"moved.py: {what}")


def check(folder, *arguments):
    """(exit code, the parts of its record by name, its output)"""
    out = folder / "results/gpu-check.json"
    command = [sys.executable, folder / "gpu_check.py", "--emulated", "--model", "synthetic", "--out", out, *arguments]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=600)
    said = done.stdout + done.stderr
    expect(out.is_file(), f"no results: {said}")
    files = [path for path in out.parent.rglob("*") if path.is_file()]
    expect(len(files) <= MOST_FILES and all(path.stat().st_size <= MOST_BYTES for path in files), f"results: {files}")
    return done.returncode, {part["part"]: part for part in json.loads(out.read_text())["parts"]}, said


def works(folder):
    code, parts, said = check(folder, *SOME)
    expect(code == 0 and all(part["status"] == "ok" for part in parts.values()), f"exit code {code}: {said}")
    steps = [(figure["model"], figure["what"], figure.get("rows"), figure.get("sequences")) for figure in parts["bench step"]["figures"][1:]]
    for model in ("tried", "tried experts"):
        wanted = {(model, "append", rows, None) for rows in (1, 8, 16, 64)} | {(model, "decode", None, 4), (model, "prefill", None, None)}
        expect(wanted <= set(steps), f"steps that were measured: {steps}")
    expect({"doctor", "gpu_rows", "api_kv_formats", "bench step"} <= set(parts), f"parts: {sorted(parts)}")


def says_what_had_no_time(folder):
    code, parts, said = check(folder, "--part", "gpu_rows", "--part", "api_random", "--minutes", "0")
    expect(code == 1 and all(part["status"] == "unfinished" for part in parts.values()), f"no time, exit code {code}: {said}")
    code, parts, said = check(folder, "--part", "api_random", "--minutes", "0.05")  # it takes 20 s
    why = parts["api_random"].get("why", "")
    expect(code == 1 and parts["api_random"]["status"] == "unfinished" and "--minutes" in why, f"cut short, exit code {code}: {said}")
    code, parts, said = check(folder, "--part", "gpu_rows", "--minutes", "0", "--go-on")
    expect(code == 1 and set(parts) == {"gpu_rows"}, f"the unfinished were kept: {said}")
    code, parts, said = check(folder, "--part", "gpu_rows", "--part", "doctor", "--go-on")
    expect(code == 0 and {part["status"] for part in parts.values()} == {"ok"}, f"--go-on, exit code {code}: {said}")
    code, parts, said = check(folder, "--part", "gpu_rows", "--part", "doctor", "--minutes", "0", "--go-on")
    expect(code == 0 and len(parts) == 2, f"what is done was done again: {said}")


def brings_its_models(folder):
    """Nothing falls back to the models of the tree that it was built in."""
    shutil.rmtree(folder / "tiny")
    code, parts, said = check(folder, "--part", "api_kv_formats", "--part", "gpu_backend")
    expect(code == 1 and all(part["status"] == "failed" for part in parts.values()), f"without its models, exit code {code}: {said}")
    expect(f"no directory {folder}/tiny" in parts["api_kv_formats"]["output"], f"another failure: {said}")


def main():
    with tempfile.TemporaryDirectory(prefix="kvrt-moved-") as scratch:
        made, folder = pathlib.Path(scratch) / "made", pathlib.Path(scratch) / "moved to/here"
        subprocess.run([sys.executable, HERE / "prepare.py", "--emulated", sys.argv[1], made], check=True)
        folder.parent.mkdir()
        made.rename(folder)
        works(folder)
        says_what_had_no_time(folder)
        brings_its_models(folder)


if __name__ == "__main__":
    main()
