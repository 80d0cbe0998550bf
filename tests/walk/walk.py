#!/usr/bin/env python3
"""Walks through the code, traced as they run: the program walks under gdb, with a breakpoint on each function.

  walk.py PROGRAM ARCHITECTURE.md OBJECT...     compares the walks with the limits below, and with those of the page
  walk.py --print PROGRAM OBJECT...             prints the units that each walk enters, as the page should have them
  walk.py --self-test                           judges walks with a fault in each

OBJECT: those of runtime/api and runtime/engine, a file each. A unit is X.h with X.cc. A move: the next function of api/ or engine/ that is entered is
in another unit; calls into other folders are none. Not counted: functions that headers define, as these may be inlined; what the compiler put into its
caller, which is in the same file; and threads other than the caller's.

Exit code 1: a walk has more moves than its limit, a step asks a session more than once, or the page is not what runs. 77: there is no gdb, or it may not trace here.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

STEP, STEP_ENDS, ASKED = "Driver::run_step", "Committer::commit", "KvSequence::next_run"
# Moves from a step's begin to the end of its commit, and from the begin of a call of the engine to its end: a resume of three chunks.
STEP_MOVES = {"decode": 14, "prompt": 16}
RESUME, RESUME_MOVES = "Resumer::resume", 16
# How often a step asks what a session needs next: once for each.
ASKS = {"decode": 1, "prompt": 1, "two sessions": 2}
# A walk of the page begins with this function.
PAGES = {"kvrt_session_append": "append to token", "kvrt_session_checkpoint": "block to disk", "kvrt_session_resume": "disk to block",
         "add_message": "messages to tokens"}


def in_gdb(gdb):
    """The part that gdb runs: breakpoints that write down what is entered, with the place of the stack, and never stop."""
    given = json.loads(pathlib.Path(os.environ["KVRT_WALK"]).read_text())
    events = []

    def stack():
        return int(gdb.parse_and_eval("(unsigned long)$rsp"))

    class Entered(gdb.Breakpoint):
        def __init__(self, address, name):
            super().__init__(f"*{address:#x}", internal=True)
            self.name = name

        def stop(self):
            thread = gdb.selected_thread()
            if thread.ptid[1] == gdb.selected_inferior().pid:
                events.append((self.name, stack()))
            return False

    class Begun(Entered):
        def stop(self):
            events.append(("begin " + gdb.parse_and_eval("(char*)$rdi").string(), 0))
            return False

    class Ended(Entered):
        def stop(self):
            events.append(("end", 0))
            return False

    for setting in ("pagination off", "confirm off", "breakpoint always-inserted on", "print thread-events off", "debuginfod enabled off"):
        try:
            gdb.execute("set " + setting)
        except gdb.error:
            pass  # an older gdb
    for name, address in given["functions"]:
        (Begun if name == "walk_begin" else Ended if name == "walk_end" else Entered)(address, name)
    gdb.execute("run")
    code = gdb.parse_and_eval("$_exitcode")
    pathlib.Path(given["out"]).write_text(json.dumps({"exit": int(code) if str(code) != "void" else -1, "events": events}))


def symbols(path):
    """(address, kind, plain name) of the functions that an object or a program defines."""
    for line in subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True).stdout.splitlines():
        match = re.match(r"([0-9a-f]+) ([tTwW]) (.*)", line)
        if match and ".cold" not in match.group(3):
            yield int(match.group(1), 16), match.group(2), match.group(3)


def plain(name):
    """Without arguments, template arguments, clones and the namespaces that all have: kvrt::(anonymous namespace)::f(int) [clone .part.0] -> f."""
    name = re.sub(r" \[clone [^\]]*\]|\[abi:\w+\]", "", name)
    name = name.replace("(anonymous namespace)::", "").replace("operator()", "operator_call")
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    while re.search(r"\([^()]*\)", name):
        name = re.sub(r"\([^()]*\)( const)?", "", name)
    return re.sub(r"^.* (?=\S+$)", "", name).replace("kvrt::api::", "").replace("kvrt::", "")


def unit_of(object_path):
    """.../CMakeFiles/kvrt_engine.dir/runtime/engine/step/queue.cc.o -> runtime/engine/step/queue."""
    path = re.sub(r".*/CMakeFiles/\w+\.dir/(\./)*", "", str(object_path))
    return re.sub(r"\.cc\.o$", "", path if path.startswith("runtime/") else "runtime/api/" + path)


def is_class(name):
    return name[0].isupper() and "::" not in name


def find_functions(program, objects, wanted):
    """[(unit|function, address)] of the program: all of the objects, and those whose plain names end with one that is wanted."""
    unit_by_name = {}
    for path in objects:
        for _, kind, name in symbols(path):
            if kind in "tT" and not name.startswith(("std::", "void std::", "__")) and "std::_Function_handler" not in name:
                unit_by_name.setdefault((kind, name), []).append(unit_of(path))
    # A class stands for any of its methods, and those of the classes that implement it.
    of_page = re.compile("|".join(rf"(?:^|::)\w*{w}::" if is_class(w) else rf"(?:^|::){w}$" for w in map(re.escape, wanted)))
    found = []
    for address, kind, name in symbols(program):
        short = plain(name)
        for unit in unit_by_name.get((kind, name), [])[:1]:
            found.append((f"{unit}|{short}", address))
            break
        else:
            if of_page.search(short):
                found.append((f"|{short}", address))
        if short in ("walk_begin", "walk_end"):
            found.append((short, address))
    return list({address: (name, address) for name, address in found}.values())


def trace(program, functions):
    """{walk: [(unit, function, stack)]}: what each walk enters, in order."""
    gdb = shutil.which("gdb")
    if gdb is None:
        print("no gdb (Debian: gdb)")
        sys.exit(1 if os.environ.get("CI") else 77)
    with tempfile.TemporaryDirectory() as folder:
        given, out = pathlib.Path(folder, "in.json"), pathlib.Path(folder, "out.json")
        given.write_text(json.dumps({"functions": functions, "out": str(out)}))
        done = subprocess.run([gdb, "-batch", "-nx", "-ex", "set auto-solib-add off", "-x", __file__, program], text=True, capture_output=True,
                              env=os.environ | {"KVRT_WALK": str(given), "PYTHONDONTWRITEBYTECODE": "1"})
        if not out.is_file() and re.search("ptrace|PTRACE", done.stderr):
            print(f"skipped: gdb cannot trace here:\n{done.stderr}")
            sys.exit(77)
        if not out.is_file() or json.loads(out.read_text())["exit"] != 0:
            sys.exit(f"the program did not end well under gdb:\n{done.stdout}\n{done.stderr}")
        events = json.loads(out.read_text())["events"]
    walks, now = {}, None
    for name, stack in events:
        if name.startswith("begin "):
            now = walks.setdefault(name[6:], [])
        elif name == "end":
            now = None
        elif now is not None:
            now.append((*name.split("|"), stack))
    return walks


def one_step(events):
    """Of a walk the part from a step's begin to the end of its commit."""
    begin = next((i for i, e in enumerate(events) if e[1] == STEP), None)
    if begin is None:  # its caller, in the same file, has it in itself
        begin = next(i for i, e in enumerate(events) if e[0].startswith("runtime/engine/step/")) - 1
    commit = next(i for i in range(begin, len(events)) if events[i][1] == STEP_ENDS)
    return events[begin:end_of(events, commit)]


