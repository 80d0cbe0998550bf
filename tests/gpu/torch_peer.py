#!/usr/bin/env python3
"""PyTorch's speeds on this device at the shapes of bench_cuda, as JSON lines of the same names: copies, matrix products in bf16, attention.

Times are of replays of a CUDA graph, the median; the data rotates, so that the cache does not hold it. Exits 77 where there is no PyTorch,
or no device for it.
"""
import json
import statistics
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as e:
    print(f"torch_peer.py: {e}", file=sys.stderr)
    sys.exit(77)

ROTATED_BYTES = 256 << 20
REPLAY_MS = 3
SHAPES = [("qkv", 6144, 4096), ("out", 4096, 4096), ("gate_up", 28672, 4096), ("down", 4096, 14336), ("head", 128256, 4096)]
HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128


def put(what, **values):
    print(json.dumps({"part": "torch", "what": what, **values}), flush=True)


def capture(turns, times, queue):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(turns * times):
            queue(i % turns)
    return graph


def replay_ms(graph):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def time_us(turns, queue):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # as the documentation asks before a capture
        for i in range(turns):
            queue(i)
    stream.synchronize()
    once = capture(turns, 1, queue)
    replay_ms(once)
    times = max(1, min(int(REPLAY_MS / max(replay_ms(once), 1e-3)) + 1, max(1, 1000 // turns)))
    graph = capture(turns, times, queue)
    replay_ms(graph)
    return statistics.median(replay_ms(graph) for _ in range(11)) * 1e3 / (turns * times)


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


def copies():
    a = torch.randint(0, 255, (1 << 30,), device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    us = time_us(1, lambda _: b.copy_(a))
    put("copy", us=us, gb_s=2 * a.numel() / us / 1e3)


def products():
    x, w = random(8192, 8192), random(8192, 8192)
    us = time_us(1, lambda _: F.linear(x, w))
    put("8192 cubed", us=us, tflop_s=2 * 8192**3 / us / 1e6)
    for name, rows, cols in SHAPES:
        turns = max(1, -(-ROTATED_BYTES // (rows * cols * 2)))
        weights = [random(rows, cols) for _ in range(turns)]
        for n in (1, 16, 512, 2048):
            if n > 16 and name == "head":
                continue
            x = random(n, cols)
            us = time_us(turns, lambda i: F.linear(x, weights[i]))
            put(f"linear {name} n {n}", us=us, tflop_s=2 * rows * cols * n / us / 1e6) if n > 16 else put(
                f"linear {name} n {n}", us=us, gb_s=2 * rows * cols / us / 1e3)
        del weights


def attention():
    def heads(batch, count, tokens):
        return torch.randn(batch, count, tokens, HEAD_DIM, device="cuda", dtype=torch.bfloat16)

    for tokens in (512, 2048):
        q, k, v = heads(1, HEADS, tokens), heads(1, KV_HEADS, tokens), heads(1, KV_HEADS, tokens)
        us = time_us(1, lambda _: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))
        put(f"causal attention {tokens}", us=us, tflop_s=4 * HEADS * HEAD_DIM * tokens * (tokens + 1) / 2 / us / 1e6)
    for batch in (1, 8, 16):
        turns = 4 if batch == 1 else 1
        q = heads(batch, HEADS, 1)
        kv = [(heads(batch, KV_HEADS, 32768), heads(batch, KV_HEADS, 32768)) for _ in range(turns)]
        us = time_us(turns, lambda i: F.scaled_dot_product_attention(q, *kv[i], enable_gqa=True))
        put(f"decode attention {batch} x 32768", us=us, gb_s=batch * 32768 * KV_HEADS * HEAD_DIM * 4 / us / 1e3)
        del kv


def main():
    if not torch.cuda.is_available():
        print("torch_peer.py: torch sees no device", file=sys.stderr)
        sys.exit(77)
    put("version", version=torch.__version__, device=torch.cuda.get_device_name(0))
    with torch.no_grad():
        failed = 0
        for measure in (copies, products, attention):
            try:
                measure()
            except (RuntimeError, TypeError) as e:  # an older PyTorch has no enable_gqa
                print(f"torch_peer.py: {measure.__name__}: {e}", file=sys.stderr)
                failed = 1
    sys.exit(failed)


main()
