#!/bin/sh
# full.sh KVRT TINY: kvrt with a store on a file system without room, and on one without inodes. 77: mounting is not permitted here.
set -eu
. "$(dirname "$0")/lib.sh"
if [ "${3:-}" != alone ]; then
  unshare -m true 2>/dev/null || exit 77
  exec unshare -m sh "$0" "$1" "$2" alone
fi
kvrt=$1 model=$2/llama_gqa_f32.gguf
in_a_folder
mkdir full
trap 'umount full 2>/dev/null || true; rm -rf "$work"' EXIT

# One without room for KV saves the tokens; one without room for these is found before the first token.
mount -t tmpfs -o size=3m,mode=0700 none full || exit 77
fill() { head -c $(($(df --output=avail -B1 full | tail -n 1) - $1)) /dev/zero >>full/filler; }
exits 0 run -m "$model" --store full/store --session a -p hello -n 1
fill 150000
exits 0 run -m "$model" --store full/store --session b -p hello -n 40
grep -q 'the store lacks the KV of [0-9]* block.*it has room for 0 B more: free space there, or remove sessions' err || fail "run without room for KV: $(cat err)"
exits 0 run -m "$model" --store full/store --session b -n 1
fill 60000
exits 12 run -m "$model" --store full/store --session c -p hello -n 4
grep -q 'full/store has room for .* more: free space there, or remove sessions' err || fail "run with a store without room: $(cat err)"
fill 0
exits 0 store ls full/store
grep -q '^b ' out || fail "store ls on a full disk: $(cat out)"
umount full

# Without an inode for the catalog's log nothing is saved, until there are some.
mount -t tmpfs -o size=3m,nr_inodes=30,mode=0700 none full
exits 0 run -m "$model" --store full/store --session a -p hello -n 1
rm full/store/reserve full/store/reserve2
n=0
while touch full/filler$n 2>/dev/null; do n=$((n + 1)); done
exits 0 doctor full/store
grep -q '^warn *space *0 inodes free .*(df -i): remove files there' out || fail "doctor without inodes: $(cat out)"
exits 12 run -m "$model" --store full/store --session b -p hello -n 4
grep -q '^kvrt: cannot save b: .* no inode free for it: remove files there (df -i) (NO_SPACE)' err || fail "run without inodes: $(cat err)"
exits 0 store ls full/store
grep -q '^a ' out || fail "store ls without inodes: $(cat out)"
rm full/filler*
exits 0 run -m "$model" --store full/store --session b -p hello -n 4
exits 0 store verify full/store
echo "full: ok"