def end_of(events, place):
    """Where the function that events[place] enters has ended: what is entered then has its place on the stack above it, or the same."""
    return next((i for i in range(place + 1, len(events)) if events[i][2] >= events[place][2]), len(events))


def entered(events):
    """(unit, function) of api/ and engine/ whenever another unit is entered."""
    moves = []
    for unit, function, _ in events:
        if unit and (not moves or moves[-1][0] != unit):
            moves.append((unit, function))
    return moves


def check_moves(what, events, most):
    moves = entered(events)
    print(f"{what}: {len(moves) - 1} moves of {most}")
    if len(moves) - 1 <= most:
        return []
    return [f"{what} makes {len(moves) - 1} moves, at most {most} are wanted: " + " > ".join(unit for unit, _ in moves)]


def check_asked(what, events, times):
    asked = sum(function == ASKED for _, function, _ in events)
    print(f"{what}: {ASKED} {asked} times")
    return [] if asked == times else [f"{what}: {ASKED} is called {asked} times, and {times} are wanted: once for each session"]


def self_test():
    """A step within a call, whose places on the stack fall as it goes down."""
    step = [("runtime/engine/driver", STEP, 90), ("runtime/engine/step/planner", "Planner::plan", 80), ("", ASKED, 70), ("runtime/engine/step/planner", "Planner::add", 70),
            ("", "CpuBackend::matmul", 70), ("runtime/engine/step/committer", STEP_ENDS, 80), ("runtime/engine/step/mailboxes", "Mailboxes::push", 70)]
    call = [("runtime/api/generate", "kvrt_session_next", 100), *step, ("runtime/engine/step/pace", "Pace::measured", 80), ("", ASKED, 70)]
    assert one_step(call) == step, one_step(call)
    inlined = [call[0], ("runtime/engine/driver", "Driver::lead", 90), *call[2:]]  # run_step is within its caller
    assert one_step(inlined)[1:] == step[1:], one_step(inlined)
    assert check_moves("a step", step, 3) == [] and "makes 3 moves, at most 2" in check_moves("a step", step, 2)[0]
    assert check_asked("a step", step, 1) == [] and "is called 1 times, and 2" in check_asked("a step", step, 2)[0]
    page = [("runtime/engine/step/planner.cc", "Planner::plan"), ("runtime/compute/backend.h", "Backend"), ("runtime/engine/step/committer.cc", STEP_ENDS)]
    assert check_page(page, call) == [], check_page(page, call)
    assert "entered before" in check_page(page[::-1], call)[0]
    assert "not entered" in check_page([("runtime/engine/step/planner.cc", "Planner::gone")], call)[0]
    assert "not entered" in check_page([("runtime/engine/step/queue.cc", "Planner::plan")], call)[0]  # it is of another file
    names = {"kvrt::(anonymous namespace)::f(int, std::map<int, int>) [clone .part.0]": "f", "kvrt::Own::g[abi:cxx11](int) const": "Own::g",
             "kvrt::Own::h(int)::{lambda(int)#1}::operator()(int) const": "Own::h::{lambda#1}::operator_call"}
    assert {n: plain(n) for n in names} == names, {n: plain(n) for n in names}
    print("walk: ok")


