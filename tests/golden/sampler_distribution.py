#!/usr/bin/env python3
"""Holds the sampler against the distribution that its options define, computed here in double precision from the definitions of
transformers' logits processors and warpers (temperature, top-k, top-p, min-p, repetition penalty) and of OpenAI's API (bias, frequency
and presence penalty).

  sampler_distribution.py DUMP      exit 1 on a difference, 77 when numpy is missing

Three checks of each case: every draw is the inverse of the cumulative distribution at the random number of its seed and position; the
histogram passes a chi-square test, and holds the tokens of the distribution and no other; and the same histogram is rejected when the
temperature is 10 % off or any one option is left out, so that the test is known to see such a fault.
"""
import math
import struct
import subprocess
import sys

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

P_MIN = 1e-4
DRAWS = 40_000
FIRST_POSITION = 1_000
OFF = dict(temperature=1.0, top_k=0, top_p=0.0, min_p=0.0, repetition=0.0, frequency=0.0, presence=0.0, window=0, bias=())
fails = []


def f32(x):
    return float(np.float32(x))


# ---- the random number

def mix(z):
    """SplitMix64's finalizer."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed, positions):
    gamma = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        key = mix(np.array([seed], np.uint64) + gamma)
        bits = mix(key ^ mix(positions.astype(np.uint64) * gamma + np.uint64(0x632BE59BD9B4E019)))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def check_mix():
    """The published outputs of SplitMix64 for seed 1234567."""
    with np.errstate(over="ignore"):
        got = mix(np.uint64(1234567) + np.arange(1, 6, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    want = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    if got.tolist() != want:
        fails.append(f"SplitMix64: {got.tolist()}, published {want}")


# ---- the distribution

def softmax(scores):
    e = np.exp(scores - scores.max())
    return e / e.sum()


def distribution(logits, o, history, prompt):
    """Scores after temperature (-inf where cut off), best first by (score, id)."""
    s = logits.astype(np.float64)
    for token, value in o["bias"]:
        s[token] += f32(value)
    first = max(0, len(history) - o["window"]) if o["window"] else 0
    if o["repetition"]:
        seen = sorted(set(history[first:]))
        s[seen] = np.where(s[seen] < 0, s[seen] * f32(o["repetition"]), s[seen] / f32(o["repetition"]))
    answer = history[max(first, prompt):]
    for token in set(answer):
        s[token] -= f32(o["frequency"]) * answer.count(token) + f32(o["presence"])
    s /= f32(o["temperature"])
    if 0 < o["top_k"] < len(s):
        order = np.lexsort((np.arange(len(s)), -s))  # of equals the lowest id
        s[order[o["top_k"]:]] = -np.inf
    if 0 < o["top_p"] < 1:
        ascending = np.lexsort((-np.arange(len(s)), s))
        remove = np.cumsum(softmax(s)[ascending]) <= 1 - f32(o["top_p"])
        remove[-1] = False
        s[ascending[remove]] = -np.inf
    if o["min_p"]:
        p = softmax(s)
        s[p < f32(o["min_p"]) * p.max()] = -np.inf
    return s


# ---- statistics

def chi_square_p(x, df):
    """P(chi-square with df degrees of freedom >= x): the regularized upper incomplete gamma function Q(df / 2, x / 2)."""
    a, x = df / 2, x / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:  # series of P
        term = total = 1 / a
        n = a
        while term > total * 1e-16:
            n += 1
            term *= x / n
            total += term
        return 1 - scale * total
    tiny = 1e-300  # Lentz's continued fraction of Q
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    h = d
    for i in range(1, 10_000):
        b += 2
        d = 1 / (-i * (i - a) * d + b or tiny)
        c = b + -i * (i - a) / c or tiny
        h *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return scale * h


def check_statistics():
    for df, x, p in ((1, 3.841459, 0.05), (10, 18.307038, 0.05), (10, 29.588298, 0.001), (60, 99.607233, 0.001), (100, 77.929465, 0.95)):
        if abs(chi_square_p(x, df) - p) > 1e-6:
            fails.append(f"chi_square_p({x}, {df}) is {chi_square_p(x, df)}, tables say {p}")


def fit(counts, p):
    """p-value of the histogram; tokens that should come less than 5 times share a bin."""
    want = p * counts.sum()
    if counts[p == 0].any():
        return 0.0
    rare = (want < 5) & (p > 0)
    bins = [(counts[i], want[i]) for i in np.flatnonzero(want >= 5)]
    if rare.any():
        bins.append((counts[rare].sum(), want[rare].sum()))
    if len(bins) < 2:
        return 1.0
    return chi_square_p(sum((c - w) ** 2 / w for c, w in bins), len(bins) - 1)


# ---- cases

def pack(case):
    o, logits, history = case["options"], case["logits"], case["history"]
    head = struct.pack("<QQ6fII6I", case["seed"], case["first"], o["temperature"], o["top_p"], o["min_p"], o["repetition"], o["frequency"],
                       o["presence"], o["top_k"], o["window"], case["draws"], len(logits), len(o["bias"]), len(history), case["prompt"], 0)
    return head + logits.tobytes() + b"".join(struct.pack("<if", *b) for b in o["bias"]) + np.array(history, "<i4").tobytes()


def small_cases():
    """61 tokens, all likely enough to come up."""
    rng = np.random.default_rng(20)
    logits = rng.uniform(-1.5, 1.5, 61).astype("<f4")
    best = [int(t) for t in np.argsort(-logits)]
    history = best[:8] + best[20:24] + [best[0], best[3], best[3], best[3], best[30], best[5], best[40], best[3], best[30]]
    bias = ((best[0], -math.inf), (best[1], -1.5), (best[50], 2.0), (best[7], 0.75))
    sets = (
        dict(temperature=1.0), dict(temperature=0.8), dict(temperature=1.7), dict(temperature=0.9, top_k=14), dict(top_k=40),
        dict(temperature=1.2, top_p=0.5), dict(temperature=0.8, top_p=0.95), dict(temperature=1.3, min_p=0.2), dict(min_p=0.15),
        dict(repetition=1.3), dict(repetition=0.8, window=9), dict(frequency=0.35), dict(presence=0.9), dict(frequency=-0.3, presence=0.5),
        dict(frequency=0.4, presence=0.6, window=6), dict(bias=bias), dict(temperature=0.8, top_k=30, top_p=0.8),
        dict(temperature=1.5, top_k=45, min_p=0.3), dict(temperature=1.4, top_p=0.9, min_p=0.3),
        dict(temperature=0.9, top_k=50, top_p=0.93, min_p=0.15), dict(temperature=1.1, top_p=0.9, bias=bias, repetition=1.2),
        dict(temperature=0.9, top_k=40, top_p=0.95, min_p=0.2, bias=bias, repetition=1.2, frequency=0.2, presence=0.3, window=12),
    )
    for i, options in enumerate(sets):
        yield dict(options=OFF | options, logits=logits, history=history, prompt=12, seed=77 + i, first=FIRST_POSITION, draws=DRAWS,
                   given=options, histogram=True)


def large_cases():
    """Rows as a model gives them, peaked, flat, and full of ties: every draw is predicted."""
    rng = np.random.default_rng(21)
    for vocab, draws in ((1, 20), (3, 300), (16, 300), (1003, 300), (32_769, 25), (49_152, 25)):
        shape = rng.normal(0, 3, vocab).astype("<f4")
        ties = np.round(shape * 2).astype("<f4") / 2
        peaked = shape.copy()
        peaked[rng.integers(vocab)] += 25
        history = [int(t) for t in rng.integers(0, vocab, 200)]
        for i, (logits, options) in enumerate((
                (shape, dict()), (shape, dict(temperature=0.8, top_p=0.95)), (shape, dict(temperature=0.8, top_p=0.95, min_p=0.05)),
                (shape, dict(temperature=0.7, top_k=50, repetition=1.1, frequency=0.3)), (shape, dict(temperature=3.0, top_p=0.99)),
                (shape, dict(temperature=100.0)), (shape, dict(temperature=50.0, top_k=900, top_p=0.7)), (peaked, dict(top_k=40)),
                (peaked, dict(temperature=0.5)), (ties, dict(top_k=5)), (ties, dict(temperature=2.0, top_p=0.6)),
                (ties, dict(min_p=0.3)), (shape, dict(min_p=0.001)), (shape, dict(temperature=1.5, top_p=0.999, min_p=1e-4)), (ties, dict(temperature=0.01)))):
            yield dict(options=OFF | options, logits=logits, history=history, prompt=100, seed=(1 << 63) + i, first=2**33, draws=draws,
                       given=options, histogram=False)


def check_draws(case, tokens, name):
    """The token of a draw is the first at which the running sum, best first, exceeds u. A difference is excused where that is within the
    rounding of single precision."""
    scores = distribution(case["logits"], case["options"], case["history"], case["prompt"])
    order = np.lexsort((np.arange(len(scores)), -scores))
    running = np.cumsum(softmax(scores)[order])
    u = uniform(case["seed"], np.arange(case["first"], case["first"] + case["draws"]))
    rank = np.empty(len(scores), np.int64)
    rank[order] = np.arange(len(scores))
    got = rank[tokens]
    low = np.where(got > 0, running[got - 1], 0)
    wrong = (u < low - 2e-6) | (u > running[got] + 2e-6) | (softmax(scores)[tokens] == 0)
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        want = int(order[min(np.searchsorted(running, u[i]), len(order) - 1)])
        fails.append(f"{name}: {wrong.sum()} of {len(tokens)} draws differ; draw {i} (u = {u[i]:.9f}) is {tokens[i]}, expected {want}")


def check_histogram(case, tokens, name):
    logits, options, history, prompt = case["logits"], case["options"], case["history"], case["prompt"]
    p = softmax(distribution(logits, options, history, prompt))
    counts = np.bincount(tokens, minlength=len(logits))
    if (p[p > 0] * len(tokens)).min() < 12:
        fails.append(f"{name}: a bad case, the rarest token has probability {p[p > 0].min():.2g}")
    if not np.array_equal(counts > 0, p > 0):
        fails.append(f"{name}: drawn {np.flatnonzero((counts > 0) & (p == 0))}, which cannot be; never drawn {np.flatnonzero((counts == 0) & (p > 0))}")
    value = fit(counts, p)
    if value < P_MIN:
        fails.append(f"{name}: chi-square p-value {value:.2g}")
    wrong = {"temperature 10 % off": options | {"temperature": options["temperature"] * 1.1}}
    wrong |= {f"without {key}": options | {key: OFF[key]} for key in case["given"] if OFF[key] != case["given"][key] and key != "temperature"}
    tried = 0
    for what, other in wrong.items():
        q = softmax(distribution(logits, other, history, prompt))
        if len(wrong) > 2 and np.abs(q - p).max() < 1e-12:
            continue  # a stricter option hides this one
        tried += 1
        rejected = fit(counts, q)
        if rejected >= P_MIN:
            fails.append(f"{name}: a distribution {what} passes with p-value {rejected:.2g}: this test is blind")
    return value, tried


def main():
    check_mix()
    check_statistics()
    cases = [*small_cases(), *large_cases()]
    run = subprocess.run([sys.argv[1]], input=b"".join(map(pack, cases)), stdout=subprocess.PIPE, check=True)
    tokens = np.frombuffer(run.stdout, "<i4")
    if len(tokens) != sum(c["draws"] for c in cases):
        sys.exit(f"{len(tokens)} draws, expected {sum(c['draws'] for c in cases)}")
    at, wrong = 0, 0
    values = []
    for case in cases:
        name = f"{len(case['logits'])} tokens, " + (", ".join(f"{k} {v}" for k, v in case["given"].items()) or "temperature 1.0")
        drawn = tokens[at:at + case["draws"]]
        at += case["draws"]
        check_draws(case, drawn, name)
        if case["histogram"]:
            value, rejected = check_histogram(case, drawn, name)
            values.append(value)
            wrong += rejected
    for fail in fails:
        print(fail)
    print(f"{len(cases)} cases, {len(tokens)} draws; {len(values)} chi-square tests, p-values {min(values):.3g} to {max(values):.3g}; "
          f"{wrong} wrong distributions tried; {len(fails)} faults")
    sys.exit(bool(fails))


main()
