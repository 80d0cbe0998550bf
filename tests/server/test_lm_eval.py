"""lm-eval, as it is, beside kvrt eval --data: the same figures of the same local data. It asks the server; nothing is loaded from a network.

KVRT_LM_EVAL is a Python that has lm-eval (PyPI: lm-eval 0.4.13, aiohttp, tenacity; no torch); without it, this one. With KVRT_MODEL, a model
file, that model is asked, too. Exit code 77: there is no lm-eval."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import harness
from support import PLAIN, Case, Server

LM_EVAL = os.environ.get("KVRT_LM_EVAL", sys.executable)
CHOICES = """
task: choices
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: prompt
doc_to_choice: choices
doc_to_target: answer
description: "{bos}"
metric_list: [{{metric: acc}}, {{metric: acc_norm}}, {{metric: acc_bytes}}]
"""
TEXT = """
task: text
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: text
metric_list: [{{metric: word_perplexity}}, {{metric: byte_perplexity}}, {{metric: bits_per_byte}}]
"""


class LmEval(Case):
    @classmethod
    def make_model(cls):
        return harness.with_room(PLAIN, cls.dir / "model.gguf")

    def run_harness(self, server, folder, tasks):
        """The figures of each task."""
        environment = {"HOME": str(folder), "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PATH": os.environ["PATH"]}
        arguments = f"model={server.name},base_url=http://127.0.0.1:{server.port}/v1/completions,max_length={harness.TOKENS + 1}"
        command = [LM_EVAL, "-m", "lm_eval", "--model", "local-completions", "--model_args", arguments, "--include_path", folder, "--tasks", ",".join(tasks),
                   "--output_path", folder / "out"]
        done = subprocess.run([str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (results,) = pathlib.Path(folder, "out").rglob("results_*.json")
        return json.loads(results.read_text())["results"]

    def same(self, model):
        server = Server(model)
        self.addCleanup(server.kill)
        server.name = model.stem
        folder = self.dir / f"{model.stem}-data"
        data = harness.write(folder / "data")
        items = [{"prompt": item.get("prompt", item.get("query")), **{key: item[key] for key in ("choices", "answer")}}
                 for item in harness.items() if item.get("prompt") != "" and "delimiter" not in item]
        lines = "".join(json.dumps(item) + "\n" for item in items)
        (data / "choices" / "verses.jsonl").write_text(lines)
        (folder / "choices.jsonl").write_text(lines)
        (folder / "choices.yaml").write_text(CHOICES.format(data=folder / "choices.jsonl", bos=harness.bos_of(server)))
        for name, text in harness.texts().items():
            (folder / f"{name}.jsonl").write_text(json.dumps({"text": text}) + "\n")
            (folder / f"{name}.yaml").write_text(TEXT.format(data=folder / f"{name}.jsonl").replace("task: text", f"task: {name}"))
        theirs = self.run_harness(server, folder, ["choices", *harness.texts()])
        ours = harness.evaluate(model, data, folder / "report")["f16"]
        rows = [("choices", name, ours[name]) for name in ("acc", "acc_norm", "acc_bytes")]
        rows += [(name, figure, value) for name in harness.texts() for figure, value in ours[name].items()]
        for task, figure, value in rows:
            other = theirs[task][f"{figure},none"]
            print(f"{model.stem:<10} {task:<8} {figure:<16} lm-eval {other:<20.12g} kvrt eval {value:.12g}")
            self.assertLess(abs(value - other), 1e-8 * max(1, abs(other)), f"{model.stem}: {task}: {figure}")
        server.stop()

    def test_plain(self):
        self.same(self.make_model())

    def test_a_bos(self):
        # The task says it.
        self.same(harness.with_room(PLAIN, self.dir / "bos.gguf", add_bos_token="true"))

    @unittest.skipUnless(os.environ.get("KVRT_MODEL"), "KVRT_MODEL names no model")
    def test_a_real_one(self):
        self.same(pathlib.Path(os.environ["KVRT_MODEL"]))


if __name__ == "__main__":
    found = subprocess.run([LM_EVAL, "-c", "import lm_eval.models.api_models, aiohttp, tenacity"], capture_output=True, text=True, check=False)
    if found.returncode:
        print("skipped: no lm-eval: " + (found.stderr.strip().splitlines() or ["?"])[-1])
        sys.exit(77)
    unittest.main()
