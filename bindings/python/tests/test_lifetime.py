"""Handles, callbacks and processes: closed in any order, by anybody, at any time."""
import copy
import gc
import io
import itertools
import logging
import os
import sys
import threading
import unittest
import warnings

import kvrt
from kvrt import _handles
from support import MODEL, PROMPT, Case, python


class Closing(Case):
    def test_any_order(self):
        for order in itertools.permutations(range(4)):
            runtime = kvrt.Runtime(threads=1)
            model = runtime.open_model(MODEL)
            store = runtime.open_store(os.path.join(self.dir, "any"))
            session = model.open_session(store=store)
            session.append(PROMPT)
            handles = [runtime, model, store, session]
            for which in order:
                handles[which].close()
                handles[which].close()
                self.assertTrue(handles[which].closed)
                if not session.closed:
                    self.assertEqual(len(self.answer(session, 2)), 2)
                    session.checkpoint("o", overwrite=True)
            for call in (runtime.info, model.info, store.info, session.info, lambda: session.append([1]), lambda: model.tokenize("a")):
                self.assertRaises(kvrt.Invalid, call)
            self.assertIn("closed", repr(session))

    def test_a_with_block_frees(self):
        with self.model.open_session() as session:
            session.append([4] * 100)
            session.prefill()
            self.assertEqual(self.model.info().sessions, 1)
        self.assertEqual(self.model.info().sessions, 0)

    def test_the_collector_warns_and_closes(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session = self.model.open_session()
            del session
            gc.collect()
        self.assertEqual([w.category for w in caught], [ResourceWarning])
        self.assertEqual(self.model.info().sessions, 0)

    def test_the_collector_inside_wake(self):
        # A finalizer may run in a callback that must not call kvrt: the release is put off.
        bell = threading.Event()
        victims = []

        def wake():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                victims.clear()
            bell.set()

        with self.model.open_session() as session:
            session.append(PROMPT)
            victims.append(self.model.open_session())
            session._bell.ring, key = wake, None
            for key, callback in list(_handles._users.items()):
                if getattr(callback, "__self__", None) is session._bell:
                    _handles._users[key] = wake
            self.answer(session, 1)
            self.assertTrue(bell.is_set())
            self.assertEqual(self.model.info().sessions, 2)
            self.model.open_session().close()
            self.assertEqual(self.model.info().sessions, 1)

    def test_the_collector_at_the_begin_of_a_callback(self):
        """Python 3.12 runs it before the callback's first line."""
        session, victims = self.open(), []

        def collect(frame, event, _argument):
            if event == "call" and frame.f_code is begin:
                sys.setprofile(None)
                victims.clear()

        def log():
            kvrt.Runtime(threads=1, log_level=logging.DEBUG).close()

        for callback, call in ((_handles._wake, lambda: self.answer(session, 1)), (_handles._log, log)):
            begin, before = callback.__code__, self.model.info().sessions
            victims.append(self.model.open_session())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                sys.setprofile(collect)
                try:
                    call()
                finally:
                    sys.setprofile(None)
            self.assertEqual((victims, self.model.info().sessions), ([], before + 1))
            self.model.open_session().close()
            self.assertEqual(self.model.info().sessions, before)

    def test_no_handle_is_copied(self):
        with kvrt.Cancel() as cancel:
            for handle in (self.runtime, self.model, self.store, self.open(), cancel):
                for make in (copy.copy, copy.deepcopy):
                    self.assertRaisesRegex(TypeError, rf"kvrt\.{type(handle).__name__} .*Session\.fork\(\)", make, handle)

    def test_nothing_is_kept(self):
        self.answer(self.open(), 2)
        before = len(_handles._users)
        for _ in range(5):
            with self.model.open_session() as session:
                self.assertEqual(len(_handles._users), before + 1)
                with session.fork() if session.append(PROMPT) else session.fork():
                    self.assertEqual(len(_handles._users), before + 2)
        with self.assertRaises(kvrt.NotFound):
            self.model.resume(self.store, "nobody")
        with self.assertRaises(kvrt.Error):
            kvrt.Runtime(isa=kvrt.Isa(99))
        self.assertEqual(len(_handles._users), before)


class Threads(Case):
    threads = 2

    def test_one_call_at_a_time(self):
        session = self.open([4] * 64)
        inside, leave = threading.Event(), threading.Event()

        def hold(event):
            inside.set()
            leave.wait(20)

        thread = threading.Thread(target=session.prefill, kwargs={"callback": hold})
        thread.start()
        self.assertTrue(inside.wait(20))
        with self.assertRaises(kvrt.Busy) as caught:
            session.append([1])
        self.assertEqual(caught.exception.detail, kvrt.Detail.CONCURRENT)
        self.assertEqual(len(session.tokens()), 64)  # reads need no turn
        self.assertEqual(session.info().state, kvrt.State.GENERATING)
        with self.model.open_session() as other:  # and so is the model
            other.append(PROMPT)
            self.assertEqual(len(self.answer(other, 5)), 5)
        leave.set()
        thread.join()
        seen = []

        def reenter(event):
            try:
                session.append([1])
            except kvrt.Busy as error:
                seen.append(error.detail)

        session.append([5] * 40)
        session.prefill(callback=reenter)
        self.assertEqual(set(seen), {kvrt.Detail.REENTRANT})

    def test_close_while_another_thread_is_inside(self):
        for _ in range(20):
            session = self.model.open_session()
            session.append(PROMPT)
            errors, running = [], threading.Event()

            def generate():
                try:
                    for _event in session.generate(ignore_eos=True):
                        running.set()
                except kvrt.Error as error:
                    errors.append(error)

            thread = threading.Thread(target=generate)
            thread.start()
            self.assertTrue(running.wait(20))
            session.close()
            thread.join()
            self.assertTrue(all(isinstance(e, (kvrt.Invalid, kvrt.Cancelled)) for e in errors), errors)
        self.assertEqual(self.model.info().sessions, 0)

    def test_many(self):
        expected = self.answer(self.open(), 60)
        got = [None] * 6

        def work(n):
            with self.model.open_session(prefix_cache=n % 2 == 0) as session:
                session.append(PROMPT)
                got[n] = self.answer(session, 60)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(got))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [expected] * len(got))

    def test_load_stops_by_what_progress_raises(self):
        class Mine(BaseException):
            pass

        def stop(event):
            raise Mine

        self.assertRaises(Mine, self.runtime.open_model, MODEL, progress=stop)
        self.assertEqual(len(self.answer(self.open(), 2)), 2)


