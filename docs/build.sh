#!/bin/sh
# build.sh OUT, from the root of the tree: the pages and the reference as HTML, by doxygen, into OUT/html. Its warnings are errors.
set -eu
out=$1
python3 tests/tidy/links.py .
rm -rf "$out"
mkdir -p "$out"
# The header alone comes first, with no other page: kvrt.h has a comment for all that it declares.
{
  cat docs/Doxyfile
  printf '%s\n' "OUTPUT_DIRECTORY=$out" INPUT=include/kvrt.h EXTRACT_ALL=NO GENERATE_HTML=NO GENERATE_XML=YES
} | doxygen -
{
  cat docs/Doxyfile
  printf '%s\n' "OUTPUT_DIRECTORY=$out"
} | doxygen -
cp -r --parents LICENSE include/kvrt.h samples tests/bench/results docs/pictures/*.svg "$out/html" # the pages link to these
