"""Calls with arguments in tags, for reply_equivalence.py: read by regular expressions, and written."""
import json
import re

WS = " \t\r\n"
NAME, KEY = r"([\w./-]+)", r"([^<>\"/\x00-\x1f][^<>\"\x00-\x1f]*)"

# Before the first call; a call's begin; an argument: its key, its type where the model tells it, and its value; the end of the arguments; what may follow.
READ = {
    "tags": ("", rf"(?:<tool_call>\s*<function={NAME}>|<function={NAME}>)", rf"<parameter={KEY}>()\n?((?:(?!</parameter>).)*?)\n?</parameter>", "</function>", "</tool_call>"),
    "glm": ("", rf"<tool_call>\s*{NAME}()", rf"<arg_key>{KEY}</arg_key>\s*<arg_value>()((?:(?!</arg_value>).)*)</arg_value>", "</tool_call>", r"(?!)"),
    "seed": ("", rf"<seed:tool_call>\s*<function={NAME}>()", rf"<parameter={KEY}>()((?:(?!</parameter>).)*)</parameter>", "</function>", "</seed:tool_call>"),
    "hunyuan": ("<tool_calls:opensource>", rf"<tool_call:opensource>\s*{NAME}<tool_sep:opensource>()",
                rf"<arg_key:opensource>{KEY}</arg_key:opensource>\s*<arg_value:opensource>()((?:(?!</arg_value:opensource>).)*)</arg_value:opensource>", "</tool_call:opensource>", "</tool_calls:opensource>"),
    "dsml": ("<｜DSML｜(?:function|tool)_calls>", rf"<｜DSML｜invoke name=\"{NAME}\">()", rf"<｜DSML｜parameter name=\"{KEY}\" string=\"([a-z]*)\">((?:(?!</｜DSML｜parameter>).)*)</｜DSML｜parameter>",
             "</｜DSML｜invoke>", "</｜DSML｜(?:function|tool)_calls>"),
    "minimax": ("<minimax:tool_call>", rf"<invoke name=\"{NAME}\">()", rf"<parameter name=\"{KEY}\">()((?:(?!</parameter>).)*)</parameter>", "</invoke>", "</minimax:tool_call>"),
    "minicpm": ("", rf"<function name=\"{NAME}\">()", rf"<param name=\"{KEY}\">()((?:(?!</param>).)*)</param>", "</function>", r"(?!)"),
}
WRITE = {  # with K, T, V for an argument's key, type and value; in calls N is the name, A the arguments
    "tags": ("<tool_call>\n<function=N>\nA</function>\n</tool_call>", "<parameter=K>\nV\n</parameter>\n", "", ""),
    "glm": ("<tool_call>N\nA</tool_call>", "<arg_key>K</arg_key>\n<arg_value>V</arg_value>\n", "", ""),
    "seed": ("<seed:tool_call>\n<function=N>\nA</function>\n</seed:tool_call>", "<parameter=K>V</parameter>\n", "", ""),
    "hunyuan": ("<tool_call:opensource>N<tool_sep:opensource>\nA</tool_call:opensource>\n", "<arg_key:opensource>K</arg_key:opensource>\n<arg_value:opensource>V</arg_value:opensource>\n", "<tool_calls:opensource>\n", "</tool_calls:opensource>"),
    "dsml": ('<｜DSML｜invoke name="N">\nA</｜DSML｜invoke>\n', '<｜DSML｜parameter name="K" string="T">V</｜DSML｜parameter>\n', "<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>"),
    "minimax": ('<invoke name="N">\nA</invoke>\n', '<parameter name="K">V</parameter>\n', "<minimax:tool_call>\n", "</minimax:tool_call>"),
    "minicpm": ('<function name="N">A</function>', '<param name="K">V</param>', "", ""),
}


def value_of(text, told):
    if told in ("true", "string"): return text
    try: value = json.loads(text)
    except ValueError: return text
    return text if isinstance(value, str) else value


def call_at(style, text, at):
    section, begin, argument, end, follows = READ[style]
    m = re.compile((rf"(?:{section}\s*)*" if section else "") + begin, re.S).match(text, at)
    if not m: return None
    name, at, arguments = m[1] or m[2], m.end(), {}
    one, space = re.compile(rf"\s*{argument}", re.S), re.compile(r"\s*")
    while m := one.match(text, at):
        arguments[m[1]] = value_of(m[3], m[2])
        at = m.end()
    at = space.match(text, at).end()
    if not text.startswith(end, at): return None
    return [{"name": name, "arguments": arguments}], re.compile(rf"(?:\s*(?:{follows}))*").match(text, at + len(end)).end()


def calls(style, writer):
    call, argument, section, close = WRITE[style]
    put = lambda pattern, **parts: re.sub("|".join(rf"\b{k}\b|(?<=>){k}(?=<)" for k in parts), lambda m: parts[m[0]], pattern)

    def one():
        body = "".join(put(argument, K=k, V=v if isinstance(v, str) else writer.dumps(v), T="true" if isinstance(v, str) else "false") for k, v in writer.arguments().items())
        return call.replace("N", writer.name(), 1).replace("A", "\0", 1).replace("\0", body, 1)

    return section + "".join(writer.listed(one)) + close
