#!/bin/sh
# store.sh KVRT PYTHON TINY: kvrt store show and ls, names and messages that attack a terminal, and kvrt doctor's view of a store.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
model=$tiny/llama_gqa_f32.gguf
in_a_folder
holder=
trap 'rm -rf "$work"; [ -z "$holder" ] || kill "$holder" 2>/dev/null || true' EXIT
# json EXPRESSION: of the object j, the last line of ./out; r is that of ./run
json() {
  "$python" -c 'import hashlib, json, struct, sys
last = lambda name: json.loads(open(name).readlines()[-1])
j, r = last("out"), last("run")
print(eval(sys.argv[1]))' "$1"
}
# no_controls: the output cannot attack a terminal
no_controls() {
  "$python" -c 'import re, sys
for name in ("out", "err"):
    text = open(name, "rb").read().decode()
    found = re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    if found: sys.exit(f"{name}: {ascii(found.group())} in {ascii(text)}")' || fail "$1: a control character was printed"
}

text="The lamp is lit at dusk; the log says who came, who left and what the wind did. Nobody is late for dinner on the island."
evil=$(printf 'ev\033]0;owned\007\302\233\342\200\256il')
printf '%s' "Who
are\\you? $(printf '\033[2J\302\205\342\201\246\r')" >question

exits 0 run -m "$model" -p "$text" -n 8 --store store --session ann --json
exits 0 run -m "$model" --fork-from ann --session bob -p " And" -n 4 --store store --json
exits 0 run -m "$model" --store store --session ann -n 3 --json
cp out run

# show: the words of run, the figures of stat, and keys by the format's own rule
exits 0 store show store ann --json
is "ann 2 True" "$(json 'j["name"] + " " + str(j["revision"]) + " " + str(j["tokens"][-3:] == r["tokens"])')" "store show"
is True "$(json 'len(j["tokens"]) == r["prompt_tokens"] + 3')" "tokens of store show"
cat >keys.py <<'END2'
import hashlib, json, struct
j = json.loads(open("out").readline())
key, at = bytes.fromhex(j["root"]), 0
for c in j["chunks"]:
    assert c["begin"] == at < c["end"], c
    at = c["end"]
    key = hashlib.blake2b(b"".join(b"\0" + struct.pack("<i", t) for t in j["tokens"][c["begin"]:at]), key=key, digest_size=32).digest()
    assert key.hex() == c["key"], c
assert len(j["chunks"]) == (len(j["tokens"]) + 30) // 32, "the last token has no KV yet"
print(sum(c["bytes"] for c in j["chunks"]), sum(c["bytes"] > 0 for c in j["chunks"]), j["id"])
END2
shown=$("$python" keys.py) || fail "the chunks of store show"
exits 0 store stat store ann --json
is "$shown" "$(json 'str(j["bytes"]) + " " + str(j["chunks"]) + " " + j["id"]')" "store show and store stat"
exits 0 store show store ann bob
is 2 "$(grep -c 'tokens, 0 messages, revision' out)" "store show of two"
grep -q '\[32, 64) ' out || fail "store show: no span of a chunk: $(cat out)"
exits 2 store show store nobody
exits 2 store show nowhere ann
exits 1 store show store
exits 1 store show store ""

# shared bytes: the bytes of one session alone are those that go with it
exits 0 store ls store
grep -q '^NAME .*OWN .*SHARED' out || fail "store ls: $(cat out)"
tail -n 1 out | grep -q '^2 sessions, ' || fail "store ls has no sum: $(cat out)"
exits 0 store stat store bob --json
own=$(json 'j["bytes"] - j["bytes_shared"]')
exits 0 store stat store --json
before=$(json 'j["chunk_bytes"]')
exits 0 store rm store bob
exits 0 store stat store --json
is "$own" "$((before - $(json 'j["chunk_bytes"]')))" "bytes that went with bob"
is "0 0" "$(json 'str(j["chunks_damaged"]) + " " + str(j["read_only"])')" "store stat of a store that can be written"

