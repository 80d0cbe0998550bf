"""The arguments of calls as families write them, by `reply_dump families`; reply_families.py holds this against what Jinja2 renders."""
import json


def spelled(value, form):
    if form == "python" and not isinstance(value, (str, dict)): return repr(value)
    if form != "quoted": return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str): return f'<|"|>{value}<|"|>'
    if isinstance(value, dict): return "{" + ",".join(f"{k}:{spelled(v, form)}" for k, v in value.items()) + "}"
    if isinstance(value, list): return "[" + ",".join(spelled(v, form) for v in value) + "]"
    return json.dumps(value)


def tagged(arguments, tags):
    def text(value):
        if isinstance(value, str): return value
        if "%k" not in tags["close"] or not isinstance(value, (dict, list)): return json.dumps(value, ensure_ascii=False)
        return "".join(tag(k, v) for k, v in (value.items() if isinstance(value, dict) else (("item", v) for v in value)))

    def tag(key, value):
        names = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}  # a bool is an int, too
        kind = ("true" if isinstance(value, str) else "false") if "string=" in tags["open"] else next((name for kind, name in names.items() if isinstance(value, kind)), "null")
        body = text(value)
        if tags["quote"] and isinstance(value, str) and any(c in value for c in "<&\n"): body = tags["quote"] + body + tags["unquote"]
        return tags["open"].replace("%k", key).replace("%t", kind).replace("%s", "") + tags["pad"] + body + tags["pad"] + tags["close"].replace("%k", key)

    return "".join(tag(k, v) for k, v in arguments.items())


def arguments_text(row, arguments):
    if row["form"] == "tags": return tagged(arguments, row["tags"])
    if row["form"] == "python": return ", ".join(f"{k}={spelled(v, 'python')}" for k, v in arguments.items())
    return spelled(arguments, row["form"])
