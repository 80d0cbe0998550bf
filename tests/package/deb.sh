#!/bin/sh
# deb.sh DIST SOURCE LIBDIR [--lintian]: the Debian packages in DIST have the files, fields and modes that Debian's policy asks for. DIST may be a build folder:
# cpack makes packages of it first. LIBDIR: lib/x86_64-linux-gnu, or that of the build. --lintian: and lintian has nothing to say but what is
# overridden, with a reason, in packaging/debian.
set -eu
dist=$1 source=$2 libdir=$3 lintian=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "deb: $*"
  exit 1
}
if [ -e "$dist/CPackConfig.cmake" ]; then
  cpack -G DEB --config "$dist/CPackConfig.cmake" -B "$work/dist" >"$work/log" 2>&1 || fail "cpack: $(cat "$work/log")"
  dist=$work/dist
fi
# A release has CMakeLists.txt's version, and what is made of a later commit one that dpkg sorts behind it.
release=$(sed -n 's/^project(kvrt VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
version=$(dpkg-deb --field "$dist"/libkvrt0_*.deb Version) || fail "expected one libkvrt0 in $dist"
printf '%s\n' "$version" | grep -qE "^${release}(\+git[0-9]{14}\.[0-9a-f]{12}(\.dirty)?)?-1\$" || fail "version $version of kvrt $release"
field() { dpkg-deb --field "$1" "$2"; }
has() { [ -e "$work/$1/usr/$2" ] || fail "$1: no /usr/$2"; }

for name in libkvrt0 libkvrt-dev kvrt kvrt-cuda; do
  deb=$dist/${name}_${version}_$(dpkg --print-architecture).deb
  if [ ! -e "$deb" ] && [ $name = kvrt-cuda ]; then continue; fi
  [ -e "$deb" ] || fail "no $deb"
  mkdir "$work/$name"
  dpkg-deb --raw-extract "$deb" "$work/$name"
  [ "$(field "$deb" Package) $(field "$deb" Version) $(field "$deb" Source) $(field "$deb" Priority)" = "$name $version kvrt optional" ] || fail "$name: $(field "$deb" "")"
  case $(field "$deb" Maintainer) in *\<*@*\>) ;; *) fail "$name: Maintainer: $(field "$deb" Maintainer)" ;; esac
  [ "$(field "$deb" Description | wc -l)" -gt 4 ] || fail "$name: no description"
  (cd "$work/$name" && md5sum --check --quiet DEBIAN/md5sums) || fail "$name: md5sums"
  [ "$(wc -l <"$work/$name/DEBIAN/md5sums")" = "$(find "$work/$name/usr" -type f | wc -l)" ] || fail "$name: md5sums has not every file"
  [ "$(find "$work/$name" -mindepth 1 -maxdepth 1 | wc -l)" = 2 ] || fail "$name: files outside of /usr: $(ls "$work/$name")"
  dpkg-deb --contents "$deb" | awk '$2 != "root/root" || $1 ~ /^.....w|^........w|[sStT]/' | grep -v '^l' && fail "$name: owners or modes"
  # The size is the one that Debian's own tool counts.
  mv "$work/$name/DEBIAN" "$work/meta"
  printf 'Source: kvrt\nMaintainer: a <a@b>\n\nPackage: %s\nArchitecture: any\nDescription: a\n' "$name" >"$work/control"
  printf 'kvrt (1) unstable; urgency=low\n\n  * a\n\n -- a <a@b>  Thu, 01 Jan 1970 00:00:00 +0000\n' >"$work/changes"
  size=$(cd "$work" && dpkg-gencontrol -p"$name" -ccontrol -lchanges -f/dev/null -P"$name" -O 2>/dev/null | sed -n 's/^Installed-Size: //p')
  mv "$work/meta" "$work/$name/DEBIAN"
  [ "$(field "$deb" Installed-Size)" = "$size" ] || fail "$name: Installed-Size: expected $size as dpkg-gencontrol has it, found $(field "$deb" Installed-Size)"
  has "$name" "share/doc/$name/copyright"
  grep -q '^Format: .*copyright-format/1.0' "$work/$name/usr/share/doc/$name/copyright" || fail "$name: copyright is not in the form of DEP 5"
  dpkg-parsechangelog -l "$work/$name/usr/share/doc/$name/changelog.Debian.gz" -S Version >"$work/version" 2>&1 || {
    gzip -dc "$work/$name/usr/share/doc/$name/changelog.Debian.gz" >"$work/changelog"
    dpkg-parsechangelog -l "$work/changelog" -S Version >"$work/version"
  }
  [ "$(cat "$work/version")" = "$version" ] || fail "$name: changelog.Debian.gz is of $(cat "$work/version")"
  # Programs and libraries: hardened, stripped, without a folder to search.
  find "$work/$name/usr" -type f \( -path '*/bin/*' -o -name '*.so*' \) >"$work/binaries"
  while read -r binary; do
    readelf -dW "$binary" | grep -E 'R(UN)?PATH' && fail "$binary searches a folder"
    readelf -SW "$binary" | grep -E ' \.(symtab|debug_info|comment) ' && fail "$binary is not stripped"
    readelf -lW "$binary" | grep -q GNU_RELRO || fail "$binary has no RELRO"
    readelf -dW "$binary" | grep -q 'Flags:.*NOW' || fail "$binary is not bound at its start"
    readelf -hW "$binary" | grep -q 'Type: *DYN' || fail "$binary is not position-independent"
    readelf -lW "$binary" | grep 'GNU_STACK' | grep -q 'RW ' || fail "$binary has an executable stack"
  done <"$work/binaries"
