#!/bin/sh
# python.sh SOURCE WORK PYTHON LIBRARY: makes the wheel, installs it into a new environment, and runs the package's own tests there,
# away from the source tree (KVRT_WHEEL_PROJECT: the wheel is of this folder, not of SOURCE's), with the libraries of PRELOAD first. With TYPES=1 it checks types instead: mypy, and basedpyright (which brings a Node.js of PyPI's).
set -eu
source=$1 work=$2 python=$3 library=$4
rm -rf "$work"
mkdir -p "$work"
cp -r "$source/bindings/python/tests" "$work/tests"
export KVRT_WHEEL_LIBRARY="$library" KVRT_SOURCE_DIR="$source" PYTHONDONTWRITEBYTECODE=1
unset KVRT_LIBRARY PYTHONPATH || true
"$python" -m pip wheel --quiet --disable-pip-version-check --no-index --no-build-isolation --no-deps -w "$work" "${KVRT_WHEEL_PROJECT:-$source/bindings/python}"
"$python" -m venv --without-pip "$work/venv"
"$python" -m pip --python "$work/venv/bin/python" install --quiet --disable-pip-version-check --no-index --no-deps "$work"/kvrt-*.whl
cd "$work/tests"
if [ "${TYPES:-0}" = 1 ]; then
  example() { sed -n "/^\`\`\`python\$/,/^\`\`\`\$/p" "$1" | sed "/^\`\`\`/d"; }
  example "$source/bindings/python/README.md" >example.py
  example "$source/bindings/README.md" >all.py
  example "$source/README.md" >readme.py
  set -- "$python" -m mypy --strict --python-executable "$work/venv/bin/python" --cache-dir "$work/mypy"
  "$@" -p kvrt
  "$@" readme.py
  "$@" all.py
  "$@" example.py "$source/samples/chat_asyncio.py"
  "$@" "$source/bindings/python/examples/agent.py"
  "$@" "$source/bindings/python/examples/rag.py"
  PATH="$work/venv/bin:$PATH" # the public names, as an editor sees them
  "$python" -m basedpyright --ignoreexternal --verifytypes kvrt >verified.txt || { cat verified.txt && exit 1; }
  "$python" -m basedpyright --level error example.py
  cd "$source/bindings/python" # strict, as pyproject.toml says
  exec "$python" -m basedpyright kvrt examples
fi
# No -X dev with a sanitizer: it would slow that build down, and the other build has it.
if [ -n "${PRELOAD:-}" ]; then
  LD_PRELOAD=$PRELOAD exec "$work/venv/bin/python" -m unittest
fi
exec "$work/venv/bin/python" -X dev -W error::ResourceWarning -m unittest
