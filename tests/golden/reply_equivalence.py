#!/usr/bin/env python3
"""kvrt's reading of answers equals that of a second parser, on generated answers of every format, split as tokens would.

usage: reply_equivalence.py DUMP_PROGRAM

The second parser sees the whole answer: regular expressions for markers, json and ast for the text between. A marker is one where a whole
call follows it; else it is text. Where the tools are known, an answer may begin with calls that have no marker. With the model at hand, its template must show no format.
"""
import ast
import json
import os
import random
import re
import subprocess
import sys

import reply_tags

SEED = 20251121
ANSWERS = 400  # of each format
FORMATS = "plain hermes tags llama3 mistral gemma deepseek kimi command_r command_r7b granite function_tag glm seed hunyuan dsml minimax minimax3 minicpm kimi3 gemma4 python_list keyed tool_calls nemotron gigachat recipient harmony".split()
OTHERS = "minimax3 kimi3 gemma4 recipient".split()  # reply_families.py has them
LISTS = {"python_list": (r"<\|tool_call_start\|>", r"<\|tool_call_end\|>"), "keyed": (r"<\|tools_prefix\|>", r"<\|tools_suffix\|>"), "tool_calls": ("<tool_calls>", "</tool_calls>"),
         "nemotron": ("<TOOLCALL>", "</TOOLCALL>"), "granite": (r"<\|tool_call\|>", r"<\|/tool_call\|>"), "command_r7b": (r"<\|START_ACTION\|>", r"<\|END_ACTION\|>"), "gigachat": (r"<\|function_call\|>", r"<\|message_sep\|>")}
WS = " \t\r\n"
REASONING = {"mistral": ("[THINK]", "[/THINK]"), "command_r7b": ("<|START_THINKING|>", "<|END_THINKING|>"), "harmony": ("", "")}
NAMES = ["get_weather", "f", "search_2", "Math.add"]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in NAMES]
NATIVE = ("llama3", "gemma")  # their own calls have no marker
BARE = NATIVE + ("hermes", "mistral", "granite", "tool_calls", "nemotron", "gigachat")
CONTROL = re.compile(r"<\|[\w/]+\|>|<｜[^｜]+｜>|\[/?[A-Z]+(?:_[A-Z]+)?\]|</?think>|</?tool_call>")


# The second parser. Payloads: (calls, end) or None.

def canonical(call, strict=False, keyed=False):
    if not isinstance(call, dict): return None
    if keyed and len(call) == 1: call = dict(zip(("name", "arguments"), next(iter(call.items()))))
    inner = call["function"] if isinstance(call.get("function"), dict) else call
    name = inner.get("name", inner.get("tool_name"))
    arguments = inner.get("arguments", inner.get("parameters", None if strict else {}))
    if isinstance(arguments, str):
        try: arguments = json.loads(arguments)
        except ValueError: return None
    if strict and not set(call) <= {"name", "arguments", "parameters", "type", "id"}: return None
    if not isinstance(name, str) or not name or not isinstance(arguments, dict): return None
    call_id = call.get("id", call.get("tool_call_id"))
    return {"name": name, "arguments": arguments, **({"id": call_id} if isinstance(call_id, str) and call_id else {})}


def json_calls(text, at, strict=False, keyed=False):
    try: value, end = json.JSONDecoder().raw_decode(text, at)
    except ValueError: return None
    calls = [canonical(c, strict, keyed) for c in (value if isinstance(value, list) else [value])]
    return (calls, end) if calls and None not in calls else None


def python_calls(text, at):
    """The shortest piece of text that is an expression of calls."""
    for end in (m.end() for m in re.compile(r"[\])]").finditer(text, at)):
        try: tree = ast.parse(text[at:end], mode="eval").body
        except (SyntaxError, ValueError): continue
        calls = []
        for node in tree.elts if isinstance(tree, ast.List) else [tree]:
            if not isinstance(node, ast.Call) or node.args: return None
            name = ast.unparse(node.func)
            try: arguments = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
            except ValueError: return None
            calls.append({"name": name[:-5] if name.endswith(".call") else name, "arguments": arguments})
        return (calls, end) if calls else None
    return None


