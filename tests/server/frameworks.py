#!/usr/bin/env python3
"""Agents that others wrote, as their users run them: Codex, openai-agents, pydantic-ai, litellm. Opt-in: ./dev agents

With forced answers each does all of a turn with a call, by both endpoints that it knows. With KVRT_AGENTS_MODEL, a real one (Qwen2.5-Coder 0.5B),
the frameworks have to get calls with the right arguments, run them, and go on with their results; and an answer that is text, without tools. Such a
small model calls the tool again when it has the result, without a mask and by its own syntax, too: so its turns are bounded.
"""
import asyncio
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it fetches a list of prices

import agents
import codex_cli_bin
import litellm
import pydantic
from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelSettings, UsageLimitExceeded, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

import forced
from support import Case, Forced

REAL = os.environ.get("KVRT_AGENTS_MODEL")
TURNS = 3
CAPITAL = "What is the capital of France?"
ASKED = "What is the weather in Bonn? Use the tool weather."
agents.set_tracing_disabled(True)
litellm.telemetry = False


class Frameworks:
    """One question with one tool, asked by each framework. `check` says of the call and the answer whether they are right."""

    def url(self):
        return f"http://127.0.0.1:{self.server.port}/v1"

    def async_client(self):
        return AsyncOpenAI(base_url=self.url(), api_key="none", max_retries=0)

    def weather(self):
        def weather(city: str) -> str:
            """The weather in a city."""
            self.called.append(city)
            return "18 C and rain"

        self.called = []
        return weather

    def openai_agents(self, kind, streamed, **settings):
        async def run():
            async with self.async_client() as client:
                agent = agents.Agent(name="a", instructions="You use tools.", model=kind(model=self.name, openai_client=client),
                                     tools=[agents.function_tool(self.weather())], model_settings=agents.ModelSettings(**settings))
                try:
                    if not streamed:
                        return (await agents.Runner.run(agent, ASKED, max_turns=TURNS)).final_output
                    result = agents.Runner.run_streamed(agent, ASKED, max_turns=TURNS)
                    async for _ in result.stream_events():
                        pass
                    return result.final_output
                except agents.MaxTurnsExceeded:
                    return None

        return asyncio.run(run())

    def test_openai_agents(self):
        for kind in (agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel):
            for streamed in (False, True):
                with self.subTest(kind=kind.__name__, streamed=streamed):
                    self.check(self.openai_agents(kind, streamed, **self.settings))

    def test_openai_agents_have_to_call(self):
        for kind in (agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel):
            with self.subTest(kind=kind.__name__):
                self.check(self.openai_agents(kind, False, tool_choice="required", **self.settings))

    def test_openai_agents_by_ids(self):
        # The second question has the id of the first answer alone.
        async def run():
            async with self.async_client() as client:
                model = agents.OpenAIResponsesModel(model=self.name, openai_client=client)
                agent = agents.Agent(name="a", model=model, model_settings=agents.ModelSettings(**self.settings))
                first = await agents.Runner.run(agent, "My name is Ann.")
                return await agents.Runner.run(agent, "What is my name?", previous_response_id=first.last_response_id)

        second = asyncio.run(run())
        self.assertTrue(second.final_output)
        self.assertGreater(second.raw_responses[-1].usage.input_tokens_details.cached_tokens, 0)

    def test_pydantic_ai(self):
        for kind in (OpenAIResponsesModel, OpenAIChatModel):
            with self.subTest(kind=kind.__name__):
                model = kind(self.name, provider=OpenAIProvider(base_url=self.url(), api_key="none"))
                agent = Agent(model, instructions="You use tools.", model_settings=ModelSettings(**self.settings))
                agent.tool_plain(self.weather())
                try:
                    self.check(agent.run_sync(ASKED, usage_limits=UsageLimits(request_limit=TURNS)).output)
                except UsageLimitExceeded:
                    self.check(None)

    def test_pydantic_ai_streamed(self):
        async def run(agent):
            try:
                async with agent.run_stream(ASKED, usage_limits=UsageLimits(request_limit=TURNS)) as result:
                    return await result.get_output()
            except UsageLimitExceeded:
                return None

        for kind in (OpenAIResponsesModel, OpenAIChatModel):
            with self.subTest(kind=kind.__name__):
                agent = Agent(kind(self.name, provider=OpenAIProvider(base_url=self.url(), api_key="none")), model_settings=ModelSettings(**self.settings))
                agent.tool_plain(self.weather())
                self.check(asyncio.run(run(agent)))

    def litellm_options(self):
        return {"model": "openai/" + self.name, "api_base": self.url(), "api_key": "none", **self.settings}

    def test_litellm(self):
        tool = {"name": "weather", "description": "The weather in a city.", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}
        weather = self.weather()
        said = [{"role": "user", "content": ASKED}]
        options = {**self.litellm_options(), "tools": [{"type": "function", "function": tool}]}
        answer = litellm.completion(messages=said, **options).choices[0].message
        said.append(answer.model_dump())
        for call in answer.tool_calls or []:
            said.append({"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))})
        self.check(litellm.completion(messages=said, **options).choices[0].message.content)

    def test_litellm_responses(self):
        tool = {"type": "function", "name": "weather", "description": "The weather in a city.", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}
        weather = self.weather()
        options = {**self.litellm_options(), "tools": [tool]}
        if "max_tokens" in options:
            options["max_output_tokens"] = options.pop("max_tokens")
        first = litellm.responses(input=ASKED, **options)
        results = [{"type": "function_call_output", "call_id": i.call_id, "output": weather(**json.loads(i.arguments))}
                   for i in first.output if i.type == "function_call"]
        self.assertTrue(results)
        again = litellm.responses(input=results, previous_response_id=first.id, **options)
        self.check("".join(p.text for i in again.output if i.type == "message" for p in i.content) or None)


class WithForcedAnswers(Frameworks, Forced):
    answers = [("18 C", "It is 18 C."), ("weather in Bonn", forced.call("weather", city="Bonn")), ("A city", forced.call("final_result", name="Ulm"))]
    settings = {}

    def check(self, answer):
        self.assertEqual((self.called, answer), (["Bonn"], "It is 18 C."))

    def test_structured(self):
        class City(pydantic.BaseModel):
            name: str

        for kind in (OpenAIResponsesModel, OpenAIChatModel):
            agent = Agent(kind(self.name, provider=OpenAIProvider(base_url=self.url(), api_key="none")), output_type=City)
            self.assertEqual(agent.run_sync("A city").output, City(name="Ulm"))


@unittest.skipUnless(REAL, "KVRT_AGENTS_MODEL names no model")
class WithARealModel(Frameworks, Case):
    settings = {"max_tokens": 200, "temperature": 0, "parallel_tool_calls": False}

    @classmethod
    def make_model(cls):
        return pathlib.Path(REAL)

    def check(self, answer):
        self.assertEqual(set(self.called), {"Bonn"})
        self.assertIsNot(answer, "")

    def test_text(self):
        said = {"openai_agents": lambda: asyncio.run(self.name_of_capital()), "litellm": lambda: litellm.completion(
            messages=[{"role": "user", "content": CAPITAL}], **self.litellm_options()).choices[0].message.content}
        for kind in (OpenAIResponsesModel, OpenAIChatModel):
            model = kind(self.name, provider=OpenAIProvider(base_url=self.url(), api_key="none"))
            said[kind.__name__] = lambda model=model: Agent(model, model_settings=ModelSettings(temperature=0)).run_sync(CAPITAL).output
        for framework, answer in said.items():
            with self.subTest(framework=framework):
                self.assertIn("Paris", answer())

    async def name_of_capital(self):
        async with self.async_client() as client:
            agent = agents.Agent(name="a", model=agents.OpenAIResponsesModel(model=self.name, openai_client=client))
            return (await agents.Runner.run(agent, CAPITAL)).final_output


class Codex(Forced):
    """It runs a command and says what came of it. Its prompt has 28,000 tokens where a token is a byte."""

    answers = [
        ("marker-4711", "The file says marker-4711."),
        ("Read the file", ["<think>\nI have to read it.\n</think>\n\n", forced.call("exec_command", cmd="cat note.txt")])]
    context = 131072
    options = ("--kv-bytes", "64M")

    def test_exec(self):
        # Its own files may not lie in the folder of temporary files.
        home = pathlib.Path(tempfile.mkdtemp(prefix="kvrt-codex-", dir=pathlib.Path.home()))
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        work = home / "work"
        work.mkdir()
        (work / "note.txt").write_text("marker-4711\n")
        (home / "config.toml").write_text(
            f'model = "{self.name}"\nmodel_provider = "kvrt"\n[model_providers.kvrt]\nname = "kvrt"\nbase_url = "http://127.0.0.1:{self.server.port}/v1"\n'
            'wire_api = "responses"\n')
        command = [codex_cli_bin.bundled_codex_path(), "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
                   "Read the file note.txt and say what it says"]
        ran = subprocess.run(command, cwd=work, env={**os.environ, "CODEX_HOME": str(home)}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        items = [e["item"] for e in events if e["type"] == "item.completed"]
        self.assertEqual([(i["exit_code"], i["aggregated_output"]) for i in items if i["type"] == "command_execution"], [(0, "marker-4711\n")])
        self.assertEqual([i["text"] for i in items if i["type"] == "agent_message"], ["The file says marker-4711."])
        usage = events[-1]["usage"]
        self.assertGreater(usage["cached_input_tokens"], usage["input_tokens"] // 3)  # all of the first prompt, in the second
        _, log = self.server.stop()
        for kind in ("namespace", "web_search"):
            self.assertIn(f'"{kind}" are left out', log)


if __name__ == "__main__":
    unittest.main()
