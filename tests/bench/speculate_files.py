"""Twenty files as people write them, 60 to 150 lines each, and a small change to each: made here, the same in every run."""

# An entity: singular, plural, its fields as (name, type, a first value), a second word for what is done with it.
ENTITIES = {
    "invoice": ("invoices", [("number", "str", "R-1001"), ("customer", "str", "Lindqvist"), ("cents", "int", 12900), ("paid", "bool", False), ("due_day", "int", 30)], "settle"),
    "sensor": ("sensors", [("serial", "str", "T-77"), ("room", "str", "attic"), ("celsius", "float", 19.5), ("battery", "int", 93), ("online", "bool", True)], "calibrate"),
    "booking": ("bookings", [("guest", "str", "Okafor"), ("nights", "int", 3), ("room", "int", 204), ("breakfast", "bool", True), ("price", "float", 89.9)], "confirm"),
    "parcel": ("parcels", [("code", "str", "PX-5"), ("grams", "int", 850), ("street", "str", "Mill Lane"), ("fragile", "bool", False), ("zone", "int", 4)], "dispatch"),
    "track": ("tracks", [("title", "str", "Low Tide"), ("seconds", "int", 214), ("artist", "str", "The Ferns"), ("gain", "float", 0.8), ("muted", "bool", False)], "enqueue"),
    "plant": ("plants", [("latin", "str", "Ficus carica"), ("height", "int", 120), ("sun", "bool", True), ("water_days", "int", 4), ("pot", "str", "clay")], "water"),
    "ticket": ("tickets", [("subject", "str", "Login fails"), ("priority", "int", 2), ("owner", "str", "mira"), ("hours", "float", 1.5), ("closed", "bool", False)], "assign"),
    "route": ("routes", [("origin", "str", "Harbour"), ("target", "str", "Station"), ("stops", "int", 9), ("minutes", "int", 26), ("night", "bool", False)], "plan"),
    "recipe": ("recipes", [("title", "str", "Lentil soup"), ("servings", "int", 4), ("minutes", "int", 35), ("vegan", "bool", True), ("salt", "float", 1.2)], "cook"),
    "member": ("members", [("name", "str", "Asta Berg"), ("joined", "int", 2019), ("email", "str", "asta@example.org"), ("fee", "float", 24.0), ("active", "bool", True)], "renew"),
}
NAMES = list(ENTITIES)


def title(word):
    return "".join(part.capitalize() for part in word.split("_"))


def literal(value, false="False", true="True"):
    return (true if value else false) if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def numbers(fields):
    return [f for f in fields if f[1] in ("int", "float")]


def words(fields):
    return [f for f in fields if f[1] == "str"]


def python_store(one):
    many, fields, verb = ENTITIES[one]
    out = [f'"""Keeps {many} in a file of JSON lines, and finds them again."""', "import dataclasses", "import json", "import pathlib", "", "",
           "@dataclasses.dataclass", f"class {title(one)}:"]
    out += [f"    {name}: {kind} = {literal(value)}" for name, kind, value in fields]
    out += ["", "    def check(self):"]
    for name, kind, _ in fields:
        test = {"str": f"not self.{name}.strip()", "bool": f"self.{name} not in (True, False)"}.get(kind, f"self.{name} < 0")
        out += [f"        if {test}:", f'            raise ValueError(f"{one}: {name} is {{self.{name}!r}}")']
    out += ["", "    def line(self):", "        return json.dumps(dataclasses.asdict(self), sort_keys=True)", "", "", f"class {title(one)}Store:",
            "    def __init__(self, path):", "        self.path = pathlib.Path(path)", f"        self.{many} = []", "", "    def load(self):",
            "        if not self.path.exists():", "            return 0", "        for line in self.path.read_text().splitlines():", "            if line.strip():",
            f"                self.{many}.append({title(one)}(**json.loads(line)))", f"        return len(self.{many})", "", "    def save(self):",
            '        text = "".join(item.line() + "\\n" for item in self.' + many + ")", '        partial = self.path.with_suffix(".part")', "        partial.write_text(text)",
            "        partial.replace(self.path)", "", f"    def add(self, {one}):", f"        {one}.check()", f"        self.{many}.append({one})", f"        return {one}", ""]
    for name, kind, _ in fields:
        out += [f"    def by_{name}(self, {name}: {kind}):", f"        return [item for item in self.{many} if item.{name} == {name}]", ""]
    for name, _, _ in numbers(fields):
        out += [f"    def total_{name}(self):", f"        return sum(item.{name} for item in self.{many})", ""]
    out += [f"    def {verb}(self, index):", f"        item = self.{many}[index]", "        item.check()", f"        self.{many}[index] = dataclasses.replace(item)", "        self.save()",
            f"        return self.{many}[index]"]
    first = numbers(fields)[0]
    return f"{one}_store.py", out, f"Change the first value of `{first[0]}` from {first[2]} to {first[2] * 2}."