def named_call(text, at, name, call_id=None):
    try: arguments, end = json.JSONDecoder().raw_decode(text, at)
    except ValueError: return None
    if not isinstance(arguments, dict): return None
    return [{"name": name, "arguments": arguments, **({"id": call_id} if call_id else {})}], end


def skip(text, at, chars=WS):
    while at < len(text) and text[at] in chars: at += 1
    return at


def payload(text, at, python=False, strict=False, repeats=False, keyed=False):
    at = skip(text, at)
    if at == len(text) or (text[at] not in "[{" and not (python and re.match(r"[A-Za-z_]", text[at]))): return None
    found = json_calls(text, at, strict, keyed) or (python_calls(text, at) if python else None)
    while found and repeats:
        more = payload(text, skip(text, found[1], WS + ";,"), python, strict, keyed=keyed)
        if not more: break
        found = found[0] + more[0], more[1]
    return found


def ends(text, found, pattern):
    return found and (found[0], re.compile(rf"(?:\s*(?:{pattern}))*").match(text, found[1]).end())


def call_at(style, text, at):
    """The calls that begin with the marker at `at`, and where they end."""
    def begin(pattern): return re.compile(pattern, re.S).match(text, at)
    if style == "hermes":
        m = begin("<tool_call>")
        return m and ends(text, payload(text, m.end(), repeats=True), "</tool_call>")
    if style in reply_tags.READ: return reply_tags.call_at(style, text, at)
    if style in LISTS:
        m = begin(LISTS[style][0])
        return m and ends(text, payload(text, m.end(), python=style == "python_list", repeats=style not in ("gigachat", "command_r7b"), keyed=style == "keyed"), LISTS[style][1])
    if style == "llama3":
        if m := begin(r"<function=([\w.-]+)>\s*"): return ends(text, named_call(text, m.end(), m[1]), "</function>")
        m = begin(r"<\|python_(?:tag|start)\|>")
        return m and ends(text, payload(text, m.end(), python=True, repeats=True), r"<\|python_end\|>")
    if style == "mistral":
        if m := begin(r"\[TOOL_CALLS\]\s*([\w.-]+)(?:\[CALL_ID\](\w+))?(?:\[ARGS\])?\s*(?={)"): return named_call(text, m.end(), m[1], m[2])
        m = begin(r"\[TOOL_CALLS\]")
        return m and payload(text, m.end())
    if style == "gemma":
        m = begin("```tool_code")
        found = m and payload(text, m.end(), python=True, repeats=True)
        return found and (found[0], re.compile(r"(?:\s*```(?!tool_code))?").match(text, found[1]).end())
    if style == "deepseek":
        m = begin(r"(?:<｜tool▁calls▁begin｜>)?\s*<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>([\w.-]+)\s*```json|([\w.-]+)<｜tool▁sep｜>)\s*")
        return m and ends(text, named_call(text, m.end(), m[1] or m[2]), "```|<｜tool▁call▁end｜>|<｜tool▁calls▁end｜>")
    if style == "kimi":
        m = begin(r"(?:<\|tool_calls_section_begin\|>)?\s*<\|tool_call_begin\|>\s*(functions\.([\w.-]+):\d+)\s*<\|tool_call_argument_begin\|>\s*")
        return m and ends(text, named_call(text, m.end(), m[2], m[1]), r"<\|tool_call_end\|>|<\|tool_calls_section_end\|>")
    if style == "command_r": return (m := begin(r"Action:\s*```json")) and ends(text, payload(text, m.end()), "```")
    m = style == "function_tag" and begin(r"<function=([\w.-]+)>\s*")
    return ends(text, named_call(text, m.end(), m[1]), "</function>") if m else None


def bare_payload(style, text, at, tools, fenced):
    """One payload without a marker; of a tool, where they are known."""
    if at == len(text) or text[at] not in "[{": return None
    python = style in NATIVE and not fenced
    names, key = "|".join(map(re.escape, NAMES)), "(?:arguments|parameters)" if style in NATIVE else "arguments"
    head = rf'(?:\[[{WS}]*)?\{{[{WS}]*"name"[{WS}]*:[{WS}]*"(?:{names})"[{WS}]*,[{WS}]*"{key}"[{WS}]*:' + (rf"|\[[{WS}]*(?:{names})\(" if python else "")
    if tools and not re.compile(head).match(text, at): return None
    return payload(text, at, python=python, strict=True)


