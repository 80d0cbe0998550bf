"""manual.py KVRT MODEL: man pages and completions have every command and option of --help; the shells and groff that are installed take them."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

kvrt, model = sys.argv[1:]
for name in [name for name in os.environ if name.startswith("KVRT_")]:
    del os.environ[name]
home = tempfile.TemporaryDirectory()
os.environ.update(KVRT_CACHE="", HOME=home.name, XDG_CONFIG_HOME=home.name)  # nobody's own defaults


def output(*words):
    return subprocess.run([kvrt, *words], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


def entries(text):
    """(commands, options with their values) of --help."""
    commands, options, part = [], {}, ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            part = line
        elif match := re.match(r"  (-[\w-]+(?:, --[\w-]+)?)(?: (\S+))?", line):
            options.update({name: match.group(2) or "" for name in match.group(1).split(", ")})
        elif part == "Commands:" and (match := re.match(r"  ([a-z]+) ", line)):
            commands.append(match.group(1))
    return commands, options


def walk(path=()):
    """Every command's path, and its options."""
    commands, options = entries(output(*path, "--help"))
    assert "--help" in options, (path, options)
    yield path, commands, options
    for command in commands:
        yield from walk((*path, command))


def run(command, text=None):
    done = subprocess.run(command, capture_output=True, text=True, input=text, check=False)
    assert done.returncode == 0 and not done.stderr, (command, done.stdout, done.stderr)
    return done.stdout


def plain(page):
    """A page's source without its markup."""
    for roff, character in {"\\-": "-", "\\(aq": "'", "\\(ti": "~", "\\(ha": "^", "\\(ga": "`", "\\&": "", "\\e": "\\"}.items():
        page = page.replace(roff, character)
    return re.sub(r"\\f[BIR]", "", page)


def bash_completes(script, words):
    line = " ".join(map(shlex.quote, words))
    code = f"source '{script}'; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _kvrt; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return run(["bash", "--norc", "-c", code]).split()


def fish_completes(script, line):
    return [found.split("\t")[0] for found in run(["fish", "-N", "-c", f"source '{script}'; complete -C '{line}'"]).splitlines()]


def check_completions(complete, found):
    """`complete` gives the words with which a line that ends in the last word may go on."""
    for path, commands, options in found:
        assert set(complete([*path, ""])) >= set(commands), (path, complete([*path, ""]))
        longs = {o for o in options if o.startswith("--")}
        assert set(complete([*path, "--"])) == longs, (path, set(complete([*path, "--"])) ^ longs)
    assert complete(["store", "rm", "--dom"]) == ["--domain"]
    assert complete(["st"]) == ["store"]
    assert complete(["run", "--session", "store", "--kv", "fp"]) == ["fp8"]
    assert set(complete(["plan", "--kv-v", "in"])) == {"int4", "int8"}
    assert set(complete(["run", "--chat", "--codec", ""])) == {"none", "zstd"}
    assert complete(["help", "perp"]) == ["perplexity"]
    assert complete(["run", "-m", "model.g"]) == ["model.gguf"], complete(["run", "-m", "model.g"])
    assert complete(["inspect", "model.g"]) == ["model.gguf"]


