"""Every status class that a caller can provoke comes as its own exception, and the others have one."""
import dataclasses
import errno
import math
import os
import pathlib
import unittest

import kvrt
from kvrt import _errors
from support import MODEL, TINY, Case, python


class Errors(Case):
    def fails(self, kind, call, *arguments, **options):
        with self.assertRaises(kind) as caught:
            call(*arguments, **options)
        self.assertIs(_errors.CLASSES[caught.exception.status], kind)
        self.assertTrue(caught.exception.message)
        self.assertEqual(str(caught.exception), caught.exception.message)
        return caught.exception

    def test_classes(self):
        self.assertEqual(set(_errors.CLASSES) | {kvrt.Status.OK}, set(kvrt.Status))
        for status, kind in _errors.CLASSES.items():
            error = _errors.make_error(status, 3, 4, "text")
            self.assertIs(type(error), kind)
            self.assertEqual((error.status, error.detail, error.os_code, str(error)), (status, kvrt.Detail.CATALOG_MISSING, 4, "text"))
        self.assertIs(type(_errors.make_error(77)), kvrt.Error)  # a status of a newer library
        for kind, base in ((kvrt.Invalid, ValueError), (kvrt.NotFound, LookupError), (kvrt.NoMemory, MemoryError)):
            self.assertTrue(issubclass(kind, base))

    def test_invalid(self):
        session = self.open()
        self.fails(kvrt.Invalid, session.append, [-1])
        self.fails(kvrt.Invalid, session.append, [2**40])
        self.fails(kvrt.Invalid, session.append_text, "\ud800")
        self.fails(kvrt.Invalid, session.truncate, 99)
        self.fails(kvrt.Invalid, session.truncate, -1)
        self.fails(kvrt.Invalid, session.erase, 3, 2)
        self.fails(kvrt.Invalid, session.generate, max_tokens=-1)
        self.fails(kvrt.Invalid, session.generate, top_p=2.0)
        self.fails(kvrt.Invalid, session.generate, stop=["a\0b"])
        self.fails(kvrt.Invalid, session.generate, stop="abc")
        self.fails(kvrt.Invalid, session.generate, sampler="hots")
        self.fails(kvrt.Invalid, session.generate, logit_bias={10**6: 1.0})
        self.fails(kvrt.Invalid, session.accept, 1)
        self.fails(kvrt.Invalid, session.checkpoint, "")
        self.assertRaises(TypeError, session.generate, max_token=3)

    def test_not_found(self):
        self.assertIn("nowhere.gguf", str(self.fails(kvrt.NotFound, self.runtime.open_model, "nowhere.gguf")))
        self.fails(kvrt.NotFound, self.model.resume, self.store, "nobody")
        self.fails(kvrt.NotFound, self.store.stat, "nobody")
        self.fails(kvrt.NotFound, self.runtime.open_store, os.path.join(self.dir, "none"), must_exist=True)
        self.fails(kvrt.NotFound, self.open().message, 0)

    def test_conflict(self):
        self.open().checkpoint("ann")
        self.assertEqual(self.fails(kvrt.Conflict, self.open().checkpoint, "ann").detail, kvrt.Detail.NAME_TAKEN)

    def test_busy(self):
        session = self.open()
        session.begin(max_tokens=5)
        self.fails(kvrt.Busy, session.append, [1])
        self.fails(kvrt.Busy, session.generate)
        with kvrt.Runtime() as other, other.open_store(os.path.join(self.dir, "store")) as shared:  # as another process has it open
            self.open().checkpoint("ann")
            self.assertEqual(shared.stat("ann").revision, 1)

    def test_cancelled(self):
        with self.runtime.open_model(MODEL, prefill_chunk=8) as model, model.open_session() as session:
            session.append([4] * 100)
            self.fails(kvrt.Cancelled, session.prefill, callback=lambda event: session.cancel())
            self.assertLess(session.info().kv_tokens, 100)

    def test_limit(self):
        self.fails(kvrt.LimitExceeded, self.open().append, [4] * (self.model.info().context_length + 1))

    def test_corrupt(self):
        path = pathlib.Path(self.dir, "cut.gguf")
        path.write_bytes(MODEL.read_bytes()[:-100])
        self.fails(kvrt.Corrupt, self.runtime.open_model, path)

    def test_incompatible(self):
        self.open().checkpoint("ann")
        with self.runtime.open_model(TINY / "llama_gqa_q4_1.gguf") as other:
            self.assertEqual(self.fails(kvrt.Incompatible, other.resume, self.store, "ann").detail, kvrt.Detail.MODEL_MISMATCH)

    def test_io(self):
        with open(os.path.join(self.dir, "file"), "wb") as file:  # not open for reading
            file.write(b"GGUF" * 100)
            file.flush()
            error = self.fails(kvrt.IOFailed, self.runtime.open_model, fd=file.fileno())
        self.assertIn(error.os_code, (errno.EBADF, errno.EACCES))

    def test_no_space(self):
        with self.runtime.open_store(os.path.join(self.dir, "small"), disk_bytes_max=1) as small, self.model.open_session(store=small) as s:
            s.append([4] * 70)
            s.prefill()
            self.fails(kvrt.NoSpace, s.checkpoint, "ann")

    @unittest.skipIf("LD_PRELOAD" in os.environ, "AddressSanitizer takes more address space than the limit leaves")
    def test_no_memory(self):
        code = """
import resource, sys, kvrt
with kvrt.Runtime(threads=1) as runtime:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
    try:
        runtime.open_model(sys.argv[1], kv_bytes_max=3 << 30)
    except kvrt.NoMemory as error:
        print(error.status.name)
"""
        run = python(code, MODEL)
        self.assertEqual(run.stdout.strip(), "NO_MEMORY", run.stderr)

    def test_unsupported(self):
        with self.runtime.open_model(TINY / "vocab_only.gguf") as words:
            self.assertTrue(words.tokenize("abc"))
            self.fails(kvrt.Unsupported, words.open_session)
        missing = os.path.join(self.dir, "libkvrt_cuda.so")
        self.assertIn(missing, str(self.fails(kvrt.Unsupported, kvrt.Runtime, device=kvrt.Device.CUDA, cuda_library=missing)))
        self.fails(kvrt.Invalid, kvrt.Runtime, device_index=1)
        self.fails(kvrt.Invalid, kvrt.Runtime, prompt_gemm=kvrt.Gemm.FP8)
        with kvrt.Runtime(device=kvrt.Device.AUTO, cuda_library=missing) as runtime:
            info = runtime.info()
            self.assertEqual((info.device, info.device_name, info.device_memory, info.devices), ("cpu", "", 0, ""))

    def test_failed_session(self):
        with self.poisoned().open_session() as session:
            session.append([4, 5, 6])
            with self.assertRaises(kvrt.Error) as caught:
                session.generate(max_tokens=3).read()
            self.assertEqual(caught.exception.detail, kvrt.Detail.NUMERIC)
            info = session.info()
            self.assertEqual((info.state, info.last_error_status, info.last_error_detail), (kvrt.State.FAILED, caught.exception.status, kvrt.Detail.NUMERIC))
            self.assertTrue(info.last_error_message)
            self.fails(kvrt.Invalid, session.append, [1])
            self.assertEqual(session.tokens(), [4, 5, 6])

    def test_report_of_a_failed_generation(self):
        model = self.poisoned()
        with model.open_session() as session:
            session.append([4, 5, 6])
            with session.generate() as first:
                pass
            self.assertEqual(first.report.reason, kvrt.Reason.CANCELLED)
            second = session.generate()
            model.step()
            second.close()
            self.fails(kvrt.Invalid, lambda: second.report)


