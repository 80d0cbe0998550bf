#!/bin/sh
# reproducible.sh SOURCE OUT: packages and wheel are built twice, from copies of the tree in two folders, with two clocks, time zones, locales and masks, without a compiler
# cache: all files have the same bytes. The first are left in OUT for the other tests. It takes half an hour, and PyPI once.
set -eu
source=$1 out=$2
fail() {
  echo "reproducible: $*"
  exit 1
}
command -v faketime >/dev/null || fail "it needs a second clock: apt-get install faketime"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out" "$work/a" "$work/another folder with a longer name/b"

# make FOLDER OUT: what is to be the same.
make() {
  (cd "$source" && git ls-files -co --exclude-standard -z | tar -c --null --no-recursion -T - --ignore-failed-read) | tar -x -C "$1"
  (
    export CCACHE_DISABLE=1 SOURCE_DATE_EPOCH=1750000000
    # The wheel's tests, which come behind it, are not for a clock that is wrong.
    cd "$1" && ./dev package "$2" && { ./dev wheel || :; } && cp build/wheel/test/*.whl "$2"
  ) >"$2.log" 2>&1 || fail "$1: $(tail -30 "$2.log")"
}
(umask 022 && TZ=UTC LC_ALL=C && export TZ LC_ALL && make "$work/a" "$work/first")
# shellcheck disable=SC2016 # for the inner shell
(
  umask 077 && TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 && export TZ LC_ALL
  # Files and compilers see a clock that is 400 days ahead. A wait has the real one: sem_clockwait would take 400 days.
  LD_PRELOAD=$(faketime -f +400d printenv LD_PRELOAD) FAKETIME=+400d NO_FAKE_STAT=1 FAKETIME_DONT_FAKE_MONOTONIC=1
  export LD_PRELOAD FAKETIME NO_FAKE_STAT FAKETIME_DONT_FAKE_MONOTONIC
  [ "$(date +%Y)" != "$(env -u LD_PRELOAD date +%Y)" ] || fail "faketime moves no clock"
  # pip would find that certificates have expired.
  mkdir "$work/another folder with a longer name/b/build"
  cp -r "$work/a/build/tools" "$work/another folder with a longer name/b/build"
  make "$work/another folder with a longer name/b" "$work/second"
)
cp "$work/first"/* "$out"
[ "$(ls "$work/first")" = "$(ls "$work/second")" ] || fail "other files: $(ls "$work/first" "$work/second")"
[ "$(find "$work/first" -name '*.deb' -o -name '*.tar.gz' -o -name '*.json' -o -name '*.whl' | wc -l)" -ge 6 ] || fail "too few files: $(ls "$work/first")"
different=''
for file in "$work/first"/*; do
  cmp -s "$file" "$work/second/$(basename "$file")" || different="$different $(basename "$file")"
done
if [ -n "$different" ]; then
  # Which of the files inside they are.
  for side in first second; do
    mkdir "$work/$side.inside"
    for file in "$work/$side"/*.deb; do dpkg-deb -R "$file" "$work/$side.inside/$(basename "$file")"; done
    for file in "$work/$side"/*.tar.gz; do tar -C "$work/$side.inside" -xzf "$file"; done
    for file in "$work/$side"/*.whl; do python3 -m zipfile -e "$file" "$work/$side.inside/$(basename "$file")"; done
  done
  diff -rq "$work/first.inside" "$work/second.inside" || true
  fail "other bytes in$different"
fi
(cd "$out" && sha256sum -- *)
echo "reproducible: ok"
