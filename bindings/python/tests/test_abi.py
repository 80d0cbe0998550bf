"""The package's picture of kvrt.h is kvrt.h's, and a library that does not fit is refused."""
import ctypes
import os
import pathlib
import re
import unittest

import kvrt
from kvrt import _abi
from support import SOURCE, python

SCALARS = {
    "uint32_t": "u32", "int32_t": "i32", "uint64_t": "u64", "int64_t": "i64", "float": "f32", "double": "f64", "size_t": "size",
    "kvrt_status": "i32", "kvrt_event_fn": "event_fn", "kvrt_log_fn": "log_fn", "kvrt_wake_fn": "user_fn", "kvrt_free_fn": "user_fn",
}
HEADER = re.sub(r"/\*.*?\*/|^#.*?$", "", (SOURCE / "include" / "kvrt.h").read_text(), flags=re.S | re.M)


def kind_of(declared, written=False):
    """What the package may call a C type."""
    declared = " ".join(declared.replace("*", " * ").split())
    if declared == "const char *" and not written:
        return {"str", "ptr"}
    return {"ptr"} if "*" in declared else {SCALARS[declared]} if declared != "void" else {"void"}


class Header(unittest.TestCase):
    def test_structs(self):
        structs = dict(re.findall(r"typedef struct (\w+) \{(.*?)\}", HEADER, re.S))
        self.assertEqual(set(structs), set(_abi.STRUCTS))
        for name, body in structs.items():
            declared = []
            for group in filter(None, map(str.strip, body.split(";"))):
                first, *rest = [part.strip() for part in group.split(",")]
                kind, field = re.fullmatch(r"(.*?[\s*])(\w+(?:\[\d+\])?)", first, re.S).groups()
                for one in [field, *rest]:
                    size = re.search(r"\[(\d+)\]", one)
                    one = re.sub(r"\[.*", "", one)
                    declared.append((one, {ctypes.c_char * int(size[1])} if size else {_abi.TYPES[k] for k in kind_of(kind)}))
            fields = _abi.STRUCTS[name]._fields_
            self.assertEqual([f for f, _ in fields], [d for d, _ in declared], name)
            for (field, kind), (_, kinds) in zip(fields, declared):
                self.assertIn(kind, kinds, f"{name}.{field}")
            self.assertEqual(_abi.lib.kvrt_struct_size(name.encode()), ctypes.sizeof(_abi.STRUCTS[name]), name)

    def test_functions(self):
        declared = re.findall(r"KVRT_API\s+([\w\s*]*?)(kvrt_\w+)\(([^)]*)\);", HEADER)
        self.assertGreater(len(declared), 50)
        known = _abi.prototypes()
        self.assertEqual({name for _, name, _ in declared}, set(known))
        for result, name, arguments in declared:
            got_result, got = known[name]
            self.assertIn(got_result, kind_of(result), name)
            want = [re.match(r"(.*?)\w+$", a.strip(), re.S)[1] for a in arguments.split(",") if a.strip() != "void"]
            self.assertEqual(len(got), len(want), name)
            for mine, its in zip(got, want):
                self.assertIn(mine, kind_of(its), name)

    def test_enums(self):
        values = {name: int(number) for name, number in re.findall(r"\bKVRT_([A-Z_0-9]+) = (\d+)", HEADER)}
        for prefix, enum in (("EVENT_", kvrt.EventType), ("REASON_", kvrt.Reason), ("REUSE_", kvrt.ReuseStopped), ("STATE_", kvrt.State),
                             ("ISA_", kvrt.Isa), ("DETERMINISM_", kvrt.Determinism), ("DEVICE_", kvrt.Device), ("GEMM_", kvrt.Gemm), ("FOREIGN_KV_", kvrt.ForeignKv), ("KV_", kvrt.KvFormat), ("LOGITS_", kvrt.Logits),
                             ("DURABILITY_", kvrt.Durability), ("CODEC_", kvrt.Codec),
                             ("DETAIL_", kvrt.Detail)):
            declared = {name[len(prefix):]: number for name, number in values.items() if name.startswith(prefix)}
            self.assertTrue(declared)
            self.assertEqual({member.name: member.value for member in enum}, declared)
        for member in kvrt.Status:
            self.assertEqual(_abi.lib.kvrt_status_name(member).decode(), member.name)
            self.assertEqual(values[member.name], member.value)
        self.assertEqual(kvrt.Status(99).name, "UNKNOWN_99")  # of a newer library


class Loading(unittest.TestCase):
    def test_bundled(self):
        self.assertEqual(pathlib.Path(_abi.lib._name), pathlib.Path(kvrt.__file__).parent / "libkvrt.so.0")
        self.assertEqual(len(list(pathlib.Path(kvrt.__file__).parent.glob("*.so*"))), 1)
        self.assertEqual(kvrt.library_version(), kvrt.__version__)

    def test_override(self):
        for library, message in (("/nowhere/libkvrt.so.0", "cannot load"), ("libc.so.6", "has no kvrt_version")):
            run = python("import kvrt", KVRT_LIBRARY=library)
            self.assertIn("ImportError: kvrt: ", run.stderr)
            self.assertIn(message, run.stderr)
        run = python("import kvrt, kvrt._abi as a; print(a.lib._name)", KVRT_LIBRARY=_abi.lib._name)
        self.assertEqual(run.stdout.strip(), _abi.lib._name, run.stderr)

    def test_another_layout(self):
        code = "import ctypes, os; import kvrt._abi as a; a.STRUCTS['kvrt_event'] = type('E', (a.Struct,), {'_fields_': [('x', ctypes.c_char * 999)]}); "
        run = python(code + "a._open_library()")
        self.assertIn("kvrt_event has", run.stderr)
        run = python("import kvrt._abi as a; a.ABI_VERSION = 7; a._open_library()")
        self.assertIn("has ABI 0, this package knows 7", run.stderr)
