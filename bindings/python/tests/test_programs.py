"""The programs of kvrt's READMEs, its Python sample and the example of an agent."""
import contextlib
import io
import os
import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import kvrt
from support import MODEL, SOURCE, TINY, python, with_template


class Programs(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="kvrt-python-")
        self.addCleanup(shutil.rmtree, self.work)

    def run_twice(self, code):
        self.assertLessEqual(code.count("\n"), 25)
        shutil.copy(MODEL, pathlib.Path(self.work, "model.gguf"))
        for expected in ("0", "[1-9][0-9]*"):  # the second goes on where the first ended
            run = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=self.work, capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertRegex(run.stdout, rf"\nreused {expected} of [1-9][0-9]* tokens\n$")

    def test_readme(self):
        text = (SOURCE / "bindings" / "python" / "README.md").read_text()
        self.run_twice(re.search(r"```python\n(.*?)```", text, re.S)[1])

    def test_readme_of_all_bindings(self):
        text = (SOURCE / "bindings" / "README.md").read_text()
        self.run_twice(re.search(r"```python\n(.*?)```", text, re.S)[1])

    def test_documents(self):
        """The second and third process take the documents from the store, whatever the question; other documents are computed."""
        program, document = str(SOURCE / "bindings/python/examples/rag.py"), pathlib.Path(self.work, "log.txt")
        document.write_text("The lamp is lit at dusk. " * 10)

        def run(question):
            command = [sys.executable, "-W", "error", program, str(MODEL), self.work + "/store", question, str(document)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = re.search(r"^\((\d+) of (\d+) tokens came from the disk; first token after \d+\.\d s\)$", done.stderr, re.M)
            return tuple(map(int, found.groups()))

        (first, all_first), (second, all_second), (third, _) = map(run, ("Who?", "When is the lamp lit?", "Who?"))
        self.assertEqual(first, 0)
        self.assertEqual(second, third)
        self.assertTrue(200 < second < all_first < all_second, (second, all_first, all_second))
        document.write_text("Another lamp. " * 10)
        self.assertEqual(run("Who?")[0], 0)

    def test_sample(self):
        for run_number in range(2):
            command = [sys.executable, "-W", "error", str(SOURCE / "samples" / "chat_asyncio.py"), str(MODEL), self.work, "8"]
            run = subprocess.run(command, input="ann: Hello\nbob: Hi\nann: And more?\n", capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(sorted(line.split(":")[0] for line in run.stdout.split("\n") if line.startswith(("ann:", "bob:"))), ["ann", "ann", "bob"])
            self.assertEqual(run.stderr.count("goes on"), 2 * run_number)

    def test_sample_after_lines_that_fail(self):
        """A name and a text too long, and bytes that are no text: each is said, and the others have their answers."""
        said = b"ann: Hello\n" + b"x" * 256 + b": Hi\nbob: " + b"too long " * 1000 + b"\neve: \xff\xfe\nann: And more?\n"
        for run_number in range(2):
            command = [sys.executable, "-W", "error", str(SOURCE / "samples" / "chat_asyncio.py"), str(MODEL), self.work, "8"]
            run = subprocess.run(command, input=said, capture_output=True, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
            answers = run.stdout.decode("utf-8")
            self.assertEqual([answers.count(f"{name}: ") for name in ("ann", "bob", "eve")], [2, 0, 1])
            self.assertIn(b"255", run.stderr)
            self.assertIn(b"[bob: the session would have ", run.stderr)
            self.assertEqual(run.stderr.count(b"[ann goes on: "), run_number)

    def test_sample_ended_by_a_signal(self):
        """While it waits for a line, which never comes, and within an answer: the turns before are saved."""
        command = [sys.executable, "-W", "error", str(SOURCE / "samples" / "chat_asyncio.py"), str(MODEL), self.work, "200"]
        for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
                for line in "ann: Hello", "bob: Hi":
                    print(line, file=run.stdin, flush=True)
                    if line == "ann: Hello":
                        self.assertTrue(run.stdout.readline().startswith("ann: "))
                        if number == signal.SIGKILL:
                            self.wait_for(2)
                os.kill(run.pid, number)
                self.assertEqual(run.wait(20), status)
        run = subprocess.run(command, input="ann: And more?\n", capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stderr.count("[ann goes on: ")), (0, 1), run.stderr)
        with kvrt.Runtime(threads=1) as runtime, runtime.open_store(self.work) as store:
            self.assertEqual([m["role"] for m in store.show("ann")["messages"]], ["user", "assistant"] * 3)

    def wait_for(self, turns):
        """Until so many turns of ann are saved."""
        with kvrt.Runtime(threads=1) as runtime, runtime.open_store(self.work, read_only=True) as store:
            end = time.monotonic() + 20
            while len(store.show("ann")["messages"]) < 2 * turns:
                self.assertLess(time.monotonic(), end, "never saved")
                time.sleep(0.01)

    def test_agent(self):
        """Killed in each answer, in its tool, and before the result is there and before it is saved, it ends with the answer, the notes and the conversation of one that was left alone."""
        ended = [self.agent(kill_at=None, folder="alone")]
        for kill_at in (5, 20, 30, "write_whole", "append_message", "_save", 1, None):
            ended.append(self.agent(kill_at, folder="killed"))
            self.assertEqual(ended[-1].returncode, -signal.SIGKILL if kill_at else 0, ended[-1].stderr)
        self.assertIn("goes on after", ended[-1].stderr)
        self.assertEqual(*(self.left(folder) for folder in ("alone", "killed")))

    def test_agent_without_its_task(self):
        """A save that has no message: the task follows."""
        program = self.program()
        pathlib.Path(self.work, "begun").mkdir()
        with kvrt.Runtime(threads=1) as runtime, runtime.open_model(TINY / "row_llama3.gguf") as model:
            with runtime.open_store(pathlib.Path(self.work, "begun", "memory")) as store, model.open_session(store=store, tools=program["TOOLS"]) as chat:
                chat.checkpoint("agent")
        for folder in ("alone", "begun"):
            run = self.agent(kill_at=None, folder=folder)
            self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(*(self.left(folder) for folder in ("alone", "begun")))

    def test_agent_has_no_answer(self):
        """A cut answer, a full context and too many answers are no result; the second run of each says so, too. Another task is refused."""
        def stops(text, **options):
            for _ in range(2):
                run = self.agent(None, **options)
                self.assertEqual((run.returncode, text in run.stderr), (1, True), run.stderr)
                self.assertFalse(pathlib.Path(self.work, options["folder"], "answer.txt").exists())

        stops("has no end within 8 tokens", folder="cut", tokens=8)
        stops("is at another task: ", folder="cut", task="Another")
        run = self.agent(None, folder="cut")
        self.assertEqual(run.returncode, 0, run.stderr)  # with more tokens it goes on
        stops("the context is full", folder="full", task="x " * 400, tokens=5000)
        program = self.program()
        program["work"].__globals__["TURNS"] = 1
        for _ in range(2):
            with self.assertRaisesRegex(program["Stopped"], "1 answers"), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                program["main"](TINY / "row_llama3.gguf", pathlib.Path(self.work, "turns"), "Make notes", 200)

    def test_agent_calls_as_the_template_does(self):
        """Mistral's templates refuse a result that has not the id of its call."""
        model = with_template(TINY / "row_llama3.gguf", "mistral_nemo", pathlib.Path(self.work, "m.gguf"))
        run = self.agent(None, folder="mistral", model=model)
        self.assertEqual(run.returncode, 0, run.stderr)
        asked, called, result = self.left("mistral")[0][:3]
        self.assertEqual(asked["content"], "Make notes")
        self.assertEqual(result["tool_call_id"], called["tool_calls"][0]["id"])
        self.assertEqual(len(result["tool_call_id"]), 9)

    def test_agent_reads_calls(self):
        """Calls that no grammar has bound: what is wrong with one is its result; one in the reasoning is none."""
        program, folder = self.program(), pathlib.Path(self.work)
        tools = program["tools_of"](folder / "notes")
        (folder / "notes").mkdir()
        text = '<think><tool_call>{"name": "x"}</tool_call></think><tool_call>{"name": </tool_call><tool_call>{"nam} </tool_call>' \
               '<tool_call>{"name": "write_note", "arguments": {"name": "../../x", "text": "a"}}</tool_call>'
        calls = program["calls_of"]({"role": "assistant", "content": text})
        function = {"name": "write_note", "arguments": '{"name": "plan", "text": "b"}'}
        calls += program["calls_of"]({"role": "assistant", "tool_calls": [{"id": "a1", "function": function}]})
        with contextlib.redirect_stdout(io.StringIO()):
            results = [program["run_tool"](tools, call) for call in calls]
        self.assertEqual([result["content"].split(":")[0] for result in results], ["JSONDecodeError", "ValueError", "1 characters"])
        self.assertEqual([result.get("tool_call_id") for result in results], [None, None, "a1"])
        self.assertEqual([file.name for file in folder.rglob("*.txt")], ["plan.txt"])
        self.assertEqual(program["calls_of"]({"role": "assistant", "content": None}), [])

    def program(self):
        return runpy.run_path(str(SOURCE / "bindings" / "python" / "examples" / "agent.py"))

    def agent(self, kill_at, folder, model=TINY / "row_llama3.gguf", task="Make notes", tokens=200):
        """Runs the example; at so many tokens, or at the begin of that function, it is killed."""
        code = f"""
import os, runpy, signal, sys, kvrt
take, given = kvrt.Generation.__next__, []
def counted(self):
    event = take(self)
    given.append(event.type is kvrt.EventType.TOKEN)
    if sum(given) == {kill_at!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    return event
kvrt.Generation.__next__ = counted
def profile(frame, event, _argument):
    if event == "call" and frame.f_code.co_name == {kill_at!r}:
        os.kill(os.getpid(), signal.SIGKILL)
sys.setprofile(profile)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
        program = SOURCE / "bindings" / "python" / "examples" / "agent.py"
        code = f"import sys; sys.argv.pop(0)\n{code}"
        return python(code, program, model, os.path.join(self.work, folder), task, tokens, flags=("-W", "error"))

    def left(self, folder):
        where = pathlib.Path(self.work, folder)
        with kvrt.Runtime(threads=1) as runtime, runtime.open_store(where / "memory") as store:
            shown = store.show("agent")
        files = {str(file.relative_to(where)): file.read_text() for file in where.rglob("*.txt")}
        return shown["messages"], shown["tokens"], files
