"""One session at a time: text, tokens, messages, generation in all its ways."""
import array
import json
import math
import os
import threading

import kvrt
from kvrt import EventType, Reason, State
from support import MODEL, PROMPT, Case, best, python


class Text(Case):
    def test_model(self):
        info = self.model.info()
        self.assertTrue(info.has_weights and info.has_template)
        self.assertEqual((info.architecture, info.layers), ("llama", 2))
        tokens = self.model.tokenize("Hello there, Å 中")
        self.assertEqual(self.model.detokenize(tokens), "Hello there, Å 中")
        self.assertEqual(self.model.tokenize("Hello", bos=True), [info.bos_token, *self.model.tokenize("Hello")])
        long = "word " * 500  # more than the first buffer holds
        self.assertEqual(self.model.detokenize(self.model.tokenize(long)), long)
        cut = self.model.tokenize("中")[:-1]
        self.assertEqual(self.model.detokenize_bytes(cut), "中".encode()[:len(self.model.detokenize_bytes(cut))])
        self.assertIn("\ufffd", self.model.detokenize(cut))
        self.assertEqual(self.model.tokenize(""), [])

    def test_by_descriptor(self):
        data = MODEL.read_bytes()
        path = os.path.join(self.dir, "holder")
        with open(path, "wb") as file:
            file.write(b"x" * 4096 + data + b"y" * 10)
        seen = []
        with open(path, "rb") as file:
            model = self.runtime.open_model(fd=file.fileno(), fd_offset=4096, fd_size=len(data), progress=seen.append)
        with model:
            self.assertEqual(model.info().file_bytes, len(data))
        self.assertTrue(seen)
        self.assertTrue(all(event.type is EventType.PROGRESS and event.done <= event.total for event in seen))

    def test_cache_dir(self):
        folder = os.path.join(self.dir, "weights")
        info = self.runtime.cache(folder, 1000)
        self.assertEqual((info.files, info.bytes, info.bytes_max, info.directory), (0, 0, 1000, os.path.realpath(folder)))
        for _ in range(2):
            with self.runtime.open_model(MODEL, cache_dir=folder) as model:
                self.assertEqual(model.tokenize("Hello"), self.model.tokenize("Hello"))
            self.assertEqual(self.runtime.cache(folder).files, 1)
        for off in (None, False, True):  # KVRT_CACHE is empty
            with self.assertRaises(kvrt.NotFound):
                self.runtime.cache(off)

    def test_cache_of_the_user(self):
        code = ("import os, sys, kvrt; os.environ.pop('KVRT_CACHE')\nwith kvrt.Runtime(threads=1) as r:\n"
                "  for off in (None, False): r.open_model(sys.argv[1], cache_dir=off).close()\n"
                "  print(r.cache().files)\n  r.open_model(sys.argv[1]).close()\n  print(r.cache().files, r.cache().directory)")
        run = python(code, MODEL, XDG_CACHE_HOME=os.path.join(self.dir, "home"))
        directory = os.path.realpath(os.path.join(self.dir, "home", "kvrt", "weights"))
        self.assertEqual((run.stdout, run.stderr), (f"0\n1 {directory}\n", ""))

    def test_template(self):
        messages = [{"role": "user", "content": "Hi \U0001f600"}]
        text = self.model.apply_template(messages)
        self.assertIn("Hi \U0001f600", text)
        self.assertTrue(text.startswith(self.model.apply_template(messages, generation_prompt=False)))
        source = "{{ tools | length }}:{{ messages[0].content }}"
        self.assertEqual(kvrt.apply_template(messages, source=source, tools=[{"name": "f"}]), "1:Hi \U0001f600")
        with self.assertRaises(kvrt.Invalid):
            kvrt.apply_template(messages)
        source = "{{ documents[0].title }}{{ enable_thinking }}{{ tools is none }}"
        arguments = {"documents": [{"title": "T\u00e9"}], "variables": {"enable_thinking": False}}
        self.assertEqual(kvrt.apply_template([], source=source, **arguments), "T\u00e9FalseTrue")
        self.assertEqual(kvrt.apply_template([], source="a\0b"), "a\0b")
        self.assertEqual(self.model.apply_template([], source=source, **arguments), "T\u00e9FalseTrue")
        with self.model.open_session(**arguments) as session:
            self.assertEqual(len(session.tokens()), 0)
        with self.assertRaises(kvrt.Invalid):
            self.model.open_session(variables={"messages": []})

    def test_inspect(self):
        found, info = self.runtime.inspect(MODEL), self.model.info()
        self.assertEqual((found["metadata"]["general.architecture"], found["refused"]), (info.architecture, []))
        tokens = found["metadata"]["tokenizer.ggml.tokens"]
        self.assertEqual((tokens["array"], tokens["length"], len(tokens["first"])), ("string", info.vocab_size, 8))
        self.assertEqual(len(self.runtime.inspect(MODEL, whole=True)["metadata"]["tokenizer.ggml.tokens"]["elements"]), info.vocab_size)
        self.assertEqual(sum(t["bytes"] for t in found["tensors"]), sum(t["bytes"] for t in found["types"].values()))
        names = {t["name"] for t in found["tensors"]}
        self.assertTrue({"token_embd.weight", "blk.0.attn_q.weight"} <= names)

    def test_plan(self):
        plan, info = self.runtime.plan(MODEL, sessions=3, session_tokens=100), self.model.info()
        self.assertEqual((plan.weight_bytes, plan.kv_bytes_per_token), (info.weight_bytes, info.kv_bytes_per_token))
        self.assertTrue(plan.fits)
        self.assertEqual(plan.units, 3 * math.ceil(100 / 32))
        shape = self.runtime.plan(layers=2, kv_heads=3, head_dim=8, session_tokens=32)
        pair = self.runtime.plan(kv_format=kvrt.KvFormat.INT8, kv_format_v=kvrt.KvFormat.F16, layers=2, kv_heads=3, head_dim=8, session_tokens=32)
        self.assertEqual(pair.kv_bytes_per_token, 2 * 3 * (8 + 2 + 16))
        self.assertEqual(shape.kv_bytes_per_token, 2 * 3 * 8 * 2 * 2)
        self.assertEqual(shape.weight_bytes, 0)


