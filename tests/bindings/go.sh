#!/bin/sh
# go.sh SOURCE WORK GO LIBRARY [FLAG...]: vets the Go package and runs its tests, offline, with the library of a build folder, which a kvrt.pc names.
# FLAG: -race, -asan: also of the programs that tests build.
set -eu
source=$1 work=$2 go=$3 library=$4
shift 4
mkdir -p "$work"
printf 'Name: kvrt\nDescription: that of a build folder\nVersion: 0\nLibs: -L%s -lkvrt\nCflags: -I%s\n' "$(dirname "$library")" "$source/include" >"$work/kvrt.pc"
PKG_CONFIG_PATH=$work${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
LD_LIBRARY_PATH=$(dirname "$library")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PATH=$(dirname "$go"):$PATH # some tests build programs
export PKG_CONFIG_PATH LD_LIBRARY_PATH PATH
export GOCACHE="$work/cache" GOPATH="$work/path" GOFLAGS="-mod=mod${*:+ $*}" GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=1
# Every store of a Go pointer into C's memory is checked, as well as the arguments of calls.
case $("$go" env GOVERSION) in
  go1.19* | go1.20*) export GODEBUG=cgocheck=2 ;;
  *) export GOEXPERIMENT=cgocheck2 ;;
esac
# cgo's own wrappers have parameters that they do not use.
export CGO_CFLAGS="-O1 -g -Wall -Wextra -Werror -Wno-unused-parameter"
cd "$source/bindings/go"
unformatted=$("$("$go" env GOROOT)/bin/gofmt" -l .)
[ -z "$unformatted" ] || { echo "not as gofmt has it: $unformatted" && exit 1; }
"$go" vet ./...
exec "$go" test -count=1 -timeout 900s ./...
