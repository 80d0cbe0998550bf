"""What the tests of `kvrt eval --data` share: a folder of data, a model with room for texts, and the figures of kvrt eval."""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

import gguf

from support import SOURCE

CLI = os.environ["KVRT_CLI"]
TOKENS = 192  # of a window, as --tokens has it
VERSES = (SOURCE / "tests" / "data" / "text_kjv.txt").read_text().splitlines()


def with_room(model, out, **metadata):
    """A tiny model whose context takes what kvrt eval asks for, perhaps with other metadata."""
    data = bytearray(pathlib.Path(model).read_bytes())
    key = gguf.GGUFReader(model).get_field("general.architecture").contents().encode() + b".context_length" + struct.pack("<I", 4)
    struct.pack_into("<I", data, data.index(key) + len(key), 1 << 16)
    pathlib.Path(out).write_bytes(data)
    for name, value in metadata.items():
        subprocess.run([sys.executable, "-m", "gguf.scripts.gguf_set_metadata", "--force", str(out), f"tokenizer.ggml.{name}", value], check=True, capture_output=True)
    return pathlib.Path(out)


def items():
    """Verses and their ends, among the ends of others; and what is odd: spaces, no prompt, many choices, letters of several bytes."""
    out = []
    for i in range(12):
        middles = [len(verse) // 2 for verse in VERSES[i * 7:i * 7 + 2 + i % 3]]
        cuts = [verse.index(" ", middle) for verse, middle in zip(VERSES[i * 7:], middles)]
        ends = [verse[cut:].strip() for verse, cut in zip(VERSES[i * 7:], cuts)]
        answer = i % len(ends)
        out.append({"id": f"verse {i}", "prompt": VERSES[i * 7 + answer][:cuts[answer]], "choices": ends, "answer": answer})
    out.append({"prompt": "The sky is \u2003 ", "choices": ["blue", "as grün as grass 😀"], "answer": 0})
    out.append({"prompt": "2 + 2 =\n", "choices": [f"{n}" for n in range(40)], "answer": 4, "delimiter": ""})
    out.append({"prompt": "", "choices": ["In the beginning", "xqz<|im_end|>"], "answer": 0})
    out.append({"query": "A question<|im_end|>", "choices": ["yes", "yes", "no"], "answer": 1})
    # After the first of these choices the tiny model ends its turn; without its last token it is the best.
    out += [{"prompt": "End:", "choices": choices, "answer": 1} for choices in (["is And", "both"], ["they thou", "Then"], ["office came", "till Ruth"])]
    return out


def texts():
    return {"verses": "\n".join(VERSES[:25]) + "\n", "odd": " A  b\u2003c.\n\nÜber 😀 <|im_end|>x\u00a0y", "short": "one"}


def write(folder):
    """The folder that --data names."""
    for kind in ("choices", "text"):
        (folder / kind).mkdir(parents=True)
    (folder / "choices" / "verses.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items()))
    for name, text in texts().items():
        (folder / "text" / f"{name}.txt").write_bytes(text.encode())
    return folder


def evaluate(model, data, out, *options):
    """By configuration: the figures of the choices, and of each text."""
    command = [CLI, "eval", "-m", model, "--data", data, "--axes", "choices,text", "--tokens", TOKENS, "--answer", 16, "--candidates", "int8",
               "--no-weight-cache", "-o", out, "--json", *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    figures = {}
    for configuration in json.loads(done.stdout)["result"]["configurations"]:
        (choices,) = [axis for axis in configuration["axes"] if axis["name"] == "choices/verses"]
        of = {part["name"]: part["score"]["mean"] for part in choices["parts"]}
        for text in configuration["texts"]:
            of[text["name"].removeprefix("text/")] = {"bits_per_byte": text["bits_per_byte"]["mean"], "byte_perplexity": text["byte_perplexity"],
                                                      "word_perplexity": text["word_perplexity"]}
        figures[configuration["configuration"]] = of
    return figures


def bos_of(server):
    """The text of the BOS that the model's file has before a text, or none; lm-eval's calls of /tokenize never get one."""
    of = [server.post({"prompt": "a", "add_special_tokens": special}, path="/tokenize")[1]["tokens"] for special in (True, False)]
    return json.loads(server.raw("GET", "/tokenizer_info")[2])["bos_token"] if of[0] != of[1] else ""


def words_in(text):
    return len(re.split(r"\s+", text))