class Generate(Case):
    def test_events(self):
        session = self.open()
        with session.generate(max_tokens=12, ignore_eos=True, top_logprobs=3, emit_logits=True) as generation:
            events = list(generation)
        tokens = [e for e in events if e.type is EventType.TOKEN]
        rows = [e for e in events if e.type is EventType.LOGITS]
        self.assertEqual((len(tokens), len(rows), events[-1].type), (12, 12, EventType.DONE))
        for row, token in zip(rows, tokens):
            self.assertIsInstance(row.logits, array.array)
            self.assertEqual(len(row.logits), self.model.info().vocab_size)
            self.assertEqual((row.position + 1, best(row.logits)), (token.position, token.token))
            top = max(row.logits)
            self.assertAlmostEqual(token.logprob, row.logits[token.token] - top - math.log(sum(math.exp(v - top) for v in row.logits)), 4)
            self.assertEqual(len(token.top), 3)
            self.assertEqual(token.top[0].token, token.token)
            self.assertAlmostEqual(token.top[0].logprob, token.logprob, 5)
        report = generation.report
        self.assertIs(report, events[-1].report)
        self.assertEqual((report.reason, report.generated, report.prompt_tokens), (Reason.MAX_TOKENS, 12, 4))
        self.assertEqual(report.prompt_tokens, report.reused_memory + report.reused_disk + report.prefilled)
        self.assertEqual(session.tokens(), PROMPT + [e.token for e in tokens])
        self.assertEqual(list(generation), [])
        whole = self.open()
        self.assertEqual(whole.generate(max_tokens=12, ignore_eos=True).read(), "".join(e.text for e in tokens))

    def test_options(self):
        first = self.answer(self.open(), 8)
        self.assertNotIn(first[0], self.answer(self.open(), 8, logit_bias={first[0]: -math.inf}))
        sampled = dict(temperature=1.5, top_k=50, top_p=0.9, min_p=0.01, repetition_penalty=1.1, frequency_penalty=0.1,
                       presence_penalty=0.1, penalty_window=4)
        self.assertEqual(self.answer(self.open(), 20, seed=7, **sampled), self.answer(self.open(), 20, seed=7, **sampled))
        self.assertNotEqual(self.answer(self.open(), 20, seed=7, **sampled), self.answer(self.open(), 20, seed=8, **sampled))
        struct, _ = kvrt.GenerateOptions(max_tokens=1, seed=2, ignore_eos=True, top_logprobs=3, **sampled).to_struct()
        for name, value in dict(sampled, max_tokens=1, seed=2, ignore_eos=1, top_logprobs=3, sampler=0, emit_logits=0, prefill=0).items():
            self.assertAlmostEqual(getattr(struct, name), value, 6, name)
        generation = self.open().generate(max_tokens=50, ignore_eos=True, stop_tokens=[first[3]])
        generation.read()
        self.assertEqual((generation.report.reason, generation.report.generated), (Reason.STOP, first.index(first[3]) + 1))
        options = kvrt.GenerateOptions(max_tokens=3, ignore_eos=True)
        generation = self.open().generate(options, max_tokens=5)
        generation.read()
        self.assertEqual(generation.report.generated, 5)

    def test_cancel_handle(self):
        want = self.answer(self.open(), 100)
        with kvrt.Cancel() as cancel:
            first, second = self.open(), self.open()
            mine, other = first.generate(max_tokens=100, ignore_eos=True, cancel=cancel), second.generate(ignore_eos=True, cancel=cancel)
            given = []
            while len(given) < 3:
                given += [event.token for event in [next(mine)] if event.type is EventType.TOKEN]
            self.assertFalse(cancel.fired)
            thread = threading.Thread(target=cancel.fire)
            thread.start()
            thread.join()
            self.assertTrue(cancel.fired)
            given += [event.token for event in mine if event.type is EventType.TOKEN]
            self.assertEqual(given, want[:len(given)])
            self.assertEqual((mine.report.reason, len(first.tokens())), (Reason.CANCELLED, len(PROMPT) + len(given)))
            other.read()
            self.assertEqual(other.report.reason, Reason.CANCELLED)
            steps = self.model.metrics().steps
            self.assertEqual(first.generate(max_tokens=5, cancel=cancel).read(), "")
            self.assertEqual(self.model.metrics().steps, steps)
        cancel.close()
        with self.assertRaises(kvrt.Invalid):
            first.generate(cancel=cancel)
        with self.assertRaises(kvrt.Invalid):
            cancel.fire()
        self.assertEqual(self.answer(second, 1), want[len(second.tokens()) - 1 - len(PROMPT):][:1])

    def test_grammar(self):
        session = self.open()
        schema = {"type": "object", "properties": {"a": {"enum": ["x", "yy"]}}, "required": ["a"], "additionalProperties": False}
        for given in (schema, json.dumps(schema)):
            answer = json.loads(self.open().generate(json_schema=given, temperature=1.5, seed=3).read())
            self.assertIn(answer, ({"a": "x"}, {"a": "yy"}))
        digits = session.generate(grammar="root ::= [0-9]{20}", max_tokens=4).read()
        digits += session.generate(continue_grammar=True).read()
        self.assertEqual((len(digits), digits.isdigit()), (20, True))
        with self.assertRaises(kvrt.Invalid) as caught:
            session.generate(grammar="root ::= (")
        self.assertIn("line 1", str(caught.exception))
        with self.assertRaises(kvrt.Invalid):
            session.generate(grammar="root ::= [a]", continue_grammar=True)

    def test_reply(self):
        generation = self.open().generate(max_tokens=12, ignore_eos=True, reply=kvrt.Reply.AUTO)
        events = list(generation)
        content = "".join(e.text for e in events if e.type is EventType.CONTENT)
        text = "".join(e.text for e in events if e.type in (EventType.TOKEN, EventType.DONE))
        self.assertTrue(text)
        self.assertEqual(content, text)
        whole = self.open().generate(max_tokens=12, ignore_eos=True, reply=kvrt.Reply.AUTO).read()
        self.assertEqual(whole, text)

    def test_callback(self):
        whole = list(self.open().generate(max_tokens=12, ignore_eos=True))
        seen, session = [], self.open()
        report = session.generate(max_tokens=12, ignore_eos=True, callback=seen.append)
        tokens = lambda events: [(e.type, e.token, e.position, e.text) for e in events if e.type is not EventType.PROGRESS]
        self.assertEqual(tokens(seen), tokens(whole))
        self.assertEqual((report.generated, seen[-1].report), (12, report))
        self.assertEqual(self.open().generate(max_tokens=4, ignore_eos=True, sampler=best, callback=lambda e: None).generated, 4)
        with self.assertRaises(ZeroDivisionError):
            session.generate(ignore_eos=True, callback=lambda event: event.position < 20 or 1 // 0)
        self.assertEqual((session.info().state, len(session.tokens())), (State.IDLE, 21))
        with self.assertRaises(kvrt.Cancelled) as caught:
            session.generate(ignore_eos=True, callback=lambda event: session.cancel())
        self.assertEqual(caught.exception.report.reason, Reason.CANCELLED)
        with self.assertRaises(kvrt.Cancelled) as caught, kvrt.Cancel() as cancel:
            cancel.fire()
            session.generate(cancel=cancel, callback=seen.append)
        self.assertEqual(caught.exception.report.generated, 0)

    def test_stop_string(self):
        session = self.open()
        text = session.generate(max_tokens=40, ignore_eos=True).read()
        stop = next(c for c in text[3:] if c.isalnum())
        session.truncate(len(PROMPT))
        generation = session.generate(max_tokens=40, ignore_eos=True, stop=["no such text", stop])
        self.assertEqual(generation.read(), text[:text.index(stop)])
        self.assertEqual(generation.report.reason, Reason.STOP)
        self.assertGreater(generation.report.stop_string_tokens, 0)

    def test_leaving_the_loop_cancels(self):
        session = self.open()
        for event in session.generate(ignore_eos=True):
            if event.position == 8:
                break
        self.assertEqual(session.info().state, State.IDLE)
        self.assertLess(len(session.tokens()), 20)
        generation = session.generate(ignore_eos=True)
        next(generation)
        self.assertRaises(kvrt.Invalid, lambda: generation.report)
        generation.close()
        generation.close()
        self.assertEqual(generation.report.reason, Reason.CANCELLED)
        self.assertRaises(StopIteration, next, generation)
        with session.generate(ignore_eos=True):
            self.assertEqual(session.info().state, State.GENERATING)
        session.generate(ignore_eos=True)  # dropped before its first event
        session.append([1])
        old = session.generate(max_tokens=2, ignore_eos=True)
        old.read()
        new = session.generate(max_tokens=5, ignore_eos=True)
        old.close()  # ends only its own generation
        self.assertEqual(sum(e.type is EventType.TOKEN for e in new), 5)

    def test_all_or_nothing(self):
        session = self.open()
        for event in session.generate(ignore_eos=True, all_or_nothing=True):
            if event.position == 20:
                break
        self.assertEqual(session.tokens(), PROMPT)

    def test_cancel_from_a_thread(self):
        session = self.open()
        generation = session.generate(ignore_eos=True)
        next(generation)
        thread = threading.Thread(target=session.cancel)
        thread.start()
        events = list(generation)
        thread.join()
        self.assertIn(events[-1].reason, (Reason.CANCELLED, Reason.CONTEXT_FULL))
        self.assertEqual(generation.report.reason, events[-1].reason)

    def test_host_sampler(self):
        own = self.answer(self.open(), 10)
        self.assertEqual(self.answer(self.open(), 10, sampler=best), own)
        shown = [e.type for e in self.open().generate(max_tokens=3, ignore_eos=True, sampler=best, emit_logits=True)]
        self.assertEqual(shown.count(EventType.LOGITS), 3)
        session = self.open()
        session.begin(max_tokens=10, ignore_eos=True, sampler="host")
        while True:
            event = session.next()
            if event.type is EventType.LOGITS:
                self.assertTrue(session.info().awaits_accept)
                self.assertRaises(kvrt.Invalid, session.next)
                session.accept(best(event.logits))
            if event.type is EventType.DONE:
                break
        self.assertEqual(session.tokens(), PROMPT + own)
        self.assertIs(session.next().type, EventType.IDLE)

        class Mine(Exception):
            pass

        def fail(row):
            raise Mine

        caught = None
        try:
            self.answer(session, 5, sampler=fail)
        except Mine as error:
            caught = error  # its traceback keeps the generation alive
        self.assertIsNotNone(caught)
        session.append([1])
        self.assertRaises(kvrt.Invalid, self.answer, session, 5, sampler=lambda row: 10**6)
        busy = None
        try:
            self.answer(session, 5, sampler=lambda row: session.append([1]))
        except kvrt.Busy as error:
            busy = error
        self.assertIsNotNone(busy)
        self.assertEqual(len(self.answer(session, 3)), 3)

    def test_prefill(self):
        session = self.open([4] * 40)
        rows = []
        report = session.prefill(kvrt.Logits.ALL, lambda e: rows.append(e) if e.type is EventType.LOGITS else None)
        self.assertEqual([row.position for row in rows], list(range(40)))
        self.assertEqual((report.reason, report.prefilled), (Reason.PREFILLED, 40))
        first = next(e for e in session.generate(max_tokens=1, ignore_eos=True) if e.type is EventType.TOKEN)
        self.assertEqual(first.token, best(rows[-1].logits))
        with self.assertRaises(ZeroDivisionError):
            self.open([9] * 40).prefill(kvrt.Logits.LAST, lambda e: 1 // 0)

    def test_next_without_compute(self):
        session = self.open()
        session.begin(max_tokens=3, ignore_eos=True)
        self.assertIs(session.next(0).type, EventType.NONE)
        while self.model.step(5):
            pass
        events = [session.next(0) for _ in range(5)]
        self.assertEqual([e.type for e in events[-2:]], [EventType.TOKEN, EventType.DONE])
        metrics = self.model.metrics()
        self.assertEqual((metrics.generations, metrics.generated, metrics.done_max_tokens), (1, 3, 1))
        self.assertIn('model="tiny"', self.model.metrics_text("tiny"))
        self.assertIn('model="llama_gqa_f32"', self.model.metrics_text())


class Conversation(Case):
    def test_fork_truncate_erase(self):
        session = self.open()
        answer = self.answer(session, 6)
        fork = self.enterContext(session.fork())
        self.assertEqual(fork.tokens(), session.tokens())
        self.assertNotEqual(fork.info().id, session.info().id)
        fork.truncate(4)
        self.assertEqual(self.answer(fork, 6), answer)
        fork.erase(1, 3)
        cut = PROMPT[:1] + PROMPT[3:] + answer
        self.assertEqual(fork.tokens(), cut)
        self.assertEqual(self.answer(fork, 5), self.answer(self.open(cut), 5))

    def test_text(self):
        session = self.open([])
        session.append_text("Hello there")
        begin = 1 if self.model.info().add_bos else 0
        self.assertEqual(session.text(begin), "Hello there")
        self.assertEqual(session.text(begin, begin + 1), self.model.detokenize(session.tokens()[begin:begin + 1]))

    def test_tools_are_a_list(self):
        for tools in ({"type": "function"}, "f", 5):
            with self.assertRaisesRegex(TypeError, "tools is a list of tools, not"):
                self.model.open_session(tools=tools)
        with self.assertRaisesRegex(kvrt.Invalid, "tools: item 0 is not an object"):
            self.model.open_session(tools=["f"])

    def test_messages(self):
        session = self.open([], tools=[{"type": "function", "function": {"name": "f"}}])
        session.append_message({"role": "system", "content": "Be brief."})
        info = session.append_message('Hello "you" \U0001f600')
        self.assertEqual((info.rewritten, info.rewritten_at), (0, len(session.tokens()) - info.appended))
        answer = self.answer(session, 5)
        messages = session.messages()
        self.assertEqual([m.content["role"] for m in messages], ["system", "user", "assistant"])
        self.assertEqual(messages[1].content["content"], 'Hello "you" \U0001f600')
        self.assertIn("Be brief.", session.text(messages[0].begin, messages[0].end))
        self.assertEqual([m.generated for m in messages], [False, False, True])
        self.assertEqual(session.tokens()[messages[2].begin:messages[2].end][-5:], answer)
        self.assertEqual([m.ended for m in messages], [False] * 3)  # five tokens at most cut the answer
        session.generate(sampler=lambda logits: self.model.info().eos_token).read()
        self.assertEqual([m.ended for m in session.messages()], [False, False, True])
        messages = session.messages()
        self.assertEqual(session.set_messages([m.content for m in messages]).rewritten, 0)
        changed = session.set_messages([messages[0].content, {"role": "user", "content": "Goodbye"}])
        self.assertGreater(changed.rewritten, 0)
        self.assertEqual([m.content["content"] for m in session.messages()], ["Be brief.", "Goodbye"])

    def test_tool_choice(self):
        tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}}} for name in ("f", "g")]
        for options, names in (({"tool_name": "g"}, {"g"}), ({"tool_choice": kvrt.ToolChoice.REQUIRED}, {"f", "g"}),
                               ({"tool_choice": kvrt.ToolChoice.NAMED, "tool_name": "f", "parallel_calls_max": 1}, {"f"})):
            session = self.open([], tools=tools)
            session.append_message("Hello")
            events = session.generate(reply=kvrt.Reply.HERMES, temperature=1.0, seed=7, **options)
            calls = [json.loads(event.text) for event in events if event.type is EventType.TOOL_CALL]
            self.assertTrue(calls and {call["name"] for call in calls} <= names, calls)
            self.assertTrue(all(call["arguments"]["n"] in (1, 2) for call in calls), calls)
        with self.assertRaises(kvrt.Invalid):
            session.generate(tool_name="h", reply=kvrt.Reply.HERMES)
