"""The scenarios that every binding of kvrt has, in this order."""
import gc
import json
import os
import signal
import subprocess
import threading
import warnings
import weakref

import kvrt
from kvrt import EventType, Reason, State
from support import MODEL, PROMPT, Case, python

# Saves in the middle of its answer, and is killed there.
KILLED = """
import os, signal, sys, kvrt
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1]) as model, runtime.open_store(sys.argv[2]) as store:
    chat = model.open_session(store=store)
    chat.append_message("Hello")
    given = 0
    for event in chat.generate(max_tokens=90, ignore_eos=True):
        given += event.type is kvrt.EventType.TOKEN
        if given == 40:
            chat.checkpoint("ann")
            os.kill(os.getpid(), signal.SIGKILL)
"""
# Prints what the library reads and writes of numbers.
NUMBERS = """
import json, locale, sys, kvrt
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1]) as model:
    if len(sys.argv) > 2:
        locale.setlocale(locale.LC_ALL, sys.argv[2])
    print(locale.str(0.5), file=sys.stderr)
    print(kvrt.apply_template([{"role": "user", "x": 0.5}], source="{{ messages[0].x }} {{ v * 2 }} {{ 1e-7 }}", variables={"v": 1.25}))
    def session():
        made = model.open_session()
        made.append([5, 6, 7, 8])
        return made
    with session() as one, session() as two:
        number = one.generate(json_schema={"type": "number", "minimum": 1.25, "maximum": 1.5}, temperature=1.5, seed=3).read()
        assert 1.25 <= json.loads(number) <= 1.5, number
        print(number, two.generate(max_tokens=20, ignore_eos=True, temperature=0.7, top_p=0.95, min_p=0.05, seed=5).read().encode())
    seconds = [line.split()[-1] for line in model.metrics_text().split("\\n") if "seconds" in line and not line.startswith("#")]
    assert any("." in value for value in seconds) and not any("," in value for value in seconds), seconds
"""
MEMORY = """
import gc, sys, warnings, kvrt
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
with kvrt.Runtime(threads=1) as runtime, runtime.open_model(sys.argv[1]) as model, runtime.open_store(sys.argv[2]) as store:
    def live(count):
        for n in range(count):
            session = model.open_session(store=store)
            session.append([5, 6, 7, 8])
            if n % 10 == 0:
                session.generate(max_tokens=2, ignore_eos=True).read()
                session.fork().close()
            if n % 2:
                session.close()
            del session  # half of them are dropped
    warnings.simplefilter("ignore", ResourceWarning)
    live(200)
    gc.collect()
    before = resident()
    live(1000)
    gc.collect()
    print(resident() - before, model.info().sessions)
"""


