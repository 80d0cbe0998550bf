"""Stores of every release since 0.1, kept for ever: each opens, resumes, verifies and goes on, bit for bit.

    golden_stores.py check PROGRAM [NAME ...]   PROGRAM (store_golden) reads from tests/data/stores the very sessions that were written
    golden_stores.py make PROGRAM NAME [MODEL]  a store by this release: tests/data/stores/NAME.tar.xz and NAME.json, of tests/golden/tiny/MODEL

To make one by an older release, build that release's libkvrt and this program with it:
    cc -O1 -D_GNU_SOURCE -DKVRT_TINY_DIR='""' -I OLD/include tests/golden/store_golden.c -o old_golden -LOLD/build/release/lib -lkvrt -lpthread \
       -Wl,-rpath,OLD/build/release/lib
"""
import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STORES = os.path.join(HERE, "..", "data", "stores")
MODEL = "llama_gqa_q4_1.gguf"  # of a record that names none
BYTES_MAX = 800_000  # gemma2's heads have 256 elements
LEFT_OUT = {"lock", "write.lock", "reserve", "reserve2"}  # made when they are missing


def pack(root, path):
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as tar:
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(folders + names):
                whole = os.path.join(folder, name)
                relative = os.path.relpath(whole, root)
                if relative in LEFT_OUT:
                    continue
                info = tarfile.TarInfo(relative)
                if os.path.isdir(whole):
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
                else:
                    content = open(whole, "rb").read()
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))


def unpack(path, root):
    """As a store lies: directories 0700, files 0600."""
    os.mkdir(root, 0o700)
    with tarfile.open(path, "r:xz") as tar:
        for info in tar:
            whole = os.path.join(root, info.name)
            if info.isdir():
                os.mkdir(whole, 0o700)
                continue
            with os.fdopen(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                out.write(tar.extractfile(info).read())


def run(program, *args):
    done = subprocess.run([program, *args], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join([program, *args])}: {done.returncode}\n{done.stdout.decode()[-2000:]}")
    return json.loads(done.stdout)


def differences(want, got, where=""):
    if isinstance(want, dict) and isinstance(got, dict) and want.keys() == got.keys():
        return [d for key in want for d in differences(want[key], got[key], f"{where}.{key}")]
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return [d for i, pair in enumerate(zip(want, got)) for d in differences(*pair, f"{where}[{i}]")]
    return [] if want == got else [f"{where}: {str(got)[:200]}, written was {str(want)[:200]}"]


def schema_of(catalog):
    return int.from_bytes(catalog[60:64], "big")


def rows(catalog, sql):
    database = sqlite3.connect(f"file:{catalog}?immutable=1", uri=True)
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


def check(program, name):
    """The differences of one store."""
    with tempfile.TemporaryDirectory() as tmp:
        root = os.path.join(tmp, "store")
        unpack(os.path.join(STORES, name + ".tar.xz"), root)
        before = open(os.path.join(root, "catalog.db"), "rb").read()
        want = json.load(open(os.path.join(STORES, name + ".json")))
        got = run(program, "read", os.path.join(HERE, "tiny", want.pop("model", MODEL)), root)
        if want["numerics"] != got["numerics"]:  # tokens and messages stay; KV and logits are of another arithmetic
            for record in want["sessions"] + got["sessions"]:
                record.update(reused_disk=0, next=[])
            want["numerics"] = got["numerics"]
        found = differences(want, got)
        migrated = schema_of(open(os.path.join(root, "catalog.db"), "rb").read()) != schema_of(before)
        backup = os.path.join(root, "catalog.db.old")
        if migrated and open(backup, "rb").read() != before:
            found.append("catalog.db.old is not the catalog as it was")
        if migrated:  # a node's chunk became that of group 0, and stands for all; the program went on, and some have gone since
            old = rows(backup, "SELECT key, 0, bytes, raw_bytes FROM nodes WHERE segment IS NOT NULL")
            new = rows(os.path.join(root, "catalog.db"), "SELECT key, grp, bytes, raw_bytes FROM nodes JOIN chunks ON node = id")
            whole = {row[0] for row in old}
            found += [f": chunk {row[0].hex()[:16]} of group {row[1]}" for row in new if row[1] != 0 and row[0] in whole]
            if not set(old) & set(new):
                found.append("no chunk is as it was")
        if not migrated and os.path.exists(backup):
            found.append("catalog.db.old without a migration")
        print(f"{name}: schema {schema_of(before)}, {len(want['sessions'])} sessions, {len(found)} differences")
        return found


def make(program, name, model):
    with tempfile.TemporaryDirectory() as tmp:
        root = os.path.join(tmp, "store")
        record = {"model": model, **run(program, "make", os.path.join(HERE, "tiny", model), root)}
        os.makedirs(STORES, exist_ok=True)
        packed = os.path.join(STORES, name + ".tar.xz")
        if os.path.exists(packed):
            sys.exit(f"{packed} is there: a golden store never changes")
        pack(root, packed)
        lines = ",\n".join("  " + json.dumps(session) for session in record.pop("sessions"))
        with open(os.path.join(STORES, name + ".json"), "w") as out:
            out.write(json.dumps(record)[:-1] + ', "sessions": [\n' + lines + "\n]}\n")
        size = os.path.getsize(packed)
        print(f"{packed}: {size} bytes")
        if size > BYTES_MAX:
            sys.exit(f"more than {BYTES_MAX}")


def main():
    if len(sys.argv) in (4, 5) and sys.argv[1] == "make":
        return make(sys.argv[2], sys.argv[3], sys.argv[4] if len(sys.argv) == 5 else MODEL)
    if len(sys.argv) < 3 or sys.argv[1] != "check":
        sys.exit(__doc__)
    names = sys.argv[3:] or sorted(n[:-7] for n in os.listdir(STORES) if n.endswith(".tar.xz"))
    if not names:
        sys.exit(f"no stores in {STORES}")
    found = [f"{name}{difference}" for name in names for difference in check(sys.argv[2], name)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
