#!/usr/bin/env python3
"""What of others is in a build of kvrt: their licences, and the SBOM.

  third_party.py notices --build DIR --out FILE
  third_party.py sbom --build DIR (--tree DIR | --deb FILE...) --out FILE

--build: a folder that Ninja built on a Debian system. What is compiled in and linked is read from its commands, its depfiles and its binaries, so
that nothing depends on a list that is kept by hand; the table below adds names and licences, and a package that it lacks is an error.
--tree: the installed files, for the SBOM (SPDX 2.3 JSON). --deb: Debian packages; the SBOM says which has which files, and that they are made of
kvrt, which holds the rest. The same input and SOURCE_DATE_EPOCH give the same bytes.
"""
import argparse
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUTS = ("kvrt", "kvrt_static", "kvrt_cli", "kvrt_cuda")
CUDA_LICENCE = "LicenseRef-NVIDIA-CUDA-EULA"
# Debian's source package: name, licence (SPDX).
KNOWN = {
    "cli11": ("CLI11", "BSD-3-Clause"),
    "fmtlib": ("fmt", "MIT"),
    "gcc": ("libstdc++ and libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "glibc": ("GNU C Library", "LGPL-2.1-or-later"),
    "libbsd": ("libbsd", "BSD-3-Clause AND BSD-2-Clause AND ISC AND MIT AND Beerware"),
    "libedit": ("libedit", "BSD-3-Clause"),
    "libmd": ("libmd", "BSD-3-Clause AND BSD-2-Clause AND ISC AND Beerware"),
    "libsodium": ("libsodium", "ISC"),
    "libzstd": ("zstd", "BSD-3-Clause"),
    "linux": ("headers of Linux", "GPL-2.0-only WITH Linux-syscall-note"),
    "ncurses": ("ncurses", "X11-distribute-modifications-variant"),
    "nlohmann-json3": ("JSON for Modern C++", "MIT"),
    "pcre2": ("PCRE2", "BSD-3-Clause"),
    "sqlite3": ("SQLite", "blessing"),
    "xxhash": ("xxHash", "BSD-2-Clause"),
}
COMMON = "/usr/share/common-licenses/"  # Debian's alone
DECLARATIONS = {"linux"}  # its headers declare; nothing of it is in the binaries
KINDS = {"tree": "in kvrt's sources", "static": "linked statically", "headers": "compiled in from headers", "shared": "linked dynamically"}


class Fault(Exception):
    pass


@dataclasses.dataclass
class Component:
    name: str
    licence: str
    version: str
    home: str
    text: str  # of the licence
    supplier: str
    purl: str = ""
    kinds: set = dataclasses.field(default_factory=set)

    def how(self):
        return ", ".join(KINDS[k] for k in KINDS if k in self.kinds)


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    except FileNotFoundError:
        raise Fault(f"{command[0]}: expected this program, found none") from None
    except subprocess.CalledProcessError as e:
        raise Fault(f"{' '.join(command)}: exits {e.returncode}: {e.stderr.strip()}") from None


def cache(build):
    try:
        text = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Fault(f"{build}: expected a folder that CMake configured, found no CMakeCache.txt") from None
    return dict(re.findall(r"^([^:#\n]+):[A-Z]+=(.*)$", text, re.M))


def source_date():
    """The time that the SBOM has."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return int(datetime.datetime.now().timestamp())
    if not re.fullmatch("[0-9]{1,10}", text):
        raise Fault(f'SOURCE_DATE_EPOCH: expected seconds since 1970, 1 to 10 digits, found "{text}"')
    return int(text)


# ---- what a build is made of ----------------------------------------------------------------------------------------------------


def built(build):
    """(output files, files of others by kind)."""
    targets = set(re.findall(r"^(\S+): phony$", output("ninja", "-C", str(build), "-t", "targets", "all"), re.M))
    commands = output("ninja", "-C", str(build), "-t", "commands", *[t for t in OUTPUTS if t in targets])
    commands = [line for line in commands.splitlines() if not line.startswith("ninja:")]
    files = {"static": set(), "headers": set(), "shared": set()}
    objects, results = set(), set()
    for line in commands:
        words = shlex.split(line)
        for before, word in zip(words, words[1:]):
            if before == "-o" and word.endswith(".o"):
                objects.add(word)
            elif before == "-o":
                results.add(build / word)
        files["static"].update(w for w in words if w.startswith("/") and w.endswith(".a") and not os.path.realpath(w).startswith(f"{build}/"))
        folders = [w[2:] for w in words if w.startswith("-L")]
        files["static"].update(a for w in words if w.startswith("-l") for a in [archive(w[2:], folders)] if a)
        if "-static-libstdc++" in words:
            files["static"].add(output(words[words.index("&&") + 1], "-print-file-name=libstdc++.a").strip())
    wanted = False
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if not line.startswith(" "):
            wanted = line.split(":")[0] in objects
        elif wanted and line.strip().startswith("/"):
            files["headers"].add(line.strip())
    toolkit = cuda_root(build)
    ours = (f"{build}/", f"{ROOT}/")  # without links, which CMake keeps
    files["headers"] = {f for f in files["headers"] if not os.path.realpath(f).startswith(ours) or (toolkit and toolkit in pathlib.Path(f).resolve().parents)}
    if not files["headers"]:
        raise Fault(f"{build}: expected a folder that Ninja built, found no depfiles of {', '.join(OUTPUTS)}")
    missing = [r for r in results if not r.exists()]
    if missing:
        raise Fault(f"{missing[0]}: expected a file that is built, found none: cmake --build {build}")
    results = {r for r in results if r.read_bytes()[:4] == b"\x7fELF"}
    files["shared"] = {f for r in results for f in needed(r)}
    return results, files


def archive(name, folders):
    """The archive that the linker takes for -lNAME from the folders of -L; None: a shared library, or one of the system's folders."""
    for folder in folders:
        if os.path.exists(f"{folder}/lib{name}.so"):
            return None
        if os.path.exists(f"{folder}/lib{name}.a"):
            return f"{folder}/lib{name}.a"
    return None


def needed(binary):
    """The files of the libraries that the dynamic linker is asked for, without kvrt's own."""
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", str(binary)))
    places = dict(re.findall(r"^\s+(\S+) \([^)]*x86-64[^)]*\) => (\S+)$", output("/sbin/ldconfig", "-p"), re.M)[::-1])
    out = set()
    for name in names:
        if name.startswith("libkvrt"):
            continue
        if name not in places:
            raise Fault(f"{binary} needs {name}: expected it in the dynamic linker's folders, found none")
        out.add(places[name])
    return out


# ---- whose it is ----------------------------------------------------------------------------------------------------------------


def owners(files):
    """The Debian package of each file."""
    files = sorted(files)
    names = {}  # a package may have the file under its place before /usr was merged
    for f in files:
        for path in {f, os.path.realpath(f), os.path.normpath(f)}:
            names.setdefault(path, f)
            names.setdefault(path.removeprefix("/usr"), f)
    found = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, encoding="utf-8").stdout
    out = {}
    for line in found.splitlines():
        package, _, path = line.rpartition(": ")
        if path in names and not package.startswith("diversion"):
            out[names[path]] = package.split(",")[0]
    lost = [f for f in files if f not in out]
    if lost:
        raise Fault(f"{lost[0]}: expected a file of a Debian package, whose licence is known, found one of none ({len(lost)} such files)")
    return out


