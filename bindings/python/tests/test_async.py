"""asyncio: many sessions, one worker, and a loop that is never held up."""
import asyncio
import gc
import threading
import time

import kvrt
from kvrt import EventType, Reason, State
from support import MODEL, PROMPT, Case, best

LONG = 400


def worker_count():
    return sum(thread.name == "kvrt-worker" for thread in threading.enumerate())


class Async(Case):
    def run_async(self, coroutine):
        asyncio.run(asyncio.wait_for(coroutine, 30))

    def expected(self, prompt, count):
        with self.model.open_session() as session:
            session.append(prompt)
            return self.answer(session, count)

    async def tokens(self, session, count, **options):
        return [e.token async for e in session.agenerate(max_tokens=count, ignore_eos=True, **options) if e.type is EventType.TOKEN]

    def test_eight_sessions_one_worker(self):
        prompts = [[n + 3] * (n + 1) for n in range(8)]
        expected = [self.expected(prompt, LONG) for prompt in prompts]
        sessions = [self.open(prompt) for prompt in prompts]
        most, gaps, done = [0], [], []

        async def heartbeat():
            while not done:
                most[0] = max(most[0], worker_count())
                begin = time.monotonic()
                await asyncio.sleep(0.001)
                gaps.append(time.monotonic() - begin)

        async def main():
            beat = asyncio.ensure_future(heartbeat())
            got = await asyncio.gather(*(self.tokens(s, LONG) for s in sessions))
            done.append(True)
            await beat
            self.assertEqual(got, expected)

        self.run_async(main())
        self.assertEqual(most[0], 1)
        self.assertGreater(len(gaps), 3)
        self.assertLess(max(gaps), 1.0)
        metrics = self.model.metrics()
        self.assertGreater(metrics.step_rows, 2 * metrics.steps - 8 * LONG)  # batched: a step serves many
        for _ in range(200):
            if worker_count() == 0:
                break
            time.sleep(0.01)
        self.assertEqual(worker_count(), 0)

    def test_cancelled_task(self):
        session = self.open()

        async def main():
            task = asyncio.ensure_future(session.agenerate(ignore_eos=True).read())
            while len(session.tokens()) < 10:
                await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(session.info().state, State.IDLE)
            self.assertLess(len(session.tokens()), self.model.info().context_length)
            self.assertEqual(len(await self.tokens(session, 5)), 5)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.open(domain="slow").agenerate(ignore_eos=True, sampler=lambda row: time.sleep(0.02) or 5).read(), 0.1)

        self.run_async(main())

    def test_cancelled_in_the_loop_body(self):
        """The task waits for something else: the generation ends all the same, also while the task, and so its traceback, is kept."""
        sessions = [self.open(), self.open(domain="two")]

        async def read(session, inside):
            generation = session.agenerate(ignore_eos=True)  # the traceback keeps it
            async for event in generation:
                if event.position == 5:
                    inside.set()
                    await asyncio.sleep(60)

        async def main():
            tasks = []
            for session in sessions:
                inside = asyncio.Event()
                tasks.append(asyncio.ensure_future(read(session, inside)))
                await inside.wait()
                tasks[-1].cancel()
            await asyncio.wait(tasks)
            await self.until_idle(sessions)
            self.assertTrue(all(task.cancelled() for task in tasks))
            for session in sessions:
                self.assertLess(len(session.tokens()), self.model.info().context_length)
                self.assertEqual(len(await self.tokens(session, 5)), 5)

        self.run_async(main())

    async def until_idle(self, sessions):
        for _ in range(2000):
            if all(s.info().state is State.IDLE and s.info().events_unread == 0 for s in sessions):
                return
            await asyncio.sleep(0.005)
        self.fail([s.info().state for s in sessions])

    def test_dropped_generations_end_by_themselves(self):
        """Also those that are dropped while a step runs: another thread's prompts keep the model busy."""
        sessions = [self.open(domain=str(n)) for n in range(6)]
        over = threading.Event()

        def prompts():
            with self.model.open_session(prefix_cache=False) as other:
                while not over.is_set():
                    other.append([7] * 900)
                    other.prefill()
                    other.truncate(0)

        busy = threading.Thread(target=prompts)
        busy.start()
        self.addCleanup(busy.join)
        self.addCleanup(over.set)

        async def main():
            for session in sessions:
                async for event in session.agenerate(ignore_eos=True):
                    if event.position == 6:
                        break  # no call on the session follows
            del event
            gc.collect()
            await self.until_idle(sessions)

        self.run_async(main())

    def test_a_reader_may_change_its_task(self):
        session = self.open()

        async def main():
            generation = session.agenerate(max_tokens=10, ignore_eos=True)
            got = [await asyncio.wait_for(generation.__anext__(), 20)]  # a task of its own, before Python 3.12
            first = asyncio.ensure_future(generation.__anext__())
            got.append(await first)
            first.cancel()  # it is over
            got += [event async for event in generation]
            self.assertEqual(sum(e.type is EventType.TOKEN for e in got), 10)
            self.assertEqual(generation.report.reason, Reason.MAX_TOKENS)
            self.assertIsNone(generation._task)

        self.run_async(main())

    def test_calls_wait_for_a_generation_that_was_left(self):
        """The worker ends it: the caller knows nothing of that call."""
        session, inside, leave = self.open(), threading.Event(), threading.Event()
        drain = session._drain

        def slow(timeout_ms):
            inside.set()
            leave.wait(20)
            drain(timeout_ms)

        session.begin(ignore_eos=True)
        session._drain, session._abandoned = slow, True
        self.model._core.later(session._drain_later)
        self.assertTrue(inside.wait(20))
        threading.Timer(0.05, leave.set).start()
        session.append([1])
        self.assertEqual(session.tokens()[-1], 1)

    def test_nothing_is_kept(self):
        session = self.open()

        async def main():
            core = self.model._core
            core._running = True  # a worker that always has something to do
            for _ in range(5):
                generation = session.agenerate()
                core.kick(generation._waiter)
                await generation.aclose()
            del generation
            gc.collect()
            self.assertEqual(len(core._waiters), 0)
            core._running = False

        self.run_async(main())

    def test_leaving_the_loop(self):
        session = self.open()

        async def main():
            async for event in session.agenerate(ignore_eos=True):
                if event.type is EventType.TOKEN:
                    break
            gc.collect()
            session.append([1])  # drains the events that were left
            async with session.agenerate(ignore_eos=True) as generation:
                await generation.__anext__()
            self.assertEqual(session.info().state, State.IDLE)
            self.assertEqual(generation.report.reason, Reason.CANCELLED)
            await generation.aclose()
            session.agenerate(ignore_eos=True)  # dropped before its first event
            gc.collect()
            self.assertEqual(len(await self.tokens(session, 3)), 3)

        self.run_async(main())

    def test_a_slow_reader_pauses_the_generation(self):
        session = self.open()

        async def main():
            events = []
            async for event in session.agenerate(max_tokens=300, ignore_eos=True):
                events.append(event)
                if len(events) == 3:
                    await asyncio.sleep(0.2)
                    self.assertLessEqual(session.info().events_unread, 64)
                    self.assertEqual(worker_count(), 0)
            self.assertEqual(sum(e.type is EventType.TOKEN for e in events), 300)
            self.assertEqual(events[-1].report.reason, Reason.MAX_TOKENS)

        self.run_async(main())

    def test_failures_arrive(self):
        broken = self.enterContext(self.poisoned().open_session())
        broken.append(PROMPT)
        session = self.open()

        class Mine(Exception):
            pass

        def fail(row):
            raise Mine

        async def main():
            with self.assertRaises(kvrt.Error) as caught:
                await broken.agenerate(max_tokens=5).read()
            self.assertEqual(caught.exception.detail, kvrt.Detail.NUMERIC)
            with self.assertRaises(Mine):
                await session.agenerate(max_tokens=5, sampler=fail).read()
            with self.assertRaises(kvrt.Invalid):
                session.agenerate(top_p=7.0)
            self.assertEqual(len(await self.tokens(session, 5)), 5)

        self.run_async(main())

    def test_sampler_and_prefill(self):
        session, expected = self.open(), self.expected(PROMPT, 20)

        async def main():
            rows = [e async for e in session.agenerate(prefill=True, logits=kvrt.Logits.LAST)]
            self.assertEqual([e.type for e in rows if e.type is not EventType.PROGRESS], [EventType.LOGITS, EventType.DONE])
            self.assertEqual(rows[-1].reason, Reason.PREFILLED)
            self.assertEqual(best(next(e for e in rows if e.logits).logits), expected[0])
            self.assertEqual(await self.tokens(session, 20, sampler=best), expected)

        self.run_async(main())

    def test_loops_come_and_go(self):
        session = self.open()
        for _ in range(3):
            self.run_async(self.tokens(session, 5))
        self.assertEqual(len(self.answer(session, 5)), 5)  # and one without any
        self.assertEqual(session.tokens(), PROMPT + self.expected(PROMPT, 20))
        self.assertRaises(RuntimeError, session.agenerate)

    def test_beside_threads(self):
        sessions = [self.open([n + 3] * 5) for n in range(4)]
        expected = [self.expected([n + 3] * 5, LONG) for n in range(4)]
        got = {}
        threads = [threading.Thread(target=lambda n=n: got.__setitem__(n, self.answer(sessions[n], LONG))) for n in (0, 1)]

        async def main():
            for thread in threads:
                thread.start()
            got[2], got[3] = await asyncio.gather(self.tokens(sessions[2], LONG), self.tokens(sessions[3], LONG))

        self.run_async(main())
        for thread in threads:
            thread.join()
        self.assertEqual([got[n] for n in range(4)], expected)

    def test_cancel_from_a_thread(self):
        session = self.open()

        async def main():
            generation = session.agenerate(ignore_eos=True)
            async for event in generation:
                if event.position == 8:
                    thread.start()
            self.assertIn(generation.report.reason, (Reason.CANCELLED, Reason.CONTEXT_FULL))

        thread = threading.Thread(target=session.cancel)
        self.run_async(main())
        thread.join()  # its call keeps the session, and so the store, which is removed now

    def test_who_else_touches_a_session(self):
        session = self.open()

        async def main():
            async with session.agenerate(max_tokens=200, ignore_eos=True) as generation:
                for _ in range(3):
                    self.assertRaises(kvrt.Busy, session.agenerate)
                events = [event async for event in generation]
            self.assertEqual(sum(e.type is EventType.TOKEN for e in events), 200)
            session._core.kick = lambda waiter: None  # nobody computes: it waits
            waits = asyncio.ensure_future(session.agenerate().read())
            await asyncio.sleep(0.02)
            self.assertFalse(waits.done())
            session.close()
            with self.assertRaises(kvrt.Invalid):
                await waits

        self.run_async(main())

    def test_closing_meanwhile(self):
        with self.runtime.open_model(MODEL) as model:
            session = self.enterContext(model.open_session())
            session.append(PROMPT)

            async def main():
                generation = session.agenerate(max_tokens=50, ignore_eos=True)
                count = 0
                async for event in generation:
                    model.close()  # the session keeps it
                    count += event.type is EventType.TOKEN
                self.assertEqual(count, 50)
                generation = session.agenerate(ignore_eos=True)
                await generation.__anext__()
                session.close()
                with self.assertRaises(kvrt.Invalid):
                    await generation.read()

            self.run_async(main())
