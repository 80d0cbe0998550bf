#!/usr/bin/env python3
"""Makes the NuGet package Kvrt.VERSION.nupkg: a zip, laid out as NuGet's own. The .NET SDK has no part in it.

  pack.py --assemblies DIR --library FILE --out DIR [--notices FILE]

--assemblies: what build.sh made. --library: libkvrt.so.0, for others best one with its dependencies inside (KVRT_STATIC_DEPS). --notices: the
licences of what is linked into the library. The same input gives the same bytes.
"""
import argparse
import pathlib
import re
import uuid
import zipfile
from xml.sax.saxutils import escape

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGETS = ("netstandard2.0", "netstandard2.1")
DESCRIPTION = "LLM inference in your process, with conversations that survive it. Linux x86-64."

NUSPEC = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd">
  <metadata>
    <id>Kvrt</id>
    <version>{version}</version>
    <authors>kvrt authors</authors>
    <license type="expression">MIT</license>
    <readme>README.md</readme>
    <description>{description}</description>
    <dependencies>
{dependencies}
    </dependencies>
  </metadata>
</package>
"""
TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />
  <Default Extension="psmdcp" ContentType="application/vnd.openxmlformats-package.core-properties+xml" />
{types}
</Types>
"""
RELS = """<?xml version="1.0" encoding="utf-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/Kvrt.nuspec" Id="R1" />
  <Relationship Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties" Target="/{core}" Id="R2" />
</Relationships>
"""
CORE = """<?xml version="1.0" encoding="utf-8"?>
<coreProperties xmlns="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/">
  <dc:creator>kvrt authors</dc:creator>
  <dc:description>{description}</dc:description>
  <dc:identifier>Kvrt</dc:identifier>
  <version>{version}</version>
</coreProperties>
"""


def version():
    header = (ROOT / "include" / "kvrt.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"#define KVRT_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def contents(o):
    """The files of the package by name. NuGet wants the first three at these places."""
    number = version()
    core = f"package/services/metadata/core-properties/{uuid.uuid5(uuid.NAMESPACE_URL, 'kvrt ' + number).hex}.psmdcp"
    groups = "\n".join(f'      <group targetFramework=".NETStandard{t.removeprefix("netstandard")}" />' for t in TARGETS)
    files = {f"lib/{t}/{name}": (o.assemblies / t / name).read_bytes() for t in TARGETS for name in ("Kvrt.dll", "Kvrt.xml")}
    files["runtimes/linux-x64/native/libkvrt.so.0"] = o.library.read_bytes()
    files["README.md"] = (HERE / "README.md").read_bytes()
    files["LICENSE.txt"] = (ROOT / "LICENSE").read_bytes()
    if o.notices:
        files["THIRD-PARTY.txt"] = o.notices.read_bytes()
    extensions = sorted({name.rsplit(".", 1)[1] for name in files} | {"nuspec"})
    types = "\n".join(f'  <Default Extension="{e}" ContentType="application/octet" />' for e in extensions)
    return {
        "_rels/.rels": RELS.format(core=core).encode(),
        "Kvrt.nuspec": NUSPEC.format(version=number, description=escape(DESCRIPTION), dependencies=groups).encode(),
        "[Content_Types].xml": TYPES.format(types=types).encode(),
        core: CORE.format(version=number, description=escape(DESCRIPTION)).encode(),
        **files,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assemblies", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--notices", type=pathlib.Path)
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    package = o.out / f"Kvrt.{version()}.nupkg"
    with zipfile.ZipFile(package, "w") as archive:
        for name, data in contents(o).items():
            entry = zipfile.ZipInfo(name)  # dated 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    print(package)


if __name__ == "__main__":
    main()
