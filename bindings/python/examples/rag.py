#!/usr/bin/env python3
"""Answers questions about documents. Reading them is computed once: every later process takes their KV from the store.

    rag.py MODEL.gguf STORE "QUESTION" DOCUMENT.txt...

The documents are a system message, which is saved under a name made of their text: other documents are another session. Each question is asked in a
fork, so that the saved session stays as it is. What came from the disk and when the first token was seen goes to standard error.
"""
import hashlib
import pathlib
import sys
import time
from typing import List, Optional

import kvrt

START = time.monotonic()
TASK = "Answer the question from these documents only. Say so if they do not answer it."


def first_token(model: str, store_path: str, question: str, files: List[str]) -> Optional[float]:
    """Prints the answer; seconds from the program's start to its first token."""
    documents = "\n\n".join(f"# {pathlib.Path(file).name}\n\n{pathlib.Path(file).read_text(encoding='utf-8')}" for file in files)
    system = f"{TASK}\n\n{documents}"
    name = "documents-" + hashlib.sha256(system.encode()).hexdigest()[:16]
    with kvrt.Runtime() as runtime, runtime.open_model(model) as opened, runtime.open_store(store_path) as store:
        with opened.resume_or_open(store, name) as read:
            disk = read.resumed.reused_disk if read.resumed else 0
            if not read.resumed:
                read.append_message(system, role="system")
                read.prefill()
                read.checkpoint(name)
            with read.fork() as chat:
                chat.append_message(question)
                seen = None
                with chat.generate(max_tokens=100) as answer:
                    for event in answer:
                        if seen is None and event.type is kvrt.EventType.TOKEN:
                            seen = time.monotonic() - START
                        print(event.text, end="", flush=True)
                print()
                if seen is not None:
                    tokens = answer.report.prompt_tokens if answer.report else 0
                    print(f"({disk} of {tokens} tokens came from the disk; first token after {seen:.1f} s)", file=sys.stderr)
                return seen


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    if first_token(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]) is None:
        sys.exit("rag.py: the model gave no answer")
