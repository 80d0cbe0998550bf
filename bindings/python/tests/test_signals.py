"""What a signal's handler raises comes out of the call of kvrt that it meets, and leaves nothing behind."""
import os
from unittest import mock

import kvrt
from kvrt import _handles
from support import MODEL, Case, python


class Signals(Case):
    def test_interrupt(self):
        code = """
import os, signal, sys, threading, time, kvrt
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs this in the background ignores it
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1], prefill_chunk=1) as model, model.open_session() as session:
    def interrupt(event):
        os.kill(os.getpid(), signal.SIGINT)
    def loop():
        for event in session.generate(ignore_eos=True):
            interrupt(event)
    for call in (lambda: runtime.open_model(sys.argv[1], progress=interrupt),
                 lambda: session.prefill(callback=interrupt),
                 loop):
        session.append([5] * 50)
        try:
            call()
        except KeyboardInterrupt:
            print("interrupted", session.info().state.name)
"""
        run = python(code, MODEL)
        self.assertEqual(run.stdout.split("\n")[:3], ["interrupted IDLE"] * 3, run.stderr)

    def test_interrupt_from_outside(self):
        """A signal that comes while C runs: its handler's exception comes out of the call, and goes to no hook."""
        code = """
import contextlib, os, signal, sys, threading, time, kvrt
class Late(Exception):
    pass
def late(*_):
    raise Late
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGUSR1, late)
sys.unraisablehook = hook = lambda lost: print("lost", lost.exc_type)
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1], prefill_chunk=1) as model, model.open_session() as session:
    def loop():
        for event in session.generate(ignore_eos=True, max_tokens=900):
            pass
    calls = (lambda: session.generate(ignore_eos=True, max_tokens=900, callback=lambda event: None), lambda: session.prefill(), loop)
    for i in range(24):
        sent = threading.Event()
        def interrupt():
            time.sleep(0.004 + 0.0003 * i)
            os.kill(os.getpid(), signal.SIGUSR1 if i % 2 else signal.SIGINT)
            sent.set()
        thread = threading.Thread(target=interrupt)
        try:
            thread.start()
            while not sent.is_set():
                session.truncate(0)
                session.append([5 + i] * 900 if i % 3 == 1 else [5])
                calls[i % 3]()
            print("not interrupted")
        except (KeyboardInterrupt, Late):
            print("interrupted", session.info().state.name, sys.unraisablehook is hook)
        thread.join()
"""
        run = python(code, MODEL)
        self.assertEqual(run.stdout.split("\n")[:-1], ["interrupted IDLE True"] * 24, run.stderr)

    def test_interrupt_of_a_host(self):
        """It comes out of a step, whose wakes all ring: another thread may wait for one."""
        code = """
import os, signal, sys, threading, time, kvrt
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.unraisablehook = hook = lambda lost: print("lost", lost.exc_type)
class Waiter:
    rung = False
    def ring(self):
        self.rung = True
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1]) as model, model.open_session() as session:
    waiter = Waiter()
    session._bell.waiters.add(waiter)
    def turn():
        if session.info().state is kvrt.State.IDLE:
            session.truncate(0)
            session.append([5] * 300)
            session.begin(ignore_eos=True, max_tokens=100)
        model.step()
        while session.next(0).type not in (kvrt.EventType.NONE, kvrt.EventType.IDLE):
            pass
        waiter.rung = False  # there is no event
    for i in range(24):
        sent = threading.Event()
        def interrupt():
            time.sleep(0.004 + 0.0003 * i)
            os.kill(os.getpid(), signal.SIGINT)
            sent.set()
        thread = threading.Thread(target=interrupt)
        try:
            thread.start()
            while not sent.is_set():
                turn()
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted", waiter.rung or not session.info().events_unread, sys.unraisablehook is hook)
        thread.join()
"""
        run = python(code, MODEL)
        self.assertEqual(run.stdout.split("\n")[:-1], ["interrupted True True"] * 24, run.stderr)

    def test_interrupt_of_a_close(self):
        code = """
import os, signal, sys, threading, time, kvrt
from kvrt import _handles
signal.signal(signal.SIGINT, signal.default_int_handler)
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1]) as model, runtime.open_store(sys.argv[2]) as store:
    for i in range(8):
        session = model.open_session(store=store, autosave=kvrt.Autosave(tokens=10**6, name=str(i)))
        session.append([5 + i] * 300)
        session.prefill()
        close, inside = session._release, threading.Event()
        def release(raw):
            try:
                inside.set()
            finally:
                close(raw)  # saves, which takes a while
        def interrupt():
            inside.wait(20)
            time.sleep(0.0003)
            os.kill(os.getpid(), signal.SIGINT)
        session._release = release
        thread = threading.Thread(target=interrupt)
        try:
            thread.start()
            session.close()
            thread.join()
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted", model.info().sessions, len(_handles._users), store.stat(str(i)).tokens)
        thread.join()
"""
        run = python(code, MODEL, os.path.join(self.dir, "closed"))
        self.assertEqual(run.stdout.split("\n")[:-1], ["interrupted 0 1 300"] * 8, run.stderr)

    def test_interrupt_of_an_open(self):
        """Python raises it between C's return and the next line: what C has opened is released."""
        session = self.computed([4] * 40)
        session.checkpoint("ann")
        lib, before = _handles.lib, (self.model.info().sessions, len(_handles._users))

        def interrupted(function):
            def call(*arguments):
                self.assertEqual(function(*arguments), 0)
                raise KeyboardInterrupt
            return call

        for opens, releases, call in (
                ("kvrt_runtime_open", "kvrt_runtime_release", kvrt.Runtime), ("kvrt_model_open", "kvrt_model_release", lambda: self.runtime.open_model(MODEL)),
                ("kvrt_store_open", "kvrt_store_release", lambda: self.runtime.open_store(os.path.join(self.dir, "other"))),
                ("kvrt_session_open", "kvrt_session_close", self.model.open_session), ("kvrt_session_fork", "kvrt_session_close", session.fork),
                ("kvrt_session_resume", "kvrt_session_close", lambda: self.model.resume(self.store, "ann"))):
            with mock.patch.object(lib, opens, interrupted(getattr(lib, opens))), \
                    mock.patch.object(lib, releases, mock.Mock(side_effect=getattr(lib, releases))) as released:
                self.assertRaises(KeyboardInterrupt, call)
            self.assertEqual(released.call_count, 1, opens)
            self.assertEqual((self.model.info().sessions, len(_handles._users)), before, opens)