def c_table(one):
    many, fields, verb = ENTITIES[one]
    types = {"str": "char {}[48];", "int": "int64_t {};", "float": "double {};", "bool": "bool {};"}
    show = {"str": ("%s", "{}"), "int": ("%lld", "(long long){}"), "float": ("%.2f", "{}"), "bool": ("%s", '{} ? "yes" : "no"')}
    out = [f"// A table of {many}, which grows as it is filled.", "#include <stdbool.h>", "#include <stdint.h>", "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>", "",
           f"#define {one.upper()}_FIRST_ROOM 16", "", f"struct {one} {{"]
    out += ["  " + types[kind].format(name) for name, kind, _ in fields]
    out += ["};", "", f"struct {one}_table {{", f"  struct {one}* rows;", "  size_t count, room;", "};", "", f"void {one}_table_init(struct {one}_table* t) {{", "  t->rows = NULL;",
            "  t->count = t->room = 0;", "}", "", f"void {one}_table_free(struct {one}_table* t) {{", "  free(t->rows);", f"  {one}_table_init(t);", "}", "",
            f"static int {one}_table_grow(struct {one}_table* t) {{", f"  const size_t room = t->room ? t->room * 2 : {one.upper()}_FIRST_ROOM;",
            f"  struct {one}* rows = realloc(t->rows, room * sizeof *rows);", "  if (rows == NULL) return -1;", "  t->rows = rows;", "  t->room = room;", "  return 0;", "}", "",
            f"struct {one}* {one}_table_add(struct {one}_table* t) {{", f"  if (t->count == t->room && {one}_table_grow(t) != 0) return NULL;", f"  struct {one}* row = &t->rows[t->count++];",
            "  memset(row, 0, sizeof *row);"]
    for name, kind, value in fields:
        out.append(f'  snprintf(row->{name}, sizeof row->{name}, "{value}");' if kind == "str" else f"  row->{name} = {literal(value, 'false', 'true')};")
    out += ["  return row;", "}", ""]
    for name, kind, _ in fields:
        test = f"strcmp(t->rows[i].{name}, {name}) == 0" if kind == "str" else f"t->rows[i].{name} == {name}"
        argument = {"str": "const char* ", "int": "int64_t ", "float": "double ", "bool": "bool "}[kind]
        out += [f"size_t {one}_count_{name}(const struct {one}_table* t, {argument}{name}) {{", "  size_t count = 0;", "  for (size_t i = 0; i < t->count; ++i) {",
                f"    if ({test}) ++count;", "  }", "  return count;", "}", ""]
    out += [f"void {one}_print(const struct {one}* row, FILE* to) {{"]
    for name, kind, _ in fields:
        mark, value = show[kind]
        out.append(f'  fprintf(to, "{name}: {mark}\\n", {value.format("row->" + name)});')
    out += ["}", "", f"int {one}_{verb}(struct {one}_table* t, size_t index) {{", "  if (index >= t->count) return -1;", f"  {one}_print(&t->rows[index], stdout);", "  return 0;", "}"]
    return f"{one}.c", out, f"Give `struct {one}` one more field at its end, `int64_t changed;`, and set `{one.upper()}_FIRST_ROOM` to 64."


