#!/usr/bin/env python3
"""abi_text.py FILE: include/kvrt.abi.json as lines, which the tests read without JSON."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    abi = json.load(file)
for name, function in abi["functions"].items():
    print("function", name, len(function["parameters"]))
for name, struct in abi["structs"].items():
    print("struct", name, struct["size"])
    for field in struct["fields"]:
        print("field", name, field["name"], field["offset"], field["size"], field["type"].replace(" ", "_"))
for name, values in abi["enums"].items():
    for constant, value in values.items():
        print("constant", name, constant, value)
