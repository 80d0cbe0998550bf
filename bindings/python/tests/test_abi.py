"""The package's picture of kvrt.h is kvrt.h's, and a library that does not fit is refused."""
import ctypes
import json
import os
import pathlib
import re
import unittest

import kvrt
from kvrt import _abi
from kvrt._enums import Cache
from support import SOURCE, python

ABI = json.loads((SOURCE / "include" / "kvrt.abi.json").read_text())  # the layouts of the compiler: ./dev abi
SCALARS = {
    "uint32_t": "u32", "int32_t": "i32", "uint64_t": "u64", "int64_t": "i64", "float": "f32", "double": "f64", "size_t": "size",
    "kvrt_event_fn": "event_fn", "kvrt_log_fn": "log_fn", "kvrt_wake_fn": "user_fn", "kvrt_free_fn": "user_fn", "void": "void",
}
ENUMS = {
    "KVRT": kvrt.Status, "KVRT_CACHE": Cache, "KVRT_CODEC": kvrt.Codec, "KVRT_DETAIL": kvrt.Detail, "KVRT_DETERMINISM": kvrt.Determinism,
    "KVRT_DEVICE": kvrt.Device, "KVRT_DURABILITY": kvrt.Durability, "KVRT_EVENT": kvrt.EventType, "KVRT_FOREIGN_KV": kvrt.ForeignKv,
    "KVRT_GEMM": kvrt.Gemm, "KVRT_ISA": kvrt.Isa, "KVRT_KV": kvrt.KvFormat, "KVRT_LOGITS": kvrt.Logits, "KVRT_REASON": kvrt.Reason,
    "KVRT_REPAIR": kvrt.RepairOutcome, "KVRT_REPLY": kvrt.Reply, "KVRT_REUSE": kvrt.ReuseStopped, "KVRT_STATE": kvrt.State, "KVRT_TOOL_CHOICE": kvrt.ToolChoice,
}
# Enums that the package offers as words, flags or methods.
UNNAMED = {"KVRT_GRAMMAR", "KVRT_INSPECT", "KVRT_LOG", "KVRT_SAMPLER", "KVRT_TEXT"}


def kinds_of(declared):
    """The names that the package may use for a C type."""
    declared = ABI["typedefs"].get(declared, declared)
    if declared == "const char*":
        return {"str", "ptr"}
    return {"ptr"} if "*" in declared else {SCALARS[declared]}


class Description(unittest.TestCase):
    def test_structs(self):
        self.assertEqual(set(ABI["structs"]), set(_abi.STRUCTS))
        for name, struct in ABI["structs"].items():
            mine = _abi.STRUCTS[name]
            self.assertEqual((ctypes.sizeof(mine), ctypes.alignment(mine)), (struct["size"], struct["align"]), name)
            self.assertEqual([field for field, _ in mine._fields_], [field["name"] for field in struct["fields"]], name)
            for (field, kind), its in zip(mine._fields_, struct["fields"]):
                where = f"{name}.{field}"
                self.assertEqual((getattr(mine, field).offset, getattr(mine, field).size), (its["offset"], its["size"]), where)
                array = re.fullmatch(r"(\w+)\[(\d+)\]", its["type"])
                kinds = ["char"] if array and array[1] == "char" else kinds_of(array[1] if array else its["type"])
                self.assertIn(kind, [_abi.TYPES[k] * int(array[2]) if array else _abi.TYPES[k] for k in kinds], where)

    def test_library(self):
        """The library knows every struct and every field by name."""
        for name, struct in ABI["structs"].items():
            self.assertEqual(_abi.lib.kvrt_struct_size(name.encode()), struct["size"], name)
            for field in struct["fields"]:
                self.assertEqual(_abi.lib.kvrt_struct_offset(name.encode(), field["name"].encode()), field["offset"], f"{name}.{field['name']}")

    def test_functions(self):
        known = _abi.prototypes()
        self.assertEqual(set(ABI["functions"]), set(known))
        for name, function in ABI["functions"].items():
            result, taken = known[name]
            self.assertIn(result, kinds_of(function["result"]), name)
            self.assertEqual(len(taken), len(function["parameters"]), name)
            for mine, its in zip(taken, function["parameters"]):
                self.assertIn(mine, kinds_of(its["type"]), f"{name}: {its['name']}")

    def test_callbacks(self):
        for name, callback in ABI["callbacks"].items():
            made = _abi.TYPES[SCALARS[name]]
            self.assertIn(made._restype_, [_abi.TYPES[k] for k in kinds_of(callback["result"])], name)
            self.assertEqual(len(made._argtypes_), len(callback["parameters"]), name)
            for mine, its in zip(made._argtypes_, callback["parameters"]):
                self.assertIn(mine, [_abi.TYPES[k] for k in kinds_of(its["type"])], f"{name}: {its['name']}")

    def test_enums(self):
        self.assertEqual(set(ENUMS) | UNNAMED, set(ABI["enums"]))
        for name, enum in ENUMS.items():
            self.assertEqual({member.name: member.value for member in enum}, {key[len(name) + 1:]: value for key, value in ABI["enums"][name].items()})
        for member in kvrt.Status:
            self.assertEqual(_abi.lib.kvrt_status_name(member).decode(), member.name)
        self.assertEqual(kvrt.Status(99).name, "UNKNOWN_99")  # a value of a newer library


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
        for fields, found in ("('struct_size', ctypes.c_uint32), ('token', ctypes.c_int32)", "knows it at 4, the library has it at 8"), (
                "('struct_size', ctypes.c_uint32), ('tokens', ctypes.c_int32)", "knows it at 4, the library has no such field"):
            code = f"import ctypes; import kvrt._abi as a; a.STRUCTS['kvrt_event'] = type('E', (a.Struct,), {{'_fields_': [{fields}]}}); "
            self.assertIn(found, python(code + "a._open_library()").stderr)
        run = python("import kvrt._abi as a; a.ABI_VERSION = 7; a._open_library()")
        self.assertIn("has ABI 0, this package knows 7", run.stderr)
