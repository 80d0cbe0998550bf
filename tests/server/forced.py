"""A model whose answers are forced: one layer that adds nothing, and an output that is a table, the next token by the one before.

An answer is one token, whatever its length, and then the turn ends; a list of texts, or bytes, is as many tokens. Which answer it is, the last token of the
prompt says: the chat template writes a mark there, by the first text of the list that occurs in the message before. A mask still judges the
answer: what it forbids is not written, and something that it allows comes instead.

  forced.py OUT.gguf ANSWERS.json     a list of [text of the message before, answer]; the text "" is in every message
"""
import json
import pathlib
import sys

import gguf
import numpy as np

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
END = 2
GAIN = 60.0  # between the next token and any other

# Calls and reasoning as Qwen 3 writes them; MARKS: pairs of a text and the mark that it gets.
TEMPLATE = r"""{%- macro mark(said) -%}
{%- set ns = namespace(found=none) -%}
{%- for text, name in MARKS -%}{%- if ns.found is none and text in said -%}{%- set ns.found = name -%}{%- endif -%}{%- endfor -%}
{{- ns.found -}}
{%- endmacro -%}
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- '# Tools\n\n<tools>' }}
    {%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\n</tools><|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set before = messages[loop.index0 - 1].content if loop.index0 > 0 else '' %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' + mark(before) }}
        {%- if message.reasoning_content %}{{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{%- endif %}
        {{- message.content }}
        {%- for call in message.tool_calls %}
            {%- if message.content or not loop.first %}{{- '\n' }}{%- endif %}
            {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' + mark(messages[-1].content) }}
{%- endif %}"""


def symbols():
    """GPT-2's printable stand-in for each byte, by the byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def call(name, /, **arguments):
    """The text of a call."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def write(path, answers, context=8192):
    """`answers`: pairs of a text of the message before, and an answer. Where none occurs the answer is "ok"."""
    answers = [*answers, ("", "ok")]
    marks = [f"<|answer_{i}|>" for i in range(len(answers))]
    of = symbols()
    texts = [*SPECIAL, *marks, *of.values()]
    kinds = [gguf.TokenType.CONTROL] * (len(SPECIAL) + len(marks)) + [gguf.TokenType.NORMAL] * len(of)
    follows = {}
    for mark, (_, answer) in zip(marks, answers):
        at = texts.index(mark)
        for piece in [answer] if isinstance(answer, str) else answer:
            text = "".join(of[b] for b in (piece if isinstance(piece, bytes) else piece.encode()))
            if text not in texts:
                texts.append(text)
                kinds.append(gguf.TokenType.NORMAL)
            if follows.setdefault(at, texts.index(text)) != texts.index(text):
                raise ValueError(f"{piece!r} comes behind a text that another one follows")
            at = texts.index(text)
        if follows.setdefault(at, END) != END:
            raise ValueError(f"{answer!r} does not end: something follows its last text")
    write_file(path, texts, kinds, [follows.get(i, END) for i in range(len(texts))], template(answers, marks), context)
    return pathlib.Path(path)


def template(answers, marks):
    pairs = [[text, mark] for (text, _), mark in zip(answers, marks)]
    return TEMPLATE.replace("MARKS", json.dumps(pairs, ensure_ascii=False), 1)


def write_file(path, texts, kinds, follows, chat_template, context):
    vocabulary, width = len(texts), -(-len(texts) // 32) * 32
    embedding = np.eye(vocabulary, width, dtype=np.float32)
    output = np.zeros((vocabulary, width), np.float32)
    output[follows, np.arange(vocabulary)] = GAIN / np.sqrt(width)  # the norm makes sqrt(width) of a 1 among zeros
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_name("forced")
    w.add_block_count(1)
    w.add_context_length(context)
    w.add_embedding_length(width)
    w.add_feed_forward_length(32)
    w.add_head_count(1)
    w.add_head_count_kv(1)
    w.add_key_length(32)
    w.add_value_length(32)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_dimension_count(32)
    w.add_vocab_size(vocabulary)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(texts)
    w.add_token_types(kinds)
    w.add_token_merges([])
    w.add_bos_token_id(1)
    w.add_eos_token_id(END)
    w.add_add_bos_token(False)
    w.add_chat_template(chat_template)
    ones = np.ones(width, np.float32)
    zeros = lambda rows, columns: np.zeros((rows, columns), np.float32)
    for name, data in (("token_embd", embedding), ("blk.0.attn_norm", ones), ("blk.0.attn_q", zeros(32, width)), ("blk.0.attn_k", zeros(32, width)),
                       ("blk.0.attn_v", zeros(32, width)), ("blk.0.attn_output", zeros(width, 32)), ("blk.0.ffn_norm", ones),
                       ("blk.0.ffn_gate", zeros(32, width)), ("blk.0.ffn_up", zeros(32, width)), ("blk.0.ffn_down", zeros(width, 32)),
                       ("output_norm", ones), ("output", output)):
        w.add_tensor(name + ".weight", data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    write(sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text()))
