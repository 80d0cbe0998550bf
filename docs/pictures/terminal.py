"""What bytes do to a terminal: as much of one as a shell and `kvrt chat` need. Lines stay for ever; a window over the last of them is the screen."""
import codecs
import re

ESCAPE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")


class Terminal:
    def __init__(self, columns):
        self.columns, self.rest = columns, ""
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.lines = [[]]  # of cells: a character and its style
        self.row = self.column = 0
        self.style = ""
        self.broken = []  # lines that the edge ended, not the text

    def put(self, character):
        if self.column == self.columns:
            self.broken.append("".join(seen for seen, _ in self.lines[self.row]))
            self.row, self.column = self.row + 1, 0
        while len(self.lines) <= self.row:
            self.lines.append([])
        line = self.lines[self.row]
        line += [(" ", "")] * (self.column + 1 - len(line))
        line[self.column] = (character, self.style)
        self.column += 1

    def escape(self, arguments, final):
        count = int(arguments) if arguments.isdigit() else 0
        if final == "m":
            self.style = {"": "", "0": "", "1": "b", "32": "g"}[arguments]
        elif final == "K":
            del self.lines[self.row][self.column:]
        elif final == "J":
            del self.lines[self.row][self.column:], self.lines[self.row + 1:]
        elif final == "A":
            self.row = max(self.row - (count or 1), 0)
        elif final == "C":
            self.column = min(self.column + (count or 1), self.columns - 1)
        elif final == "D":
            self.column = max(self.column - (count or 1), 0)
        elif final not in "hl":  # modes of the keyboard
            raise ValueError(f"the terminal does not know ESC [ {arguments} {final}")

    def feed(self, data):
        text, at = self.rest + self.decode(data), 0
        self.rest = ""
        while at < len(text):
            match = ESCAPE.match(text, at)
            if match:
                self.escape(*match.groups())
                at = match.end()
                continue
            character = text[at]
            if character == "\x1b":  # cut in two
                self.rest = text[at:]
                return
            at += 1
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append([])
            elif character == "\b":
                self.column = max(self.column - 1, 0)
            elif character >= " ":
                self.put(character)
