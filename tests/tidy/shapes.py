"""How large the classes of the library are: public methods and fields. A class within a limit needs no word; classes.txt has the others.

It reads C++ as clang-format leaves it, without a compiler: a class's body is cut into statements, each a method, a field or neither.
"""
import collections
import re

from layers import LIBRARY, reasons_of

Shape = collections.namedtuple("Shape", "name line methods public fields")
PUBLIC_METHODS, FIELDS = 30, 20
ELSEWHERE_MOST = 12  # classes above, of all folders but these
STRICT = ("runtime/engine/", "runtime/kv/", "storage/store/")
HEAD = re.compile(r"(?<!enum )\b(class|struct|union)\s+(?:alignas\([^)]*\)\s*)?(?:KVRT_\w+(?:\([^)]*\))?\s+)?([\w:]+)(?:\s+final)?\s*(?::[^;{}()]*)?\{")
NEITHER = ("using ", "typedef ", "friend ", "static_assert", "extern ")
CLOSING = {"{": "}", "(": ")", "[": "]"}


def matching(text, at):
    """The place of the bracket that closes the one at `at`."""
    opens, closes, depth = text[at], CLOSING[text[at]], 0
    for i in range(at, len(text)):
        depth += (text[i] == opens) - (text[i] == closes)
        if depth == 0:
            return i
    return len(text) - 1


def statements(body):
    """The statements of a class's body, with what stands in braces taken out; and a flag: whether it is public."""
    at, begin, text, access = 0, 0, "", None
    while at < len(body):
        c = body[at]
        if c == "(":
            end = matching(body, at)
            text += body[at:end + 1]
            at = end
        elif c == "{":
            at = matching(body, at)
            text += "{}"
            follows = body[at + 1:].lstrip()[:1]
            if follows not in (";", ",", "{") and not re.match(r"\s*(enum|class|struct|union)\b", text):
                yield text.strip(), access, begin
                text, begin = "", at + 1
        elif c == ";":
            yield text.strip(), access, begin
            text, begin = "", at + 1
        elif c == ":" and re.fullmatch(r"\s*(public|private|protected)", text):
            access, text, begin = text.strip(), "", at + 1
        else:
            text += c
        at += 1


def plain(text):
    """Without template arguments, attributes, macros and initializers, so that a ( is a method's and a comma stands between fields."""
    text = re.sub(r"\boperator\s*(<=>|<<|>>|<=|>=|->|<|>|\(\)|\[\]|==|!=|\S)", "operator_", text)
    text = re.sub(r"\bKVRT_\w+(\([^()]*(\([^()]*\))?[^()]*\))?|\balignas\([^)]*\)|\[\[[^\]]*\]\]|\b(noexcept|decltype)\([^()]*\)", "", text)
    while True:
        shorter = re.sub(r"<[^<>;{}]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def kind(statement):
    """("method", 1), ("field", how many) or (None, 0)."""
    text = plain(statement).strip()
    text = re.sub(r"^template\s*", "", text)
    if not text or text.startswith(NEITHER) or re.search(r"= (delete|default)$", text):
        return None, 0
    typed = re.match(r"(?:enum(?: class)?|class|struct|union)\b[^{]*\{\}(.*)", text, re.S)
    if typed:
        return ("field", typed.group(1).count(",") + 1) if typed.group(1).strip() else (None, 0)
    if re.fullmatch(r"(enum( class)?|class|struct|union)\s+[\w:]+(\s*:\s*\w+)?", text):  # it is only announced
        return None, 0
    head = re.split(r"(?<![=!<>])=(?!=)|\{\}", text)[0]
    if "(" in head and not re.search(r"\(\s*\*\s*\w+(\[\w*\])?\s*\)\s*\(", head):
        return "method", 1
    if re.match(r"(static|inline static|constexpr|static constexpr)\b", text):
        return None, 0  # a constant, or no member of an object
    while True:  # commas within brackets of an initializer separate nothing
        shorter = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", text)
        if shorter == text:
            break
        text = shorter
    return "field", text.count(",") + 1


def classes(text):
    """The Shape of each class that is defined in text, from which comments and strings were taken."""
    found = []
    for match in HEAD.finditer(text):
        opens = match.end() - 1
        body, counts = text[opens + 1:matching(text, opens)], collections.Counter()
        for statement, access, _ in statements(body):
            what, n = kind(statement)
            counts[what] += n
            if what == "method" and (access or ("private" if match.group(1) == "class" else "public")) == "public":
                counts["public"] += n
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Shape(match.group(2), line, counts["method"], counts["public"], counts["field"]))
    return found


def check_classes(names, texts, strip, fault):
    """Faults of classes that are above a limit; `tests/tidy/classes.txt` has reasons, and the limits of single classes. Gives a report."""
    page, most, report, large, known = "tests/tidy/classes.txt", {}, [], set(), set()
    reasons = reasons_of(texts, page, fault)
    for key, reason in list(reasons.items()):
        limit = re.fullmatch(r"at most (\d+) methods", reason)
        if limit:
            most[key] = int(limit.group(1))
            del reasons[key]
    for name in names:
        if not name.startswith(LIBRARY) or not name.endswith((".h", ".cc", ".cu")):
            continue
        for shape in classes(strip(texts[name])):
            where, what = f"{name}:{shape.line}", f"class {shape.name} of {shape.public} public methods and {shape.fields} fields"
            known.add(shape.name)
            if shape.methods > most.get(shape.name, shape.methods):
                fault(where, f"class {shape.name} of {shape.methods} methods, at most {most[shape.name]} are wanted")
            if shape.public <= PUBLIC_METHODS and shape.fields <= FIELDS:
                continue
            large.add(shape.name)
            if shape.name in reasons and not name.startswith(STRICT):
                report.append(f"{where}: {what}: {reasons[shape.name]}")
            elif name.startswith(STRICT):
                fault(where, f"{what}: above {PUBLIC_METHODS} or {FIELDS}")
            else:
                fault(where, f"{what}: above {PUBLIC_METHODS} or {FIELDS}: make it parts, or say in {page} why it is one")
    if len(reasons) > ELSEWHERE_MOST:
        fault(page, f"{len(reasons)} large classes, at most {ELSEWHERE_MOST} are wanted")
    for key in sorted(set(reasons) - large) + sorted(set(most) - known):
        fault(page, f"{key} is not large, or gone: remove its line")
    return report