def sections(page):
    """A page's sections by their titles."""
    parts = re.split(r"^\.SH (.*)\n", page, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def check_page(path, text):
    """What is read: a description, examples whose lines kvrt takes, and the files and variables that the command has to do with."""
    parts = sections(text)
    assert len(parts["DESCRIPTION"]) > 20 and parts["ENVIRONMENT"].count("NO_COLOR") == 1, (path, parts)
    about = output(*path, "--help")
    for variable in ("KVRT_MODEL", "KVRT_STORE"):
        of = path in ((), ("store",)) and not (path and variable == "KVRT_MODEL") or f"or set {variable}" in about
        assert (variable in parts["ENVIRONMENT"]) == of, (path, variable)
        assert not of or "~/.config/kvrt/config.toml" in parts["FILES"], (path, parts)
    assert ("~/.cache/kvrt/weights" in parts.get("FILES", "")) == (not path or "--cache-dir" in about), (path, parts)
    examples = re.findall(r"^\.nf\n(.*?)^\.fi\n", parts["EXAMPLES"], re.M | re.S)
    assert examples, path
    for line in "".join(examples).splitlines():
        commands = re.split(r" \|\|? ", re.sub(r"\$\((.*)\)", "1", re.sub(r"^\. <\((.*)\)$", r"\1", line)))
        ours = [shlex.split(re.sub(r" > .*", "", command))[1:] for command in commands if command.startswith("kvrt ")]
        assert ours, (path, line)
        for words in ours:
            output(*words, "--help")
    if path == ("chat",):
        said = subprocess.run([kvrt, "chat", "-m", model], input="/help\n", capture_output=True, text=True, check=True).stderr
        verbs = re.findall(r"^(/\w+)", said, re.M)
        assert len(verbs) > 8 and re.findall(r"^(/\w+)", parts["LINES OF A CHAT"], re.M) == verbs, (verbs, parts["LINES OF A CHAT"])


def check_order():
    """--help begins with what most people need; the rest has titles."""
    for command, first in (("chat", ["-m", "--store", "--session", "--system", "-n", "--temp"]), ("run", ["-m", "--chat", "-n", "--store", "--session"])):
        text = output(command, "--help")
        assert re.findall(r"^  (-[^ ,]*)", text, re.M)[:len(first)] == first, text
        for title in ("Sampling", "Saving", "Computing", "KV", "Weight cache"):
            assert f"\n{title}:\n" in text, (title, text)
    assert "- for standard input" in output("run", "--help")


def check_sessions(complete):
    """NAME is a session of the store."""
    os.environ["PATH"] = f"{os.path.dirname(kvrt)}:{os.environ['PATH']}"
    os.makedirs("a folder", exist_ok=True)
    for store in ("memory", "a folder/memory", os.environ["HOME"] + "/memory"):
        for name in ("ann", "bob", "$(touch ran)"):
            output("run", "-m", model, "-p", "Hello", "-n", "0", "--store", store, "--session", name)
    for command in ("rm", "show", "stat", "mv", "pin", "unpin", "ttl"):
        assert set(complete(["store", command, "memory", "a"])) == {"ann"}, (command, complete(["store", command, "memory", "a"]))
    assert {"ann", "bob"} <= set(complete(["store", "rm", "--json", "memory", "ann", ""])), complete(["store", "rm", "memory", "ann", ""])
    assert not {"ann", "bob"} & set(complete(["store", "rm", "nowhere", ""]))
    assert any(found.rstrip("/") == "memory" for found in complete(["store", "rm", "mem"]))
    os.mkdir("bob")  # a folder of that name changes nothing
    assert "bob" in complete(["store", "rm", "memory", "b"]), complete(["store", "rm", "memory", "b"])
    os.rmdir("bob")
    assert not pathlib.Path("ran").exists(), "a session's name was run"
    for line in (["--store", "memory"], ["~/memory"], ["'a folder/memory'"], ['"a folder/memory"'], ["a\\ folder/memory"]):
        assert "bob" in complete(["store", "rm", *line, "b"]), (line, complete(["store", "rm", *line, "b"]))


def check_default_store(script):
    """Names of the default store are quoted once: bash would quote them again as names of files."""
    output("run", "-m", model, "-p", "Hello", "-n", "0", "--store", "memory", "--session", "a b")
    code = f"source '{script}'; compopt() {{ echo \"compopt $*\"; }}; COMP_WORDS=(kvrt store rm \"$1\"); COMP_CWORD=3; _kvrt; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    for typed, offered in (("a", ["ann", "a\\ b", "a\\ folder"]), ("a\\ ", ["a\\ b"]), ("memor", ["compopt -o filenames", "memory"])):
        os.environ["KVRT_STORE"] = "memory"
        lines = run(["bash", "--norc", "-c", code, "bash", typed]).splitlines()
        assert sorted(lines) == sorted(offered), (typed, lines)
    os.environ["KVRT_STORE"] = "nowhere"
    lines = run(["bash", "--norc", "-c", code, "bash", "a"]).splitlines()
    assert lines == ["compopt -o filenames", "a folder"], lines
    del os.environ["KVRT_STORE"]
    output("store", "rm", "memory", "a b")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        output("share", "share")
        share = pathlib.Path(folder, "share")
        scripts = {"bash": share / "bash-completion/completions/kvrt", "zsh": share / "zsh/site-functions/_kvrt",
                   "fish": share / "fish/vendor_completions.d/kvrt.fish"}
        pathlib.Path("model.gguf").touch()
        found = list(walk())
        assert {p for p, _, _ in found} >= {(), ("run",), ("chat",), ("store",), ("store", "gc"), ("version",)}, found
        for shell, script in scripts.items():
            assert script.read_text() == output("completion", shell), shell
        pages = share / "man/man1"
        written, wanted = {p.name for p in pages.iterdir()}, {"-".join(("kvrt", *path)) + ".1" for path, _, _ in found}
        assert written == wanted, written ^ wanted
        for path, commands, options in found:
            text = plain((pages / ("-".join(("kvrt", *path)) + ".1")).read_text())
            for command in commands:
                assert "-".join(("kvrt", *path, command)) + "(1)" in text, (path, command)
            for option, value in options.items():
                assert re.search(rf"^(-\w, )?{option}(, --[\w-]+)?( {re.escape(value)})?$" if value else rf"^.*{option}", text, re.M), (path, option)
            check_page(path, text)
            name, zsh = " ".join(("kvrt", *path)), scripts["zsh"].read_text()
            function = zsh[zsh.index(f"\n_{name.replace(' ', '_')}() {{"):].split("\n}\n")[0]
            fish = [line for line in scripts["fish"].read_text().splitlines() if f'__kvrt_at "{name}"' in line]
            for option in options:
                assert f"){option}[" in function or f"*{option}[" in function, (path, option, function)
                flag = " -l " + option[2:] if option.startswith("--") else " -s " + option[1:]
                assert any(flag + " " in line for line in fish), (path, option)
            for command in commands:
                assert f"'{command}:" in function and any(f" -a {command} " in line for line in fish), (path, command)
        check_completions(lambda words: bash_completes(scripts["bash"], ["kvrt", *words]), found)
        check_order()
        check_sessions(lambda words: bash_completes(scripts["bash"], ["kvrt", *words]))
        check_default_store(scripts["bash"])
        tried = ["bash"]
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell):
                run([shell, "-n", scripts[shell]])
                tried.append(f"{shell} -n")
        if shutil.which("fish"):
            check_completions(lambda words: fish_completes(scripts["fish"], " ".join(["kvrt", *words])), found)
            check_sessions(lambda words: fish_completes(scripts["fish"], " ".join(["kvrt", *words])))
        if shutil.which("groff"):
            for page in sorted(pages.iterdir()):
                run(["groff", "-man", "-Tutf8", "-wall", "-z", page])
            tried.append("groff")
        print(f"manual: {len(found)} commands; {', '.join(tried)}")


main()