def javascript(one):
    many, fields, verb = ENTITIES[one]
    out = [f"// The list of {many} on the page: it loads them, filters them and shows them.", f"const {one.upper()}_URL = '/api/{many}';", "", f"export function empty{title(one)}() {{", "  return {"]
    out += [f"    {name}: {literal(value, 'false', 'true')}," for name, _, value in fields]
    out += ["  };", "}", "", f"export async function load{title(many)}(page = 1, size = 20) {{", f"  const answer = await fetch(`${{{one.upper()}_URL}}?page=${{page}}&size=${{size}}`);",
            f"  if (!answer.ok) throw new Error(`{many}: ${{answer.status}}`);", "  return answer.json();", "}", "", f"export async function save{title(one)}({one}) {{",
            f"  const answer = await fetch({one.upper()}_URL, {{", "    method: 'POST',", "    headers: { 'content-type': 'application/json' },", f"    body: JSON.stringify({one}),", "  });",
            f"  if (!answer.ok) throw new Error(`{one}: ${{answer.status}}`);", "  return answer.json();", "}", "", f"export function check{title(one)}({one}) {{", "  const faults = [];"]
    for name, kind, _ in fields:
        test = {"str": f"{one}.{name}.trim() === ''", "bool": f"typeof {one}.{name} !== 'boolean'"}.get(kind, f"{one}.{name} < 0")
        out.append(f"  if ({test}) faults.push('{name}');")
    out += ["  return faults;", "}", "", f"export function filter{title(many)}({many}, text) {{", "  const wanted = text.toLowerCase();", f"  return {many}.filter((item) =>"]
    out += [f"    {'|| ' if i else ''}item.{name}.toLowerCase().includes(wanted)" for i, (name, _, _) in enumerate(words(fields))]
    out += ["  );", "}", "", f"export function row({one}) {{", "  const tr = document.createElement('tr');"]
    for name, _, _ in fields:
        out += [f"  const {name} = document.createElement('td');", f"  {name}.textContent = String({one}.{name});", f"  {name}.className = '{one}-{name.replace('_', '-')}';", f"  tr.append({name});"]
    out += ["  return tr;", "}", "", f"export async function {verb}(id) {{", f"  const answer = await fetch(`${{{one.upper()}_URL}}/${{id}}/{verb}`, {{ method: 'POST' }});", "  return answer.ok;", "}"]
    return f"{many}.js", out, f"`load{title(many)}` should have pages of 50 in place of 20, and the URL should begin with `/api/v2/`."


def go(one):
    many, fields, verb = ENTITIES[one]
    types = {"str": "string", "int": "int", "float": "float64", "bool": "bool"}
    out = [f"// Package {many} serves {many} over HTTP.", f"package {many}", "", "import (", '\t"encoding/json"', '\t"errors"', '\t"net/http"', '\t"strconv"', '\t"sync"', ")", "", f"type {title(one)} struct {{"]
    out += [f'\t{title(name)} {types[kind]} `json:"{name}"`' for name, kind, _ in fields]
    out += ["}", "", f"var ErrNo{title(one)} = errors.New(\"no such {one}\")", "", "type Store struct {", "\tmu   sync.Mutex", f"\trows map[int]{title(one)}", "\tnext int", "}", "", "func NewStore() *Store {",
            f"\treturn &Store{{rows: make(map[int]{title(one)}), next: 1}}", "}", "", f"func (s *Store) Add(row {title(one)}) int {{", "\ts.mu.Lock()", "\tdefer s.mu.Unlock()", "\tid := s.next", "\ts.rows[id] = row",
            "\ts.next++", "\treturn id", "}", "", f"func (s *Store) Get(id int) ({title(one)}, error) {{", "\ts.mu.Lock()", "\tdefer s.mu.Unlock()", "\trow, ok := s.rows[id]", "\tif !ok {",
            f"\t\treturn {title(one)}{{}}, ErrNo{title(one)}", "\t}", "\treturn row, nil", "}", "", f"func (row {title(one)}) Check() error {{"]
    for name, kind, _ in fields:
        if kind != "bool":
            out += [f"\tif row.{title(name)} {'== ' + chr(34) * 2 if kind == 'str' else '< 0'} {{", f'\t\treturn errors.New("{one}: bad {name}")', "\t}"]
    out += ["\treturn nil", "}", ""]
    for name, _, _ in numbers(fields):
        out += [f"func (s *Store) Total{title(name)}() float64 {{", "\ts.mu.Lock()", "\tdefer s.mu.Unlock()", "\ttotal := 0.0", "\tfor _, row := range s.rows {", f"\t\ttotal += float64(row.{title(name)})", "\t}",
                "\treturn total", "}", ""]
    out += [f"func (s *Store) {title(verb)}(w http.ResponseWriter, r *http.Request) {{", '\tid, err := strconv.Atoi(r.PathValue("id"))', "\tif err != nil {", "\t\thttp.Error(w, err.Error(), http.StatusBadRequest)", "\t\treturn", "\t}",
            "\trow, err := s.Get(id)", "\tif err != nil {", "\t\thttp.Error(w, err.Error(), http.StatusNotFound)", "\t\treturn", "\t}", '\tw.Header().Set("Content-Type", "application/json")', "\tjson.NewEncoder(w).Encode(row)", "}"]
    return f"{many}.go", out, f"Rename the error to `Err{title(one)}Missing` everywhere, and let its text be \"the {one} is missing\"."


