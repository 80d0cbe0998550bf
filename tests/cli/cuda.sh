#!/bin/sh
# cuda.sh KVRT PYTHON TINY LIBRARY: the program's options of a CUDA device, on the emulated one that LIBRARY is.
set -eu
. "$(dirname "$0")/lib.sh"
kvrt=$1 python=$2 model=$3/llama_gqa_q4_1.gguf library=$4
in_a_folder
on_cuda() { exits 0 run -m "$model" --device cuda --cuda-library "$library" --json --digest "$@"; }
tokens=1$(seq -s '' -f ',%.0f' 5 2 91)

exits 0 doctor --cuda-library "$library"
grep -q '^ok .*cuda.*works' out || fail "doctor: $(cat out)"
grep -q '^warn .*cuda.*no cuBLASLt: .*libcublas-13-0' out || fail "doctor without cuBLASLt: $(cat out)"
KVRT_EMULATED_CUBLASLT=1
export KVRT_EMULATED_CUBLASLT
exits 0 doctor --cuda-library "$library"
unset KVRT_EMULATED_CUBLASLT
grep -q '^ok .*cuda.*cuBLASLt [0-9]' out || fail "doctor with cuBLASLt: $(cat out)"
exits 0 doctor --cuda-library "$work/none.so"
grep -q "cuda.*$work/none.so" out || fail "doctor without a library: $(cat out)"
exits 14 run -m "$model" --device cuda --cuda-library "$work/none.so" --tokens 1,2
grep -q "$work/none.so" err || fail "no library: $(cat err)"

# Strict is an arithmetic of its own: KV that one has saved is nothing to the other.
on_cuda --tokens "$tokens" -n 2 --store strict --session ann --determinism strict
on_cuda --tokens 7,8 -n 2 --store strict --session ann --no-save --determinism strict
is True "$(json out 'j["reused_disk"] > 40')" "strict KV, to a strict session: $(cat out)"
on_cuda --tokens 7,8 -n 2 --store strict --session ann --no-save
is "0 other_numerics" "$(json out 'str(j["reused_disk"]) + " " + j["reuse_stopped"]')" "strict KV, to one by class"

# KV that the CPU has saved is computed again, or taken as it is.
exits 0 run -m "$model" --tokens "$tokens" -n 6 --store store --session ann --json
greedy=$(json out 'j["tokens"]')
on_cuda --tokens "$tokens" -n 6
is "$greedy" "$(json out 'j["tokens"]')" "greedy tokens on the device"
on_cuda --tokens 7,8 -n 2 --store store --session ann --no-save
is "0 other_numerics" "$(json out 'str(j["reused_disk"]) + " " + j["reuse_stopped"]')" "the CPU's KV"
on_cuda --tokens 7,8 -n 2 --store store --session ann --no-save --accept-foreign-kv
is True "$(json out 'j["reused_disk"] > 40')" "the CPU's KV, accepted: $(cat out)"
echo "cli cuda: ok"
