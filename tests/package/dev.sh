#!/bin/sh
# dev.sh SOURCE: ./dev package, wheel, demo and model ask a machine for the packages that they need, and for none of the tests'; the version of the packages
# says whether they are a release's; a SOURCE_DATE_EPOCH that is no number is an error that says so. Nothing is built: cmake and apt-get are noted.
# .ci/run calls ./dev test as continuous integration.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "dev: $*"
  exit 1
}
mkdir -p "$work/bin" "$work/tree/.ci" "$work/tree/packaging"
for file in dev CMakeLists.txt .ci/apt.txt .ci/apt-model.txt .ci/models.lock .ci/requirements.txt packaging/apt.txt; do cp "$source/$file" "$work/tree/$file"; done
printf '#!/bin/sh\nexit 1\n' >"$work/bin/dpkg-query" # nothing is installed
# shellcheck disable=SC2016 # for the stubs
printf '#!/bin/sh\n[ "$1" != install ] || printf "%%s\\n" "$@" >>"%s/asked"\n' "$work" >"$work/bin/apt-get"
# shellcheck disable=SC2016
printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/sudo"
printf '#!/bin/sh\nprintf "%%s\\n" "$@" >>"%s/cmake"\nexit 9\n' "$work" >"$work/bin/cmake"
printf '#!/bin/sh\nexit 9\n' >"$work/bin/python3"
chmod +x "$work"/bin/*
dev() { (cd "$work/tree" && PATH=$work/bin:$PATH ./dev "$@" >"$work/log" 2>&1); }
unset SOURCE_DATE_EPOCH 2>/dev/null || true
# The repository is the one that is made here, whatever a hook or a rebase of the caller's is about, and no setting is a user's.
# shellcheck disable=SC2046 # words
unset $(git rev-parse --local-env-vars)
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1

# asks COMMAND FILE...: for the packages of these lists, of .ci/apt.txt for those above the tests'.
asks() {
  command=$1
  shift
  (cd "$source" && sed -s -e '/^# tests/,$d' -e '/^#/d' "$@") | sort -u >"$work/needed"
  rm -f "$work/asked"
  # shellcheck disable=SC2086 # words
  dev $command && fail "$command: expected to end at the stubs, found exit 0"
  grep -v -e '^-' -e '^install$' "$work/asked" | sort -u >"$work/named" || fail "$command asks for no packages: $(cat "$work/log")"
  cmp -s "$work/needed" "$work/named" || fail "$command asks for other packages than it needs: $(diff "$work/needed" "$work/named")"
}
asks "package $work/out" .ci/apt.txt packaging/apt.txt
asks wheel .ci/apt.txt packaging/apt.txt
export XDG_CACHE_HOME="$work/cache" # no model is there
asks demo .ci/apt.txt .ci/apt-model.txt
asks model .ci/apt-model.txt

# Packages that are installed for two architectures are installed.
mv "$work/bin/dpkg-query" "$work/nothing"
# shellcheck disable=SC2016 # for the stub
printf '#!/bin/sh\nline=$(printf %%s "$3" | sed "s/[$]{db:Status-Status}/installed/")\nprintf "$line$line"\n' >"$work/bin/dpkg-query"
chmod +x "$work/bin/dpkg-query"
rm -f "$work/asked"
dev wheel && fail "wheel: expected to end at the stubs, found exit 0"
[ ! -e "$work/asked" ] || fail "packages of two architectures are asked for again: $(cat "$work/asked")"
mv "$work/nothing" "$work/bin/dpkg-query"

# A source of packages that fails, as others' may, ends nothing.
mv "$work/bin/apt-get" "$work/apt-get"
# shellcheck disable=SC2016 # for the stub
printf '#!/bin/sh\n[ "$1" != update ] || exit 100\nexec "%s/apt-get" "$@"\n' "$work" >"$work/bin/apt-get"
chmod +x "$work/bin/apt-get"
asks wheel .ci/apt.txt packaging/apt.txt
mv "$work/apt-get" "$work/bin/apt-get"

# says WORDS COMMAND: it ends, and this is what it says, before it asks for a package.
says() {
  rm -f "$work/asked"
  words=$1
  shift
  "$@" && fail "$*: expected to fail with \"$words\", found exit 0"
  grep -qF -- "$words" "$work/log" || fail "$*: expected \"$words\", found $(cat "$work/log")"
  [ ! -e "$work/asked" ] || fail "$*: asks for packages: $(cat "$work/asked")"
}
# alone STUB...: dev wheel with these stubs and a few tools, and nothing else.
alone() {
  rm -rf "$work/few"
  mkdir "$work/few"
  for tool in sh sed grep tr dirname cat uname id env; do ln -s "$(command -v $tool)" "$work/few"; done
  for stub in "$@"; do ln -sf "$work/bin/$stub" "$work/few"; done
  (cd "$work/tree" && PATH=$work/few ./dev wheel >"$work/log" 2>&1)
}
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
chmod +x "$work/bin/id"
says "as root: apt-get update && apt-get install --no-install-recommends g++ cmake" alone id dpkg-query # no sudo: what somebody else is to type
rm "$work/bin/id"
says "these packages or their like: g++ cmake" alone cmake # no Debian: it goes on, and ends at a stub
[ ! -e "$work/tree/build" ] || rm -r "$work/tree/build"
printf '#!/bin/sh\necho Linux aarch64\n' >"$work/bin/uname"
chmod +x "$work/bin/uname"
for command in demo build test wheel; do says "kvrt runs on Linux on x86-64 so far; this machine is Linux aarch64" dev $command; done
rm "$work/bin/uname"
if [ "$(id -u)" = 0 ]; then # by sudo, in a checkout of the user's
  chown 12345 "$work/tree"
  export SUDO_USER=ann
  says "run it without sudo" dev demo
  says "run it without sudo" dev test --quick
  chown 0 "$work/tree"
  SUDO_USER=root asks wheel .ci/apt.txt packaging/apt.txt
  unset SUDO_USER
fi

# version EXPECTED: an extended regular expression.
version() {
  rm -f "$work/cmake"
  dev package deb "$work/out" && fail "expected to end at the stubs, found exit 0"
  found=$(sed -n 's/^-DKVRT_PACKAGE_VERSION=//p' "$work/cmake") || fail "cmake is not called: $(cat "$work/log")"
  printf '%s\n' "$found" | grep -qxE "$1" || fail "version: expected $1, found $found: $(cat "$work/log")"
}
git_() { TZ=Pacific/Kiritimati GIT_COMMITTER_DATE='1750000000 +1400' git -C "$work/tree" -c user.name=a -c user.email=a@b "$@"; }
release=$(sed -n 's/^project(kvrt VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
exact=$(printf %s "$release" | sed 's/\./\\./g')
version "$exact" # sources without git
git_ init -q
git_ add .
git_ commit -qm a
later="$exact\\+git20250615150640\\.$(git_ rev-parse HEAD | cut -c1-12)"
version "$later"
dpkg --compare-versions "$release-1" lt "$found-1" || fail "$found-1 does not sort behind the release"
dpkg --compare-versions "$found-1" lt "$release.1-1" || fail "$found-1 does not sort before the next release"
git_ tag "v$release"
version "$exact"
echo '# changed' >>"$work/tree/CMakeLists.txt"
version "$later\\.dirty"

for date in abc -1 1.5 12345678901; do
  for command in "package $work/out" wheel; do
    # shellcheck disable=SC2086 # words
    SOURCE_DATE_EPOCH=$date dev $command && fail "SOURCE_DATE_EPOCH=$date $command: exit 0"
    grep -qx "dev: SOURCE_DATE_EPOCH: expected seconds since 1970, 1 to 10 digits, found \"$date\"" "$work/log" || fail "SOURCE_DATE_EPOCH=$date $command: $(cat "$work/log")"
    [ "$(wc -l <"$work/log")" = 1 ] || fail "SOURCE_DATE_EPOCH=$date $command: $(cat "$work/log")"
  done
done

mkdir -p "$work/ci/.ci"
cp "$source/.ci/run" "$work/ci/.ci/run"
# shellcheck disable=SC2016 # for the stub
printf '#!/bin/sh\necho "$* ${CI:-}"\n' >"$work/ci/dev"
chmod +x "$work/ci/dev"
found=$(env -u CI "$work/ci/.ci/run" --quick)
[ "$found" = "test --quick 1" ] || fail ".ci/run: expected ./dev test with CI=1, found $found"
echo "dev: ok"
