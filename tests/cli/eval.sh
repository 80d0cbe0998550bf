#!/bin/sh
# eval.sh KVRT PYTHON TINY: kvrt eval: the same result with other threads and kernels and after an interruption, what is measured of the
# base against itself, gates, and what is refused.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 tiny=$3
in_a_folder

# A tiny model with room for long texts: it makes a token of most letters.
"$python" - "$tiny/llama_gqa_f32.gguf" <<'END'
import struct, sys
model = open(sys.argv[1], "rb").read()
key = b"llama.context_length" + struct.pack("<I", 4)  # a uint32
at = model.index(key) + len(key)
assert struct.unpack_from("<I", model, at) == (1024,)
open("model.gguf", "wb").write(model[:at] + struct.pack("<I", 1 << 16) + model[at + 4:])
END
few="-m model.gguf --no-weight-cache --tokens 128 --answer 32 --candidates f16,int8 --kv-bytes 64M"
small="$few --axes counting,rules,files,turns"

# shellcheck disable=SC2086 # words, here and below
exits 0 eval $small -o a --json
cp out a.out
json a.out 'j["result_sha256"]' >want
is "$(cat want)" "$("$python" -c 'import hashlib
text = open("a.json").read()
print(hashlib.sha256(text[text.index("\"result\": ") + 10:text.rindex(", \"run\": ")].encode()).hexdigest())')" "the hash of the result"
"$python" - <<'END'
import json
report = json.load(open("a.json"))
base, again, int8 = report["result"]["configurations"]
assert [c["configuration"] for c in (base, again, int8)] == ["f16", "f16 again", "int8"], report
assert again["divergence"]["most"] == 0 and again["flips"]["mean"] == 0 and again["divergence"]["n"] > 100 and again["text_divergence"]["n"] > 300, again["divergence"]
assert again["text_divergence"]["mean"] == 0 and again["text_divergence"]["per_mille_999"] == 0, again["text_divergence"]
assert again["text_divergence"]["log10"]["mean"] == -12 < int8["text_divergence"]["log10"]["mean"] < 0, (again["text_divergence"], int8)
assert int8["divergence"]["mean"] > 0 and int8["text_divergence"]["mean"] > 0, int8
assert "fidelity-kld" not in base and again["fidelity-kld"]["value"] == 0, again
assert int8["fidelity-kld"]["value"] == int8["text_divergence"]["mean"], int8["fidelity-kld"]
assert int8["fidelity-kld"]["positions"] == int8["text_divergence"]["n"] and len(int8["fidelity-kld"]["tokens_sha256"]) == 64
assert base["kv_bytes_per_token"] == again["kv_bytes_per_token"] > int8["kv_bytes_per_token"] > 0
assert base["rows"] == again["rows"] > 0
for axis, same in zip(base["axes"], again["axes"], strict=True):
    assert same["difference"] == {"mean": 0, "half_width_95": 0, "n": axis["score"]["n"]}, same
    assert same["agreement"]["mean"] == 1, same
names = {axis["name"]: axis for axis in base["axes"]}
assert set(names) == {"counting", "rules", "files", "turns"} and len(names["rules"]["parts"]) == 10
assert names["files"]["base_at_chance"] and names["files"]["score"]["n"] == 80, names["files"]
assert [s["scenario"] for s in report["result"]["samples"]] == ["easy", "average", "long", "malformed", "high-value"]
assert all(set(s["answers"]) == {"f16", "f16 again", "int8"} for s in report["result"]["samples"])
for run in report["run"]["configurations"]:
    assert run["seconds"] > 0 and run["kv_bytes_peak"] > 0, run
page = open("a.html").read()
assert page.count("<svg") >= 1 and "http" not in page.replace("http-equiv", "") and "<script" not in page, "a page that is whole by itself"
END
[ ! -e a.part ] || fail "the record of a run that ended is still there"

exits 0 eval $small -o b --threads 1
grep -q "^result sha256 $(cat want)\$" out || fail "another result with one thread: $(cat out)"
grep -q '^files  *80 .*at chance' out || fail "the table: $(cat out)"
exits 0 eval $few --axes counting -o b --json
cp out b.out
for how in "" "--threads 2" "--threads 1 --isa scalar" "--threads 2 --isa avx2"; do
  [ "${how#*avx2}" = "$how" ] || "$kvrt" run -m model.gguf --tokens 1,2 -n 1 --isa avx2 >/dev/null 2>&1 || continue
  exits 0 eval $few --axes counting -o b --json $how
  is "$(json b.out 'j["result_sha256"]')" "$(json out 'j["result_sha256"]')" "the result of another run: $how"
done

# A run whose end fails leaves its record; cut in the middle of a line it goes on to the same result.
mkdir c.json
exits 11 eval $small -o c
grep -q '^kvrt: cannot write c.json: ' err || fail "a report that cannot be written: $(cat err)"
exits 3 eval $small -o c
grep -q 'c.part is there, from a run that did not end: --resume goes on' err || fail "a second run: $(cat err)"
rmdir c.json
size=$(wc -c <c.part)
head -c $((size / 2)) c.part >half && mv half c.part
exits 10 eval $small -o c --resume --seed 2
grep -q 'is of a run with another model' err || fail "another seed: $(cat err)"
exits 0 eval $small -o c --resume --json
is "$(cat want)" "$(json out 'j["result_sha256"]')" "the result after an interruption"
exits 2 eval $small -o c --resume

# An axis that is a program
cat >asks.py <<'END'
import json, sys
def ask(**what):
    print(json.dumps(what), flush=True)
    return json.loads(sys.stdin.readline())