def json_settings(one):
    many, fields, verb = ENTITIES[one]
    out = ["{", f'  "service": "{many}-api",', '  "version": 3,', '  "server": {', '    "host": "127.0.0.1",', f'    "port": {8000 + len(one) * 7},', '    "timeout_seconds": 30,', '    "workers": 4', "  },", '  "fields": {']
    for i, (name, kind, value) in enumerate(fields):
        out += [f'    "{name}": {{', f'      "type": "{kind}",', f'      "default": {literal(value, "false", "true")},', f'      "required": {"true" if i % 2 == 0 else "false"},', f'      "label": "{title(name)}"',
                "    }" + ("," if i + 1 < len(fields) else "")]
    out += ["  },", '  "roles": [']
    roles = ["reader", "editor", "owner", "auditor"]
    for i, role in enumerate(roles):
        out += ["    {", f'      "name": "{role}",', f'      "may_read": true,', f'      "may_write": {"true" if role in ("editor", "owner") else "false"},', f'      "may_{verb}": {"true" if role == "owner" else "false"}',
                "    }" + ("," if i + 1 < len(roles) else "")]
    out += ["  ],", '  "logging": {', '    "level": "info",', f'    "file": "/var/log/{many}.log",', '    "keep_days": 14', "  }", "}"]
    return f"{many}.json", out, "Raise `timeout_seconds` to 90 and set the number of workers to 8."


def markdown(one):
    many, fields, verb = ENTITIES[one]
    out = [f"# {title(many)}", "", f"This service keeps {many} and lets people {verb} them. It has a command line, an HTTP interface and a small page.", "", "## Install", "", "```sh", f"git clone https://git.example.org/{many}.git",
           f"cd {many}", "make", "sudo make install", "```", "", "It needs a C compiler, make, and 20 MB of disk.", "", "## Fields", "", "| field | type | at first | what it is |", "|---|---|---|---|"]
    out += [f"| `{name}` | {kind} | `{value}` | the {name.replace('_', ' ')} of the {one} |" for name, kind, value in fields]
    out += ["", "## Commands", ""]
    for command, what in (("add", "adds"), ("list", "lists"), ("show", "shows"), ("remove", "removes"), (verb, verb + "s")):
        out += [f"### {many} {command}", "", f"`{many} {command} [--file FILE]` {what} {'all ' + many if command == 'list' else 'one ' + one}. It prints a line for each and ends with 0.", "",
                f"- `--file FILE`: the file of {many}; without it `~/.{many}.db`.", "- `--quiet`: print nothing.", ""]
    out += ["## Errors", ""]
    out += [f"{i + 1}. `bad {name}`: the {one}'s {name.replace('_', ' ')} {'is empty' if kind == 'str' else 'is below 0' if kind != 'bool' else 'is neither true nor false'}." for i, (name, kind, _) in enumerate(fields)]
    out += ["", "## Licence", "", "MIT."]
    return "README.md", out, "The service now needs Python 3.11 in place of a C compiler and make, and 35 MB of disk: say so under Install."