class Arguments(Case):
    """A wrong argument is refused by its name, before anything else happens."""

    def refused(self, kind, name, call, *arguments, **options):
        with self.assertRaises(kind) as caught:
            call(*arguments, **options)
        self.assertRegex(str(caught.exception), rf"(?<!\w){name}(?!\w)")

    def test_every_option_of_generate(self):
        session = self.open()
        wrong = {"int": (1.5, "1", None, True), "float": ("1", None, True), "bool": (0.5, "yes", None), "str": (5, b"x", None)}
        for field in dataclasses.fields(kvrt.GenerateOptions):
            values = wrong.get(field.type, (5.5,))
            if field.name in ("json_schema", "sampler"):
                values = ({1, 2},) if field.name == "json_schema" else ()
            for value in values:
                self.refused(TypeError, field.name, session.generate, **{field.name: value})
            if field.type == "int":
                for value in (-1, 2**64):
                    self.refused(ValueError, field.name, session.generate, **{field.name: value})
        self.refused(ValueError, "sampler", session.generate, sampler=5)
        self.refused(ValueError, "ignore_eos", session.generate, ignore_eos=2)
        self.refused(ValueError, "stop_tokens", session.generate, stop_tokens=[2**31])
        self.refused(TypeError, "stop_tokens", session.generate, stop_tokens=[1.5])
        self.refused(TypeError, "stop", session.generate, stop=[5])
        self.refused(TypeError, "logit_bias", session.generate, logit_bias={1: "x"})
        self.refused(TypeError, "logit_bias", session.generate, logit_bias={True: 1.0})
        self.refused(TypeError, "reply", session.generate, reply=kvrt.Device.CPU)
        self.refused(TypeError, "options", session.generate, {"max_tokens": 5})
        self.refused(ValueError, "temperature", session.generate, temperature=math.nan)
        self.refused(ValueError, "temperature", session.generate, temperature=10**400)
        self.assertEqual(session.info().state, kvrt.State.IDLE)

    def test_every_integer(self):
        session, model, runtime, store = self.open(), self.model, self.runtime, self.store
        calls = {
            "threads": [lambda v: kvrt.Runtime(threads=v), runtime.set_threads], "device_index": [lambda v: kvrt.Runtime(device_index=v)],
            "kv_bytes_max": [lambda v: runtime.open_model(MODEL, kv_bytes_max=v)], "fd_offset": [lambda v: runtime.open_model(MODEL, fd_offset=v)],
            "disk_bytes_max": [lambda v: runtime.open_store(self.dir, disk_bytes_max=v)], "sessions": [lambda v: runtime.plan(MODEL, sessions=v)],
            "cache_bytes_max": [lambda v: runtime.cache(cache_bytes_max=v)], "ms": [model.step], "index": [session.message], "count": [session.truncate],
            "begin": [session.text, lambda v: session.erase(v, 2)], "end": [lambda v: session.erase(0, v)], "token": [session.accept],
            "timeout_ms": [session.next], "pinned": [lambda v: store.pin("ann", v)], "seconds": [lambda v: store.set_ttl("ann", v)],
            "pin": [lambda v: session.checkpoint("ann", pin=v)], "ttl_seconds": [lambda v: session.suspend("ann", ttl_seconds=v)],
            "autosave.tokens": [lambda v: model.open_session(store=store, autosave=kvrt.Autosave(tokens=v))],
        }
        for name, takers in calls.items():
            for take in takers:
                for value in (1.5, "1", None, True):
                    self.refused(TypeError, name, take, value)
                for value in (-2**63, 2**64):
                    self.refused(ValueError, name, take, value)
        self.refused(TypeError, r"tokens\[1\]", session.append, [1, True])
        self.refused(TypeError, "tokens", session.append, b"1234")
        self.refused(TypeError, "tokens", model.detokenize, 5)

    def test_others(self):
        session, model, runtime, store = self.open(), self.model, self.runtime, self.store
        for name, call in {
                "special": lambda: model.tokenize("a", special="no"), "bos": lambda: model.tokenize("a", bos=None), "text": lambda: session.append_text(None),
                "message": lambda: session.append_message(5), "messages": lambda: session.set_messages("hi"), r"messages\[0\]": lambda: session.set_messages(["hi"]),
                "name": lambda: session.checkpoint(None), "domain": lambda: store.stat("a", None), "to": lambda: store.rename("a", 5),
                "store": lambda: model.open_session(store="memory"), "autosave": lambda: model.open_session(autosave="x"),
                "prefix_cache": lambda: model.open_session(prefix_cache="no"), "tools": lambda: model.open_session(tools=[{1, 2}]),
                "variables": lambda: model.open_session(variables=[1]), "path": lambda: runtime.open_model(5.5), "cache_dir": lambda: runtime.cache(5),
                "kv_format": lambda: runtime.open_model(MODEL, kv_format="int8"), "log_level": lambda: kvrt.Runtime(log_level="debug"),
                "cuda_library": lambda: kvrt.Runtime(cuda_library=5), "durability": lambda: session.checkpoint("a", durability=True),
                "overwrite": lambda: session.checkpoint("a", overwrite=None), "whole": lambda: runtime.inspect(MODEL, whole="yes"),
                "cancel": lambda: session.generate(cancel=session), "logits": lambda: session.prefill("all"), "generation_prompt":
                lambda: model.apply_template([], generation_prompt=None)}.items():
            self.refused(TypeError, name, call)
        self.assertEqual([e.name for e in store.list()], [])
