"""Random template expressions by a grammar over typed values; one seed gives one list."""
import random

STRINGS = ["", "a", "Hello World", "  pad \t", "a,b,,c", "x=1;y=22", "it's", 'say "hi"', "line1\nline2\r\n\nline4", "é日本👍", "ÄÖÜ straße", "<b>&amp;</b>", "12", "-7", "3.5", " 42 ", "true", "tool_call", "{'a': 1}",
           "the quick brown fox jumps over", "AAA", "a-b (c) [d]", "%s and %d", "{} {0}", "ﬁ ǆ", "ΑΣ ΣΑΣ", "tab\tx", "\u2028sep", "null\u0000byte", "0x1F", "1e3", "ends.", "ab" * 9]
INTS = [0, 1, 2, 3, 5, 7, 10, 42, 100, 255, 1000, 123456789, -1, -2, -3, -10, -100]
FLOATS = [0.0, 0.5, 1.0, 1.5, 2.25, 3.14159, 10.0, 1e16, 1e-5, 123456.789, -0.5, -2.75, 0.1, 2.5, 1e22]
VARIABLES = {
    "s": "Some Text, here", "t": "  <think>\nplan\n</think>\n\nanswer ", "u": "naïve café 日本語 👍🏽", "empty": "", "i": 7, "neg": -3, "zero": 0, "f": 2.5, "big": 1e20, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "mixed": [1, "a", None, 2.5, True, [1, 2], {"k": "v"}], "nested": [[1, 2], [3], []],
    "d": {"a": 1, "b": [True, None], "name": "f", "items": 9}, "objs": [{"n": "x", "v": 2, "ok": True}, {"n": "Y", "v": 1, "ok": False}, {"n": "x", "v": 3, "ok": True, "deep": {"p": "q"}}],
    "roles": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}],
}


def quote(s):
    q = '"' if "'" in s and '"' not in s else "'"
    body = s.replace("\\", "\\\\").replace(q, "\\" + q)
    return q + body.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\0", "\\0") + q