done

# Which file is in which package, and what asks for what.
has libkvrt0 "$libdir/libkvrt.so.0"
[ "$(cat "$work/libkvrt0/DEBIAN/shlibs")" = "libkvrt 0 libkvrt0 (>= $version)" ] || fail "shlibs: $(cat "$work/libkvrt0/DEBIAN/shlibs")"
grep -qx 'activate-noawait ldconfig' "$work/libkvrt0/DEBIAN/triggers" || fail "libkvrt0: no trigger of ldconfig"
for file in include/kvrt.h include/kvrt.hpp include/kvrt_values.hpp share/kvrt/kvrt.abi.json "$libdir/libkvrt.a" "$libdir/pkgconfig/kvrt.pc" \
  "$libdir/pkgconfig/kvrt-static.pc" "$libdir/cmake/kvrt/kvrtConfig.cmake"; do
  has libkvrt-dev "$file"
done
[ -L "$work/libkvrt-dev/usr/$libdir/libkvrt.so" ] || fail "libkvrt-dev: libkvrt.so is no link"
find "$work/libkvrt0/usr" -name '*.so' -o -name '*.h' -o -name '*.a' | grep . && fail "libkvrt0 has files for compilers"
for file in bin/kvrt share/man/man1/kvrt.1.gz share/man/man1/kvrt-store-gc.1.gz share/bash-completion/completions/kvrt share/zsh/site-functions/_kvrt \
  share/fish/vendor_completions.d/kvrt.fish; do
  has kvrt "$file"
done
"$work/kvrt/usr/bin/kvrt" --version >/dev/null 2>&1 || LD_LIBRARY_PATH=$work/libkvrt0/usr/$libdir "$work/kvrt/usr/bin/kvrt" --version || fail "the program exits $?"
depends() { field "$dist/$1_${version}_$(dpkg --print-architecture).deb" Depends; }
for library in libc6 libzstd1 libsqlite3-0 libpcre2-8-0 'libsodium[0-9]*' 'libstdc++6'; do
  depends libkvrt0 | grep -q "\(^\|, \)$library \((>=\|,\)" || fail "libkvrt0 does not depend on $library: $(depends libkvrt0)"
done
for name in libkvrt-dev kvrt; do depends $name | grep -qF "libkvrt0 (= $version)" || fail "$name does not depend on libkvrt0 of its version"; done
for library in libzstd-dev libsqlite3-dev libpcre2-dev libsodium-dev; do depends libkvrt-dev | grep -q $library || fail "libkvrt-dev does not depend on $library"; done
if [ -d "$work/kvrt-cuda" ]; then
  has kvrt-cuda "$libdir/libkvrt_cuda.so"
  depends kvrt-cuda | grep -qF "libkvrt0 (= $version)" || fail "kvrt-cuda does not depend on libkvrt0 of its version"
  depends kvrt-cuda | grep -qE 'libcu(da|blas)' && fail "kvrt-cuda depends on NVIDIA's: $(depends kvrt-cuda)"
fi

if [ "$lintian" = --lintian ]; then
  command -v lintian >/dev/null || fail "it needs lintian: apt-get install lintian"
  lintian --fail-on error,warning "$dist"/*.deb || fail "lintian"
fi
echo "deb: ok"