def bare_at(style, text, at, tools):
    """Calls without a marker, where they end, and whether a fence is open there: then no others follow."""
    if style not in (BARE if tools else NATIVE): return None
    calls, end, fenced = [], None, False
    while True:
        m = None if fenced or style == "llama3" and not tools else re.compile(r"```(?:json)?").match(text, at)
        found = bare_payload(style, text, skip(text, m.end()) if m else at, tools, fenced or bool(m))
        if not found: return (calls, end, fenced) if calls else None
        calls, end, fenced = calls + found[0], found[1], fenced or bool(m)
        close = re.compile(rf"[{WS};,]*```{'(?!tool_code)' if style == 'gemma' else ''}").match(text, end) if fenced else None
        if close: end, fenced = close.end(), False
        at = skip(text, end, WS + ";,")


def joined(parts):
    out = []  # a newline between texts of one kind that only markers parted
    for kind, text in parts:
        if kind != "T" and out and out[-1][0] == kind: out[-1] = kind, out[-1][1] + "\n" + text
        else: out.append((kind, text))
    return out


def read(style, reasoning, opened, text, tools):
    begin, end = reasoning
    parts, content, at, blank, after = [], 0, 0, True, opened

    def flush(to, marker):
        nonlocal blank
        piece = text[content:to]
        piece = piece.lstrip(WS) if after else piece
        piece = piece.rstrip(WS) if marker else piece
        if piece: parts.append(("C", piece))

    def read_reasoning(start):
        stop = text.find(end, start)
        piece = text[start:stop if stop >= 0 else len(text)].lstrip(WS)
        piece = piece.rstrip(WS) if stop >= 0 else piece
        if piece: parts.append(("R", piece))
        return stop + len(end) if stop >= 0 else len(text)

    if opened: content = at = read_reasoning(0)
    bare = True  # nothing but white space since the start, reasoning or a call
    while at < len(text):
        found = unmarked = bare and bare_at(style, text, at, tools)
        if not found: found = call_at(style, text, at)
        if found:
            flush(at, True)
            parts += [("T", call) for call in found[0]]
            at = content = found[1]
            after, bare = True, not unmarked[2] if unmarked else style in NATIVE
        elif begin and text.startswith(begin, at):
            flush(at, True)
            at = content = read_reasoning(at + len(begin))
            after = True
        else:
            bare = bare and text[at] in WS
            at += 1
    flush(len(text), False)
    return joined(parts)


def read_harmony(text):
    parts = []
    message = re.compile(r"(?:<\|start\|>assistant)?(?:\s*to=(\S+?))?\s*<\|channel\|>(\w+)(?:\s+to=(\S+?))?(?:\s*(?:<\|constrain\|>)?json)?\s*<\|message\|>(.*?)"
                         r"(?:<\|(?:end|call|return)\|>|(?=<\|start\|>)|\Z)\s*", re.S)
    at = 0
    while at < len(text):
        m = message.match(text, at)
        to, body = m[1] or m[3], m[4]
        if to: parts.append(("T", {"name": to.removeprefix("functions."), "arguments": json.loads(body)}))
        elif body.strip(WS): parts.append(("R" if m[2] == "analysis" else "C", body.strip(WS)))
        at = m.end()
    return joined(parts)


# Generated answers.

