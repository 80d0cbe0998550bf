#!/bin/sh
# csharp.sh WHAT SOURCE WORK ASSEMBLIES TARGET LIBRARY PYTHON HOST: tests of the C# binding on one runtime, HOST: mono, or dotnet.
# WHAT: tests, readme, sample or package. TARGET: the assembly that this runtime takes.
set -eu
what=$1 source=$2 work=$3 assemblies=$4 target=$5 library=$6 python=$7 host=$8
binding=$source/bindings/csharp
model=$source/tests/golden/tiny/llama_gqa_f32.gguf
rm -rf "$work"
mkdir -p "$work/app" "$work/tmp"
export TMPDIR="$work/tmp" KVRT_SOURCE_DIR="$source" KVRT_CACHE='' KVRT_LIBRARY="$library" XDG_CACHE_HOME="$work/cache"
unset LD_LIBRARY_PATH MONO_PATH DOTNET_ROOT || true
cp "$assemblies/$target/Kvrt.dll" "$work/app"

# .NET finds its files beside the program `dotnet`, which a wheel may hold without the mode of a program.
if [ "${host##*/}" = dotnet ]; then
  if [ ! -x "$host" ]; then
    mkdir "$work/dotnet"
    for file in "$(dirname "$host")"/*; do ln -s "$file" "$work/dotnet"; done
    rm "$work/dotnet/dotnet"
    cp "$host" "$work/dotnet/dotnet"
    chmod 755 "$work/dotnet/dotnet"
    host=$work/dotnet/dotnet
  fi
  export DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 DOTNET_EnableDiagnostics=0
fi

# configure NAME: what .NET reads beside the assembly NAME.exe
configure() {
  printf '{"runtimeOptions": {"tfm": "net8.0", "rollForward": "LatestMajor", "framework": {"name": "Microsoft.NETCore.App", "version": "8.0.0"}}}\n' \
    >"$work/app/$1.runtimeconfig.json"
}
# compile NAME SOURCE...
compile() {
  name=$1
  shift
  "$MCS" -langversion:7.2 -warn:4 -warnaserror -r:"$work/app/Kvrt.dll" -r:System.Core.dll -out:"$work/app/$name.exe" "$@"
  configure "$name"
}
fail() {
  echo "$*" >&2
  exit 1
}

tests() {
  compile Tests "$binding"/tests/*.cs
  mkdir "$work/locales"
  localedef -i de_DE -f UTF-8 --no-archive "$work/locales/de_DE.UTF-8"
  "$python" "$binding/tests/abi_text.py" "$source/include/kvrt.abi.json" >"$work/abi.txt"
  for wrong in 'abi 7 0 0' 'size 0 8 0' 'offset 0 65536 7'; do
    # shellcheck disable=SC2086 # words
    set -- $wrong
    mkdir "$work/$1"
    "$CC" -shared -fPIC -Wl,-soname,libkvrt.so.0 -DABI="$2" -DSIZE="$3" -DOFFSET="$4" -o "$work/$1/libkvrt.so.0" "$binding/tests/wrong_library.c"
  done
  export KVRT_TEST_WRONG="$work"
  export KVRT_ABI_TEXT="$work/abi.txt" KVRT_TEST_HOST="$host" KVRT_TEST_TARGET="$target" LOCPATH="$work/locales"
  exec "$host" "$work/app/Tests.exe"
}

# The program of the README, as it is printed, twice: the second run goes on where the first ended.
readme() {
  # shellcheck disable=SC2016 # three backquotes
  sed -n '/^```csharp$/,/^```$/p' "$binding/README.md" | sed '/^```/d' >"$work/First.cs"
  [ "$(wc -l <"$work/First.cs")" -le 25 ] || fail "README.md: its program has more than 25 lines"
  compile First "$work/First.cs"
  cp "$model" "$work/model.gguf"
  cd "$work"
  "$host" app/First.exe >first.txt
  "$host" app/First.exe >second.txt
  grep -q '^reused 0 of [1-9]' first.txt || fail "the first run: $(cat first.txt)"
  grep -q '^reused [1-9][0-9]* of [1-9]' second.txt || fail "the second run: $(cat second.txt)"
}

sample() {
  compile Chat "$binding/samples/Chat/Program.cs"
  cd "$work"
  printf 'Hello\nAnd more?\n/back\n/history\n' | "$host" app/Chat.exe "$model" store ann >first.txt
  printf '/history\n' | "$host" app/Chat.exe "$model" store ann >second.txt
  grep -q '^\[[1-9][0-9]* tokens' first.txt || fail "no answer: $(cat first.txt)"
  grep -q 'ann goes on after 2 messages' second.txt || fail "it does not go on: $(cat second.txt)"
  grep -q '"content":"Hello"' second.txt || fail "it has no history: $(cat second.txt)"
  ! grep -q 'And more' second.txt || fail "/back took nothing back: $(cat second.txt)"
  ! "$host" app/Chat.exe /nowhere.gguf 2>refused.txt || fail "a model that is not there"
  grep -q '^Chat: .*/nowhere.gguf' refused.txt || fail "$(cat refused.txt)"
}

package() {
  for round in 1 2; do
    "$python" "$binding/pack.py" --assemblies "$assemblies" --library "$library" --out "$work/$round" >>"$work/packages.txt"
  done
  read -r made <"$work/packages.txt"
  cmp "$made" "$work/2/${made##*/}"
  configure Program
  exec "$python" "$binding/tests/package_test.py" "$made" "$assemblies" "$library" "$work/app" "$host"
}

"$what"
