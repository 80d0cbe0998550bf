# shellcheck shell=sh
# The scripts of this folder read it: how they look at a command, and end. The user's cache of weights and defaults are not for them.
export KVRT_CACHE=
unset KVRT_MODEL KVRT_STORE
export XDG_CONFIG_HOME=/nowhere
# A new folder, $work, to the script's end.
in_a_folder() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work" || exit
}
fail() {
  echo "cli: $*"
  exit 1
}
# is EXPECTED FOUND WHAT
is() { [ "$1" = "$2" ] || fail "$3: expected \"$1\", found \"$2\""; }
# exits CODE ARGUMENT...: of $kvrt; output in ./out, errors in ./err
exits() {
  code=$1
  shift
  status=0
  "${kvrt:?}" "$@" >out 2>err </dev/null || status=$?
  [ "$status" = "$code" ] || fail "kvrt $*: expected exit $code, found $status: $(cat out err)"
}
# json FILE EXPRESSION: of the object j, the last line of the file
json() { "${python:?}" -c 'import json, sys; j = json.loads(open(sys.argv[1]).readlines()[-1]); print(eval(sys.argv[2]))' "$1" "$2"; }