class Scenarios(Case):
    def test_01_open(self):
        self.assertRegex(kvrt.library_version(), r"^\d+\.\d+\.\d+$")
        self.assertEqual((self.runtime.info().threads, self.model.info().architecture, self.store.info().sessions), (1, "llama", 0))
        with self.assertRaises(kvrt.NotFound) as caught:
            self.runtime.open_model("/nowhere/m.gguf")
        self.assertIn("/nowhere/m.gguf", str(caught.exception))

    def test_02_resume_or_open(self):
        for reused in (None, 70 + 5 - 1, 70 + 2 * 5 - 1):
            with self.model.resume_or_open(self.store, "ann", domain="d") as session:
                self.assertEqual(session.resumed and session.resumed.reused_memory + session.resumed.reused_disk, reused)
                if reused is None:
                    session.append([9] * 70)
                self.answer(session, 5)
                session.suspend("ann")
        self.store.close()
        self.assertRaises(kvrt.Invalid, self.model.resume_or_open, self.store, "ann")  # another failure is none to open at

    def test_03_stream(self):
        session = self.open()
        with session.generate(max_tokens=12, ignore_eos=True) as generation:
            events = list(generation)
        positions = [event.position for event in events if event.type is EventType.TOKEN]
        self.assertEqual(positions, list(range(4, 16)))
        self.assertEqual((events[-1].type, generation.report.reason, generation.report.generated), (EventType.DONE, Reason.MAX_TOKENS, 12))

    def test_04_cancel(self):
        session, inside = self.open(), threading.Event()
        with kvrt.Cancel() as cancel:
            def fire():
                inside.wait(20)
                cancel.fire()

            thread = threading.Thread(target=fire)
            thread.start()
            generation = session.generate(ignore_eos=True, cancel=cancel)
            for event in generation:
                inside.set()
            thread.join()
            self.assertEqual(event.reason, Reason.CANCELLED)
            tokens, steps = session.tokens(), self.model.metrics().steps
            before = session.generate(cancel=cancel)  # begun with a cancel that is fired already
            self.assertEqual((before.read(), before.report.reason), ("", Reason.CANCELLED))
            self.assertEqual((session.tokens(), self.model.metrics().steps), (tokens, steps))

    def test_05_kill_in_mid_answer(self):
        with self.model.open_session() as whole:
            whole.append_message("Hello")
            expected = self.answer(whole, 90)
            prompt = len(whole.tokens()) - 90
        run = python(KILLED, MODEL, os.path.join(self.dir, "killed"))
        self.assertEqual(run.returncode, -signal.SIGKILL, run.stderr)
        with self.runtime.open_store(os.path.join(self.dir, "killed"), must_exist=True) as store, self.runtime.open_model(MODEL) as fresh:
            with fresh.resume_or_open(store, "ann") as chat:
                self.assertGreaterEqual(chat.resumed.reused_disk, 32)
                given = chat.tokens()[prompt:]
                self.assertIn(len(given), (39, 40))
                self.assertEqual(given + self.answer(chat, 90 - len(given)), expected)

    def test_06_fork_and_rewind(self):
        session = self.open()
        answer = self.answer(session, 6)
        with session.fork() as fork:
            fork.truncate(len(PROMPT))
            self.assertEqual(self.answer(fork, 6), answer)
            self.assertEqual((fork.tokens(), fork.info().state), (session.tokens(), State.IDLE))
            self.assertNotEqual(fork.info().id, session.info().id)

    def test_07_tools_and_schema(self):
        parameters = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
        with self.open([], tools=[{"type": "function", "function": {"name": "look", "parameters": parameters}}]) as session:
            session.append_message("Look")
            events = list(session.generate(tool_choice=kvrt.ToolChoice.REQUIRED, parallel_calls_max=1, reply=kvrt.Reply.HERMES))
            call, = (json.loads(event.text) for event in events if event.type is EventType.TOOL_CALL)
            self.assertEqual(call["name"], "look")
            self.assertIn(call["arguments"]["n"], (1, 2))
            session.append_message("three ships", role="tool")
            shape = json.loads(session.generate(json_schema=parameters, tool_choice=kvrt.ToolChoice.NONE).read())
            self.assertIn(shape["n"], (1, 2))

    def test_08_exception_in_a_callback(self):
        session = self.open([4] * 100)
        for call in (lambda: session.prefill(callback=self.fail_here), lambda: session.generate(callback=self.fail_here),
                     lambda: session.generate(sampler=self.fail_here).read(), lambda: self.runtime.open_model(MODEL, progress=self.fail_here)):
            with self.assertRaisesRegex(AssertionError, "mine"):
                call()
            self.assertEqual(session.info().state, State.IDLE)
        self.assertEqual(len(self.answer(session, 3)), 3)

    def fail_here(self, _event):
        raise AssertionError("mine")

    def test_09_finalizers(self):
        """During a call, by the collector in a callback and on another thread; and after the runtime and the model were closed."""
        session, victims = self.open(), [self.model.open_session() for _ in range(3)]
        gone = [weakref.ref(victim) for victim in victims]

        def collect(event):
            if victims:
                victims.pop()
                gc.collect()
            elif victims is not None and event.position == 8:
                thread = threading.Thread(target=gc.collect)
                thread.start()
                thread.join()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            session.generate(max_tokens=10, ignore_eos=True, callback=collect)
            self.assertEqual([ref() for ref in gone], [None] * 3)
            self.assertEqual(self.model.info().sessions, 1)
            loop = [kvrt.Runtime(threads=1)]
            loop.append(loop[0].open_model(MODEL))
            loop.append(loop[1].open_session())
            loop.append(loop)  # a cycle: the collector chooses the order
            loop[2].append(PROMPT)
            self.answer(loop[2], 2)
            loop[0].close()
            loop[1].close()
            del loop
            gc.collect()
        self.assertEqual(len(self.answer(session, 2)), 2)

    def test_10_a_thousand_sessions(self):
        run = python(MEMORY, MODEL, os.path.join(self.dir, "flat"))
        self.assertEqual(run.returncode, 0, run.stderr)
        grown, left = map(int, run.stdout.split())
        self.assertEqual(left, 0)
        if "LD_PRELOAD" not in os.environ:  # AddressSanitizer keeps what is freed
            self.assertLess(grown, 1 << 20)

    def test_11_a_german_locale(self):
        made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", "--no-archive", os.path.join(self.dir, "de_DE.UTF-8")], capture_output=True)
        self.assertLess(made.returncode, 4, made.stderr)
        plain = python(NUMBERS, MODEL)
        german = python(NUMBERS, MODEL, "de_DE.UTF-8", LOCPATH=self.dir)
        self.assertEqual((plain.stderr, german.stderr), ("0.5\n", "0,5\n"))
        self.assertEqual(german.stdout, plain.stdout)
        self.assertTrue(german.stdout.startswith("0.5 2.5 1e-07\n"), german.stdout)

    def test_12_error_texts_of_eight_threads(self):
        wrong = []

        def fail(n):
            for i in range(50):
                for call, text in ((lambda: self.store.stat(f"thread {n} round {i}"), f"thread {n} round {i}"),
                                   (lambda: self.runtime.inspect(f"/nowhere/{n}-{i}.gguf"), f"/nowhere/{n}-{i}.gguf")):
                    try:
                        call()
                    except kvrt.NotFound as error:
                        wrong.extend([str(error)] if text not in str(error) else [])
                    else:
                        wrong.append(text)

        threads = [threading.Thread(target=fail, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
