#!/bin/sh
# build.sh OUT PYTHON, from the root of the tree: the pages and the reference as HTML, by doxygen with the style of doxygen-awesome-css (a package of
# PYTHON), into OUT/html. Its warnings are errors.
set -eu
out=$1 python=$2
theme=$("$python" -c 'import doxygen_awesome_css; print(doxygen_awesome_css.__path__[0])')
"$python" tests/tidy/links.py .
rm -rf "$out"
mkdir -p "$out"
# The header alone comes first, with no other page: kvrt.h has a comment for all that it declares.
{
  cat docs/Doxyfile
  printf '%s\n' "OUTPUT_DIRECTORY=$out" INPUT=include/kvrt.h EXTRACT_ALL=NO GENERATE_HTML=NO GENERATE_XML=YES
} | doxygen -
{
  cat docs/Doxyfile
  printf '%s\n' "OUTPUT_DIRECTORY=$out" "HTML_EXTRA_STYLESHEET=$theme/doxygen-awesome.css $theme/doxygen-awesome-sidebar-only.css docs/kvrt.css"
} | doxygen -
# doxygen links the name of a page to an empty page of the file.
sed -i 's/href="\(SCHEMAS\|EVAL\|USING\)_8md\.html"/href="md_docs_\1.html"/g' "$out"/html/*.html
cp -r --parents LICENSE include/kvrt.h samples tests/bench/results docs/pictures/*.svg "$out/html" # the pages link to these
