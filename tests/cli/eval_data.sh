#!/bin/sh
# eval_data.sh KVRT PYTHON TINY: kvrt eval --data: the same result with other threads and kernels and after an interruption, its figures and
# gates, and what is refused.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
in_a_folder

# A tiny model with room for texts, and a folder
"$python" - "$tiny/llama_gqa_f32.gguf" "$tiny/../../data/text_kjv.txt" <<'END'
import json, os, struct, sys
model = bytearray(open(sys.argv[1], "rb").read())
key = b"llama.context_length" + struct.pack("<I", 4)  # a uint32
struct.pack_into("<I", model, model.index(key) + len(key), 1 << 16)
open("model.gguf", "wb").write(model)
verses = open(sys.argv[2]).read().splitlines()
os.makedirs("data/choices"), os.makedirs("data/text"), os.makedirs("one/text")
with open("data/choices/verses.jsonl", "w") as out:
    for i in range(10):
        out.write(json.dumps({"prompt": verses[i][:40], "choices": [v[40:60] for v in verses[i:i + 2 + i % 3]], "answer": i % 2}) + "\n\n")
open("data/choices/many.jsonl", "w").write(json.dumps({"prompt": "Twelve:", "choices": [str(n) for n in range(40)], "answer": 12}))
open("data/text/kjv.txt", "w").write("\n".join(verses[:20]))
open("one/text/kjv.txt", "w").write("\n".join(verses[:3]))
END
few="-m model.gguf --no-weight-cache --tokens 128 --answer 16 --candidates f16,int8 --kv-bytes 64M"
data="$few --axes choices,text --data data"

# shellcheck disable=SC2086 # words, here and below
exits 0 eval $data -o a --json
json out 'j["result_sha256"]' >want
"$python" - <<'END'
import hashlib, json, math
report = json.load(open("a.json"))
base, again, int8 = report["result"]["configurations"]
files = report["result"]["data"]["files"]
assert [(f["name"], f["items"]) for f in files] == [("choices/many", 1), ("choices/verses", 10), ("text/kjv", 0)], files
for f, path in zip(files, ("choices/many.jsonl", "choices/verses.jsonl", "text/kjv.txt")):
    content = open("data/" + path, "rb").read()
    assert (f["sha256"], f["bytes"]) == (hashlib.sha256(content).hexdigest(), len(content)), f
listed = "".join(f"{f['sha256']}  {f['name']}\n" for f in files)
assert report["result"]["data"]["sha256"] == hashlib.sha256(listed.encode()).hexdigest()
for configuration in (base, again, int8):
    many, verses = configuration["axes"]
    assert (many["name"], many["score"]["n"], verses["name"], verses["score"]["n"]) == ("choices/many", 1, "choices/verses", 10)
    assert many["chance"] == 0.025 and abs(verses["chance"] - sum(1 / (2 + i % 3) for i in range(10)) / 10) < 1e-9
    assert [p["name"] for p in verses["parts"]] == ["acc", "acc_norm", "acc_bytes", "probability"]
    assert verses["score"]["mean"] == verses["parts"][0]["score"]["mean"] and 0 < verses["parts"][3]["score"]["mean"] < 1
    (text,) = configuration["texts"]
    assert text["bits_per_byte"]["n"] > text["windows"] * 100 and text["windows"] > 5 and text["bits_per_byte"]["half_width_95"] > 0
    assert abs(text["byte_perplexity"] - 2 ** text["bits_per_byte"]["mean"]) < 1e-6 * text["byte_perplexity"]
    assert abs(math.log(text["word_perplexity"]) * text["words"] / math.log(text["byte_perplexity"]) - text["bytes"]) < 1e-4
assert again["axes"] == base["axes"] and again["texts"] == base["texts"] and again["rows"] == base["rows"]
assert int8["texts"][0]["difference"]["mean"] != 0 and int8["axes"][1]["parts"][3]["difference"]["mean"] != 0, int8
page = open("a.html").read()
assert "bits a byte" in page and "choices/verses" in page and "text/kjv" in page
END

# With other threads and kernels; with an axis beside a text, and more of its questions
exits 0 eval $data -o b --json --threads 1 --isa scalar
is "$(cat want)" "$(json out 'j["result_sha256"]')" "the result of one thread and scalar kernels"
exits 0 eval $few --axes counting,text --data data --times 2 -o b
grep -q '^counting  *96 ' out || fail "an axis beside a text: $(cat out)"
grep -q '^text/kjv ' out || fail "a text beside an axis: $(cat out)"
if grep -q '^choices/' out; then fail "an axis that --axes leaves out: $(cat out)"; fi

