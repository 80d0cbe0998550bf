"""Speculation: the same answers, and what was proposed of them."""
import kvrt
from support import MODEL, PROMPT, Case

AGAIN = PROMPT * 3
BIAS = {5: 50.0, 6: 50.0}  # answers of two tokens repeat what lookup finds


class Speculation(Case):
    def spoken(self, tokens, count=24, **options):
        """The tokens of a generation, and its report."""
        generation = self.open(tokens).generate(max_tokens=count, ignore_eos=True, logit_bias=BIAS, **options)
        return [event.token for event in generation if event.type is kvrt.EventType.TOKEN], generation.report

    def test_same_answer(self):
        draft = self.enterContext(self.runtime.open_model(MODEL))
        reports = []
        for sampled in ({}, {"temperature": 1.2, "top_k": 40, "seed": 7, "repetition_penalty": 1.1}):
            want, report = self.spoken(AGAIN, **sampled)
            self.assertEqual((report.drafted, report.accepted), (0, 0))
            for options in ({"lookup": True}, {"draft": draft}, {"prediction": self.model.detokenize(want)}, {"draft": draft, "lookup": True}):
                got, report = self.spoken(AGAIN, draft_tokens_max=6, draft_tokens_min=3, **options, **sampled)
                self.assertEqual(got, want, options.keys())
                self.assertGreater(report.drafted, 0, options.keys())
                self.assertLessEqual(report.accepted, report.drafted)
                self.assertEqual(report.generated, len(want))
                if "draft" in options and not sampled:  # it is the same model
                    self.assertGreater(report.accepted, 0)
                reports.append(report)
        metrics = self.model.metrics()
        self.assertEqual((metrics.drafted, metrics.accepted), (sum(r.drafted for r in reports), sum(r.accepted for r in reports)))

    def test_kept_until_done(self):
        want = self.answer(self.open(AGAIN), 20)
        draft = self.runtime.open_model(MODEL)
        generation = self.open(AGAIN).generate(max_tokens=20, ignore_eos=True, draft=draft, draft_tokens_min=3)
        draft.close()
        self.assertEqual([event.token for event in generation if event.type is kvrt.EventType.TOKEN], want)
        self.assertGreater(generation.report.accepted, 0)
        with self.assertRaisesRegex(kvrt.Invalid, "closed"):
            self.open(AGAIN).generate(draft=draft)

    def test_refused(self):
        session = self.open()
        with kvrt.Runtime(threads=1) as other, other.open_model(MODEL) as stranger:
            for options in ({"draft": self.model}, {"draft": stranger}, {"draft_tokens_max": 33}, {"draft_tokens_max": 2, "draft_tokens_min": 3}):
                with self.assertRaises(kvrt.Invalid, msg=options):
                    session.generate(**options)
        for name, value in {"draft": "model.gguf", "prediction": b"text", "lookup": "yes", "draft_tokens_max": 1.5, "draft_tokens_min": None}.items():
            with self.assertRaisesRegex(TypeError, name):
                session.generate(**{name: value})
