#!/usr/bin/env python3
"""self_test.py SOURCE CC: abi.py on kvrt.h with one planted change each. A break is named and fails; an addition passes."""
import contextlib
import io
import pathlib
import sys
import tempfile

import abi as tested

SOURCE, CC = pathlib.Path(sys.argv[1]), sys.argv[2]
HEADER, MAP = ((SOURCE / name).read_text() for name in ("include/kvrt.h", "runtime/api/kvrt.map"))
MORE = "\nKVRT_9.8 { global: kvrt_planted; } KVRT_0.2;\n"
NEWEST = tested.nodes(SOURCE / "runtime/api/kvrt.map")[1]
RETYPED = ("kvrt_store_retain(kvrt_store* store)", "kvrt_store_retain(const kvrt_store* store)")
PLANTED = ("#ifdef __cplusplus\n}", "KVRT_API void kvrt_planted(void);\n#ifdef __cplusplus\n}")

# Text of the header, its replacement, and the words that abi.py must print; for the map the same after it.
BREAKS = [
    ("uint32_t add_bos; ", "uint32_t planted; uint32_t add_bos; ", "kvrt_model_props.planted was inserted at 204"),
    ("uint32_t add_bos; ", "uint32_t planted; uint32_t add_bos; ", "kvrt_model_props.add_bos moved from 204 to 208"),
    ("int32_t token;        /**< TOKEN: its id. */\n  uint32_t reason; ", "uint32_t reason;\n  int32_t token; ", "kvrt_event.token moved from 8 to 12"),
    ("double ttft_ms; ", "double first_ms; ", "kvrt_report.ttft_ms was removed or renamed (first_ms is in its place)"),
    ("  int32_t os_code; ", "  uint32_t os_code; ", "kvrt_error.os_code was retyped: int32_t of 4 bytes is uint32_t of 4"),
    ("char message[1008];", "char message[1016];", "kvrt_error.message was retyped: char[1008] of 1008 bytes is char[1016]"),
    ("  const kvrt_report* report; ", "  const kvrt_store_entry* report; ", "kvrt_event.report was retyped"),
    ("  uint64_t bytes_rewritten; ", "  ", "kvrt_gc_report.bytes_rewritten was removed or renamed"),
    ("  float value; ", "  float value, more; ", "kvrt_token_value has no struct_size, so it must not grow"),
    ("KVRT_BUSY = 4,", "KVRT_BUSY = 44,", "KVRT_BUSY was 4, it is 44"),
    ("KVRT_REUSE_EVICTED = 4,", "KVRT_REUSE_LENT = 4,", "enumerator KVRT_REUSE_EVICTED was removed or renamed"),
    ("typedef int32_t kvrt_status;", "typedef int64_t kvrt_status;", "kvrt_status was int32_t, it is int64_t"),
    ("typedef int32_t (*kvrt_event_fn)", "typedef void (*kvrt_event_fn)", "kvrt_event_fn was int32_t (void*, const kvrt_event*), it is void"),
    (*RETYPED, "kvrt_store_retain was void (kvrt_store*), it is void (const kvrt_store*)"),
    (*RETYPED, f"kvrt_store_retain is new or changed, and not in {NEWEST}"),
    ("KVRT_API uint32_t kvrt_version(void);", "KVRT_API uint64_t kvrt_version(void);", "kvrt_version was uint32_t (), it is uint64_t ()"),
    ("KVRT_API uint32_t kvrt_version(void);", "", "function kvrt_version was removed or renamed"),
    ("#define KVRT_ABI_VERSION 0", "#define KVRT_ABI_VERSION 1", "abi_version was 0, it is 1"),
    (*PLANTED, "function kvrt_planted is new", "", "", "\nKVRT_9.7 { global: kvrt_planted; } KVRT_0.1; KVRT_9.8 { global: kvrt_other; } KVRT_9.7;\n"),
    ("", "", "kvrt_version went from KVRT_0.1 to KVRT_9.8", "    kvrt_version;\n", "", MORE.replace("planted", "version")),
]
ADDITIONS = [
    ("} kvrt_message_props;", "  uint64_t planted;\n} kvrt_message_props;", "kvrt_message_props.planted was appended"),
    ("uint32_t reserved; ", "uint32_t planted; ", "kvrt_save_options.planted takes the place of reserved"),
    ("KVRT_DETAIL_NONE = 0,", "KVRT_DETAIL_NONE = 0, KVRT_DETAIL_PLANTED = 99,", "enumerator KVRT_DETAIL_PLANTED is new"),
    ("#ifdef __cplusplus\n}", "typedef struct kvrt_planted { uint32_t struct_size; } kvrt_planted;\n#ifdef __cplusplus\n}", "struct kvrt_planted is new"),
    (*PLANTED, "function kvrt_planted is new", "", "", MORE),
    ("kvrt_struct_size(const char* name)", "kvrt_struct_size(const char* planted)", "kvrt_struct_size: parameters have other names"),
]


