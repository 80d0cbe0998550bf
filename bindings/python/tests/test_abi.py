"""The package's picture of kvrt.h is kvrt.h's, and a library that does not fit is refused."""
import ctypes
import dataclasses
import json
import os
import pathlib
import re
import unittest

import kvrt
from kvrt import _abi, _enums, _raw, _types, _values
from support import SOURCE, python

ABI = json.loads((SOURCE / "include" / "kvrt.abi.json").read_text())  # the layouts of the compiler: ./dev abi
SCALARS = {
    "uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64, "float": ctypes.c_float,
    "double": ctypes.c_double, "size_t": ctypes.c_size_t, "void": None,
}
# Functions that the package has no use for.
UNUSED = {
    "kvrt_last_error",  # every call has an error struct of its own
    "kvrt_runtime_retain", "kvrt_model_retain", "kvrt_store_retain", "kvrt_cancel_retain",  # a handle is the one owner
}
CODE = "".join(file.read_text() for file in pathlib.Path(kvrt.__file__).parent.glob("*.py") if file.name not in ("_raw.py", "_enums.py"))


def kinds_of(declared):
    """The types of ctypes that stand for a C type."""
    declared = ABI["typedefs"].get(declared, declared)
    if declared == "const char*":
        return {ctypes.c_char_p, ctypes.c_void_p}
    return {ctypes.c_void_p} if "*" in declared else {getattr(_raw, declared, None) if declared.endswith("_fn") else SCALARS[declared]}


class Description(unittest.TestCase):
    def test_structs(self):
        self.assertEqual(list(ABI["structs"]), [cls.__name__ for cls in _raw.STRUCTS])
        for mine, (name, struct) in zip(_raw.STRUCTS, ABI["structs"].items()):
            self.assertEqual((ctypes.sizeof(mine), ctypes.alignment(mine)), (struct["size"], struct["align"]), name)
            self.assertEqual([field[0] for field in mine._fields_], [field["name"] for field in struct["fields"]], name)
            self.assertEqual(set(mine.__annotations__), {field["name"] for field in struct["fields"]}, name)
            for (field, kind), its in zip(mine._fields_, struct["fields"]):
                where = f"{name}.{field}"
                self.assertEqual((getattr(mine, field).offset, getattr(mine, field).size), (its["offset"], its["size"]), where)
                array = re.fullmatch(r"(\w+)\[(\d+)\]", its["type"])
                kinds = {ctypes.c_char} if array and array[1] == "char" else kinds_of(array[1] if array else its["type"])
                self.assertIn(kind, [k * int(array[2]) if array else k for k in kinds], where)

    def test_library(self):
        """The library knows every struct and every field by name."""
        for name, struct in ABI["structs"].items():
            self.assertEqual(_abi.lib.kvrt_struct_size(name.encode()), struct["size"], name)
            for field in struct["fields"]:
                self.assertEqual(_abi.lib.kvrt_struct_offset(name.encode(), field["name"].encode()), field["offset"], f"{name}.{field['name']}")

    def test_functions(self):
        self.assertEqual(set(ABI["functions"]), set(_raw.FUNCTIONS))
        for name, function in ABI["functions"].items():
            result, taken = _raw.FUNCTIONS[name]
            self.assertIn(result, kinds_of(function["result"]), name)
            self.assertEqual(len(taken), len(function["parameters"]), name)
            for mine, its in zip(taken, function["parameters"]):
                self.assertIn(mine, kinds_of(its["type"]), f"{name}: {its['name']}")
            self.assertEqual(name not in UNUSED, re.search(rf"\b(_?lib|library)\.{name}\b", CODE) is not None, f"{name} is called")

    def test_callbacks(self):
        for name, callback in ABI["callbacks"].items():
            made = getattr(_raw, name)
            self.assertIn(made._restype_, kinds_of(callback["result"]), name)
            self.assertEqual(len(made._argtypes_), len(callback["parameters"]), name)
            for mine, its in zip(made._argtypes_, callback["parameters"]):
                self.assertIn(mine, kinds_of(its["type"]), f"{name}: {its['name']}")

    def test_enums(self):
        classes = _enums.ENUMS
        self.assertEqual(set(classes), set(ABI["enums"]))
        for name, enum in classes.items():
            self.assertEqual({member.name: member.value for member in enum}, {key[len(name) + 1:]: value for key, value in ABI["enums"][name].items()})
        for member in kvrt.Status:
            self.assertEqual(_abi.lib.kvrt_status_name(member).decode(), member.name)
        self.assertEqual(kvrt.Status(99).name, "UNKNOWN_99")  # a value of a newer library

    def test_enums_print_as_names(self):
        token = kvrt.EventType.TOKEN
        self.assertEqual((str(token), f"{token}", f"{token:>7}", "%s" % token), ("TOKEN", "TOKEN", "  TOKEN", "TOKEN"))
        self.assertEqual((f"{token:d}", token + 0, repr(token)), ("1", 1, "<EventType.TOKEN: 1>"))
        self.assertEqual((str(kvrt.Status(99)), f"{kvrt.Reason.EOS}"), ("UNKNOWN_99", "EOS"))
        flags = _enums.TextFlags
        self.assertEqual([str(flag) for flag in (flags.SPECIAL, flags.SPECIAL | flags.BOS, flags(0), flags(0x12))], ["SPECIAL", "SPECIAL|BOS", "0", "BOS|0x10"])
        self.assertEqual(f"{flags.BOS:>4}{flags.BOS:02x}", " BOS02")

    def test_fields(self):
        """Every field is reached: options are set by name, the others are read, or are fields of a dataclass that is made by names."""
        made = {cls.__name__: {field.name for field in dataclasses.fields(cls)} for cls in [*vars(_types).values(), *vars(_values).values()] if dataclasses.is_dataclass(cls)}
        of = {"kvrt_runtime_props": "RuntimeInfo", "kvrt_model_props": "ModelInfo", "kvrt_store_props": "StoreInfo", "kvrt_session_props": "SessionInfo",
              "kvrt_cache_props": "CacheInfo", "kvrt_message_props": "Message"}
        for name, struct in ABI["structs"].items():
            known = made.get(of.get(name, "".join(word.capitalize() for word in name.removeprefix("kvrt_").split("_"))), set())
            for field in (f["name"] for f in struct["fields"]):
                reached = field in ("struct_size", "reserved") or field in known or re.search(rf"\.{field}\b|\b{field}=", CODE)
                self.assertTrue(reached, f"{name}.{field}")


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
        for fields, found in (
                ("('x', ctypes.c_char * 999)", "kvrt_event has 112 bytes, this package knows 999: the library is older"),
                ("('struct_size', ctypes.c_uint32), ('token', ctypes.c_int32)", "kvrt_event.token: this package knows it at 4, the library has it at 8"),
                ("('struct_size', ctypes.c_uint32), ('tokens', ctypes.c_int32)", "kvrt_event.tokens: this package knows it at 4, the library has no such field")):
            code = "import ctypes, kvrt._abi as a, kvrt._raw as r, kvrt._base as b; "
            code += f"r.STRUCTS[:] = [type('kvrt_event', (b.Struct,), {{'_fields_': [{fields}]}})]; a._open_library()"
            self.assertIn(found, python(code).stderr)
        run = python("import kvrt._abi as a, kvrt._raw as r; r.ABI_VERSION = 7; a._open_library()")
        self.assertIn("has ABI 0, this package knows 7", run.stderr)
