"""Pieces of SVG that read well on light and dark pages."""
from xml.sax.saxutils import escape

MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
SANS = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"
# Name of a class: fill in light and in dark.
COLOURS = {
    "page": ("#ffffff", "#0d1117"), "frame": ("#d0d7de", "#30363d"), "ink": ("#1f2328", "#e6edf3"), "dim": ("#59636e", "#9198a1"),
    "ours": ("#0b6bcb", "#58a6ff"), "theirs": ("#a0a8b0", "#6e7681"), "other": ("#b35900", "#e3903c"), "third": ("#6f42c1", "#b08aff"),
    "bad": ("#c0262d", "#ff7b72"), "good": ("#1a7f37", "#56d364"),
}


def style(extra=""):
    def rules(dark):
        return "".join(f".{name}{{fill:{colour[dark]}}}.l-{name}{{stroke:{colour[dark]};fill:none}}" for name, colour in COLOURS.items())

    base = f"text{{font:13px {SANS}}}.m{{font-family:{MONO};font-size:13px;white-space:pre}}.b{{font-weight:bold}}.s{{font-size:12px}}"
    return f"<style>{base}{rules(0)}@media(prefers-color-scheme:dark){{{rules(1)}}}{extra}</style>"


def text(x, y, what, names="ink", anchor="start", more=""):
    anchor = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" class="{names}"{anchor}{more}>{escape(what)}</text>'


def box(x, y, width, height, names, radius=0, more=""):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{names}" rx="{radius:g}"{more}/>'


def line(points, names, width=1.5):
    return f'<path d="M{" L".join(f"{x:g} {y:g}" for x, y in points)}" class="l-{names}" stroke-width="{width:g}"/>'


def picture(width, height, title, description, parts, extra=""):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
            f'aria-labelledby="t d">\n<title id="t">{escape(title)}</title>\n<desc id="d">{escape(description)}</desc>\n')
    frame = box(0.5, 0.5, width - 1, height - 1, "page", 8) + box(0.5, 0.5, width - 1, height - 1, "l-frame", 8)
    return head + style(extra) + "\n" + "\n".join([frame, *parts]) + "\n</svg>\n"
