"""Sessions on disk: the store's verbs, and a conversation that goes on in another process."""
import hashlib
import json
import os
import struct
import time
import unittest

import kvrt
from support import MODEL, Case, python

SAVE = """
import sys, kvrt
model_path, store_path = sys.argv[1:]
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(model_path) as model, runtime.open_store(store_path) as store:
    with model.open_session(store=store) as session:
        session.append([9] * 70)
        session.generate(max_tokens=6, ignore_eos=True).read()
        session.suspend("ann")
        print(session.info().state.name, session.tokens())
"""


class Resume(Case):
    def test_in_another_process(self):
        with self.model.open_session() as never_suspended:
            never_suspended.append([9] * 70)
            self.answer(never_suspended, 6)
            tokens = never_suspended.tokens()
            more = self.answer(never_suspended, 10)
        self.store.close()
        run = python(SAVE, MODEL, os.path.join(self.dir, "store"))
        self.assertEqual(run.stdout.strip(), f"SUSPENDED {tokens}", run.stderr)
        store = self.enterContext(self.runtime.open_store(os.path.join(self.dir, "store"), must_exist=True))
        with self.runtime.open_model(MODEL) as fresh:  # another pool: what comes back comes from the disk
            seen = []
            session = self.enterContext(fresh.resume(store, "ann", progress=seen.append))
            self.assertGreater(session.resumed.reused_disk, 0)
            self.assertTrue(all(event.type is kvrt.EventType.PROGRESS for event in seen))
            self.assertEqual(session.info().name, "ann")
            self.assertEqual(self.answer(session, 10), more)

    def test_progress_may_raise(self):
        session = self.computed([9] * 70)
        session.suspend("ann")
        before = self.model.info().sessions
        with self.runtime.open_model(MODEL) as fresh, self.assertRaises(KeyError):
            fresh.resume(self.store, "ann", progress=lambda event: {}["mine"])
        self.assertEqual(self.model.info().sessions, before)


class Saving(Case):
    def test_checkpoint_while_generating(self):
        session = self.open([5] * 40)
        generation = session.generate(max_tokens=20, ignore_eos=True)
        seen = 0
        for event in generation:
            if event.type != kvrt.EventType.TOKEN:
                continue
            seen += 1
            if seen == 7:
                saved = session.checkpoint("beside")
                self.assertGreaterEqual(saved.tokens, 47)
        self.assertEqual(seen, 20)
        with self.model.resume(self.store, "beside") as again:
            self.assertEqual(again.tokens(), session.tokens()[:saved.tokens])

    def test_autosave(self):
        session = self.open([6] * 40, autosave=kvrt.Autosave(turn=True, name="auto"))
        self.answer(session, 5)
        self.until(lambda: [e.tokens for e in self.store.list()] == [45])
        session.append([7] * 3)
        session.close()
        self.assertEqual(self.store.stat("auto").tokens, 48)
        with self.model.resume(self.store, "auto", autosave=kvrt.Autosave(idle_ms=20)) as again:
            again.append([8])
            self.until(lambda: self.store.stat("auto").tokens == 49)
        self.assertRaises(kvrt.Invalid, self.model.open_session, autosave=kvrt.Autosave(turn=True))

    def test_autosave_of_resume_or_open(self):
        """It needs no name of its own."""
        for tokens in (3, 6):
            with self.model.resume_or_open(self.store, "ann", autosave=kvrt.Autosave(turn=True)) as session:
                session.append([6] * 3)
            self.assertEqual(self.store.stat("ann").tokens, tokens)
        with self.model.resume_or_open(self.store, "bob", autosave=kvrt.Autosave(turn=True, name="carl")) as session:
            session.append([6])
        self.assertEqual([entry.name for entry in self.store.list()], ["ann", "carl"])

    def until(self, true):
        end = time.monotonic() + 20
        while not true() and time.monotonic() < end:
            time.sleep(0.002)
        self.assertTrue(true())


