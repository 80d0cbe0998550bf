"""third_party_test.py BUILD: what third_party.py says of a build is whole and true, and the SBOM is valid SPDX 2.3 by the judgement of spdx-tools."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging"))
import third_party  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
RESULTS, FILES = third_party.built(BUILD)
PARTS, DECLARATIONS = third_party.components(BUILD, FILES)
BY_NAME = {c.name: c for c in PARTS}


class ThirdParty(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name, "tree")
        self.tree.mkdir()
        (self.tree / "a.txt").write_text("a")
        (self.tree / "b.txt").write_text("b")
        self.file = pathlib.Path(folder.name, "kvrt.spdx.json")

    def sbom(self):
        return third_party.sbom(BUILD, self.tree, [], PARTS, DECLARATIONS)

    def valid(self, text):
        """The document, which spdx-tools finds no fault with."""
        self.file.write_text(text, encoding="utf-8")
        document = parse_file(str(self.file))
        self.assertEqual([m.validation_message for m in validate_full_spdx_document(document, "SPDX-2.3")], [])
        return document

    def deb(self, name, *files):
        """A Debian package."""
        root = self.tree.parent / name
        for file in ("DEBIAN/control", *files):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(file)
        (root / "DEBIAN/control").write_text(f"Package: {name}\nVersion: 1.2-1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n")
        out = self.tree.parent / f"{name}_1.2-1_all.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, out], check=True, capture_output=True)
        return out

    def run_it(self, *arguments, flags=(), **environment):
        command = [sys.executable, *flags, ROOT / "packaging/third_party.py", *arguments, "--build", BUILD, "--out", self.file]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})

    def test_a_checkout_behind_a_link(self):
        """CMake keeps the links by which it was called. The names of what is beside the build begin as its own do."""
        link, beside = self.tree.parent / "link", f"{BUILD}-beside/libz.a"
        link.symlink_to(BUILD)
        sources = self.tree.parent / "sources"
        sources.symlink_to(ROOT)
        real = third_party.output

        def through(*command):
            text = real(*command)
            if command[0] != "ninja":
                return text
            text = text.replace(f"{BUILD}/", f"{link}/").replace(f"{ROOT}/", f"{sources}/")
            return text + f"ar {link}/lib/libkvrt.a {beside}\n" if "commands" in command else text

        with unittest.mock.patch.object(third_party, "output", through):
            results, files = third_party.built(BUILD)
        self.assertEqual(results, RESULTS)
        # A compiler of CUDA in build/cuda is named by the link, too.
        self.assertEqual(self.resolved(files), self.resolved({**FILES, "static": FILES["static"] | {beside}}))

    def resolved(self, files):
        return {kind: {os.path.realpath(f) for f in these} for kind, these in files.items()}

    def test_what_cmake_was_told_to_find_is_named(self):
        """The other end: what CMakeLists.txt asks for is in what the build's own records name."""
        asked = set(re.findall(r"pkg_check_modules\((\w+)", "".join(p.read_text() for p in (ROOT / "CMakeLists.txt", ROOT / "bindings/cli/CMakeLists.txt"))))
        names = {"ZSTD": "zstd", "SQLITE": "SQLite", "PCRE2": "PCRE2", "SODIUM": "libsodium", "EDIT": "libedit"}
        self.assertEqual(asked, set(names))
        for name in [*names.values(), "xxHash", "JSON for Modern C++", "CLI11", "fmt", "libstdc++ and libgcc", "Unicode Character Database"]:
            self.assertIn(name, BY_NAME)

    def test_archives_of_the_cache_are_linked_statically(self):
        archives = [v for k, v in third_party.cache(BUILD).items() if re.fullmatch(r"KVRT_\w+_STATIC", k)]
        if third_party.cache(BUILD)["KVRT_STATIC_DEPS"] == "ON":
            self.assertGreaterEqual(FILES["static"], set(archives))
            for name in ("zstd", "SQLite", "PCRE2", "libsodium", "libedit", "libbsd", "libmd", "ncurses", "libstdc++ and libgcc"):
                self.assertIn("static", BY_NAME[name].kinds)
        else:
            self.assertLessEqual({c.name for c in PARTS if "static" in c.kinds}, {"CUDA runtime"})  # which libkvrt_cuda always links so
            self.assertIn("shared", BY_NAME["SQLite"].kinds)

    def test_the_libraries_that_binaries_need_are_named(self):
        self.assertTrue(any(r.name.startswith("libkvrt.so") for r in RESULTS))
        self.assertIn("shared", BY_NAME["GNU C Library"].kinds)

    def test_the_tree_has_no_other_generated_tables(self):
        """A table that a script made of something may be somebody's: its folder is one that in_tree() names, or it is made of kvrt's own."""
        others = [p.relative_to(ROOT).as_posix() for top in ("runtime", "storage", "cuda", "bindings") for p in (ROOT / top).rglob("*.inc")]
        self.assertEqual({o for o in others if not o.startswith("runtime/text/unicode/")}, {"runtime/api/abi_table.inc"})
        words = re.compile(rb"(?i)\bcopyright\b|\(c\) (19|20)\d\d|SPDX-License")
        marked = [p for top in ("runtime", "storage", "cuda", "include", "bindings/cli", "bindings/cpp") for p in (ROOT / top).rglob("*")
                  if p.is_file() and words.search(p.read_bytes())]
        self.assertEqual(marked, [])

    def test_notices_have_each_licence(self):
        text = third_party.notices(PARTS)
        for c in PARTS:
            if c.kinds != {"shared"}:
                self.assertIn(f"* {c.name} {c.version} ({c.licence}): {c.how()}\n", text)
                first = c.text.split(third_party.COMMON)[0]
                self.assertIn(first.rstrip(), text)
        for words in ("Copyright © 1991-2021 Unicode, Inc.", "Yann Collet", "University of Cambridge", "Frank Denis"):
            self.assertIn(words, text)

    def test_notices_name_no_file_of_debian(self):
        """Texts that Debian's copyright files name by their path stand in the notices, once each."""
        text = third_party.notices(PARTS)
        self.assertNotIn("common-licenses", text)
        for name in ("GPL-2", "GPL-3", "LGPL-2.1"):  # libstdc++'s and SQLite's
            self.assertIn(f"{name}, at the end of this file", text)
            self.assertEqual(text.count(pathlib.Path(third_party.COMMON, name).read_text(encoding="utf-8").strip("\n")), 1, name)
        with self.assertRaisesRegex(third_party.Fault, "common-licenses/GPL-9: expected the licence that a copyright file names, found none"):
            third_party.without_common(f"See {third_party.COMMON}GPL-9.", {})
        self.assertEqual(third_party.without_common(f"See `{third_party.COMMON}GPL-2'.", {}), "See `GPL-2, at the end of this file'.")

    def test_no_locale_is_asked(self):
        """In the locale C without Python's UTF-8 mode, as old Pythons have it."""
        done = self.run_it("notices", flags=("-X", "utf8=0", "-X", "warn_default_encoding", "-W", "error::EncodingWarning"), LC_ALL="C", PYTHONCOERCECLOCALE="0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.file.read_text(encoding="utf-8"), third_party.notices(PARTS))

    def test_source_date_epoch_that_is_no_number(self):
        for text in ("abc", "-1", "1.5", " 1", "12345678901"):
            done = self.run_it("sbom", "--tree", self.tree, SOURCE_DATE_EPOCH=text)
            self.assertEqual((done.returncode, done.stderr), (1, f'third_party: SOURCE_DATE_EPOCH: expected seconds since 1970, 1 to 10 digits, found "{text}"\n'))

    def test_arguments_that_do_not_fit(self):
        self.assertEqual(self.run_it("sbom").returncode, 2)
        self.assertEqual(self.run_it("sbom", "--tree", self.tree, "--deb", self.tree).returncode, 2)
        self.assertEqual(self.run_it("notices", "--tree", self.tree).returncode, 2)
        self.file = self.tree / "none" / "file"
        done = self.run_it("sbom", "--tree", self.tree)
        self.assertEqual((done.returncode, done.stderr), (1, f"third_party: [Errno 2] No such file or directory: '{self.file}'\n"))

    def test_the_sbom_says_which_debian_package_has_which_files(self):
        one, two = self.deb("kvrt", "usr/bin/kvrt", "usr/share/doc/a"), self.deb("libkvrt0", "usr/lib/libkvrt.so.0", "usr/share/doc/a")
        document = self.valid(third_party.sbom(BUILD, None, [two, one], PARTS, DECLARATIONS))
        packages = {p.spdx_id: p for p in document.packages}
        files = {f.spdx_id: f.name for f in document.files}
        links = {(r.spdx_element_id, r.relationship_type.name, r.related_spdx_element_id) for r in document.relationships}
        for deb, held in ((one, {"./usr/bin/kvrt", "./usr/share/doc/a"}), (two, {"./usr/lib/libkvrt.so.0", "./usr/share/doc/a"})):
            package = next(p for p in document.packages if p.file_name == deb.name)
            self.assertEqual((package.name, package.version), (deb.name.split("_")[0], "1.2-1"))
            self.assertEqual(package.checksums[0].value, hashlib.sha256(deb.read_bytes()).hexdigest())
            self.assertEqual({files[b] for a, r, b in links if (a, r) == (package.spdx_id, "CONTAINS")}, held)
            self.assertIn((package.spdx_id, "GENERATED_FROM", "SPDXRef-Package-kvrt"), links)
            self.assertIn(("SPDXRef-DOCUMENT", "DESCRIBES", package.spdx_id), links)
        self.assertEqual(packages["SPDXRef-Package-kvrt"].files_analyzed, False)
        self.assertNotIn(("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package-kvrt"), links)

    def test_the_sbom_is_valid(self):
        document = self.valid(self.sbom())
        packages = {p.name: p for p in document.packages}
        system = re.search('^NAME="?([^"\n]+)', pathlib.Path("/etc/os-release").read_text(encoding="utf-8"), re.M).group(1)
        suppliers = {"kvrt": "kvrt authors", "Unicode Character Database": "Unicode, Inc.", "CUDA runtime": "NVIDIA Corporation"}
        self.assertEqual({p.name: p.supplier.name for p in document.packages}, {name: suppliers.get(name, system) for name in packages})
        self.assertEqual(set(packages), {"kvrt"} | {c.name for c in PARTS + DECLARATIONS})
        self.assertEqual(packages["kvrt"].version, third_party.cache(BUILD).get("KVRT_PACKAGE_VERSION") or third_party.cache(BUILD)["CMAKE_PROJECT_VERSION"])
        self.assertEqual({f.name for f in document.files}, {"./a.txt", "./b.txt"})
        sums = "".join(sorted(hashlib.sha1(t).hexdigest() for t in (b"a", b"b")))
        self.assertEqual(packages["kvrt"].verification_code.value, hashlib.sha1(sums.encode()).hexdigest())

    def test_the_same_input_gives_the_same_bytes(self):
        with unittest.mock.patch.dict("os.environ", SOURCE_DATE_EPOCH="1700000000"):
            self.assertEqual(self.sbom(), self.sbom())
            self.assertEqual(json.loads(self.sbom())["creationInfo"]["created"], "2023-11-14T22:13:20Z")
            before = json.loads(self.sbom())["documentNamespace"]
            (self.tree / "a.txt").write_text("other")
            self.assertNotEqual(json.loads(self.sbom())["documentNamespace"], before)

    def test_what_is_not_known_is_an_error(self):
        with unittest.mock.patch.dict(third_party.KNOWN):
            del third_party.KNOWN["sqlite3"]
            with self.assertRaisesRegex(third_party.Fault, "libsqlite3.*source package sqlite3: its licence goes there"):
                third_party.components(BUILD, FILES)
        with self.assertRaisesRegex(third_party.Fault, "a.txt: expected a file of a Debian package"):
            third_party.owners({str(self.tree / "a.txt")})
        with self.assertRaisesRegex(third_party.Fault, "expected a folder that CMake configured"):
            third_party.cache(self.tree)
        with self.assertRaisesRegex(third_party.Fault, "expected installed files, found none"):
            third_party.sbom_files(self.tree / "none", "kvrt")


if __name__ == "__main__":
    import unittest.mock

    unittest.main()
