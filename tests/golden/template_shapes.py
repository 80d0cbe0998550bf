"""Conversations of many shapes, for chat templates that others wrote: contents that are null, empty or parts; tool calls whose arguments are
objects or text; reasoning under each name that templates know; tools, and the variables that templates look at."""
import random


def function(name, parameters, **more):
    return {"type": "function", "function": {"name": name, "description": "Does <it> & more \"quoted\" 'x' é 日本", "parameters": parameters, **more}}


def call(name, arguments, id_=None):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **({"id": id_} if id_ else {})}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def user(content): return message("user", content)
def assistant(content, **more): return message("assistant", content, **more)
def system(content): return message("system", content)
def tool(content, **more): return message("tool", content, **more)


CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}, "days": {"type": "integer", "minimum": 1, "default": 3},
                                         "unit": {"type": "string", "enum": ["c", "f"]}}, "required": ["city"]}
DEEP = {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "object", "properties": {
    "a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "number"}, {"type": "boolean"}]}}, "required": []}},
    "opt": {"type": "object", "additionalProperties": {"type": "string"}}, "n": {"type": "number", "nullable": True}},
    "required": ["items", "n"], "$defs": {"x": {"type": "null"}}}
TOOLS = [None, [], [function("get_weather", CITY)], [function("get_weather", CITY), function("do_it", DEEP, strict=True), function("nothing", {"type": "object", "properties": {}})],
         [function("bare", {})], [{"type": "function", "function": {"name": "noparams", "description": ""}}],
         [function("r", CITY, **{"return": {"type": "string"}, "response": {"type": "object"}})]]
VARIABLES = [{}, {"enable_thinking": False}, {"enable_thinking": True}, {"thinking": True}, {"reasoning_effort": "high"}, {"reasoning_effort": "low", "preserve_thinking": True},
             {"thinking": False, "clear_thinking": True}, {"model_identity": "You are X.", "builtin_tools": ["browser", "python"]}, {"date_string": "1 Jan 2025", "custom_tools": None},
             {"add_vision_id": True}, {"documents": [{"title": "t", "text": "d"}]}, {"thinking_budget": 100}, {"tools_in_user_message": False},
             {"keep_past_thinking": True, "continue_final_message": True}, {"datetime": "1 Jan 2025", "functions": "[]"}]
ARGUMENTS = [{"city": "Zürich", "days": 2}, "{\"city\": \"Zürich\", \"days\": 2}", {}, {"items": [{"a": "q\"'<>&", "b": 1.5}, {"a": None, "b": True}], "n": 1e20, "opt": {"k": "v\nw"}},
             {"city": ""}]


def conversations():
    parts = [{"type": "text", "text": "part one "}, {"type": "text", "text": "part two"}]
    hi = user("Hi")
    yield from ([hi], [system("Be <brief> & 'kind'."), hi], [hi, assistant("Hello!"), user("  More \n")], [system(""), user("")], [user("a"), user("b")], [assistant("first"), user("x")],
                [system("s1"), user("u"), system("s2"), user("v")], [user(parts)], [system(parts), user(parts), assistant(parts), user("x")],
                [user([{"type": "image"}, {"type": "text", "text": "what is this"}])], [user([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}])],
                [message("developer", "dev"), user("x")], [], [system("only")], [hi, assistant("")], [hi, assistant(None)], [hi, assistant("<think>\nplan\n</think>\n\nanswer")],
                [hi, assistant("<think>\nplan\n</think>\n\nanswer"), user("again")], [user("</think>"), assistant("</think>x"), user("[INST]")], [hi, message("ipython", "x")],
                [hi, message("function", "x", name="f")], [user("Hi /no_think"), assistant("k")], [hi, assistant("x", prefix=True)])
    for name in ("reasoning_content", "reasoning", "thinking"):
        for why in ("why", ""):
            yield [hi, assistant("x", **{name: why}), user("go")]
    for arguments in ARGUMENTS:
        for content in ("", "text first", None):
            for id_ in (None, "abcdef123", "call_1"):
                one = assistant(content, tool_calls=[call("get_weather", arguments, id_)])
                yield [user("w?"), one, tool("{\"t\": 20}", tool_call_id=id_ or "", name="get_weather")]
                yield [system("sys"), user("w?"), one, tool("{\"t\": 20}", tool_call_id=id_ or ""), assistant("It is 20."), user("thanks")]
    two = [call("get_weather", ARGUMENTS[0], "abcdef123"), call("do_it", ARGUMENTS[3], "abcdef124")]
    answers = [tool("1", tool_call_id="abcdef123", name="get_weather"), tool("2", tool_call_id="abcdef124", name="do_it")]
    yield [user("w?"), assistant("", tool_calls=two), *answers]
    yield [user("w?"), assistant(None, tool_calls=two, reasoning_content="let me"), *answers, assistant("done", reasoning_content="fin"), user("next"), assistant("", tool_calls=two[:1])]
    yield [user("w?"), assistant("", tool_calls=[]), user("x")]
    yield [user("w?"), {"role": "assistant", "tool_calls": two}, tool(parts, tool_call_id="abcdef123"), tool({"a": 1}, tool_call_id="abcdef124")]
    yield [user("w?"), assistant("", tool_calls=[{"name": "get_weather", "arguments": ARGUMENTS[0], "id": "abcdef123"}]), tool("x")]
    thought = lambda why: assistant("", tool_calls=[call("get_weather", ARGUMENTS[0])], reasoning_content=why)
    yield [user("w?"), thought("r1"), tool("x"), thought("r2"), tool("y"), assistant("z", reasoning_content="r3")]


def shapes(count, seed):
    """(conversation, tools, variables, prompt): every conversation without tools and with some, and `count` drawn ones."""
    rng, every = random.Random(seed), list(conversations())
    for messages in every:
        yield messages, TOOLS[0], {}, True
        yield messages, TOOLS[3], {}, True
    for _ in range(count):
        yield rng.choice(every), rng.choice(TOOLS), rng.choice(VARIABLES), rng.random() < 0.5