for i in range(6):
    first = ask(prompt=f"Say {i}.", tokens_max=4)["answer"]
    again = ask(messages=[{"role": "user", "content": f"Say {i}."}], tokens_max=4)["answer"]
    assert ask(score=0.25 + 0.5 * (first == again)) == {}
END
asks="$few --axes routing --program asks=\"$python asks.py\""
eval "exits 0 eval $asks -o d --json"
is "[6, 0.75, 0.0]" "$(json out '[[a["score"]["n"], a["score"]["mean"], a["difference"]["mean"]] for a in j["result"]["configurations"][2]["axes"] if a["name"] == "asks"][0]')" \
  "the scores of a program"
for bad in 'x' 'x=' '=true' 'needle=true' 'x=echo [1]' 'x=echo {}' 'x=true' 'x=exit 3' 'x=kill -9 $$' 'x=echo "{\"score\": 2}"' 'x=printf "{"'; do
  exits 1 eval -m model.gguf --no-weight-cache --tokens 128 --axes routing --candidates int8 --kv-bytes 64M -o e --program "$bad"
  grep -q '^kvrt: --program' err || fail "the program $bad: $(cat err)"
  rm -f e.part
done

# One that leaves a process behind, and one that does not end when its output did
exits 0 eval $few --axes routing -o e --program "asks=sleep 1000 & exec '$python' asks.py"
exits 0 eval $few --axes routing -o e --program "asks=exec 3>&1; '$python' asks.py >&3; exec 3>&- >&-; cat >/dev/null"

# A model without a chat template answers texts; a program's messages need one
"$python" -c 'open("plain.gguf", "wb").write(open("model.gguf", "rb").read().replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX"))'
plain="-m plain.gguf --no-weight-cache --tokens 128 --answer 32 --candidates f16 --kv-bytes 64M --axes turns -o e"
exits 0 eval $plain --json
is 0.0 "$(json out 'j["result"]["configurations"][1]["divergence"]["most"]')" "without a template, the base to itself"
exits 14 eval $plain --program "asks=$python asks.py"
grep -q 'the model has no chat template' err || fail "a program and no template: $(cat err)"

# A candidate that the model cannot have: its K and V are one row. The others go on, the report says so, and so does the exit code
"$python" - "$tiny/row_deepseek2.gguf" <<'END'
import struct, sys
model = bytearray(open(sys.argv[1], "rb").read())
key = b"deepseek2.context_length" + struct.pack("<I", 4)
struct.pack_into("<I", model, model.index(key) + len(key), 1 << 16)
open("latents.gguf", "wb").write(model)
END
latents="-m latents.gguf --no-weight-cache --tokens 128 --answer 16 --kv-bytes 64M --axes counting -o latents"
exits 1 eval $latents --candidates int8/f16,int8 --json
is "int8/f16 INVALID" "$(json out '" ".join(j["result"]["broken"][0][k] for k in ("configuration", "status"))')" "what broke"
is "['f16', 'int8']" "$(json out '[c["configuration"] for c in j["result"]["configurations"]]')" "what did not"
grep -q '^int8/f16 broke: cannot open the model .*expected one format; the run goes on without it$' err || fail "a format that cannot be: $(cat err)"
exits 1 eval $latents --candidates int8/f16
grep -q '^int8/f16 broke: ' out || fail "a run in which all candidates break: $(cat out)"

# Gates
echo '{"f16 again.divergence.mean": {"max": 0}, "f16 again.turns.difference": {"min": 0}, "int8.kv_bytes_per_token": {"max": 1e9}, "int8.fidelity-kld": {"min": 1e-12}}' >gate
exits 0 eval $small -o d --gate gate
echo '{"int8.text_divergence.mean": {"max": 0}, "int8.rules.te.score": {"min": 0}}' >gate
exits 20 eval $small -o d --gate gate
grep -q '^gate: int8.text_divergence.mean is .*, at most 0 is expected$' err || fail "a bound that does not hold: $(cat err)"
grep -q '^gate: there is no figure int8.rules.te.score; did you mean int8.rules.tea.score?$' err || fail "an unknown figure: $(cat err)"
echo '{"int8.tunrs.score": {"min": 0}}' >gate
exits 1 eval $small -o d --gate gate
grep -q '^kvrt: --gate: there is no figure int8.tunrs.score; did you mean int8.turns?' err || fail "an unknown axis: $(cat err)"
for bad in '[]' '{}' '{"a": 1}' '{"a": {"least": 1}}' '{"a": {"min": "1"}}' '{"a"'; do
  echo "$bad" >gate
  exits 1 eval $small -o d --gate gate
done
exits 2 eval $small -o d --gate nowhere

# What is refused
exits 1 eval -m model.gguf --candidates int9
grep -q 'int9 is no format of KV' err || fail "an unknown format: $(cat err)"
exits 1 eval -m model.gguf --candidates f16,int8,f16
exits 1 eval -m model.gguf --candidates int8,int8
exits 1 eval -m model.gguf --candidates int8/
exits 1 eval -m model.gguf --candidates int8 --axes neddle
grep -q 'there is no axis neddle; did you mean needle?' err || fail "an unknown axis: $(cat err)"
exits 1 eval -m model.gguf
exits 8 eval -m "$tiny/llama_gqa_f32.gguf" --candidates int8
grep -q 'context has 1024 tokens.*lower --tokens' err || fail "a context that is too short: $(cat err)"
exits 11 eval $small -o nowhere/x