def distribution():
    """The id and the name of the system whose packages these are."""
    text = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    fields = dict(re.findall(r'^(ID|NAME)="?([^"\n]+)"?$', text, re.M))
    return fields.get("ID", "debian"), fields.get("NAME", "Debian GNU/Linux")


def debian(package):
    line = output("dpkg-query", "-W", "-f", "${source:Package}\t${source:Upstream-Version}\t${Homepage}\t${Version}\t${Architecture}", package)
    source, upstream, home, version, architecture = line.split("\t")
    source = re.sub(r"^gcc-\d+$", "gcc", source)
    if source not in KNOWN:
        raise Fault(f"{package}: expected a package of {__file__}'s table, found one of source package {source}: its licence goes there")
    plain = package.split(":")[0]
    text = pathlib.Path("/usr/share/doc", plain, "copyright").read_text(encoding="utf-8", errors="replace")
    system, name = distribution()
    purl = f"pkg:deb/{system}/{plain}@{version.replace('+', '%2B').replace('~', '%7E').replace(':', '%3A')}?arch={architecture}"
    return source, Component(*KNOWN[source], re.sub(r"[+.~-](dfsg|ds|repack).*$", "", upstream), home, text, name, purl)


def cuda_root(build):
    """The folder of CUDA's toolkit; None: the build has no CUDA. nvcc itself may be found by a link or a wrapper."""
    for found in build.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        root = re.search(r'CMAKE_CUDA_COMPILER_TOOLKIT_ROOT "(.+)"', found.read_text(encoding="utf-8"))
        if root:
            return pathlib.Path(root.group(1)).resolve()
    return None


