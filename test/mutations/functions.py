"""Finds the functions that C++ text defines, for the tables of mutants. Knows no preprocessor and no
types: what looks like `name(...) {` outside of a function is one, with its parameters and
initializers."""

import re

LITERAL = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.S)
SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")  # in numbers
NAME = re.compile(r"((?:[A-Za-z_]\w*(?:<[^<>;{}()]*>)?\s*::\s*)*"
                  r"(?:operator\s*(?:\(\)|[^\w\s(]+)|~?[A-Za-z_]\w*))\s*\(")
QUALIFIER = re.compile(r"\s*(?:const\b|noexcept\b|override\b|final\b|mutable\b|&&?|"
                       r"->\s*[\w:<>,&*\s]+?(?=\s*\{)|requires\b[^{;]*?(?=\{))")
INITIALIZER = re.compile(r"\s*[\w:]+(?:<[^<>{}();]*>)?\s*(?=[({])")
KEYWORDS = {"if", "for", "while", "switch", "catch", "return", "sizeof", "alignof", "decltype", "requires"}
CLOSING = {"(": ")", "{": "}", "[": "]"}


def without_literals(text):
    """The text with blanks in place of comments and literals, as long as it was."""
    return LITERAL.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), SEPARATOR.sub("_", text))


def end_of_brackets(code, at):
    """The index of the bracket that closes the one at `at`; None if the text ends before."""
    open_ = []
    for i in range(at, len(code)):
        if code[i] in CLOSING:
            open_.append(CLOSING[code[i]])
        elif open_ and code[i] in ")}]":
            if open_.pop() != code[i]:
                return None
            if not open_:
                return i
    return None


def body_of(code, at):
    """The index of the brace that begins the body of a function whose parameters end before `at`;
    None if there is no body."""
    while found := QUALIFIER.match(code, at):
        at = found.end()
    if found := re.compile(r"\s*:(?!:)").match(code, at):
        at = found.end()
        while True:
            member = INITIALIZER.match(code, at)
            end = end_of_brackets(code, member.end()) if member else None
            if end is None:
                return None
            comma = re.compile(r"\s*,").match(code, end + 1)
            if not comma:
                at = end + 1
                break
            at = comma.end()
    body = re.compile(r"\s*\{").match(code, at)
    return body.end() - 1 if body else None


def definitions(text):
    """(name, begin, end) of each function, in order; the name as the text has it, without template
    arguments: "Worker::Poll", or "Poll" inside of a class."""
    code = without_literals(text)
    found, at = [], 0
    while name := NAME.search(code, at):
        at = name.end()
        spelled = re.sub(r"<[^<>]*>|\s", "", name[1])
        parameters = end_of_brackets(code, name.end() - 1)
        if spelled.split("::")[-1] in KEYWORDS or parameters is None:
            continue
        body = body_of(code, parameters + 1)
        end = None if body is None else end_of_brackets(code, body)
        if end is not None:
            found.append((spelled, name.start(), end + 1))
            at = end + 1
    return found
