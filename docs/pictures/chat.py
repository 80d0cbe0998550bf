"""The recording of two terminals as one animated SVG; without animation it shows how it ends."""
from xml.sax.saxutils import escape

from svg import box, line, picture, text
from terminal import Terminal

CELL, LINE, COLUMNS, ROWS = 7.83, 18, 100, 38
LEFT, TOP, STAY = 20, 50, 6  # STAY: seconds that the end stays; the film begins in their middle, so that its first picture is full


def segments(data, pane):
    """What appears, as [line, column, text, style, from, until]; and how many lines there were at which time."""
    terminal, shown, found, heights = Terminal(COLUMNS), {}, [], []
    for at, which, written in data["recording"]:
        if which != pane:
            continue
        terminal.feed(written.encode("utf-8", "surrogateescape"))
        for row, cells in enumerate(terminal.lines):
            before = shown.get(row, [])
            if cells == before:
                continue
            start = len(before) if cells[:len(before)] == before else 0
            if start == 0:
                for segment in found:
                    if segment[0] == row and segment[5] is None:
                        segment[5] = at
            for column in range(start, len(cells)):
                character, style = cells[column]
                last = found[-1] if found else None
                if column > start and last[3] == style:
                    last[2] += character
                else:
                    found.append([row, column, character, style, at, None])
            shown[row] = list(cells)
        used = max((row + 1 for row, cells in enumerate(terminal.lines) if cells), default=1)
        if not heights or heights[-1][1] != used:
            heights.append((at, used))
    return found, heights


class Film:
    """Names of keyframes; the same times have one name."""

    def __init__(self, length):
        self.length, self.names, self.css = length, {}, []

    def steps(self, prop, values):
        """values: [(seconds, value)], the first from 0 on."""
        key = (prop, tuple(values))
        if key not in self.names:
            name = self.names[key] = f"a{len(self.names)}"
            frames = "".join(f"{100 * at / self.length:.2f}%{{{prop}:{value}}}" for at, value in values)
            self.css.append(f"@keyframes {name}{{{frames}100%{{{prop}:{values[-1][1]}}}}}")
        return self.names[key]

    def seen(self, since, until=None):
        values = [(0, 0), (since, 1)] + ([(until, 0)] if until else [])
        return self.steps("opacity", values)


def pane(data, number, film, top, rows):
    found, heights = segments(data, number)
    parts = []
    for row, column, what, style, since, until in found:
        if not what.strip() or (until is not None and until - since < 0.05):
            continue
        names = "m a " + {"": "ink", "b": "ink b", "g": "good"}[style] + (" gone" if until else "")
        length = f' textLength="{len(what) * CELL:.1f}"' if len(what) > 1 else ""
        parts.append(f'<text x="{LEFT + column * CELL:.1f}" y="{top + row * LINE + 13}" class="{names}"{length} '
                     f'style="animation-name:{film.seen(since, until)}">{escape(what)}</text>')
    moves = [(0, 0)] + [(at, (used - rows) * LINE) for at, used in heights if used > rows]
    by = "translateY({}px)".format
    name = film.steps("transform", [(at, by(-move)) for at, move in moves])
    clip = f'<clipPath id="c{number}">{box(0, top - 2, 2 * LEFT + COLUMNS * CELL, rows * LINE + 4, "page")}</clipPath>'
    return [clip, f'<g clip-path="url(#c{number})"><g class="a" style="transform:{by(-moves[-1][1])};animation-name:{name}">', *parts, "</g></g>"]


def check(data):
    """The last picture has the line that the recording is about, and no word is broken by the edge."""
    terminal = Terminal(COLUMNS)
    for _, which, written in data["recording"]:
        if which == 0:
            terminal.feed(written.encode("utf-8", "surrogateescape"))
    lines = ["".join(character for character, _ in cells) for cells in terminal.lines]
    assert any(row.startswith("ann goes on: ") for row in lines[-ROWS:]), lines[-ROWS:]
    assert not terminal.broken, terminal.broken


def chat(data, about):
    check(data)
    film = Film(data["recording"][-1][0] + STAY)
    end = film.seen(data["recording"][-1][0])
    killed = next(at for at, number, said in data["recording"] if number == 0 and "Killed" in said)
    width = 2 * LEFT + COLUMNS * CELL
    second = TOP + ROWS * LINE + 40
    bars = second + 2 * LINE + 44
    before, resumed, after = data["before"], data["resumed"], data["after"]
    after_ms = resumed["ms"] + after["ms"]
    scale = 300 / before["ms"]
    parts = [
        text(LEFT, 28, "one terminal, keys typed by a script", "dim s"), *pane(data, 0, film, TOP, ROWS), line([(0, second - 28), (width, second - 28)], "frame", 1),
        text(LEFT, second - 10, "another terminal", "dim s"), *pane(data, 1, film, second, 2),
        line([(0, bars - 30), (width, bars - 30)], "frame", 1),
        text(LEFT, bars - 8, "to the first token of an answer", "ink b"),
        text(LEFT, bars + 16, "a new conversation", "ink s"), box(190, bars + 5, 300, 14, "theirs", 2),
        text(500, bars + 16, f"{before['ms']} ms: {before['computed']} tokens computed", "ink s"),
        f'<g class="a" style="animation-name:{end}">', text(LEFT, bars + 38, "after kill -9", "ink s"),
        box(190, bars + 27, after_ms * scale, 14, "ours", 2),
        text(200 + after_ms * scale, bars + 38, f"{after_ms} ms: {resumed['disk']} tokens from disk in {resumed['ms']}, "
             f"{after['computed']} computed in {after['ms']}", "ink s"), "</g>",
        f'<g class="a gone" style="animation-name:{film.seen(killed, killed + 2.5)}">', text(width - LEFT, 28, "kill -9", "bad b", "end"), "</g>",
        text(LEFT, bars + 64, about(data) + "; the median of five runs", "dim s"),
    ]
    what = (f"A chat in a terminal, killed by kill -9 in the middle of an answer. A new process says: ann goes on: {resumed['tokens']} tokens, "
            f"{resumed['disk']} from disk, in {resumed['ms']} ms. It goes on with the answer. The first token of a new conversation took {before['ms']} ms, and "
            f"after the kill {after_ms} ms.")
    motion = f".gone{{opacity:0}}@media(prefers-reduced-motion:no-preference){{.a{{animation:{film.length:.2f}s step-end -{film.length - STAY / 2:.2f}s infinite}}}}" + "".join(film.css)
    return picture(width, bars + 80, "kvrt chat is killed and goes on", what, parts, motion)