# Cut within what was scored; other data
mkdir c.json
exits 11 eval $data -o c
rmdir c.json
cp c.part whole
head -c $(($(wc -c <whole) / 4)) whole >c.part
exits 0 eval $data -o c --resume --json
is "$(cat want)" "$(json out 'j["result_sha256"]')" "the result after an interruption"
cp whole c.part
printf ' ' >>data/text/kjv.txt
exits 10 eval $data -o c --resume
rm c.part

# Gates
cat >gate <<'END'
{"f16 again.text/kjv.difference": {"min": 0, "max": 0}, "int8.choices/verses.acc_norm.score": {"min": 0, "max": 1},
 "int8.choices/verses.probability.difference": {"min": -1}, "int8.text/kjv.word_perplexity": {"min": 1}}
END
exits 0 eval $data -o b --gate gate
echo '{"int8.text/kjv.bits_per_byte": {"max": 0.5}}' >gate
exits 20 eval $data -o b --gate gate
grep -q '^gate: int8.text/kjv.bits_per_byte is .*, at most 0.5 is expected$' err || fail "a bound that does not hold: $(cat err)"
echo '{"int8.text/kjw.bits_per_byte": {"max": 0.5}}' >gate
exits 1 eval $data -o b --gate gate
grep -q 'there is no figure int8.text/kjw.bits_per_byte' err || fail "an unknown text: $(cat err)"

# Lines that are none
refused() {
  printf '%s\n' '{"prompt": "a", "choices": ["b", "c"], "answer": 1, "subject": "not read"}' "$1" >bad/choices/x.jsonl
  exits 1 eval $few --axes choices --data bad -o b
  grep -q "^kvrt: --data: bad/choices/x.jsonl:2: $2" err || fail "the line $1: $(cat err)"
}
mkdir -p bad/choices
for line in '[]' '{' 'x' '"a"' '{"prompt": "a"'; do refused "$line" 'a JSON object is expected: {"prompt"'; done
for line in '{"choices": ["b", "c"], "answer": 1}' '{"prompt": 5, "choices": ["b", "c"], "answer": 1}'; do
  refused "$line" '"prompt": a text is expected'
done
for choices in '"b"' '[]' '["b"]' '["b", ""]' '["b", 1]' 'null'; do
  refused "{\"prompt\": \"a\", \"choices\": $choices, \"answer\": 0}" '"choices": a list of two or more texts that are not empty is expected'
done
for answer in 2 -1 '"b"' 0.5 null 99999999999999999999; do
  refused "{\"prompt\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": $answer}" '"answer": the place of the right choice is expected, 0 to 1, found '
done
refused '{"prompt": "a", "choices": ["b", "c"]}' '"answer": .* found nothing'
refused '{"prompt": "a", "delimiter": 1, "choices": ["b", "c"], "answer": 0}' '"delimiter": a text is expected'
long=$("$python" -c 'print("word " * 200)')
refused "{\"prompt\": \"$long\", \"choices\": [\"b\", \"c\"], \"answer\": 0}" 'choice 0: it has [0-9]* tokens with the prompt, more than the 128 of --tokens'
rm b.part

# Files and folders that are none
: >bad/choices/x.jsonl
exits 1 eval $few --data bad -o b
grep -q 'x.jsonl:1: no line is there' err || fail "a file without a line: $(cat err)"
rm bad/choices/x.jsonl
exits 2 eval $few --data bad -o b
grep -q 'bad has neither choices/\*.jsonl nor text/\*.txt' err || fail "an empty folder: $(cat err)"
exits 2 eval $few --data nowhere -o b
mkdir bad/text
: >bad/text/x.txt
exits 1 eval $few --data bad -o b
printf 'a\nb\377c' >bad/text/x.txt
exits 1 eval $few --data bad -o b
grep -q 'bad/text/x.txt:2: UTF-8 is expected' err || fail "bytes that are no text: $(cat err)"
exits 1 eval $few --data one --axes choices -o b
grep -q -e '--axes: choices needs a folder with choices/\*.jsonl' err || fail "an axis without data: $(cat err)"
exits 1 eval $few --axes text -o b
grep -q -e '--axes: text needs a folder' err || fail "an axis without data: $(cat err)"
exits 1 eval $few --data one --axes counting -o b
grep -q -e '--data: --axes names neither choices nor text' err || fail "data that no axis has: $(cat err)"
exits 1 eval $few --data data --program 'text/kjv=true' -o b
grep -q 'there is an axis text/kjv already' err || fail "a program of the same name: $(cat err)"
