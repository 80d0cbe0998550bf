#!/usr/bin/env python3
"""The package as NuGet reads it, and as an application has it from there.

  package_test.py PACKAGE ASSEMBLIES LIBRARY WORK HOST      HOST: mono or dotnet, with what is needed before an assembly
"""
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile

PROGRAM = """
static class Program {
  static void Main() {
    System.Console.WriteLine(Kvrt.Library.Version);
    System.Console.WriteLine(Kvrt.Model.RenderTemplate("[]", new Kvrt.TemplateOptions { Source = "{{ 1 + 1 }}" }));
    System.Console.WriteLine(System.IO.File.ReadAllText("/proc/self/maps").Contains(System.AppDomain.CurrentDomain.BaseDirectory + "libkvrt.so.0"));
  }
}
"""
TARGETS = ("netstandard2.0", "netstandard2.1")


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: expected {wanted!r}, found {found!r}")


def check_layout(package, assemblies, library):
    names = package.namelist()
    expect(len(names), len(set(names)), "names that come once")
    core = [n for n in names if re.fullmatch(r"package/services/metadata/core-properties/[0-9a-f]{32}\.psmdcp", n)]
    expect(len(core), 1, "core properties")
    lib = [f"lib/{t}/Kvrt.{e}" for t in TARGETS for e in ("dll", "xml")]
    expect(sorted(n for n in names if n not in core),
           sorted(["[Content_Types].xml", "_rels/.rels", "Kvrt.nuspec", "README.md", "LICENSE.txt", "runtimes/linux-x64/native/libkvrt.so.0", *lib]), "files")
    for target in TARGETS:
        for name in ("Kvrt.dll", "Kvrt.xml"):
            expect(package.read(f"lib/{target}/{name}") == (assemblies / target / name).read_bytes(), True, f"{target}/{name} as it was built")
    expect(package.read("runtimes/linux-x64/native/libkvrt.so.0") == library.read_bytes(), True, "the library as it was built")


def check_xml(package):
    types = ElementTree.fromstring(package.read("[Content_Types].xml"))
    known = {node.get("Extension") for node in types}
    for name in package.namelist():
        if name != "[Content_Types].xml":
            expect(name.rsplit(".", 1)[1] in known, True, f"a content type for {name}")
    relations = ElementTree.fromstring(package.read("_rels/.rels"))
    targets = {node.get("Type").rsplit("/", 1)[1]: node.get("Target").lstrip("/") for node in relations}
    expect(sorted(targets), ["core-properties", "manifest"], "relations")
    for target in targets.values():
        expect(target in package.namelist(), True, f"{target}, which _rels names")
    space = "{http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd}"
    metadata = ElementTree.fromstring(package.read(targets["manifest"])).find(f"{space}metadata")
    for field in ("id", "version", "authors", "description", "license", "readme"):
        expect(bool(metadata.findtext(space + field)), True, f"the nuspec's {field}")
    groups = metadata.find(f"{space}dependencies").findall(f"{space}group")
    expect([(g.get("targetFramework"), len(g)) for g in groups], [(".NETStandard2.0", 0), (".NETStandard2.1", 0)], "dependencies")
    expect(f"Kvrt.{metadata.findtext(space + 'version')}.nupkg", pathlib.Path(package.filename).name, "the package's name")


def check_targets(package):
    """The names of types that netstandard2.0 lacks are not among those of its assembly; the other one has them."""
    for name in (b"IAsyncEnumerable`1", b"IAsyncDisposable", b"ValueTask", b"Span`1", b"IsReadOnlyAttribute"):
        expect(name in package.read("lib/netstandard2.0/Kvrt.dll"), False, f"{name} in netstandard2.0")
    expect(b"IAsyncEnumerable`1" in package.read("lib/netstandard2.1/Kvrt.dll"), True, "IAsyncEnumerable in netstandard2.1")
    for target in TARGETS:
        documented = {n.get("name") for n in ElementTree.fromstring(package.read(f"lib/{target}/Kvrt.xml")).iter("member")}
        expect({"T:Kvrt.Session", "P:Kvrt.GenerateOptions.MaxTokens", "F:Kvrt.Status.NotFound"} <= documented, True, "comments")


def check_use(package, work, host):
    """An application with what NuGet takes out for it: the assembly and the native library beside it. Nothing in the environment helps."""
    mono = pathlib.Path(host[0]).name == "mono"
    target = "netstandard2.0" if mono else "netstandard2.1"
    (work / "Program.cs").write_text(PROGRAM)
    (work / "Kvrt.dll").write_bytes(package.read(f"lib/{target}/Kvrt.dll"))
    (work / "libkvrt.so.0").write_bytes(package.read("runtimes/linux-x64/native/libkvrt.so.0"))
    subprocess.run([os.environ.get("MCS", "mcs"), f"-r:{work}/Kvrt.dll", f"-out:{work}/Program.exe", str(work / "Program.cs")], check=True)
    environment = {k: v for k, v in os.environ.items() if k not in ("KVRT_LIBRARY", "LD_LIBRARY_PATH", "MONO_PATH")}
    run = subprocess.run([*host, str(work / "Program.exe")], env=environment, cwd="/", capture_output=True, text=True)
    expect((run.returncode, run.stdout.split("\n")[1:3]), (0, ["2", "True"]), f"the application, which says {run.stderr}")


def main():
    path, assemblies, library, work = map(pathlib.Path, sys.argv[1:5])
    with zipfile.ZipFile(path) as package:
        expect(package.testzip(), None, "damaged files")
        check_layout(package, assemblies, library)
        check_xml(package)
        check_targets(package)
        check_use(package, work, sys.argv[5:])


if __name__ == "__main__":
    main()