# names and messages are spelled out for a terminal, and exact in JSON
exits 0 run -m "$model" --chat -f question -n 4 --store store --session "$evil" --json
cp out run
exits 0 store ls store
no_controls "store ls"
grep -q '^ev\\x1b\]0;owned\\x07\\u009b\\u202eil ' out || fail "store ls: $(cat out)"
exits 0 store show store "$evil"
no_controls "store show"
grep -q '^  user \[0, [0-9]*)$' out || fail "store show has no message of the user: $(cat out)"
grep -q '^  assistant \[[0-9]*, [0-9]*) generated$' out || fail "store show has no answer: $(cat out)"
grep -q '^    are\\you? \\x1b\[2J\\u0085\\u2066\\x0d$' out || fail "store show: $(cat out)"
exits 0 store show store "$evil" --json
is True "$(json 'j["messages"][0] == {"role": "user", "content": open("question", newline="").read()}')" "a message in JSON"
is True "$(json 'j["messages"][1]["role"] == "assistant" and j["messages"][1]["content"] == r["text"]')" "the answer in JSON: $(cat out run)"
is "True True" "$(json 'str(j["spans"][1]["generated"]) + " " + str(j["tokens"][j["spans"][1]["begin"]:j["spans"][1]["end"]] == r["tokens"])')" "its span"

# ls: 100 columns at most, whatever the sessions are called
exits 0 run -m "$model" -p "$text" -n 0 --store wide --session a
exits 0 store ls wide
is "NAME TOKENS OWN SHARED REV SAVED EXPIRES" "$(head -n 1 out | tr -s ' ')" "the columns of store ls without domains"
long=a-name-that-is-as-long-as-the-names-that-programs-make
exits 0 run -m "$model" -p "$text" -n 0 --store wide --session $long --domain a-domain-of-a-tenant
exits 0 run -m "$model" -p "$text" -n 0 --store wide --session 日本の灯台の守り人の長い長い会話 --domain tenant
exits 0 store ttl wide 日本の灯台の守り人の長い長い会話 30d --domain tenant
exits 0 store pin wide a
exits 0 store ls wide
grep -q "^$long  a-domain-of-a-tenant\$" out || fail "store ls: a long name has no line of its own: $(cat out)"
"$python" -c 'import unicodedata
lines = open("out").read().splitlines()
columns = lambda line: sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)
assert max(map(columns, lines)) <= 100, lines
at = {columns(line[:line.index(" 20")]) for line in lines if " 20" in line}
assert len(at) == 1, f"the times do not stand below each other: {at} {lines}"' || fail "store ls is wider than 100 columns: $(cat out)"

# graph: every block once, and nothing in a name is markup
exits 0 run -m "$model" --fork-from ann --session '<script>alert(1)</script>" onload="x&' -p " And so on, until the morning came" -n 40 --store store --json
exits 0 store stat store --json
chunks=$(json 'j["chunks"]')
exits 0 store graph store -o graph.svg
cat >graph.py <<'END2'
import sys, xml.etree.ElementTree as tree
root = tree.parse("graph.svg").getroot()
svg = "{http://www.w3.org/2000/svg}"
every = list(root.iter())
assert {e.tag for e in every} == {svg + n for n in ("svg", "title", "desc", "style", "rect", "text", "g", "path")}, {e.tag for e in every}
assert not [a for e in every for a in e.attrib if a.startswith("on") or "href" in a]
texts = [e.text for e in root.iter(svg + "text")]
assert '<script>alert(1)</script>" o…' in texts and "ev\\x1b]0;owned\\x07\\u009b\\u20…" in texts, texts
titles = [e.text for e in root.iter(svg + "title")]
assert '<script>alert(1)</script>" onload="x&' in titles and "tokens 0 to 64: 2 blocks in 2 sessions" in " ".join(titles), titles
blocks = [e for e in root.iter(svg + "rect") if e.get("class") in ("all", "own")][2:]  # without the legend's
assert len(blocks) == int(sys.argv[1]) and f"{sys.argv[1]} on disk, each once" in root.find(svg + "desc").text, (len(blocks), root.find(svg + "desc").text)
END2
"$python" graph.py "$chunks" || fail "store graph: $(cat graph.svg)"
cp graph.svg first.svg
exits 1 store graph store -o graph.pdf
grep -q 'expected -o FILE.svg or FILE.html, found graph.pdf' err || fail "graph of a PDF: $(cat err)"
[ ! -e graph.pdf ] || fail "graph writes what is no PDF"
exits 0 store graph store -o graph.html
"$python" -c 'import html.parser
page, picture = open("graph.html").read(), open("first.svg").read()
assert page.startswith("<!DOCTYPE html>\n<html lang=\"en\">") and page.count(picture) == 1, page[:300]
class Tags(html.parser.HTMLParser):
    found = []
    def handle_starttag(self, tag, attributes):
        self.found.append(tag)