class Writer:
    def __init__(self, rng): self.rng = rng

    def words(self):
        pick = ["Paris", "the", "é", "日本", "👍🏽", "x < 3", "{", "}", "[1]", "f(x)", "\n", "\n\n", " ", "<tool", "<b>", "```python\nx = 1\n```", "\"", "don't", "</", "[INST", "a;b", "|>", "<|", "to=", "`", "\t"]
        return " ".join(self.rng.choice(pick) for _ in range(self.rng.randrange(1, 8)))

    def string(self):
        text = "".join(self.rng.choice(["a", "B", " ", "}", "{", "]", "\"", "\\", "\n", "é", "漢", "😀", "</tool_call>", "'", ",", "```", "/", "<|"]) for _ in range(self.rng.randrange(6)))
        self.marker_in_string |= "</tool_call>" in text
        return text

    def value(self, depth):
        kind = self.rng.randrange(9 if depth else 6)
        if kind < 2: return self.string()
        if kind == 2: return self.rng.randrange(-10**12, 10**12)
        if kind == 3: return self.rng.choice([0.5, -1.25e-7, 3.0, 1e21, 0.1])
        if kind == 4: return self.rng.choice([True, False, None])
        if kind < 7: return self.rng.randrange(100)
        if kind == 7: return [self.value(depth - 1) for _ in range(self.rng.randrange(4))]
        return {self.string(): self.value(depth - 1) for _ in range(self.rng.randrange(4))}

    def arguments(self): return {self.rng.choice(["city", "n", "list_of", "q"]): self.value(2) for _ in range(self.rng.randrange(4))}

    def name(self): return self.rng.choice(["get_weather", "f", "search_2", "Math.add"])

    def dumps(self, value): return json.dumps(value, ensure_ascii=self.rng.random() < 0.3, indent=self.rng.choice([None, None, 2]))

    def object(self, names=("name", "arguments")):
        arguments = self.arguments()
        if names[1] == "arguments" and self.rng.random() < 0.2: arguments = json.dumps(arguments)
        return {names[0]: self.name(), names[1]: arguments}

    def python(self):
        return f"{self.name()}({', '.join(f'{k}={v!r}' for k, v in self.arguments().items())})"

    def listed(self, one): return [one() for _ in range(self.rng.randrange(1, 4))]

    def calls(self, style):
        rng, gap = self.rng, lambda: self.rng.choice(["", "\n", " "])
        if style == "hermes": return gap().join(f"<tool_call>{gap()}{self.dumps(self.object())}{gap()}</tool_call>" for _ in range(rng.randrange(1, 4)))
        if style in reply_tags.WRITE: return reply_tags.calls(style, self)
        if style == "python_list": return f"<|tool_call_start|>[{', '.join(self.listed(self.python))}]<|tool_call_end|>"
        if style == "keyed": return f"<|tools_prefix|>{self.dumps([{c['name']: c['arguments']} for c in self.listed(self.object)])}<|tools_suffix|>"
        if style == "tool_calls": return f"<tool_calls>{self.dumps(self.listed(self.object))}</tool_calls>"
        if style == "nemotron": return f"<TOOLCALL>{self.dumps(self.listed(self.object))}</TOOLCALL>"
        if style == "gigachat": return "".join(f"<|function_call|>{self.dumps(self.object())}" for _ in range(rng.randrange(1, 4))) + rng.choice(["", "<|message_sep|>"])
        if style == "llama3":
            objects = self.listed(lambda: self.dumps(self.object(("name", "parameters"))))
            return rng.choice([f"<|python_tag|>{'; '.join(objects)}", f"<|python_start|>[{', '.join(self.listed(self.python))}]<|python_end|>",
                               f"<function={self.name()}>{self.dumps(self.arguments())}</function>", f"<|python_tag|>search.call(query={self.string()!r})"])
        if style == "mistral":
            one = lambda: f"[TOOL_CALLS]{self.name()}{rng.choice(['', '[CALL_ID]a1B2c3D4e'])}[ARGS]{self.dumps(self.arguments())}"
            return rng.choice([f"[TOOL_CALLS]{gap()}{self.dumps(self.listed(lambda: {**self.object(), 'id': 'a1b2c3d4e'}))}", "".join(self.listed(one))])
        if style == "gemma":
            return rng.choice(["```tool_code\n" + "\n".join(self.listed(self.python)) + "\n```", f"```json\n{self.dumps(self.object(('name', 'parameters')))}\n```"])
        if style == "deepseek":
            old = lambda: f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{self.name()}\n```json\n{self.dumps(self.arguments())}\n```<｜tool▁call▁end｜>"
            new = lambda: f"<｜tool▁call▁begin｜>{self.name()}<｜tool▁sep｜>{self.dumps(self.arguments())}<｜tool▁call▁end｜>"
            return "<｜tool▁calls▁begin｜>" + gap().join(self.listed(rng.choice([old, new]))) + "<｜tool▁calls▁end｜>"
        if style == "kimi":
            one = lambda: f"<|tool_call_begin|>functions.{self.name()}:{rng.randrange(20)}<|tool_call_argument_begin|>{self.dumps(self.arguments())}<|tool_call_end|>"
            return "<|tool_calls_section_begin|>" + "".join(self.listed(one)) + "<|tool_calls_section_end|>"
        if style == "command_r": return f"Action: ```json\n{self.dumps(self.listed(lambda: self.object(('tool_name', 'parameters'))))}\n```"
        if style == "command_r7b":
            return f"<|START_ACTION|>{self.dumps([{'tool_call_id': str(i), **c} for i, c in enumerate(self.listed(lambda: self.object(('tool_name', 'parameters'))))])}<|END_ACTION|>"
        if style == "granite": return f"<|tool_call|>{self.dumps(self.listed(self.object))}{rng.choice(['', '<|/tool_call|>'])}"
        if style == "function_tag": return f"<function={self.name()}>{self.dumps(self.arguments())}</function>"
        return ""

    def harmony(self):
        def message():
            kind, body = self.rng.randrange(5), re.sub(r"<[|/]?", "", self.words())
            if kind == 0: return f"<|channel|>final<|message|>{body}<|end|>"
            if kind < 3: return f"<|channel|>analysis<|message|>{body}<|end|>"
            head = self.rng.choice(["<|channel|>commentary to=functions.{} <|constrain|>json", " to=functions.{}<|channel|>commentary", "<|channel|>commentary to={} json"])
            return head.format(self.name()) + f"<|message|>{json.dumps(self.arguments())}<|call|>"
        return "<|start|>assistant".join(self.listed(message))

    def bare(self, style):
        """Calls without a marker, and what begins as they do."""
        rng, key = self.rng, self.rng.choice(["arguments", "parameters"]) if style in NATIVE else "arguments"
        one = lambda: self.dumps(self.object(("name", key)))
        near = lambda: rng.choice([self.dumps({"name": "Ann", "arguments": {}}), self.dumps({"name": self.name(), "description": "x"}), self.dumps({"arguments": {}, "name": "f"}),
                                   self.dumps({"name": "f", "arguments": {}, "x": 1}), self.dumps({"name": "get", "arguments": {}}), "{", "[", '{"name": "f", ', "[f"])
        unit = lambda: rng.choice([one, one, one, near, lambda: f"[{', '.join(self.listed(one))}]", lambda: f"[{', '.join(self.listed(self.python))}]"])()
        fence = lambda: "```" + rng.choice(["json", "json", "", "python", "JSON"]) + rng.choice(["\n", " ", ""]) + rng.choice(["\n", ", ", ""]).join(self.listed(unit)) + rng.choice(["\n```", "```", "\n", ""])
        return rng.choice(["", "\n"]) + rng.choice(["\n", "\n\n", "; ", ""]).join(self.listed(lambda: rng.choice([unit, fence])())) + rng.choice(["", "\n"])

    def answer(self, style, reasoning, opened, tools):
        """The text, and whether its markers may come as control tokens: not where a call is malformed, they would be lost, and not within
        a string, they would end the call."""
        rng, (begin, end), self.marker_in_string = self.rng, reasoning, False
        if style == "harmony": return self.harmony(), not self.marker_in_string
        text = ""
        if begin and (opened or rng.random() < 0.6): text = f"{'' if opened else begin}{rng.choice(['', chr(10)])}{self.words()}{end}{rng.choice(['', chr(10) * 2])}"
        well = True
        if tools and rng.random() < 0.7:
            text += self.bare(style)
            if rng.random() < 0.6: return text, well and not self.marker_in_string
        if style in ("llama3", "gemma") and rng.random() < 0.4:
            text += rng.choice([self.dumps(self.object(("name", "parameters"))), f"[{', '.join(self.listed(self.python))}]", self.dumps({"name": "Bob", "age": 3}), "[x](y) "])
        for left in reversed(range(rng.randrange(1, 4))):
            if rng.random() < 0.7: text += self.words() + rng.choice(["", "\n", " "])
            if rng.random() < 0.7:
                calls = self.calls(style)
                if calls and rng.random() < 0.15:
                    at = rng.randrange(len(calls))
                    calls, well = rng.choice([calls[:at] + "\n\x01" + calls[at:], calls.replace("{", "{,", 1), calls.replace(":", "", 1), calls if left else calls[:at]]), False
                text += calls
        return text, well and not self.marker_in_string

    def pieces(self, text, controls):
        """As a tokenizer would have it: markers whole and as control tokens, or all in small pieces of text."""
        pieces, at = [], 0
        for m in CONTROL.finditer(text) if controls else ():
            pieces += self.split(text[at:m.start()])
            pieces.append((1, m[0]))
            at = m.end()
        return pieces + self.split(text[at:])

    def split(self, text):
        pieces = []
        while text:
            n = self.rng.randrange(1, 7)
            pieces.append((0, text[:n]))
            text = text[n:]
        return pieces


