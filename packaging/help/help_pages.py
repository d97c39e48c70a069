"""Reads the pages that `millrace help` and `millrace help COMMAND` print.

Both the manual pages and the shell completion are made of them, so they always describe the program
that is installed. A page of another form than expected raises ValueError.
"""
import dataclasses
import re
import subprocess


@dataclasses.dataclass
class Flag:
    name: str  # without dashes
    type: str  # of gflags: "string", "bool", "int32", ...
    default: str  # "": none
    text: str

    @property
    def value(self):
        """What the shell completes as the value: "file", "folder", "bool", "choice", or "" for
        nothing."""
        if self.type == "bool":
            return "bool"
        if self.type != "string":
            return ""
        if re.search(r"\bfolder\b", self.text):
            return "folder"
        if self.choices:
            return "choice"
        if self.text.startswith("the format"):
            return ""
        is_file = self.name.endswith("_file") or re.search(r"\b(files?|libraries)\b", self.text)
        return "file" if is_file else ""

    @property
    def choices(self):
        """The values of a flag whose text lists them all, as in "how it starts: soon, or late"."""
        text = re.sub(r" \([^()]*\)", "", self.text)
        found = re.search(r": (\w+(?:, \w+)*,? or \w+)(?:$|[.;])", text)
        return re.split(r", or |, | or ", found[1]) if found else []


@dataclasses.dataclass
class Command:
    name: str
    summary: str
    arguments: str = ""  # those that are not flags, for the usage line
    actions: list = dataclasses.field(default_factory=list)  # the first of them; empty: any
    example: str = ""
    flags: list = dataclasses.field(default_factory=list)
    ignored: str = ""  # the sentence about flags that are accepted and ignored


    @property
    def action_words(self):
        """The actions without their arguments."""
        return [action.split()[0] for action in self.actions]

    @property
    def takes_command(self):
        """Whether another command of the program stands behind "--"."""
        return self.arguments.startswith("-- COMMAND")


@dataclasses.dataclass
class Help:
    summary: str  # of the program, a sentence
    common: str  # the paragraph about flags that every command takes
    commands: list

    @property
    def common_flags(self):
        """The flags of that paragraph, in its order."""
        flags = []
        for name, value in re.findall(r"--(\w+)(?:=([A-Z]+)\b)?", self.common):
            kind = {"FILE": "a file", "FOLDER": "a folder"}.get(value, "")
            boolean = name in ("help", "version", "alsologtostderr", "logtostderr")
            flags.append(Flag(name, "bool" if boolean else "string", "", kind))
        return flags


def run(program, *arguments):
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def joined(lines):
    return " ".join(line.strip() for line in lines)


def read_command(page, name, summary):
    """The Command that the page of `millrace help NAME` describes."""
    command = Command(name, summary)
    head, *paragraphs = [part.splitlines() for part in page.strip().split("\n\n")]
    usage = re.match(r"usage: millrace (\w+)( \[--flag=value \.\.\.\])?\s*(.*)", head[0])
    if not usage or usage[1] != name or joined(head[1:]).find(summary) < 0:
        raise ValueError(f"millrace help {name}: expected its usage and summary, found {head}")
    command.arguments = (usage[3] + " " + joined(head[1:]).removesuffix(summary)).strip()
    for lines in paragraphs:
        if lines[0].startswith("actions: "):
            command.actions = joined(lines).removeprefix("actions: ").split(", ")
        elif lines[0].startswith("example: "):
            command.example = joined(lines).removeprefix("example: ")
        elif lines[0].startswith("Accepted and ignored"):
            command.ignored = joined(lines)
        elif lines[0].startswith("  --"):
            command.flags = read_flags(lines, name)
        elif not lines[0].startswith("Flags of every command"):
            raise ValueError(f"millrace help {name}: unknown paragraph {lines[0]!r}")
    return command


def read_flags(lines, name):
    flags = []
    for line in lines:
        head = re.fullmatch(r"  --(\w+)  \((\w+)(?:, default (.*))?\)", line)
        if head:
            flags.append(Flag(head[1], head[2], head[3] or "", ""))
        elif flags and line.startswith("      "):
            flags[-1].text = f"{flags[-1].text} {line.strip()}".strip()
        else:
            raise ValueError(f"millrace help {name}: expected a flag or its text, found {line!r}")
    return flags


def read_help(program):
    """All pages of the program at this path."""
    summary, _, commands, rest = run(program, "help").strip().split("\n\n")
    entries = [re.fullmatch(r"  (\w+) +(.*)", line) for line in commands.splitlines()]
    if not entries or None in entries:
        raise ValueError(f"millrace help: expected a table of commands, found {commands!r}")
    common = joined(rest.splitlines())
    common = common[common.index("Flags of every command"):]
    return Help(summary, common,
                [read_command(run(program, "help", entry[1]), entry[1], entry[2])
                 for entry in entries])