class Verbs(Case):
    def test_entries(self):
        saved = self.computed([9] * 70).checkpoint("bob", durability=kvrt.Durability.KV, ttl_seconds=3600, codec=kvrt.Codec.NONE)
        self.open([8] * 70, domain="team").checkpoint("ann", pin=7)
        self.assertEqual([(e.domain, e.name) for e in self.store.list()], [("", "bob"), ("team", "ann")])
        self.assertEqual([e.name for e in self.store.list("")], ["bob"])
        self.assertEqual(self.store.list("none"), [])
        entry = self.store.stat("bob")
        self.assertEqual((entry.tokens, entry.revision, entry.pinned), (70, saved.revision, 0))
        self.assertAlmostEqual(entry.expires_unix_ms / 1000, time.time() + 3600, delta=60)
        self.assertEqual(self.store.stat("ann", "team").pinned, 7)
        self.assertRaises(kvrt.NotFound, self.store.stat, "ann")
        self.store.pin("ann", 0, domain="team")
        self.assertEqual(self.store.stat("ann", "team").pinned, 0)
        self.store.set_ttl("bob", 0)
        self.assertEqual(self.store.stat("bob").expires_unix_ms, 0)
        self.store.rename("bob", "carl")
        self.assertEqual([e.name for e in self.store.list("")], ["carl"])
        self.assertRaises(kvrt.Conflict, self._rename_onto_taken)
        info = self.store.info()
        self.assertEqual((info.sessions, info.read_only, info.chunks_damaged), (2, False, 0))
        self.assertEqual((info.old_bytes, self.store.remove_old(), self.store.gc().log_bytes_kept), (0, 0, 0))
        self.store.remove("carl")
        self.store.remove("ann", "team")
        self.assertRaises(kvrt.NotFound, self.store.remove, "carl")
        self.assertEqual(self.store.info().sessions, 0)

    def _rename_onto_taken(self):
        self.open([7] * 10).checkpoint("dora")
        try:
            self.store.rename("carl", "dora")
        finally:
            self.store.remove("dora")

    def test_saves(self):
        session = self.computed([9] * 70)
        first = session.checkpoint("ann")
        self.assertGreater(first.chunks_written, 0)
        self.assertEqual(session.checkpoint("ann").chunks_written, 0)
        other = self.open([8] * 40)
        self.assertRaises(kvrt.Conflict, other.suspend, "ann")
        other.suspend("ann", overwrite=True)
        self.assertEqual(other.info().state, kvrt.State.SUSPENDED)
        self.assertEqual(other.info().kv_units, 0)
        self.answer(other, 2)  # warms
        self.assertEqual(other.info().state, kvrt.State.IDLE)
        with self.assertRaises(kvrt.Conflict) as caught:
            session.checkpoint("ann")
        self.assertIn(caught.exception.detail, (kvrt.Detail.REVISION, kvrt.Detail.NAME_TAKEN))

    def test_show(self):
        with self.open([], domain="team") as session:
            session.append_message({"role": "user", "content": "a\x1b[31m \u00e9 " + "and so on " * 10})
            self.answer(session, 5)
            saved = session.suspend("ann")
            tokens, messages = session.tokens(), session.messages()
        shown = self.store.show("ann", "team")
        self.assertEqual((shown["name"], shown["domain"], shown["revision"]), ("ann", "team", saved.revision))
        self.assertEqual(shown["id"], self.store.stat("ann", "team").id)
        self.assertEqual(shown["tokens"], tokens)
        self.assertEqual([(json.dumps(m), s["begin"], s["end"], s["generated"]) for m, s in zip(shown["messages"], shown["spans"])],
                         [(json.dumps(m.content), m.begin, m.end, m.generated) for m in messages])
        self.assertEqual(sum(c["bytes"] for c in shown["chunks"]), self.store.stat("ann", "team").bytes)
        key = bytes.fromhex(shown["root"])  # storage/FORMAT.md, "Keys"
        for chunk in shown["chunks"]:
            data = b"".join(b"\0" + struct.pack("<i", t) for t in tokens[chunk["begin"]:chunk["end"]])
            key = hashlib.blake2b(data, key=key, digest_size=32).digest()
            self.assertEqual(chunk["key"], key.hex())
        self.assertEqual(len(shown["chunks"]), (len(tokens) + 30) // 32)  # the last token has no KV yet
        self.assertGreater(len(shown["chunks"]), 2)
        self.assertRaises(kvrt.NotFound, self.store.show, "ann")

    def test_gc_and_verify(self):
        for name, token in (("ann", 9), ("bob", 8)):
            with self.computed([token] * 70) as session:
                session.checkpoint(name, ttl_seconds=int(name == "ann"))
        time.sleep(1.2)
        self.assertRaises(kvrt.NotFound, self.store.stat, "ann")
        report = self.store.gc(progress=lambda event: None)
        self.assertEqual(report.sessions_removed, 1)
        self.assertGreater(report.chunks_removed, 0)
        self.assertEqual(self.store.verify(), [])

    def test_verify_names_faults(self):
        with self.computed([9] * 70) as session:
            session.checkpoint("ann")
        self.store.close()
        where = os.path.join(self.dir, "store")
        segments = [os.path.join(d, f) for d, _, files in os.walk(os.path.join(where, "segs")) for f in files]
        with open(segments[0], "r+b") as file:
            file.seek(os.path.getsize(segments[0]) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0xFF]))
        with kvrt.Runtime(threads=1) as runtime, runtime.open_store(where) as store:
            seen = []
            faults = store.verify(progress=seen.append)
            self.assertTrue(faults)
            self.assertTrue(all(faults))
            with self.assertRaises(ZeroDivisionError):
                store.verify(progress=lambda event: 1 // 0)

    def test_read_only(self):
        with self.open() as session:
            session.checkpoint("ann")
        self.store.close()
        with kvrt.Runtime(threads=1) as runtime, runtime.open_store(os.path.join(self.dir, "store"), read_only=True) as store:
            self.assertTrue(store.info().read_only)
            self.assertEqual([e.name for e in store.list()], ["ann"])
            self.assertRaises(kvrt.Error, store.remove, "ann")