def dump(program, style, reasoning, opened, answers, tools):
    u32 = lambda n: n.to_bytes(4, "little")
    data = b"".join(u32(len(a)) + b"".join(u32(c) + u32(len(t.encode())) + t.encode() for c, t in a) for a in answers)
    out = subprocess.run([program, str(FORMATS.index(style)), *reasoning, str(int(opened)), *([json.dumps(TOOLS)] if tools else [])], input=data, stdout=subprocess.PIPE, check=True).stdout
    lists = [[]]
    for line in out.decode().split("\n")[:-1]:
        if not line: lists.append([])
        else: lists[-1].append((line[0], json.loads(json.loads(line[1:])) if line[0] == "T" else json.loads(line[1:])))
    return lists[:-1]


def check_model(program):
    path = os.environ.get("KVRT_MODEL") or os.path.expanduser("~/.cache/kvrt/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    if not os.path.exists(path): return 0
    with open(path, "rb") as f: head = f.read(8 << 20)
    at = head.index(b"tokenizer.chat_template") + len(b"tokenizer.chat_template")
    assert head[at:at + 4] == b"\x08\0\0\0"
    template = head[at + 12:at + 12 + int.from_bytes(head[at + 4:at + 12], "little")]
    assert b"<|im_start|>" in template
    style = json.loads(subprocess.run([program, "detect"], input=template, stdout=subprocess.PIPE, check=True).stdout)
    if style == [0, "", "", False, ""]: return 0
    print(f"SmolLM2's template has no tools and no reasoning, found {style}")
    return 1


def main():
    program, wrong = sys.argv[1], check_model(sys.argv[1])
    for style in FORMATS:
        if style in OTHERS: continue
        rng = random.Random(SEED + FORMATS.index(style))
        writer, reasoning = Writer(rng), REASONING.get(style, ("<think>", "</think>"))
        for opened, tools in ((False, False), (True, False), (False, True), (True, True)):
            if opened and style == "harmony" or tools and style not in BARE: continue
            made = [writer.answer(style, reasoning, opened, tools) for _ in range(ANSWERS // 2)]
            found = dump(program, style, reasoning, opened, [writer.pieces(text, well and rng.random() < 0.5) for text, well in made], tools)
            assert len(found) == len(made), (len(found), len(made))
            calls = 0
            for (text, _), ours in zip(made, found):
                expected = read_harmony(text) if style == "harmony" else read(style, reasoning, opened, text, tools)
                calls += sum(kind == "T" for kind, _ in expected)
                if ours == expected: continue
                wrong += 1
                if wrong <= 12: print(f"{style}: {text!r}\n  kvrt     {ours}\n  expected {expected}")
            print(f"{style}{' opened' if opened else ''}{' with tools' if tools else ''}: {len(made)} answers, {calls} calls, wrong so far {wrong}")
            assert calls >= 50 or style == "plain", (style, calls)
    sys.exit(1 if wrong else 0)


main()
