"""Every status class that a caller can provoke comes as its own exception, and the others have one."""
import errno
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