def cuda(root):
    """CUDA's runtime, which NVIDIA's packages of several kinds bring."""
    places = [root / "EULA.txt", *sorted(root.glob("dist-info/nvidia_cuda_runtime-*/**/License.txt")),
              *sorted(root.parent.parent.glob("nvidia_cuda_runtime-*/**/License.txt"))]
    text = next((p for p in places if p.is_file()), None)
    if not text:
        raise Fault(f"{root}: expected CUDA's licence (EULA.txt, or nvidia_cuda_runtime's License.txt), found none")
    version = re.search(r"release [\d.]+, V([\d.]+)", output(str(root / "bin/nvcc"), "--version")).group(1)
    return Component("CUDA runtime", CUDA_LICENCE, version, "https://developer.nvidia.com/cuda-toolkit", text.read_text(encoding="utf-8", errors="replace"),
                     "NVIDIA Corporation")


def in_tree():
    """What lies in kvrt's own sources: tables made from Unicode's data, the first of which says of which version."""
    tables = "".join(f.read_text(encoding="utf-8").split("\n")[0] for f in sorted((ROOT / "runtime/text/unicode").glob("*.inc")))
    version = re.search(r"Unicode (\d+\.\d+\.\d+)", tables)
    if not version:
        raise Fault("runtime/text/unicode/*.inc: expected the version of Unicode in a first line, found none")
    text = (ROOT / "packaging/licenses/Unicode-DFS-2016.txt").read_text(encoding="utf-8")
    return [Component("Unicode Character Database", "Unicode-DFS-2016", version.group(1), "https://www.unicode.org/ucd/", text, "Unicode, Inc.", kinds={"tree"})]


def components(build, files):
    root = cuda_root(build)
    of = {}
    mine = {f for kind in files.values() for f in kind}
    if root:
        theirs = {f for f in mine if root in pathlib.Path(f).resolve().parents}
        mine -= theirs
        if theirs:
            of["cuda"] = cuda(root)
            of["cuda"].kinds = {kind for kind, these in files.items() if these & theirs}
    packages = owners(mine)
    for package in sorted(set(packages.values())):
        source, component = debian(package)
        component = of.setdefault(source, component)
        component.kinds |= {kind for kind, these in files.items() for f in these if packages.get(f) == package}
    return in_tree() + [c for s, c in sorted(of.items()) if s not in DECLARATIONS], [c for s, c in sorted(of.items()) if s in DECLARATIONS]


# ---- what is written ------------------------------------------------------------------------------------------------------------


def without_common(text, common):
    """A text that names none of Debian's common licences by its path; those that it named go into common, by name."""

    def named(match):
        path = pathlib.Path(os.path.realpath(COMMON + match.group(1)))  # GPL is a link to the newest
        if not path.is_file():
            raise Fault(f"{match.group(0)}: expected the licence that a copyright file names, found none: it is of Debian's package base-files")
        common[path.name] = path.read_text(encoding="utf-8", errors="replace")
        return f"{path.name}, at the end of this file"

    return re.sub(COMMON + r"(\w[\w.+-]*\w)", named, text)


def notices(parts):
    rule = "=" * 100
    inside = [c for c in parts if c.kinds - {"shared"}]
    out = ["kvrt is under the MIT licence (LICENSE). It holds work of others, under their own licences:", ""]
    out += [f"* {c.name} {c.version} ({c.licence}): {c.how()}" for c in inside]
    out += ["", "Texts that more than one of these name, such as the GPL's, stand at the end, once each."]
    common = {}
    for c in inside:
        out += ["", rule, f"{c.name} {c.version}", c.home, rule, "", without_common(c.text, common).rstrip()]
    for name, text in sorted(common.items()):
        out += ["", rule, name, rule, "", text.strip("\n")]
    return "\n".join(out) + "\n"


def spdx_id(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", text)


def sbom_files(tree, owner):
    out = []
    for path in sorted(p for p in tree.rglob("*") if p.is_file() and not p.is_symlink()):
        data = path.read_bytes()
        name = path.relative_to(tree).as_posix()
        out.append({"SPDXID": spdx_id(f"File-{owner}-{name}"), "fileName": f"./{name}", "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
                    "checksums": [{"algorithm": a.upper(), "checksumValue": hashlib.new(a, data).hexdigest()} for a in ("sha1", "sha256")]})
    if not out:
        raise Fault(f"{tree}: expected installed files, found none")
    return out


def sbom_package(c):
    out = {"SPDXID": spdx_id(f"Package-{c.name}"), "name": c.name, "versionInfo": c.version, "supplier": f"Organization: {c.supplier}",
           "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": c.licence, "licenseDeclared": c.licence, "copyrightText": "NOASSERTION"}
    if c.home:
        out["homepage"] = c.home
    if c.purl:
        out["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": c.purl}]
    return out


