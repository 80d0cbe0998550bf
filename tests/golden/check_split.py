#!/usr/bin/env python3
"""Holds a model that gguf's own writer split over several files against the whole file, through `kvrt logits`.

  check_split.py PROGRAM      exit 1 on a difference, 77 when numpy or gguf is missing
"""
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WHOLE = Path(__file__).parent / "tiny" / "llama_gqa_q4_1.gguf"
TENSORS = 6  # of a file


def split(folder):
    reader = gguf.GGUFReader(WHOLE)
    architecture = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(folder / "model.gguf", architecture, split_max_tensors=TENSORS)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    files = sorted(folder.glob("model-*.gguf"))
    assert len(files) == -(-len(reader.tensors) // TENSORS) > 2, files
    return files


def logits(program, model, folder):
    out = folder / "logits"
    subprocess.run([program, "logits", "-m", model, "--tokens", ",".join(str(i) for i in range(40)), "-o", out, "--all"], check=True)
    return out.read_bytes()


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = split(folder)
        if logits(program, files[0], folder) != logits(program, WHOLE, folder):
            sys.exit("the split model has other logits than the whole file")
        second = subprocess.run([program, "inspect", files[1]], capture_output=True, text=True)
        if second.returncode == 0 or "expected the first" not in second.stderr:
            sys.exit(f"the second file alone: exit {second.returncode}, {second.stderr}")
    print(f"{len(files)} files have the whole file's logits")


main()
