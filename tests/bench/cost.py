"""The least cost of a model's tokens, from its GGUF file, and the speeds that a machine's ceilings leave."""


class Cost:
    def __init__(self, path):
        import gguf  # of the tests' environment, which --help does without

        reader = gguf.GGUFReader(path)
        arch = reader.get_field("general.architecture").contents()

        def value(key, default=None):
            field = reader.get_field(f"{arch}.{key}")
            return default if field is None else field.contents()

        self.layers = value("block_count")
        self.heads = value("attention.head_count")
        self.head_dim = value("attention.key_length", value("embedding_length") // self.heads)
        window = value("attention.sliding_window")
        # Gemma 3: every sixth layer sees everything.
        self.windows = [window if window and (i + 1) % 6 else None for i in range(self.layers)]
        tensors = {t.name: t for t in reader.tensors}
        head = tensors.get("output.weight", tensors["token_embd.weight"])  # tied: the embedding is the head
        body = [t for name, t in tensors.items() if name not in ("output.weight", "token_embd.weight")]
        self.weight_bytes = int(head.n_bytes + sum(t.n_bytes for t in body))
        self.body_macs = sum(int(t.n_elements) for t in body if len(t.shape) > 1)
        self.head_macs = int(head.n_elements)
        self.types = sorted({t.tensor_type.name for t in reader.tensors})

    def kv_tokens(self, depth):
        """KV that a token at this depth reads, in tokens of all layers."""
        return sum(min(depth, w) if w else depth for w in self.windows) / self.layers

    def attention_macs(self, count):
        """q.k and p.v of `count` tokens from position 0 on."""
        pairs = 0
        for w in self.windows:
            full = min(count, w) if w else count
            pairs += full * (full + 1) / 2 + (count - full) * full
        return 2 * self.heads * self.head_dim * pairs


class Limits:
    """Tokens per second that no program on these cores can pass: weights and KV are read once a step, products go at the ports' peak."""

    def __init__(self, cost, peak, isa, kv_bytes_per_token, decode_tokens):
        self.cost, self.kv_bytes, self.decode_tokens = cost, kv_bytes_per_token, decode_tokens
        self.read = peak["read_gb_s"] * 1e9
        self.product = 1e9 * {"avx512": peak["dot_512"], "avx2": peak["maddubs_256"]}.get(isa, 0)
        self.fma = 1e9 * {"avx512": max(peak["fma_512"], peak["fma_256"]), "avx2": peak["fma_256"]}.get(isa, 0)

    def step_seconds(self, sequences, depth):
        kv = sequences * self.kv_bytes * self.cost.kv_tokens(depth + self.decode_tokens / 2)
        return max((self.cost.weight_bytes + kv) / self.read, sequences * (self.cost.body_macs + self.cost.head_macs) / self.product)

    def of(self, figure):
        """The limit of a figure's name, or None."""
        words = figure.split("_")
        if not self.product or not figure.endswith("tok_s"):
            return None
        if words[0] == "prefill":
            n = int(words[1])
            return n / ((n * self.cost.body_macs + self.cost.head_macs) / self.product + self.cost.attention_macs(n) / self.fma)
        if words[:2] == ["decode", "at"]:
            return 1 / self.step_seconds(1, int(words[2]))
        if words[:2] == ["decode", "batch"]:
            return int(words[2]) / self.step_seconds(int(words[2]), 128)
        return None