def closed(expression):
    """In brackets, so that the text behind it is not taken for a part of its filter or test."""
    return f"({expression})" if "|" in expression or " is " in expression else expression


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def any(self, depth):
        return self.pick(depth, [self.string, self.string, self.integer, self.real, self.boolean, self.list, self.list, self.dict, self.loose])

    def pick(self, depth, makers):
        return self.r.choice(makers)(depth)

    def small(self):
        return str(self.r.choice([0, 1, 2, 3, 4, 8, -1, -2]))

    def leaf(self, depth, literal, names):
        return self.r.choice(names) if self.r.random() < 0.4 else literal()

    def loose(self, depth):
        """An expression that may fail: wrong types, things that are not there."""
        r = self.r
        if depth <= 0:
            return r.choice(["missing", "nil", "d.nope", "l[9]", "roles[0].tool_calls", "none", "namespace(a=1)", "range(3)", "d['b']", "objs[0]", "dict(a=1, b='x')"])
        depth -= 1
        return closed(r.choice([
            lambda: f"({self.any(depth)} {r.choice(['+', '-', '*', '/', '//', '%', '**', '~'])} {self.any(depth)})",
            lambda: f"({self.any(depth)} if {self.any(depth)} else {self.any(depth)})",
            lambda: f"({self.any(depth)} {r.choice(['and', 'or'])} {self.any(depth)})",
            lambda: f"{self.container(depth)}[{self.any(depth)}]",
            lambda: f"{self.any(depth)}.{r.choice(['a', 'name', 'n', 'role', 'x'])}",
            lambda: f"{self.any(depth)}|{r.choice(['first', 'last', 'list', 'length', 'int', 'float', 'string', 'sum', 'min', 'max', 'sort', 'unique|list', 'reverse|list', 'abs', 'round', 'upper', 'items|list', 'tojson', 'dictsort', 'default(1)', 'title', 'trim', 'capitalize'])}",
            lambda: f"{self.any(depth)}|attr({r.choice(['a', 'n', 'upper', 'get'])!r}) is defined",
            lambda: f"{self.list(depth)}|{r.choice(['first', 'last', 'min', 'max', 'sum'])}",
            lambda: f"{self.dict(depth)}.get({self.string(0)}, {self.any(depth)})",
        ])())

    def string(self, depth):
        r = self.r
        if depth <= 0:
            return self.leaf(depth, lambda: quote(r.choice(STRINGS)), ["s", "t", "u", "empty", "d.name", "roles[0].content", "words[1]", "roles[1]['role']"])
        depth -= 1
        s, n = (lambda: self.string(depth)), self.small
        return closed(r.choice([
            lambda: f"({s()} + {s()})", lambda: f"({s()} ~ {self.any(depth)})", lambda: f"({s()} * {n()})", lambda: f"{s()}[{n()}]", lambda: f"{s()}[{n()}:{n()}]",
            lambda: f"{s()}[{r.choice(['', n()])}:{r.choice(['', n()])}:{r.choice(['2', '-1', '3', '-2', '1'])}]",
            lambda: f"{s()}.{r.choice(['upper', 'lower', 'title', 'capitalize', 'swapcase', 'strip', 'lstrip', 'rstrip', 'expandtabs'])}()",
            lambda: f"{s()}.{r.choice(['strip', 'lstrip', 'rstrip'])}({quote(r.choice(['a', ' x', 'é', 'abc ', '<>']))})",
            lambda: f"{s()}.replace({s()}, {s()}{r.choice(['', ', 1', ', 0', ', -1'])})", lambda: f"{s()}|replace({s()}, {self.any(0)})",
            lambda: f"{s()}.{r.choice(['center', 'ljust', 'rjust', 'zfill'])}({r.choice(['0', '5', '12', '21'])})", lambda: f"{s()}.{r.choice(['center', 'ljust', 'rjust'])}(11, '*')",
            lambda: f"{s()}.{r.choice(['removeprefix', 'removesuffix'])}({s()})", lambda: f"{s()}.join({self.strings(depth)})", lambda: f"{self.list(depth)}|join({r.choice(['', quote(', ')])})",
            lambda: f"{s()}|{r.choice(['upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'reverse', 'e|length'])}", lambda: f"{self.any(depth)}|string", lambda: f"{self.any(depth)}|tojson",
            lambda: f"{self.any(depth)}|tojson({r.choice(['indent=2', 'indent=4', 'ensure_ascii=True', 'separators=(%s, %s)' % (quote(','), quote(':')), 'sort_keys=true', 'indent=0'])})",
            lambda: f"{s()}|indent({r.choice(['2', '', '4, true', 'width=3, blank=true', quote('> ')])})", lambda: f"{s()}|truncate({r.choice(['5', '8, true', '10, false, %s' % quote('..'), '7, leeway=0', '3'])})",
            lambda: f"{s()}|center({n()})", lambda: f"({quote(r.choice(['%s', '%s-%s', '%d', '%5d|', '%-5s|', '%05.1f', '%x', '%r', '%%', '%+d', '%3.2s|', '%e', '%g', '%o', '%i%%', '%#x', '%(a)s', '%s %s %s']))} % {r.choice([self.any, self.pair])(depth)})",
            lambda: f"{quote(r.choice(['%s', '%s and %s', '%d', '%.2f']))}|format({self.any(depth)}{r.choice(['', ', ' + self.any(depth)])})",
            lambda: f"{quote(r.choice(['{}', '{} {}', '{0}{0}', '{:>8}', '{:<6}|', '{:^7}|', '{:*^9}', '{:05d}', '{:.2f}', '{:,}', '{:x}', '{!r}', '{0.name}', '{0[a]}', '{{}}', '{:+}', '{a}', '{:%}', '{:e}', '{:>6.2}']))}.format({self.any(depth)}{r.choice(['', ', ' + self.any(depth)])})",
            lambda: f"{s()}.partition({s()})[{r.choice(['0', '1', '2', '-1'])}]", lambda: f"{s()}.split({s()})|last", lambda: f"{s()}.rsplit({quote(r.choice([' ', ',', 'a']))}, 1)|first",
            lambda: f"({s()} if {self.boolean(depth)} else {s()})", lambda: f"{s()}|default({s()}, true)", lambda: f"{self.integer(depth)}|filesizeformat",
            lambda: self.markup(depth), lambda: self.markup(depth),
        ])())

    def markup(self, depth):
        """Texts of |safe and |escape among others."""
        r = self.r
        s, n = (lambda: self.string(depth)), self.small
        m = lambda: f"({s()}|{r.choice(['safe', 'safe', 'e'])})"
        return closed(r.choice([
            lambda: f"({m()} + {s()})", lambda: f"({s()} + {m()})", lambda: f"({m()} + {m()} + {s()})", lambda: f"({m()} ~ {self.any(depth)})", lambda: f"({m()} * {n()} + {s()})",
            lambda: f"({m()}.{r.choice(['strip()', 'upper()', 'title()', 'lstrip(%s)' % quote(' a'), 'split(%s)|last' % quote(','), 'splitlines()|first', 'center(9)', 'removeprefix(%s)' % quote('a')])} + {s()})",
            lambda: f"({m()}|{r.choice(['trim', 'upper', 'lower', 'title', 'replace(%s, %s)' % (quote('a'), quote('<')), 'string', 'center(7)', 'capitalize', 'default(1)', 'e', 'tojson', 'length|string'])} + {s()})",
            lambda: f"({m()}[{n()}] + {s()})", lambda: f"({m()}[{n()}:] + {s()})", lambda: f"({m()}[::-1] + {s()})", lambda: f"[{m()}, {s()}]|join({m()})", lambda: f"{s()}.join([{m()}, {s()}])", lambda: f"({quote('%s-<')} % {m()})",
            lambda: f"({quote('{:>6}<{}')}.format({m()}, {m()}) + {m()})", lambda: f"{s()}.replace({m()}, {m()})", lambda: f"({m()} in {s()})", lambda: f"({m()} == {s()})", lambda: f"({m()}.startswith({s()}))", lambda: f"{m()}.find({s()})", lambda: f"({m()} + {self.any(depth)})",
        ])())

    def pair(self, depth):
        return f"({self.any(depth)}, {self.any(depth)})"

    def strings(self, depth):
        return self.r.choice([lambda: "words", lambda: f"[{self.string(depth - 1)}, {self.string(depth - 1)}]", lambda: f"{self.string(depth - 1)}.split()", lambda: f"words|map('upper')", lambda: "objs|map(attribute='n')|list", lambda: "d.keys()"])()

    def integer(self, depth):
        r = self.r
        if depth <= 0:
            return self.leaf(depth, lambda: str(r.choice(INTS)), ["i", "neg", "zero", "d.a", "l[0]", "l|length"])
        depth -= 1
        n = lambda: self.integer(depth)
        return closed(r.choice([
            lambda: f"({n()} {r.choice(['+', '-', '*', '//', '%'])} {n()})", lambda: f"(-{n()})", lambda: f"({n()} ** {r.choice(['0', '1', '2', '3', '-1'])})", lambda: f"{n()}|abs", lambda: f"{self.any(depth)}|int", lambda: f"{self.any(depth)}|int({n()})",
            lambda: f"{self.container(depth)}|length", lambda: f"{self.string(depth)}.{r.choice(['find', 'rfind', 'count', 'index', 'rindex'])}({self.string(depth)}{r.choice(['', ', 1', ', 1, -1', ', -3'])})", lambda: f"{self.numbers(depth)}|{r.choice(['sum', 'min', 'max', 'first', 'last'])}",
            lambda: f"objs|{r.choice(['sum', 'max'])}(attribute='v')", lambda: f"{self.list(depth)}.{r.choice(['index', 'count'])}({self.any(depth)})", lambda: f"{self.string(depth)}|wordcount", lambda: f"({n()}|round)", lambda: f"({n()} if {self.boolean(depth)} else {n()})",
        ])())

    def numbers(self, depth):
        return self.r.choice(["l", "[4, 2, 9]", "range(4)", "range(10, 0, -3)", "[i, neg, zero]", "nested[0]", "objs|map(attribute='v')", "range(2, 6)|list"])

    def real(self, depth):
        r = self.r
        if depth <= 0:
            return self.leaf(depth, lambda: repr(r.choice(FLOATS)), ["f", "big"])
        depth -= 1
        x = lambda: self.real(depth)
        return closed(r.choice([
            lambda: f"({x()} {r.choice(['+', '-', '*', '/', '//', '%'])} {r.choice([x, lambda: self.integer(depth)])()})", lambda: f"({self.integer(depth)} / {self.integer(depth)})", lambda: f"(-{x()})", lambda: f"{x()}|abs",
            lambda: f"{self.any(depth)}|float", lambda: f"{x()}|round({r.choice(['', '1', '2', '0, %s' % quote('ceil'), '1, %s' % quote('floor'), '3'])})", lambda: f"({x()} ** {r.choice(['2', '0.5', '-1'])})",
        ])())

    def boolean(self, depth):
        r = self.r
        if depth <= 0:
            return self.leaf(depth, lambda: r.choice(["true", "false", "True", "False"]), ["yes", "no"])
        depth -= 1
        a, s = (lambda: self.any(depth)), (lambda: self.string(depth))
        return closed(r.choice([
            lambda: f"({a()} == {a()})", lambda: f"({a()} != {a()})", lambda: f"({self.integer(depth)} {r.choice(['<', '<=', '>', '>='])} {r.choice([self.integer, self.real, self.any])(depth)})", lambda: f"({s()} {r.choice(['<', '>', '<=', '>='])} {s()})",
            lambda: f"({self.integer(depth)} < {self.integer(depth)} {r.choice(['<', '<=', '>', '!=', '=='])} {self.integer(depth)})", lambda: f"({self.list(depth)} {r.choice(['<', '>', '<='])} {self.list(depth)})", lambda: f"({a()} {r.choice(['in', 'not in'])} {self.container(depth)})",
            lambda: f"({s()} in {s()})", lambda: f"(not {a()})", lambda: f"({self.boolean(depth)} {r.choice(['and', 'or'])} {self.boolean(depth)})",
            lambda: f"({a()} is {r.choice(['', 'not '])}{r.choice(['defined', 'undefined', 'none', 'string', 'number', 'integer', 'float', 'boolean', 'mapping', 'sequence', 'iterable', 'true', 'false', 'callable', 'odd', 'even', 'lower', 'upper', 'escaped'])})",
            lambda: f"({a()} is {r.choice(['eq', 'ne', 'in', 'lt', 'ge', 'sameas', 'equalto', 'divisibleby'])}({a()}))", lambda: f"({self.integer(depth)} is divisibleby {self.r.choice(['2', '3', '5'])})",
            lambda: f"{s()}.{r.choice(['startswith', 'endswith'])}({r.choice([s, lambda: '(%s, %s)' % (s(), s())])()}{r.choice(['', '', ', 1', ', 1, 3'])})",
            lambda: f"{s()}.{r.choice(['isalpha', 'isdigit', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isnumeric', 'isdecimal', 'isascii', 'isidentifier', 'isprintable'])}()",
        ])())

    def list(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(["l", "words", "mixed", "nested", "objs", "roles", "[]", "[1, 2]", "['x', 'y']", "d.b", "(1, 'a')", "()", "(1,)"])
        depth -= 1
        a, x = (lambda: self.any(depth)), (lambda: self.list(depth))
        test = lambda: r.choice(["'string'", "'number'", "'odd'", "'defined'", "'none'", "'in', [1, 'a', 'fig']", "'eq', 1", "'mapping'", "'gt', 1", "'ne', none"])
        return closed(r.choice([
            lambda: f"[{', '.join(a() for _ in range(r.randrange(4)))}]", lambda: f"({a()}, {a()})", lambda: f"({x()} + {x()})", lambda: f"({x()} * {r.choice(['0', '2', '-1', '3'])})", lambda: f"{x()}[{self.small()}:{self.small()}]", lambda: f"{x()}[{r.choice(['', self.small()])}:{r.choice(['', self.small()])}:{r.choice(['-1', '2', '-2'])}]",
            lambda: f"{self.string(depth)}.{r.choice(['split', 'rsplit'])}({r.choice(['', quote(','), quote(' '), 'none, 1', quote('a') + ', 1', 'maxsplit=2', self.string(0)])})", lambda: f"{self.string(depth)}.splitlines({r.choice(['', 'true'])})", lambda: f"{self.container(depth)}|list", lambda: f"{x()}|reverse|list",
            lambda: f"{x()}|sort({r.choice(['', 'reverse=true', 'case_sensitive=true'])})", lambda: f"{self.strings(depth)}|sort({r.choice(['', 'true', 'case_sensitive=true'])})", lambda: f"{x()}|unique|list", lambda: f"words|unique({r.choice(['', 'true'])})|list", lambda: f"objs|sort(attribute={r.choice(['n', 'v', 'n,v', 'nope'])!r})",
            lambda: f"{x()}|{r.choice(['select', 'reject'])}({r.choice(['', test()])})|list", lambda: f"objs|{r.choice(['selectattr', 'rejectattr'])}({r.choice(['n', 'v', 'ok', 'deep', 'deep.p'])!r}{r.choice(['', ', ' + test()])})|list",
            lambda: f"{r.choice(['nil', 'missing', 'empty', 'zero', 'no', '{}', '[]', '()', '0.0', 'd.nope', 'yes', 'i', 's'])}|{r.choice(['select', 'reject', 'selectattr(%s)' % quote('a'), 'rejectattr', 'map(%s)' % quote('upper'), 'map(attribute=%s)' % quote('a'), 'map', 'selectattr', 'select(%s)' % quote('odd'), 'rejectattr(%s, %s, 1)' % (quote('a'), quote('eq'))])}|list",
            lambda: f"{x()}|map({r.choice(['upper', 'length', 'string', 'int', 'first', 'list', 'tojson', 'trim'])!r})|list", lambda: f"objs|map(attribute={r.choice(['n', 'v', 'deep.p', 'nope'])!r}{r.choice(['', ', default=0'])})|list", lambda: f"{x()}|batch({r.choice(['2', '3', '1, 0', '2, %s' % quote('-')])})|list",
            lambda: f"{x()}|slice({r.choice(['2', '3', '2, 0'])})|list", lambda: f"objs|groupby({r.choice(['n', 'v', 'ok'])!r})", lambda: f"{self.dict(depth)}|dictsort({r.choice(['', 'true', 'by=%s' % quote('value'), 'reverse=true'])})", lambda: f"{self.dict(depth)}.{r.choice(['items', 'keys', 'values'])}()|list", lambda: f"{self.dict(depth)}|items|list",
            lambda: f"{self.string(depth)}.{r.choice(['partition', 'rpartition'])}({self.string(depth)})", lambda: f"{self.numbers(depth)}|list", lambda: f"({x()} if {self.boolean(depth)} else {x()})", lambda: f"{x()}.copy()",
        ])())

    def dict(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(["d", "objs[0]", "roles[1]", "{}", "{'a': 1, 'B': 'x'}", "{'z': none, 'a': [1]}", "dict(k=1)", "{1: 'one', 2.5: 'f', none: 0}"])
        depth -= 1
        return closed(r.choice([
            lambda: "{" + ", ".join(f"{quote(r.choice('abcde'))}: {self.any(depth)}" for _ in range(r.randrange(4))) + "}", lambda: f"dict(a={self.any(depth)}, b={self.any(depth)})", lambda: f"dict({self.dict(depth)}, c={self.any(depth)})", lambda: f"{self.dict(depth)}.copy()", lambda: f"dict({self.dict(depth)}.items())",
        ])())

    def container(self, depth):
        return self.r.choice([self.list, self.list, self.string, self.dict, lambda depth: f"{self.dict(depth)}.{self.r.choice(['keys', 'values', 'items'])}()", lambda depth: self.numbers(depth)])(depth)


def expressions(seed, count):
    generator = Generator(seed)
    return ["{{ " + generator.any(generator.r.choice([1, 2, 2, 3, 3, 4])) + " }}" for _ in range(count)]
