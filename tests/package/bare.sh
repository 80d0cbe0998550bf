#!/bin/sh
# bare.sh SOURCE WORK: what the README begins with works in a Debian that has only what debootstrap installs, for root in /root and for a user with sudo
# whose home nobody else can read: ./dev demo, the line that it ends with, and ./dev test (its fast tier). So do the lines of Install.
# It needs root with the right to mount, debootstrap, and a way to the mirrors; some quarters of an hour.
set -eu
source=$1 work=$2
fail() {
  echo "bare: $*"
  exit 1
}
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/root.sh"

# block TEXT: the README's first lines of sh that have it.
block() { awk -v with="$1" '$0 == "```sh" {on = 1; text = ""; next} /^```$/ {if (on && index(text, with)) {print text; exit} on = 0} on {text = text $0 "\n"}' "$source/README.md"; }
# A README's first screen.
[ "$(head -40 "$source/README.md" | sed -n 's/^\(\.\/dev [a-z]*\).*/\1/p' | tr '\n' ' ')" = "./dev demo ./dev test " ] ||
  fail "expected ./dev demo and ./dev test in the README's first 40 lines, found $(head -40 "$source/README.md" | grep -n '^\./dev')"

# clone FOLDER: this repository's clone, with what is not committed.
clone() {
  git clone --quiet --no-hardlinks "$source" "$1"
  (cd "$source" && git ls-files -co --exclude-standard -z | tar -c --null --no-recursion -T - --ignore-failed-read 2>/dev/null) | tar -x --no-same-owner -C "$1"
}
# fetched: apt's downloads of the command that ran last, in MB.
fetched() { sed -n 's/^Need to get \([0-9.]*\) MB.*/\1/p; s/^Need to get .* kB.*/1/p' "$work/log" | awk '{sum += $1} END {print int(sum)}'; }
# What one root compiled serves the next, in $work/ccache: it is not the compiler that is tried here.
take_cache() {
  [ ! -e "$work/ccache" ] || { mkdir -p "$root$1/.cache" && cp -a "$work/ccache" "$root$1/.cache"; }
}
keep_cache() {
  rm -rf "$work/ccache"
  cp -a "$root$1/.cache/ccache" "$work"
}
# first_screen USER FOLDER PREFIX: the README's first two commands in the clone in FOLDER of $root, each with PREFIX before it.
first_screen() {
  inside "cd '$2' && $3 ./dev demo" "$1"
  grep -q ' logits: SHA-256' "$work/log" || fail "./dev demo as $1: no conversation went on: $(tail -20 "$work/log")"
  [ "$(fetched)" -le 130 ] || fail "./dev demo as $1 has apt fetch $(fetched) MB"
  line=$(tail -1 "$work/log")
  case $line in *"kvrt chat -m "*) ;; *) fail "./dev demo as $1 ends with $line" ;; esac
  inside "cd '$2' && echo 'What is a lighthouse?' | $line -n 8" "$1"
  grep -q '[a-z]' "$work/log" || fail "$line: $(cat "$work/log")"
  # The README's program, where the README has one type it, and the files that it leaves there before the tests.
  awk '$0 == "```python" {on = 1; next} /^```$/ {if (on) exit} on' "$source/README.md" >"$root$2/ann.py"
  inside "cd '$2' && $(block 'ln -s ')
$(block 'export PYTHONPATH')
python3 ann.py >/dev/null && python3 ann.py" "$1"
  grep -q '^(ann goes on: [1-9]' "$work/log" || fail "the README's program as $1 does not go on: $(cat "$work/log")"
  inside "cd '$2' && $3 ./dev test --quick" "$1"
  grep '^100% tests passed' "$work/log" || fail "./dev test --quick as $1: $(tail -40 "$work/log")"
  [ ! -e "$root$2/build/cuda" ] || fail "./dev test --quick fetches CUDA's compiler"
}

new_root
chmod 700 "$root/root"
clone "$root/root/kvrt"
take_cache /root
first_screen root /root/kvrt CI=1 # a tool that is missing is an error
keep_cache /root

new_root
inside 'apt-get update && apt-get install -y --no-install-recommends sudo && useradd --create-home --key HOME_MODE=0700 ann && echo "ann ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/ann'
clone "$root/home/ann/kvrt"
take_cache /home/ann
inside "chown -R ann: /home/ann"
first_screen ann /home/ann/kvrt ""

# Install, by root, who has no sudo: each block of lines is of the one before.
new_root
clone "$root/root/kvrt"
awk '$0 == "```c" {on = 1; next} /^```$/ {if (on) exit} on' "$source/include/README.md" >"$root/root/kvrt/example.c"
cp "$source/tests/golden/tiny/llama_gqa_f32.gguf" "$root/root/kvrt/model.gguf"
for text in 'cmake --preset user' 'cmake --install build/user && ' 'cmake --install build/user --prefix'; do
  lines=$(block "$text" | sed 's/sudo //g')
  [ -n "$lines" ] || fail "the README has no lines with $text"
  inside "cd kvrt && $lines"
  case $lines in
    *example.c*)
      inside "cd kvrt && rm -rf memory && ./example >/dev/null && ./example && rm example"
      grep -aq '^(ann goes on: [1-9]' "$work/log" || fail "the README's example does not go on: $(cat "$work/log")"
      ;;
  esac
done
echo "bare: ok, $suite of $mirror"