tags = Tags()
tags.feed(page)
assert "script" not in tags.found and tags.found.index("title") < tags.found.index("body") < tags.found.index("svg"), tags.found' ||
  fail "store graph as a page: $(cat graph.html)"
exits 0 store graph store
cmp -s out first.svg || fail "store graph on standard output"
exits 0 store graph store --domain nobody
grep -q '>0 sessions, 0 blocks' out || fail "store graph of an empty domain: $(cat out)"
exits 11 store graph store -o no/such/folder.svg
exits 2 store graph nowhere
exits 0 store rm store '<script>alert(1)</script>" onload="x&'
exits 0 store mv store ann "$(printf 'no\357\277\276 xml\357\277\277')" # U+FFFE and U+FFFF
exits 0 store graph store -o graph.svg
"$python" -c 'import xml.etree.ElementTree as tree; tree.parse("graph.svg")' || fail "store graph: characters that XML has not"
exits 0 store mv store "$(printf 'no\357\277\276 xml\357\277\277')" ann

for command in rm show stat; do
  exits 2 store $command store "x$evil"
  no_controls "store $command"
done
exits 3 store mv store "$evil" ann
no_controls "store mv"

# damage is said
"$python" -c 'import sqlite3
db = sqlite3.connect("store/catalog.db")
db.execute("UPDATE sessions SET manifest = substr(manifest, 1, length(manifest) - 1) WHERE name <> ?", ("ann",))
db.commit()' || fail "sqlite3"
exits 9 store show store "$evil"
grep -q 'kvrt: .*(CORRUPT)' err || fail "no reason for CORRUPT: $(cat err)"
no_controls "the name of a damaged session"
exits 9 store graph store -o graph.svg
grep -q ">ann<" graph.svg || fail "store graph leaves out what can be read: $(cat graph.svg)"
is "" "$(cat out)" "what is shown of a damaged session"
exits 0 store show store ann
exits 9 store verify store
no_controls "store verify"
"$python" -c 'import os, subprocess, sys
ends = os.pipe()
os.close(ends[0])
sys.exit(subprocess.run(sys.argv[1:], stdout=ends[1]).returncode)' "$kvrt" store verify store 2>err && status=0 || status=$?
is 141 "$status" "store verify without a reader: $(cat err)"
exits 0 store rm store "$evil"

# the leftovers of migrations and repairs
mkdir -m 700 store/damaged-1
for old in store/catalog.db.old store/damaged-1/catalog.db; do head -c 3000 /dev/zero >$old && chmod 600 $old; done
exits 0 store stat store
for line in '  old      catalog.db.old, ' '  old      damaged-1, '; do grep -q "^$line" out || fail "stat: no line like $line: $(cat out)"; done
exits 0 store stat store --json
is 6000 "$(json 'j["old_bytes"]')" "store stat"
exits 0 doctor --store store
for line in 'catalog.db.old, ' 'damaged-1, '; do grep -q "^warn .*$line.*kvrt store gc --old" out || fail "doctor: no line like $line: $(cat out)"; done
exits 0 store gc store --old --json
is "6000 0" "$(json 'str(j["old_bytes"]) + " " + str(j["log_bytes_kept"])')" "store gc --old"
if [ -e store/catalog.db.old ] || [ -e store/damaged-1 ]; then fail "store gc --old left $(ls store)"; fi

