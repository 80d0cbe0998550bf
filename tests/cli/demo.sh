#!/bin/sh
# demo.sh KVRT: ./dev demo's program on the real weights.
set -eu
model=${KVRT_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/kvrt/models/SmolLM2-135M-Instruct.Q4_1.gguf}
[ -r "$model" ] || {
  echo "demo: no model $model"
  exit 77
}
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
"$1" demo -m "$model" --store "$store"
