"""The prompts of speculate.py beside its files: questions whose answers quote, free text, and prompts of a given length. Made here, the same in
every run."""
import json
import random

import speculate_files
from speculate_files import ENTITIES, NAMES

CODE = [
    "Write a Python function that merges two sorted lists into one sorted list, with a docstring.",
    "Write a C function that reverses the words of a string in place.",
    "Write a JavaScript class for a queue with a fixed capacity, with push, pop and isFull.",
    "Write a Go function that counts how often each word comes in a reader, and returns the ten most frequent.",
    "Write a Python class for a matrix of numbers with addition, multiplication and transposition.",
    "Write a SQL schema for a small library with books, copies, readers and loans, and a query for the loans that are overdue.",
    "Write a shell script that removes files older than 30 days from a folder, and says how many bytes it freed.",
    "Write a Rust function that parses a line like `key = value # comment` into an Option of a pair.",
    "Write a C++ template for a ring buffer of fixed size, with iterators.",
    "Write a Python program that reads a CSV file and prints the mean and the median of each numeric column.",
]
PROSE = [
    "Explain to a child why the sky is blue and the sunset red.",
    "Tell a short story about a lighthouse keeper who finds a letter in a bottle.",
    "What are the advantages and disadvantages of working at night?",
    "Describe how bread is made, from the field to the table.",
    "Explain the difference between a virus and a bacterium, and why it matters for treatment.",
    "Give a friend advice who wants to learn to play the piano at the age of fifty.",
    "Why did people build cathedrals for generations, although few of them saw the end?",
    "Describe a walk through a harbour town early on a winter morning.",
    "Explain how a bicycle stays upright, as far as it is known.",
    "What should someone think about before moving to another country?",
]


def ask(text):
    return [{"role": "user", "content": text}]


def log_of(rng, one):
    many, fields, verb = ENTITIES[one]
    lines, second = [], rng.randrange(20000)
    for i in range(46):
        second += rng.randrange(1, 50)
        stamp = f"2031-03-{1 + second // 86400:02}T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}Z"
        name, kind, value = rng.choice(fields)
        key = f"{one}-{rng.randrange(1000, 9999)}"
        lines.append(f"{stamp} " + rng.choice([
            f"INFO  {many}: {verb} {key} took {rng.randrange(2, 90)} ms", f"INFO  http: GET /{many}/{key} 200 {rng.randrange(200, 9000)} bytes",
            f"DEBUG cache: {key} is kept for {rng.randrange(10, 600)} s", f"WARN  {many}: {key} has an old {name}, {value!r}; it is set to {rng.randrange(100)}",
            f"ERROR {many}: {key}: bad {name}: cannot {verb} it, retry {rng.randrange(1, 5)} of 5"]))
    return "\n".join(lines)


def result_of(rng, one):
    many, fields, verb = ENTITIES[one]
    rows = []
    for i in range(14):
        row = {"id": rng.randrange(10000, 99999), "state": rng.choice(["new", verb + "ed", "failed"])}
        for name, kind, value in fields:
            row[name] = {"str": f"{value} {rng.randrange(100)}", "int": rng.randrange(1, 500), "float": round(rng.random() * 90, 2), "bool": rng.random() < 0.5}[kind]
        rows.append(row)
    return json.dumps({"tool": f"list_{many}", many: rows}, indent=1)


def letter_of(rng, one):
    many, fields, verb = ENTITIES[one]
    parts = [f"Notes of the meeting about {many}, room {rng.randrange(10, 40)}."]
    people = ["Ada", "Bo", "Chidi", "Dana", "Emil", "Farah"]
    for name, kind, value in fields * 3:
        who, other = rng.sample(people, 2)
        parts.append(rng.choice([
            f"{who} said that the {name.replace('_', ' ')} of a {one} is wrong more often than anything else, and that nobody had looked at it since {rng.randrange(2015, 2030)}.",
            f"{other} asked whether one could {verb} a {one} without its {name.replace('_', ' ')}; {who} thought that this would take {rng.randrange(2, 20)} days of work.",
            f"It was decided that {who} writes to all who have {many}, so that by the {rng.randrange(2, 28)}th of next month every {name.replace('_', ' ')} is checked twice.",
            f"{who} and {other} disagreed about the {name.replace('_', ' ')}: the one would keep {value!r}, the other would rather have none at all."]))
    return "\n\n".join(parts)


QUESTIONS = {
    "readme": ["Which errors can come? Quote the whole list under Errors word for word.", "How is it installed? Quote the section Install word for word, with its commands.",
               "Which commands are there? Quote the headings and the sentence under each, word for word.", "Which fields are there? Give the table as it stands."],
    "log": ["Which lines of this log are errors? Quote all of them, unchanged, and nothing else.", "Which lines are warnings? Quote all of them, unchanged.",
            "Quote the last ten lines of the log, unchanged.", "Which lines are about HTTP? Quote all of them, unchanged."],
    "result": ["Which entries have failed? Quote their JSON objects as they stand.", "Give the first four entries as JSON, unchanged.",
               "Give the last four entries as JSON, unchanged.", "Which entries are new? Quote their JSON objects as they stand."],
    "letter": ["What was decided? Quote each sentence that says so, word for word.", "Where did people disagree? Quote these passages word for word.",
               "What was asked, and what was the answer? Quote word for word.", "Quote the first six passages word for word."],
    "source": ["Which functions check or count something? Quote them whole, unchanged.", "Quote the first 25 lines of the file, unchanged.",
               "Quote the last function of the file, and the one before it, unchanged.", "Quote the declarations at the beginning of the file, and say in a sentence what they are for."],
}


def quotes():
    rng = random.Random(20)
    out = []
    for i in range(20):
        kind, one = list(QUESTIONS)[i % 5], NAMES[(3 * i + 1) % len(NAMES)]
        make = {"readme": lambda: "\n".join(speculate_files.markdown(one)[1]), "log": lambda: log_of(rng, one), "result": lambda: result_of(rng, one), "letter": lambda: letter_of(rng, one),
                "source": lambda: "\n".join(speculate_files.KINDS[(i // 5) % 4](one)[1])}[kind]
        question = QUESTIONS[kind][i // 5]
        out.append((f"{kind} of {one}", ask(f"{make()}\n\n{question}")))
    return out


def code():
    return [(text[:40], ask(text)) for text in CODE]


def prose():
    return [(text[:40], ask(text)) for text in PROSE]


def groups():
    """Eight conversations at once: free text and edits mixed."""
    free, files = [pair for both in zip(code(), prose()) for pair in both], speculate_files.edits()
    return [(f"group {g + 1}", [messages for _, messages in free[4 * g:4 * g + 4] + files[4 * g:4 * g + 4]]) for g in range(4)]


def long_prompt(words, seed=0):
    """A prompt of so many words that asks for free text."""
    rng = random.Random(seed)
    text, question = [], PROSE[seed % len(PROSE)]
    while sum(len(part.split()) for part in text) < words:
        text.append(letter_of(rng, rng.choice(NAMES)))
    said = " ".join("\n\n".join(text).split(" ")[:max(0, words - len(question.split()))])
    return ask(f"{said}\n\nThat was for another day. {question}" if said.strip() else question)


if __name__ == "__main__":
    for name, make in (("edits", speculate_files.edits), ("quotes", quotes), ("code", code), ("prose", prose)):
        items = make()
        print(f"{name}: {len(items)} prompts, {sum(len(m[0]['content']) for _, m in items) // len(items)} bytes each")
    print(quotes()[1][1][0]["content"][:1500], quotes()[3][1][0]["content"][:1500], sep="\n\n")
