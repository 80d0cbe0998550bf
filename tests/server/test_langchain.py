"""An agent framework's client: langchain-openai."""
import unittest

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel, Field

from support import Case


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


class Port(BaseModel):
    """A harbour."""

    open: bool
    boats: int = Field(ge=0, le=99)


class LangChain(Case):
    template = "qwen2_5"

    def model(self, **options):
        options = {"max_tokens": 200, "temperature": 1, "seed": 4, **options}
        return ChatOpenAI(model=self.name, base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0, **options)

    def test_invoke(self):
        answer = self.model(max_tokens=8).invoke([SystemMessage("Be brief."), HumanMessage("Hello")])
        self.assertTrue(answer.content)
        self.assertEqual(answer.usage_metadata["output_tokens"], 8)
        self.assertEqual(answer.response_metadata["finish_reason"], "length")

    def test_stream(self):
        chunks = list(self.model(max_tokens=20, stream_usage=True).stream("Hello"))
        self.assertEqual("".join(c.content for c in chunks), self.model(max_tokens=20).invoke("Hello").content)
        self.assertEqual(sum(c.usage_metadata["output_tokens"] for c in chunks if c.usage_metadata), 20)

    def test_batch(self):
        self.assertEqual(len(self.model(max_tokens=5).batch(["a", "b", "c"])), 3)

    def test_tools(self):
        model = self.model().bind_tools([add], tool_choice="add", parallel_tool_calls=False)
        said = [HumanMessage("What is 17 + 25?")]
        answer = model.invoke(said)
        self.assertEqual([c["name"] for c in answer.tool_calls], ["add"])
        result = add.invoke(answer.tool_calls[0])
        self.assertIsInstance(result, ToolMessage)
        final = self.model(max_tokens=8).bind_tools([add], tool_choice="none").invoke(said + [answer, result])
        self.assertIsInstance(final, AIMessage)
        self.assertGreaterEqual(final.usage_metadata["input_token_details"]["cache_read"], answer.usage_metadata["input_tokens"])

    def test_tools_streamed(self):
        model = self.model().bind_tools([add], tool_choice="required", parallel_tool_calls=False)
        whole = None
        for chunk in model.stream("Add."):
            whole = chunk if whole is None else whole + chunk
        self.assertEqual([c["name"] for c in whole.tool_calls], ["add"])

    def test_structured_output(self):
        for method in ("json_schema", "function_calling"):
            self.assertIsInstance(self.model().with_structured_output(Port, method=method).invoke("A harbour"), Port)

    def test_completions(self):
        text = OpenAI(model=self.name, base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_tokens=8, temperature=0, max_retries=0).invoke("Hello")
        self.assertTrue(text)


if __name__ == "__main__":
    unittest.main()