def rows_of(page):
    """The walks of ARCHITECTURE.md: [[(file, function)]]."""
    walks = []
    for walk in page.split("<!-- walk -->")[1:]:
        walks.append([])
        for line in walk.strip().splitlines():
            match = re.match(r"\d+\. `([\w./]+)` `([\w:]+)`", line)
            if not match:
                break
            walks[-1].append(match.groups())
    return walks


def check_page(rows, events):
    """Each row's function is entered after that of the row before. Returns faults."""
    faults, at = [], 0
    for path, function in rows:
        unit = re.sub(r"\.\w+$", "", path)
        names = re.compile(rf"(^|::)\w*{function}::" if is_class(function) else rf"(^|::){re.escape(function)}$")
        fits = lambda e: names.search(e[1]) and e[0] in ("", unit)
        place = next((i for i in range(at, len(events)) if fits(events[i])), None)
        if place is not None:
            at = place + 1
        elif any(fits(e) for e in events):
            faults.append(f"{path} {function} is entered before the row above it")
        else:
            faults.append(f"{path} {function} is not entered")
    return faults


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    printing = sys.argv[1:2] == ["--print"]
    arguments = sys.argv[2 if printing else 1:]
    program, page, objects = arguments[0], None if printing else pathlib.Path(arguments[1]).read_text(), arguments[1 if printing else 2:]
    walks_of_page = {} if printing else {PAGES[rows[0][1]]: rows for rows in rows_of(page) if rows and rows[0][1] in PAGES}
    wanted = {function for rows in walks_of_page.values() for _, function in rows} | {ASKED}
    walks = trace(program, find_functions(program, objects, wanted))
    steps = {name: one_step(events) for name, events in walks.items() if name in STEP_MOVES or name in ASKS}
    resume = next(i for i, e in enumerate(walks["disk to block"]) if e[1] == RESUME)
    resumed = walks["disk to block"][resume:end_of(walks["disk to block"], resume)]
    if printing:
        for name, events in walks.items():
            print(f"\n**{name}**: {len(entered(events)) - 1} moves" + (f", of its step {len(entered(steps[name])) - 1}" if name in steps else ""))
            units, of_step = [], steps.get(name)
            for unit, function in entered(of_step or events):
                units.append(f"{len(units) + 1}. `{unit}.cc` `{function}`")
            print("\n".join(units))
        return
    faults = []
    for name, most in STEP_MOVES.items():
        faults += check_moves(f"a step of a {name}", steps[name], most)
    faults += check_moves("a resume", resumed, RESUME_MOVES)
    for name, times in ASKS.items():
        faults += check_asked(name, steps[name], times)
    for walk in PAGES.values():
        if walk not in walks_of_page:
            faults.append(f"ARCHITECTURE.md has no walk \"{walk}\"")
        else:
            faults += [f"ARCHITECTURE.md, {walk}: {fault}" for fault in check_page(walks_of_page[walk], walks[walk])]
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


try:
    import gdb as gdb_module
except ImportError:
    main()
else:
    in_gdb(gdb_module)