# doctor. A store may be a mount point, with a folder that is the file system's
mkdir -m 755 store/lost+found
chown 1:1 store/lost+found 2>/dev/null || true
exits 0 doctor --store store
rmdir store/lost+found
for line in "^ok .*store .*mode 700" "^[a-z]* *filesystem" "^[a-z]* *space .*floor" "^[a-z]* *fsync .* ms on average" "^ok .*files .*600 and 700" \
  "^ok .*open .*no other process" "^ok .*leftovers .*none" "^ok .*store .*1 session," "^ok .*library .*sqlite [0-9.]*"; do
  grep -q "$line" out || fail "doctor: no line like $line: $(cat out)"
done
if grep -E '^ok .*(cannot| lose|lost|fault|fail|error|UNSUPPORTED)' out; then fail "doctor: a line that is ok reads as an alarm"; fi
if grep 'lost+found' out; then fail "doctor complains of lost+found"; fi
version=$(sed -n 's/^ok .*sqlite \(3\.[0-9.]*\).*/\1/p' out)
"$python" -c 'import sys
known = (3, 7, 0) <= tuple(map(int, sys.argv[1].split("."))) < (3, 51, 3)
sys.exit(("WAL reset" in open("out").read()) != known)' "$version" || fail "doctor on SQLite $version: $(cat out)"
# A catalog whose journal mode another program changed: it can be read, and nothing can be saved to it.
cp -a store unlogged
"$python" -c 'import sqlite3; sqlite3.connect("unlogged/catalog.db").execute("PRAGMA journal_mode=DELETE")'
for command in "doctor unlogged" "store verify unlogged"; do
  # shellcheck disable=SC2086 # words
  if "$kvrt" $command >out 2>err; then fail "$command, of another journal mode"; fi
  grep -q 'journal mode' out err || fail "$command, of another journal mode: $(cat out err)"
done
exits 0 store repair unlogged
exits 0 doctor unlogged
exits 0 store verify unlogged
cp -R store "a store"
chmod 750 "a store"
mkdir -m 700 "a store/damaged-1"
exits 0 doctor "a store"
# shellcheck disable=SC2016 # no expression
for cure in 'chmod 700 "a store"$' '`kvrt store verify "a store"`' '`kvrt store gc --old "a store"`'; do
  grep -q "$cure" out || fail "doctor: no cure like $cure: $(cat out)"
done
cp -R store loose
chmod 750 loose
chmod 640 loose/catalog.db
: >loose/tmp/left
chmod 600 loose/tmp/left
exits 0 doctor loose
for line in "^warn .*store .*mode 750.*chmod 700" "^warn .*files .*catalog.db has mode 640: chmod 600" "^warn .*leftovers .*1 unfinished"; do
  grep -q "$line" out || fail "doctor: no line like $line: $(cat out)"
done
ln -s /etc/passwd loose/segs/link
mkfifo -m 600 loose/segs/fifo
ln loose/FORMAT loose/tmp/second
rm loose/tmp/left
exits 1 doctor loose
grep -q '^fail .*segs/link is a symbolic link' out || fail "doctor on a link: $(cat out)"
grep -q '^fail .*/\(FORMAT\|second\) has a second name' out || fail "doctor on a hard link: $(cat out)"
grep -q '^fail .*segs/fifo is neither a file nor a folder' out || fail "doctor on a FIFO: $(cat out)"
chmod 770 loose
exits 1 doctor loose
grep -q '^fail .*can be written by others.*chmod 700' out || fail "doctor on mode 770: $(cat out)"
exits 1 doctor question
exits 2 doctor no/where
exits 0 doctor later
[ ! -e later ] || fail "doctor made a directory"
is "" "$(find store -newer keys.py -name '.*')" "what doctor left behind"
mkfifo words
"$kvrt" chat -m "$model" --store store --session talk -n 1 <words >/dev/null 2>&1 &
holder=$!
exec 3>words
tries=0
until { "$kvrt" doctor store || true; } >out 2>err && grep -q "^ok .*open .*(process $holder) has it open" out; do
  tries=$((tries + 1))
  [ $tries -lt 100 ] || fail "doctor does not see who has the store open: $(cat out)"
  sleep 0.05
done
exec 3>&-
wait "$holder" || fail "kvrt chat ended with $?"
holder=
echo "cli store: ok"
