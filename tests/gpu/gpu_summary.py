"""The figures of a run of gpu_check.py that the goals speak of, in a few lines."""


def show(records):
    figures = [figure for record in records for figure in record.get("figures", [])]
    for line in [*matvec(figures), *gemm(figures), *attention(figures), *copies(figures), *steps(figures), *model(figures), *peer(figures)]:
        print("  " + line)


def pick(figures, part, **want):
    return [f for f in figures if f.get("part") == part and "skipped" not in f and all(f.get(k) == v for k, v in want.items())]


def by(figures, key):
    """Lists of those with the same value, in order of appearance."""
    out = {}
    for figure in figures:
        out.setdefault(figure[key], []).append(figure)
    return out.items()


def matvec(figures):
    for n in (1, 16):
        for kind, rows in by(pick(figures, "matvec", n=n), "type"):
            yield f"matvec {kind:5} n {n:2}: " + ", ".join(f"{f['shape']} {f['gb_s']:.0f} GB/s {f['of_copy']:.0%}" for f in rows)


def gemm(figures):
    for n in (32, 128, 2048):
        for maker, rows in by(pick(figures, "gemm", n=n), "by"):
            for kind, same in by(rows, "type"):
                yield f"gemm {kind:5} n {n} by {maker}: " + ", ".join(f"{f['shape']} {f['tflop_s']:.0f} TFLOP/s" for f in same)
    for f in pick(figures, "gemm", shape="8192 cubed"):
        yield f"gemm 8192 cubed by {f['by']}: {f['tflop_s']:.0f} TFLOP/s"


def attention(figures):
    for f in pick(figures, "attention", what="decode", tokens=32768):
        yield f"decode attention {f['kv']}, {f['sequences']:2} x 32768: {f['gb_s']:.0f} GB/s {f['of_copy']:.0%}"
    for f in pick(figures, "attention", what="prefill"):
        yield f"prefill attention {f['shape']} {f['kv']}, {f['rows']} rows up to {f['tokens']}: {f['tflop_s']:.0f} TFLOP/s"


def copies(figures):
    for f in pick(figures, "copies"):
        share = next((f" {f[key]:.0%}" for key in ("of_copy", "of_pinned") if key in f), "")
        detail = f", {f['threads']} threads" if "threads" in f else f" in pieces of {f['piece_bytes']}" if "piece_bytes" in f else ""
        yield f"{f['what']}{detail}: {f['gb_s']:.1f} GB/s{share}"


def steps(figures):
    for f in pick(figures, "step"):
        kind = f"{f['model']} {f['layers']}"
        if f["what"] == "prefill":
            yield f"{kind} prefill {f['tokens']}: {f['tok_s']:.0f} tok/s, {f['tflop_s']:.0f} TFLOP/s"
        elif f["what"] == "append":
            yield f"{kind} append {f['rows']} at {f['depth']}: {f['us'] / 1e3:.2f} ms, {f['of_bound']:.0%} of the bound"
        else:
            yield f"{kind} decode at {f['depth']}, {f['sequences']} together: {f['tok_s']:.0f} tok/s, {f['of_bound']:.0%} of the bound ({f['back']} back)"


def model(figures):
    for figure in figures:
        yield from (f"kvrt bench {key}: {value:.0f}" for key, value in figure.items() if key.endswith("_tok_s"))
        yield from (f"kvrt bench {key}: {value:.1f}" for key, value in figure.items() if key.startswith("append_"))


def peer(figures):
    for f in pick(figures, "torch"):
        value = next((f"{f[key]:.0f} {unit}" for key, unit in (("tflop_s", "TFLOP/s"), ("gb_s", "GB/s")) if key in f), "")
        yield f"torch {f['what']}: {value}"
