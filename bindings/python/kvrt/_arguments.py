"""Arguments on their way into the library. A wrong one is refused by name: TypeError for another type, kvrt.Invalid (a ValueError) for a value
that the C type cannot hold. ctypes would cut it silently."""
from __future__ import annotations

import array
import ctypes
import functools
import json
import operator
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union, cast

from ._base import Struct
from ._enums import FLAGS, OPTIONS, Status
from ._errors import Invalid

Path = Union[str, "os.PathLike[str]"]
T = TypeVar("T")
S = TypeVar("S", bound=Struct)

_RANGES: Dict[Any, Tuple[int, int]] = {ctypes.c_uint32: (0, 2**32 - 1), ctypes.c_uint64: (0, 2**64 - 1), ctypes.c_int32: (-(2**31), 2**31 - 1)}


def kind_of(value: object) -> Type[object]:
    return type(value)


def wrong(what: str, value: object, expected: str) -> TypeError:
    return TypeError(f"{what} is {'None' if value is None else f'of type {type(value).__name__}'}, expected {expected}")


def integer(value: Any, kind: Any, what: str) -> int:
    """An int that the C type `kind` holds."""
    if isinstance(value, bool):
        raise wrong(what, value, "an int")
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong(what, value, "an int") from None
    low, high = _RANGES[kind]
    if not low <= number <= high:
        raise Invalid(f"{what} is {number}, expected {low} to {high}", Status.INVALID)
    return number


def real(value: Any, what: str) -> float:
    kind = kind_of(value)
    if kind is bool or not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        raise wrong(what, value, "a number")
    try:
        return float(value)
    except OverflowError as error:
        raise Invalid(f"{what}: {error}", Status.INVALID) from None


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, int):
        raise wrong(what, value, "a bool")
    if value not in (0, 1):
        raise Invalid(f"{what} is {value}, expected True or False", Status.INVALID)
    return bool(value)


def one_of(value: Any, kind: Any, what: str) -> int:
    """A value of the enum, or its number."""
    if isinstance(value, kind) or type(value) is int:
        return integer(value, ctypes.c_uint32, what)
    raise wrong(what, value, f"a kvrt.{kind.__name__}")


def handle(value: Any, kind: Type[T], what: str) -> T:
    if not isinstance(value, kind):
        raise wrong(what, value, f"a kvrt.{kind.__name__}")
    return value


@functools.lru_cache(maxsize=None)
def _kinds(struct: Type[Struct]) -> Dict[str, Any]:
    return {field[0]: field[1] for field in struct._fields_}


def fill(struct: S, **values: Any) -> S:
    """Sets fields of an options struct, each under the name of its option."""
    kinds = _kinds(type(struct))
    for name, value in values.items():
        kind = kinds[name]
        if name in OPTIONS:
            value = one_of(value, OPTIONS[name], name)
        elif name in FLAGS:
            value = flag(value, name)
        elif kind in _RANGES:
            value = integer(value, kind, name)
        elif kind is ctypes.c_float:
            value = real(value, name)
        setattr(struct, name, value)
    return struct


def text_bytes(text: str, what: str) -> bytes:
    if not isinstance(text, str):
        raise wrong(what, text, "a str")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{what}: {error}", Status.INVALID) from None


def path_bytes(path: Optional[Path], what: str = "path") -> Tuple[Optional[bytes], int]:
    """A path as the system has it, and its bytes. None: NULL."""
    try:
        name = None if path is None else os.fsencode(path)
    except TypeError:
        raise wrong(what, path, "a str or path") from None
    except UnicodeEncodeError as error:
        raise Invalid(f"{what}: {error}", Status.INVALID) from None
    return name, len(name or b"")


def token_array(tokens: Sequence[int], what: str = "tokens") -> Any:
    """Token ids as an array of C."""
    if isinstance(tokens, (str, bytes, bytearray, memoryview, Mapping)) or not hasattr(tokens, "__iter__"):
        raise wrong(what, tokens, "a sequence of ints")
    ids = array.array("i")
    for index, token in enumerate(tokens):
        ids.append(token if type(token) is int and -(2**31) <= token < 2**31 else integer(token, ctypes.c_int32, f"{what}[{index}]"))
    return (ctypes.c_int32 * len(ids)).from_buffer(ids) if ids else (ctypes.c_int32 * 0)()


def json_bytes(value: object, what: str) -> bytes:
    try:
        return json.dumps(value).encode()
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    except (ValueError, RecursionError) as error:  # it contains itself
        raise Invalid(f"{what}: {error}", Status.INVALID) from None


def list_of(value: Iterable[Any], what: str, items: str) -> List[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{what} is a list of {items}, not {kind_of(cast(object, value)).__name__}")
    return list(value)


def template_arguments(options: Any, tools: Optional[Sequence[Any]], documents: Optional[Sequence[Any]],
                       variables: Optional[Mapping[str, Any]]) -> None:
    """Sets the chat template's arguments beside the messages, as JSON, in an options struct."""
    if tools is not None:
        options.tools = json_bytes(list_of(tools, "tools", "tools"), "tools")
        options.tools_size = len(options.tools)
    if documents is not None:
        options.documents = json_bytes(list_of(documents, "documents", "documents"), "documents")
        options.documents_size = len(options.documents)
    if variables is not None:
        options.variables = json_bytes(dict(mapping(variables, "variables")), "variables")
        options.variables_size = len(options.variables)


def mapping(value: Mapping[Any, Any], what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise wrong(what, value, "a mapping")
    return value
