#!/usr/bin/env python3
"""links.py SOURCE: every link and picture of the tree's Markdown names a file or folder of the tree, with a heading where it has an anchor."""
import pathlib
import re
import subprocess
import sys

source = pathlib.Path(sys.argv[1]).resolve()
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


out = subprocess.run(["git", "-C", source, "ls-files", "-co", "--exclude-standard", "-z", "*.md"], capture_output=True, text=True)
pages = [source / name for name in out.stdout.split("\0") if name] if out.returncode == 0 else [p for p in source.rglob("*.md") if "build" not in p.parts]
links = faults = 0
for page in pages:
    for link in LINK.findall(CODE.sub("", page.read_text())):
        links += 1
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if link.startswith(("https://", "http://")):
            continue
        if not target.exists() or not target.is_relative_to(source):
            faults += 1
            print(f"{page.relative_to(source)}: {link}: no such file")
        elif anchor and anchor not in anchors(target):
            faults += 1
            print(f"{page.relative_to(source)}: {link}: no such heading")
print(f"links: {len(pages)} pages, {links} links, {faults} faults")
sys.exit(faults > 0 or not links)