def sbom_ours(name, version, identity, files=()):
    """kvrt, or a package of it that has these files."""
    out = {"SPDXID": identity, "name": name, "versionInfo": version, "supplier": "Organization: kvrt authors", "downloadLocation": "NOASSERTION",
           "filesAnalyzed": bool(files), "licenseConcluded": "MIT", "licenseDeclared": "MIT", "copyrightText": "Copyright (c) 2026 kvrt authors"}
    if files:
        sums = "".join(sorted(f["checksums"][0]["checksumValue"] for f in files))
        out["packageVerificationCode"] = {"packageVerificationCodeValue": hashlib.sha1(sums.encode()).hexdigest()}
        out["licenseInfoFromFiles"] = ["NOASSERTION"]
    return out


def sbom_deb(deb):
    """(a Debian package, its files)."""
    name, version = output("dpkg-deb", "--showformat=${Package} ${Version}", "--show", str(deb)).split()
    with tempfile.TemporaryDirectory() as folder:
        output("dpkg-deb", "--extract", str(deb), folder)
        files = sbom_files(pathlib.Path(folder), name)
    out = sbom_ours(name, version, spdx_id(f"Deb-{name}"), files)
    out["packageFileName"] = deb.name
    out["checksums"] = [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(deb.read_bytes()).hexdigest()}]
    return out, files


def sbom(build, tree, debs, parts, declarations):
    """Of an installed tree, or, where that is None, of Debian packages."""
    of_cache = cache(build)
    version = of_cache.get("KVRT_PACKAGE_VERSION") or of_cache["CMAKE_PROJECT_VERSION"]
    files = sbom_files(tree, "kvrt") if tree else []
    kvrt = sbom_ours("kvrt", version, "SPDXRef-Package-kvrt", files)
    made = [(kvrt, files)] if tree else [sbom_deb(deb) for deb in sorted(debs)]
    relation = {"tree": "CONTAINS", "static": "STATIC_LINK", "headers": "CONTAINS", "shared": "DYNAMIC_LINK"}
    links = [("SPDXRef-DOCUMENT", "DESCRIBES", package["SPDXID"]) for package, _ in made]
    links += [(package["SPDXID"], "CONTAINS", f["SPDXID"]) for package, these in made for f in these]
    links += [(package["SPDXID"], "GENERATED_FROM", kvrt["SPDXID"]) for package, _ in made if package is not kvrt]
    for c in parts:
        links += [(kvrt["SPDXID"], r, spdx_id(f"Package-{c.name}")) for r in sorted({relation[k] for k in c.kinds})]
    links += [(spdx_id(f"Package-{c.name}"), "BUILD_DEPENDENCY_OF", kvrt["SPDXID"]) for c in declarations]
    created = datetime.datetime.fromtimestamp(source_date(), datetime.timezone.utc)
    ours = [package for package, _ in made if package is not kvrt] + [kvrt]
    out = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"kvrt-{version}",
           "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: kvrt-packaging/third_party.py"]},
           "packages": ours + [sbom_package(c) for c in parts + declarations], "files": [f for _, these in made for f in these],
           "relationships": [{"spdxElementId": a, "relationshipType": r, "relatedSpdxElement": b} for a, r, b in links]}
    extracted = [c for c in parts if c.licence.startswith("LicenseRef-")]
    if extracted:
        out["hasExtractedLicensingInfos"] = [{"licenseId": c.licence, "name": c.name, "extractedText": c.text} for c in extracted]
    mark = hashlib.sha256(json.dumps(out, sort_keys=True).encode()).hexdigest()[:32]
    out["documentNamespace"] = f"https://spdx.org/spdxdocs/kvrt-{version}-{mark}"
    return json.dumps(out, indent=1, ensure_ascii=False) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("notices", "sbom"))
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--tree", type=pathlib.Path)
    parser.add_argument("--deb", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    o = parser.parse_args()
    if (o.what == "sbom") != (bool(o.tree) != bool(o.deb)):
        parser.error("sbom takes --tree or --deb, and notices neither")
    build = o.build.resolve()
    parts, declarations = components(build, built(build)[1])
    o.out.write_text(notices(parts) if o.what == "notices" else sbom(build, o.tree, o.deb, parts, declarations), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except (Fault, OSError) as e:
        sys.exit(f"third_party: {e}")