def replaced(text, old, new, where):
    if old and text.count(old) < 1:
        sys.exit(f"abi_self: no {old!r} in {where} any more")
    # The last place of the text: one in the comment at the head of the file comes first.
    head, found, tail = text.rpartition(old) if old else (text, "", "")
    return head + (new if found or not old else "") + tail


def abi(folder, verb, *more):
    """Its exit status and its output."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            tested.main([verb, "--source", str(folder), "--cc", CC, *more])
        except SystemExit as end:
            return (end.code or 0, said.getvalue()) if isinstance(end.code, (int, type(None))) else (1, said.getvalue() + end.code)
    return 0, said.getvalue()


def tree(root, header=HEADER, symbol_map=MAP):
    for name, text in (("include/kvrt.h", header), ("runtime/api/kvrt.map", symbol_map)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def main():
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        tree(root)
        if abi(root, "write")[0] or abi(root, "check") != (0, "abi: as described\n") or abi(root, "current")[0]:
            bad.append(f"the tree as it is: {abi(root, 'check')}, {abi(root, 'current')}")
        described = (root / "include/kvrt.abi.json").read_text()
        for number, (old, new, said, *more) in enumerate(BREAKS + ADDITIONS):
            breaks = number < len(BREAKS)
            map_old, map_new, map_end = more or ("", "", "")
            tree(root, replaced(HEADER, old, new, "kvrt.h"), replaced(MAP, map_old, map_new, "kvrt.map") + map_end)
            status, text = abi(root, "check")
            if said not in text or (status != 0) != breaks or ("BREAK: " in text) != breaks:
                bad.append(f"{old!r} -> {new!r}: expected {'a break' if breaks else 'an addition'}, {said!r}; found {status}, {text}")
            if not breaks and ("./dev abi" not in text or abi(root, "current")[0] == 0):
                bad.append(f"{old!r} -> {new!r}: nothing asks for ./dev abi: {text}")

        # The answer of write to a break: before 0.2.0 it takes it, with a line for CHANGELOG.md; from then on it does not, but by force.
        retyped = replaced(HEADER, "  int32_t os_code; ", "  uint32_t os_code; ", "kvrt.h")
        later = replaced(retyped, "#define KVRT_VERSION_MINOR 1", "#define KVRT_VERSION_MINOR 2", "kvrt.h")
        for header, more, written, said in ((later, (), False, "since 0.2.0 the ABI only grows"), (later, ("--force",), True, "CHANGELOG.md needs this line"),
                                            (retyped, (), True, "CHANGELOG.md needs this line")):
            tree(root, header)
            (root / "include/kvrt.abi.json").write_text(described)
            status, text = abi(root, "write", *more)
            if said not in text or (status == 0) != written or ((root / "include/kvrt.abi.json").read_text() != described) != written:
                bad.append(f"write {more}: expected {said!r}, found {status}, {text}")
        # And the answer to a changed function: it moves.
        tree(root, replaced(HEADER, *RETYPED, "kvrt.h"))
        (root / "include/kvrt.abi.json").write_text(described)
        status, text = abi(root, "write")
        nodes, _ = tested.nodes(root / "runtime/api/kvrt.map")
        before, _ = tested.nodes(SOURCE / "runtime/api/kvrt.map")
        if status or {name: node for name, node in nodes.items() if node != before[name]} != {"kvrt_store_retain": NEWEST} or set(nodes) != set(before) \
                or abi(root, "current")[0] or abi(root, "check")[0]:
            bad.append(f"write of a changed function: found {status}, {text}, {(root / 'runtime/api/kvrt.map').read_text()}")
        # A doc that a binding could not say in its language is a fault: a name of C that is none of kvrt.h's.
        for planted in ("kvrt_session_hop", "KVRT_REASON_BORED", "uint32_t"):
            tree(root, replaced(HEADER, "/**< Tokens of a block. */", f"/**< Tokens of a block: see {planted}. */", "kvrt.h"))
            status, text = abi(root, "write")
            if status == 0 or f"a name of C in a made doc: {planted}: " not in text:
                bad.append(f"a doc with {planted}: found {status}, {text}")
    for line in bad:
        print(f"abi_self: {line}")
    print("abi_self: " + ("FAILED" if bad else f"ok, {len(BREAKS)} breaks, {len(ADDITIONS)} additions"))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
