"""Vocabularies to test with, each an independent implementation's: trained or read, with its GGUF file and its way to encode."""
import struct

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import tokenizer_texts

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def write_gguf(path, model, tokens, types, scores=None, merges=None, **keys):
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores is not None: w.add_token_scores(scores)
    if merges is not None: w.add_token_merges(merges)
    if "pre" in keys: w.add_tokenizer_pre(keys["pre"])
    if "unknown" in keys: w.add_unk_token_id(keys["unknown"])
    if "add_space_prefix" in keys: w.add_add_space_prefix(keys["add_space_prefix"])
    if "remove_extra_whitespaces" in keys: w.add_remove_extra_whitespaces(keys["remove_extra_whitespaces"])
    for key in ("lowercase", "strip_accents"):
        if key in keys: w.add_bool("tokenizer.ggml.normalizer." + key, keys[key])
    if keys.get("charsmap"): w.add_precompiled_charsmap(keys["charsmap"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    return path


# ---- byte-level BPE: the pattern that each pre-tokenizer's name stands for, in the words of the models' own tokenizer.json

CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s")
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386"
    "\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184"
    "\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
    "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")
CJK = "[一-龥ࠀ-一가-퟿]+"
split = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
digits = lambda individual: pre_tokenizers.Digits(individual_digits=individual)
gpt2 = lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
plain = lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
PRE = {
    "gpt-2": [gpt2],
    "smollm": [lambda: digits(True), gpt2],
    "olmo": [gpt2],
    "command-r": [lambda: digits(True), gpt2],
    "llama-bpe": [lambda: split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL), plain],
    "dbrx": [lambda: split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL), plain],
    "qwen2": [lambda: split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL), plain],
    "minicpm5": [lambda: split(r"\p{N}{1,3}"), lambda: split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL), plain],
    "jais-2": [lambda: split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
                             + "".join(r"|\s{%s}(?!\S)" % n for n in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2")) + r"|\s{1}"), plain],
    "qwen35": [lambda: split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL), plain],
    "seed-coder": [lambda: split(CONTRACTIONS + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+" + TAIL), plain],
    "bailingmoe": [lambda: split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), plain],
    "exaone-moe": [lambda: split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"), plain],
    "tekken": [lambda: split(CASED % ("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL), plain],
    "gpt-4o": [lambda: split(CASED % (CONTRACTIONS + "?", CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL), plain],
    "kimi-k2": [lambda: split(r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
                              + CONTRACTIONS + r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
                              + CONTRACTIONS + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL), plain],
    "deepseek-llm": [lambda: split("[\r\n]"), lambda: split(r"\s?[" + DEEPSEEK_LETTERS + "]+"), lambda: split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
                     lambda: split(r"\s+$"), lambda: split(CJK), lambda: digits(True), plain],
    "deepseek-coder": [lambda: split("[\r\n]"), lambda: split(r"\s?\p{L}+"), lambda: split(r"\s?\p{P}+"), lambda: split(CJK), lambda: digits(True), plain],
    "deepseek-v3": [lambda: split(r"\p{N}{1,3}"), lambda: split("[一-龥\u3040-ゟ゠-ヿ]+"),
                    lambda: split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" "\r\n" r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[" "\r\n" r"]*" + TAIL),
                    plain],
    "falcon": [lambda: pre_tokenizers.Punctuation("contiguous"), gpt2, lambda: digits(False), lambda: split("[0-9][0-9][0-9]")],
    "bloom": [lambda: split(BLOOM), plain],
    "viking": [lambda: split(BLOOM), lambda: digits(True), plain],
    "superbpe": [lambda: split(r"\p{N}+"), lambda: split(r"(?=(\d{3})+(?!\d))"), plain],
    "chameleon": [lambda: split("<sentinel:[0-9]+>"), lambda: split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"), lambda: split(r"([\t\n]|    |  )"), lambda: digits(True),
                  lambda: pre_tokenizers.Punctuation("isolated"), gpt2],
    # no model's own: the pattern of GGUF readers for a file that names none
    "default": [lambda: split(r"[\p{P}\$\+<=>\^~\|]+"), lambda: split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"),
                lambda: split(r"\p{N}+"), lambda: split("[0-9][0-9][0-9]"), plain],
}
IGNORES_MERGES = {"llama-bpe", "tekken", "minicpm5"}
COMPOSES = {"qwen2", "qwen35", "command-r", "olmo"}  # "normalizer": NFC


def train_bytes():
    """A byte-level vocabulary whose merges run over words, digits and lines, so that every cut shows."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = plain()
    t.train_from_iterator(tokenizer_texts.train_texts(), trainers.BpeTrainer(
        vocab_size=6000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, max_token_length=24))
    import json
    model = json.loads(t.to_str())["model"]
    return model["vocab"], [tuple(m) for m in model["merges"]]


def byte_level(path, pre, vocab, merges):
    tokens = sorted(vocab, key=vocab.get)
    ignores = pre in IGNORES_MERGES
    if ignores: merges = merges[: len(merges) // 2]  # so that whole pieces that no merge makes show
    reference = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignores))
    if pre in COMPOSES: reference.normalizer = normalizers.NFC()
    reference.pre_tokenizer = pre_tokenizers.Sequence([make() for make in PRE[pre]])
    write_gguf(path, "gpt2", tokens, [NORMAL] * len(tokens), merges=[" ".join(m) for m in merges], pre=pre)
    return lambda texts: [e.ids for e in reference.encode_batch(texts, add_special_tokens=False)]


def real_byte_level(path):
    """A model file of pre "smollm": (encode without special tokens, with them, tokens)."""
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    assert get("model") == "gpt2" and get("pre") == "smollm", (get("model"), get("pre"))
    tokens, types = get("tokens"), get("token_type")

    def build(special):
        t = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in get("merges")]))
        t.pre_tokenizer = pre_tokenizers.Sequence([make() for make in PRE["smollm"]])
        t.decoder = decoders.ByteLevel()
        if special: t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s, kind in zip(tokens, types) if kind == CONTROL])
        return lambda texts: [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]
    return build(False), build(True), tokens


# ---- Gemma 4's: spaces as U+2581 and byte tokens as SentencePiece has them, merges as byte-level BPE has them

def gemma4(vocab, merges, added):
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in added])
    return lambda texts: [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]


def train_gemma4(path):
    import json
    added = ["<|x>", "\n<y|>"]
    first = ["<pad>", "<eos>", "<bos>", "<unk>", *added, *(f"<0x{b:02X}>" for b in range(256))]
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(Regex(".{1,40}|\\s+"), "isolated")  # for training alone: merges lead over words and lines
    t.train_from_iterator(tokenizer_texts.train_texts(), trainers.BpeTrainer(vocab_size=6000, special_tokens=first, show_progress=False, max_token_length=24,
                                                                           limit_alphabet=700))
    model = json.loads(t.to_str())["model"]
    merges = [tuple(m) for m in model["merges"]]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [CONTROL] * 4 + [USER] * 2 + [BYTE] * 256 + [NORMAL] * (len(tokens) - 262)
    write_gguf(path, "gemma4", tokens, types, merges=[" ".join(m) for m in merges], unknown=3, add_space_prefix=False)
    return gemma4(model["vocab"], merges, added)


def real_gemma4(path):
    """(encode without special tokens, with them)"""
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    assert get("model") == "gemma4", get("model")
    tokens, types = get("tokens"), get("token_type")
    build = lambda kinds: gemma4({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in get("merges")], [t for t, k in zip(tokens, types) if k in kinds])
    return build((USER,)), build((USER, CONTROL))


# ---- BERT's WordPiece

def train_wordpiece(path, lowercase, strip_accents):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(tokenizer_texts.train_texts(), trainers.WordPieceTrainer(vocab_size=6000, special_tokens=special, show_progress=False, limit_alphabet=900))
    return wordpiece(path, t, {"lowercase": lowercase, **({} if strip_accents is None else {"strip_accents": strip_accents})})


def wordpiece(path, t, flags):
    vocab = t.get_vocab()
    tokens = sorted(vocab, key=vocab.get)
    spelled = [s if i < 5 else s[2:] if s.startswith("##") else "\u2581" + s for i, s in enumerate(tokens)]
    write_gguf(path, "bert", spelled, [CONTROL] * 5 + [NORMAL] * (len(tokens) - 5), unknown=1, **flags)
    return lambda texts: [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]


# ---- SentencePiece: the model file is a protocol buffer, written and read here by hand

def field(number, value):
    if isinstance(value, bool) or isinstance(value, int): return varint(number << 3) + varint(int(value))
    if isinstance(value, float): return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def fields(data):
    at = 0

    def number():
        nonlocal at
        shift = value = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128: return value

    while at < len(data):
        key = number()
        if key & 7 == 0: yield key >> 3, number()
        else:
            size = number() if key & 7 == 2 else 4 if key & 7 == 5 else 8
            yield key >> 3, data[at:at + size]
            at += size


def train_sentencepiece(path, **options):
    import io
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([t for l in tokenizer_texts.train_texts() for t in l.split("\n")]), model_writer=model,
                                             vocab_size=6000, hard_vocab_limit=False, minloglevel=2, character_coverage=0.98, num_threads=1, **options)
    return from_sentencepiece(path, model.getvalue(), "llama" if options["model_type"] == "bpe" else "t5")


def from_sentencepiece(path, model, kind):
    """Writes the GGUF of a SentencePiece model."""
    tokens, types, scores, spec = [], [], [], {}
    for number, value in fields(model):
        if number == 1:
            piece = dict(fields(value))
            tokens.append(piece[1].decode())
            scores.append(struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0)
            types.append(piece.get(3, NORMAL))
        if number == 3: spec = dict(fields(value))
    write_gguf(path, kind, tokens, types, scores=scores, unknown=types.index(UNKNOWN), charsmap=spec.get(2), add_space_prefix=bool(spec.get(3, 1)),
               remove_extra_whitespaces=bool(spec.get(4, 1)))
    return sentencepiece.SentencePieceProcessor(model_proto=model).encode


def real_sentencepiece(path):
    """SentencePiece made of a GGUF file's own pieces and scores."""
    read = gguf.GGUFReader(path).fields
    get = lambda key: read["tokenizer.ggml." + key].contents()
    pieces = list(zip(get("tokens"), get("scores"), get("token_type")))
    unknown = get("unknown_token_id")
    model = b""
    for i, (token, score, kind) in enumerate(pieces):
        if kind == USER: token = token.replace(" ", "\u2581")  # writers of GGUF files turn them the other way
        model += field(1, field(1, token) + field(2, float(score)) + field(3, UNKNOWN if i == unknown else kind))
    trainer = field(3, 2) + field(35, True) + field(40, unknown) + field(41, get("bos_token_id")) + field(42, get("eos_token_id")) + field(43, get("padding_token_id"))
    normalizer = field(1, "identity") + field(3, get("add_space_prefix")) + field(4, False) + field(5, True)
    return sentencepiece.SentencePieceProcessor(model_proto=model + field(2, trainer) + field(3, normalizer)).encode