class Processes(Case):
    def test_fork(self):
        session = self.open()
        session.begin(max_tokens=5, ignore_eos=True)
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: this process has threads
            pid = os.fork()
        if pid == 0:
            told = []
            for call in (self.runtime.info, self.model.info, self.store.info, session.info, session.tokens, session.next, session.cancel,
                         lambda: session.append([1]), session.fork, self.model.open_session, self.store.list):
                try:
                    call()
                    told.append("no error")
                except kvrt.Unsupported as error:
                    told.append(error.detail.name)
                except BaseException as error:
                    told.append(repr(error))
            session.close()
            self.store.close()
            with kvrt.Runtime(threads=1) as own, own.open_model(MODEL) as model, model.open_session() as mine:  # its own handles are fine
                mine.append(PROMPT)
                told.append(str(len(self.answer(mine, 3))))
            os.write(write, " ".join(told).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read().split()
        os.waitpid(pid, 0)
        self.assertEqual(told, ["FORKED"] * 11 + ["3"])
        while session.next().type is not kvrt.EventType.DONE:
            pass
        session.checkpoint("after")

    def test_exit_of_a_forked_child(self):
        """It waits for no thread of its parent's."""
        code = """
import os, sys, threading, time, warnings, kvrt
warnings.simplefilter("ignore", DeprecationWarning)
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1]) as model, model.open_session() as session:
    session.append([4] * 64)
    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=session.prefill, kwargs={"callback": lambda event: inside.set() or leave.wait(20)})
    thread.start()
    inside.wait(20)
    begin = time.monotonic()
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), time.monotonic() - begin < 5)
    leave.set()
    thread.join()
"""
        run = python(code, MODEL)
        self.assertEqual((run.stdout, run.stderr), ("7 True\n", ""))

    def test_exit_with_everything_open(self):
        code = """
import asyncio, logging, sys, threading, time, kvrt
logging.basicConfig(level=logging.DEBUG)
runtime = kvrt.Runtime()
model = runtime.open_model(sys.argv[1])
store = runtime.open_store(sys.argv[2])
sessions = [model.open_session(store=store) for _ in range(3)]
for s in sessions:
    s.append([5, 6, 7])
generation = sessions[0].generate(ignore_eos=True)
next(generation)
async def main():
    kept.append(sessions[1].agenerate(ignore_eos=True))
    await kept[0].__anext__()
kept = []
asyncio.run(main())
def work():
    try:
        while True:
            sessions[2].generate(max_tokens=300, ignore_eos=True).read()
            sessions[2].truncate(3)
    except kvrt.Error as error:
        ended.append(error)
ended = []
threading.Thread(target=work, daemon=True).start()
def load():
    try:
        while True:
            runtime.open_model(sys.argv[1]).close()
    except kvrt.Error:
        pass
threading.Thread(target=load, daemon=True).start()
time.sleep(0.05)
print("end")
"""
        for flags in ((), ("-X", "dev"), ()):
            run = python(code, MODEL, os.path.join(self.dir, "exit"), flags=flags)
            self.assertEqual((run.returncode, run.stdout), (0, "end\n"), run.stderr)
            self.assertNotIn("Traceback", run.stderr)
            self.assertNotIn("unclosed", run.stderr)


class Log(unittest.TestCase):
    def test_lines_go_to_logging(self):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        logger = logging.getLogger("kvrt")
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)
        with kvrt.Runtime(log_level=logging.DEBUG) as runtime, runtime.open_model(MODEL):
            pass
        quiet = stream.getvalue()
        logger.setLevel(logging.DEBUG)
        self.addCleanup(logger.setLevel, logging.NOTSET)
        with kvrt.Runtime(threads=2) as runtime, runtime.open_model(MODEL):
            self.assertEqual(runtime.info().threads, 2)
            runtime.set_threads(1)
            self.assertEqual(runtime.info().threads, 1)
        self.assertEqual(quiet, "")  # the logger's own level holds too
        self.assertTrue(stream.getvalue())

    def test_a_handler_must_not_call_kvrt(self):
        told, held = [], []

        class Calls(logging.Handler):
            def emit(self, record):
                for call in (lambda: held[0].info(), lambda: held[1].fire(), kvrt.Runtime, kvrt.Cancel, lambda: kvrt.apply_template([], source="x")):
                    try:
                        call()
                        told.append("no error")
                    except kvrt.Invalid as error:
                        told.append(str(error))
                held[2].close()

        logger = logging.getLogger("kvrt")
        with kvrt.Runtime(threads=1) as other, other.open_model(MODEL) as model, kvrt.Cancel() as cancel:
            held += [other, cancel, model.open_session()]
            logger.addHandler(Calls())
            self.addCleanup(logger.handlers.clear)
            logger.setLevel(logging.DEBUG)
            self.addCleanup(logger.setLevel, logging.NOTSET)
            with kvrt.Runtime(threads=1) as runtime, runtime.open_model(MODEL):
                pass
            self.assertEqual(set(told), {"kvrt was called from within a handler of its log"})
            self.assertFalse(cancel.fired)
            model.open_session().close()
            self.assertEqual(model.info().sessions, 0)
