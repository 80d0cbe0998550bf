#!/usr/bin/env python3
"""kvrt eval --foreign: another program's predictions of a text beside those of the formats, against numpy.

  eval_foreign.py KVRT TINY      TINY: a folder of tiny models. Exit 77: no numpy
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import kld_file

WINDOWS, CONTEXT, KVRT = 2, 97, os.path.abspath(sys.argv[1])
OPTIONS = ["-m", "model.gguf", "--no-weight-cache", "--tokens", "128", "--answer", "16", "--kv-bytes", "64M", "--axes", "counting", "-o", "eval"]
ROUNDING = 1e-5  # what a file's 16 bits cost; more if most of the base's probability is in the rest, which nothing but the rest of 1 tells
FIGURES = "mean", "per_mille_999", "most", "flips"


def kvrt(*args):
    environment = {**os.environ, "XDG_CONFIG_HOME": "/nowhere", "KVRT_CACHE": ""}
    return subprocess.run([KVRT, *args], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def evaluate(*files, base=None, candidates="int8,f16", more=()):
    named = [option for file in files for option in ("--foreign", file)]
    return kvrt("eval", *OPTIONS, "--candidates", candidates, *named, *(["--foreign-base", base] if base else []), *more)


def log_softmax(rows):
    rows = rows.astype(np.longdouble)
    rows = rows - rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def expected(base, other):
    """mean, 99.9 %, most and flips of KL(base || other), where what is 16 below the other's best is one outcome."""
    p, q = log_softmax(base), log_softmax(other)
    told = other > other.max(-1, keepdims=True) - 16
    one = lambda x: np.log(np.where(told, 0, np.exp(x)).sum(-1))
    kl = np.where(told, np.exp(p) * (p - q), 0).sum(-1)
    rest = ~told.all(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = kl + np.where(rest, np.exp(one(p)) * (one(p) - one(q)), 0)
    ordered = np.sort(kl)
    return float(kl.mean()), float(ordered[-(-len(kl) * 999 // 1000) - 1]), float(kl.max()), float((base.argmax(-1) != other.argmax(-1)).mean())


def near(row, want, relative, absolute):
    for name, value in zip(FIGURES, want, strict=True):
        found = row[name] if name in ("per_mille_999", "most") else row["mean"] if name == "mean" else row["flips"]["mean"]
        slack = 1e-9 if name == "flips" else relative * value + absolute
        assert abs(found - value) <= slack, f"{name}: {found}, numpy has {value}"


def make_files(tiny):
    model = bytearray(pathlib.Path(tiny, "llama_gqa_f32.gguf").read_bytes())
    key = b"llama.context_length" + struct.pack("<I", 4)
    struct.pack_into("<I", model, model.index(key) + len(key), 1 << 16)
    pathlib.Path("model.gguf").write_bytes(model)
    begin = json.loads(kvrt("tokenize", "-m", "model.gguf", "-p", "a", "--json").stdout)["tokens"]
    begin = begin[:1] if len(begin) > 1 else []  # the BOS that the model's file asks for
    random = np.random.Generator(np.random.PCG64(3))
    rows, windows = {"f16": [], "int8": []}, [random.integers(5, 100, CONTEXT).tolist() for _ in range(WINDOWS)]
    for window in windows:
        for kv, all_of_it in rows.items():
            read = begin + window[len(begin):]
            done = kvrt("logits", "-m", "model.gguf", "--no-weight-cache", "--tokens", ",".join(map(str, read)), "--all", "--kv", kv, "-o", "rows")
            assert done.returncode == 0, done
            all_of_it.append(np.fromfile("rows", "<f4").reshape(CONTEXT, -1)[list(kld_file.rows_of(CONTEXT))])
    # What another program may have: sharper, and somewhat off
    rows["off"] = [(3 * r + random.normal(0, 0.5, r.shape)).astype(np.float32) for r in rows["f16"]]
    for name, logits in rows.items():
        kld_file.write(name + ".kld", windows, logits[0].shape[1], logits)
    return windows, {name: np.concatenate(logits) for name, logits in rows.items()}


def measures(rows):
    files = ["peer-f16=f16.kld", "peer-q8=int8.kld", "peer-off=off.kld"]
    pathlib.Path("gate").write_text(json.dumps({"peer-f16.foreign_text.mean": {"max": 1e-5}, "int8.foreign_text.flips": {"max": 1},
                                                "peer-q8.foreign_text.to_own.mean": {"min": 1e-9}, "int8.fidelity-kld": {"min": 1e-9, "max": 1}}))
    done = evaluate(*files, base="peer-f16", more=["--json", "--gate", "gate"])
    assert done.returncode == 0, done
    report = json.loads(done.stdout.splitlines()[-1])
    text = report["result"]["foreign_text"]
    assert (text["windows"], text["context"], text["own_base"]) == (WINDOWS, CONTEXT, "peer-f16"), text
    assert [(r["configuration"], r["foreign"]) for r in text["rows"]] == [
        ("int8", False), ("f16 again", False), ("peer-f16", True), ("peer-q8", True), ("peer-off", True)], text
    by_name = {row["configuration"]: row for row in text["rows"]}
    n = WINDOWS * len(kld_file.rows_of(CONTEXT))
    assert all(row["to_base"]["n"] == n and ("to_own" in row) == row["foreign"] for row in text["rows"]), text
    # kvrt's own rows are the program's logits; a file's are off by its rounding.
    near(by_name["int8"]["to_base"], expected(rows["f16"], rows["int8"]), 1e-9, 1e-12)
    near(by_name["f16 again"]["to_base"], (0, 0, 0, 0), 0, 0)
    near(by_name["peer-f16"]["to_base"], (0, 0, 0, 0), 0, ROUNDING)
    near(by_name["peer-q8"]["to_base"], expected(rows["f16"], rows["int8"]), 1e-2, ROUNDING)
    near(by_name["peer-off"]["to_base"], expected(rows["f16"], rows["off"]), 2e-2, ROUNDING)
    near(by_name["peer-f16"]["to_own"], (0, 0, 0, 0), 0, 0)
    near(by_name["peer-q8"]["to_own"], expected(rows["f16"], rows["int8"]), 1e-2, ROUNDING)
    near(by_name["peer-off"]["to_own"], expected(rows["f16"], rows["off"]), 2e-2, ROUNDING)
    assert by_name["peer-off"]["to_base"]["flips"]["mean"] > 0 and by_name["int8"]["to_base"]["mean"] > 1e-8
    # The name that others have for the mean over a text
    base, int8, again = report["result"]["configurations"]
    assert "fidelity-kld" not in base and again["fidelity-kld"]["value"] == 0, again
    assert int8["fidelity-kld"]["value"] == int8["text_divergence"]["mean"] > 0, int8
    assert int8["fidelity-kld"]["positions"] == int8["text_divergence"]["n"] and len(int8["fidelity-kld"]["tokens_sha256"]) == 64
    page = pathlib.Path("eval.html").read_text()
    assert "Beside other programs" in page and "<td>peer-q8 *</td>" in page, page
    return files, report["result_sha256"]


def goes_on(files, sha256):
    """Other threads give the same result, and so does a run that was cut."""
    done = evaluate(*files, base="peer-f16", more=["--threads", "1"])
    assert done.returncode == 0 and f"result sha256 {sha256}" in done.stdout and "peer-q8 *" in done.stdout, done
    os.remove("eval.json")
    os.mkdir("eval.json")
    assert evaluate(*files, base="peer-f16").returncode == 11
    os.rmdir("eval.json")
    whole = pathlib.Path("eval.part").read_bytes()
    lines = whole.splitlines(True)
    first = next(i for i, line in enumerate(lines) if b'"peer-q8"' in line)
    pathlib.Path("eval.part").write_bytes(b"".join(lines[:first + 1])[:-20])
    done = evaluate(*files, base="peer-f16", more=["--resume"])
    assert done.returncode == 0 and f"result sha256 {sha256}" in done.stdout, done
    pathlib.Path("eval.part").write_bytes(whole)
    done = evaluate(*files[:2], base="peer-f16", more=["--resume"])
    assert done.returncode == 10 and "is of a run with another model" in done.stderr, done
    os.remove("eval.part")


def refuses(windows):
    good = pathlib.Path("int8.kld").read_bytes()

    def refused(code, words, *files, **how):
        done = evaluate(*files, candidates="int8", **how)
        assert done.returncode == code and words in done.stderr, (code, words, done)
        pathlib.Path("eval.part").unlink(missing_ok=True)

    def spoiled(code, words, content):
        pathlib.Path("bad.kld").write_bytes(content)
        refused(code, words, "peer=bad.kld")

    header = lambda context, vocabulary, n: b"_logits_" + struct.pack("<Iii", context, vocabulary, n) + good[20:]
    vocabulary = struct.unpack_from("<i", good, 12)[0]
    for content in b"", b"_logit", b"GGUF" + good[4:]:
        spoiled(9, "it begins with other bytes", content)
    spoiled(9, "ends within its header", good[:15])
    for content in good[:-1], good[:25], good[:len(good) // 2]:
        spoiled(9, "it was cut, or is still being written", content)
    spoiled(9, f"take {len(good)} bytes; the file has {len(good) + 1}", good + b"x")
    for content in header(CONTEXT, vocabulary, -1), header(0, vocabulary, WINDOWS), header(2**32 - 1, vocabulary, 1), header(CONTEXT, -5, 1):
        spoiled(9, "are expected", content)
    spoiled(9, "it was cut", header(1 << 20, 1 << 22, 1 << 20))
    for token in vocabulary, -1:
        spoiled(9, f"token 7 is {token}, of a vocabulary of {vocabulary}", good[:20 + 28] + struct.pack("<i", token) + good[20 + 32:])
    row = 20 + 4 * CONTEXT * WINDOWS
    spoiled(9, f"the row of position {CONTEXT // 2} of window 0 has no probabilities", good[:row] + struct.pack("<f", float("nan")) + good[row + 4:])
    spoiled(9, "has no probabilities", good[:row + 8] + b"\0" * (2 * vocabulary) + good[row + 8 + 2 * vocabulary:])
    rows = WINDOWS * [np.zeros((len(kld_file.rows_of(CONTEXT)), vocabulary + 1))]
    kld_file.write("bad.kld", windows, vocabulary + 1, rows)
    refused(10, f"is of a model with a vocabulary of {vocabulary + 1}, this one's has {vocabulary}", "peer=bad.kld")
    kld_file.write("bad.kld", [windows[0], windows[0]], vocabulary, [r[:, :vocabulary] for r in rows])
    refused(10, "one text for all files is expected", "a=int8.kld", "b=bad.kld")
    refused(2, "No such file", "peer=nowhere.kld")
    for bad in "int8.kld", "=int8.kld", "peer=":
        refused(1, "NAME=FILE is expected", bad)
    refused(1, "peer is named twice", "peer=int8.kld", "peer=f16.kld")
    refused(1, "int8 is a configuration of this run", "int8=int8.kld")
    refused(1, "q4 is no NAME of --foreign", "peer=int8.kld", base="q4")
    assert kvrt("eval", *OPTIONS, "--candidates", "int8", "--foreign-base", "x").returncode == 1
    pathlib.Path("gate").write_text('{"peer.text_divergence.mean": {"max": 1}}')
    refused(1, "there is no figure peer.text_divergence.mean", "peer=int8.kld", more=["--gate", "gate"])


def main():
    tiny = pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        windows, rows = make_files(tiny)
        goes_on(*measures(rows))
        refuses(windows)


if __name__ == "__main__":
    main()