def sql(one):
    many, fields, verb = ENTITIES[one]
    types = {"str": "TEXT NOT NULL", "int": "INTEGER NOT NULL", "float": "REAL NOT NULL", "bool": "INTEGER NOT NULL CHECK ({0} IN (0, 1))"}
    out = [f"-- {title(many)}, what was done with them, and by whom.", "BEGIN;", "", "CREATE TABLE people (", "  id INTEGER PRIMARY KEY,", "  name TEXT NOT NULL,", "  email TEXT NOT NULL UNIQUE", ");", "", f"CREATE TABLE {many} (", "  id INTEGER PRIMARY KEY,"]
    out += [f"  {name} {types[kind].format(name)} DEFAULT {literal(value, '0', '1').replace(chr(34), chr(39))}," for name, kind, value in fields]
    out += ["  owner INTEGER REFERENCES people (id),", "  created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP", ");", ""]
    for name, _, _ in fields:
        out += [f"CREATE INDEX {many}_by_{name} ON {many} ({name});"]
    out += ["", f"CREATE TABLE {one}_log (", "  id INTEGER PRIMARY KEY,", f"  {one} INTEGER NOT NULL REFERENCES {many} (id) ON DELETE CASCADE,", "  person INTEGER REFERENCES people (id),", "  what TEXT NOT NULL,",
            "  at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP", ");", ""]
    for name, _, _ in fields:
        out += [f"CREATE TRIGGER {one}_{name}_changed AFTER UPDATE OF {name} ON {many}", f"WHEN old.{name} IS NOT new.{name} BEGIN", f"  INSERT INTO {one}_log ({one}, what) VALUES (new.id, '{name}: ' || old.{name} || ' to ' || new.{name});", "END;", ""]
    for name, _, _ in numbers(fields):
        out += [f"CREATE VIEW {many}_{name} AS", f"SELECT owner, count(*) AS {many}, sum({name}) AS total, avg({name}) AS mean", f"FROM {many}", "GROUP BY owner;", ""]
    out += ["COMMIT;"]
    return f"{many}.sql", out, "People need one more column, `phone TEXT`, after their email."


def shell(one):
    many, fields, verb = ENTITIES[one]
    out = ["#!/bin/sh", f"# Keeps {many} in a folder, a file for each: {one}.sh COMMAND [ID]", "set -eu", "", f"dir=${{{one.upper()}_DIR:-$HOME/.{many}}}", "mkdir -p \"$dir\"", ""]
    out += [f"{name}={literal(value, '0', '1')}" for name, _, value in fields]
    out += ["", "fail() {", f'  echo "{one}.sh: $1" >&2', "  exit 1", "}", "", "write() {", '  {']
    out += [f'    echo "{name}=${name}"' for name, _, _ in fields]
    out += ['  } > "$dir/$1.part"', '  mv "$dir/$1.part" "$dir/$1"', "}", "", "read_one() {", '  [ -f "$dir/$1" ] || fail "no $1"', "  while IFS='=' read -r key value; do", '    case "$key" in']
    out += [f"      {name}) {name}=$value ;;" for name, _, _ in fields]
    out += ["      *) fail \"unknown field $key\" ;;", "    esac", '  done < "$dir/$1"', "}", "", "check() {"]
    for name, kind, _ in fields:
        out.append(f'  [ -n "${name}" ] || fail "{name} is empty"' if kind == "str" else f'  case "${name}" in *[!0-9.]* | "") fail "{name} is no number" ;; esac')
    out += ["}", "", "list() {", '  for file in "$dir"/*; do', '    [ -f "$file" ] || continue', '    basename "$file"', "  done", "}", "", f"{verb}_one() {{", '  read_one "$1"', "  check", '  write "$1"', f'  echo "{verb}: $1"', "}", "",
            'case "${1:-}" in', "  list) list ;;", '  show) read_one "$2"; cat "$dir/$2" ;;', '  add) check; write "$2" ;;', '  remove) rm "$dir/$2" ;;', f'  {verb}) {verb}_one "$2" ;;', '  *) fail "list, show, add, remove or ' + verb + '" ;;', "esac"]
    return f"{one}.sh", out, f"The folder should be `/var/lib/{many}` where the variable is not set."


KINDS = [python_store, c_table, javascript, go, json_settings, markdown, sql, shell]


def files():
    """(name, lines, change) of each of the twenty."""
    return [KINDS[i % len(KINDS)](NAMES[(i + i // len(KINDS)) % len(NAMES)]) for i in range(20)]


def edits():
    """(name, messages) of each: the file whole, and what is to change."""
    return [(name, [{"role": "user", "content": f"Here is the file {name}:\n\n```\n" + "\n".join(lines) + f"\n```\n\n{change} Give the whole file with this change, and nothing else."}])
            for name, lines, change in files()]


if __name__ == "__main__":
    for name, lines, change in files():
        print(f"{name:20} {len(lines):4} lines, {sum(map(len, lines)):6} bytes: {change}")
