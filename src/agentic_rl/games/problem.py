"""Reads a game file: the JSON around it, the guard on domain and grammar, and the facts of the PDDL problem.

All public ALFWorld games share one domain and, but for the task's sentence, one grammar. The simulator knows the rules
of those two, so a file with any others is not for it: `UnknownGameError`. A file that is damaged is a `GameFileError`
that names the place.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from agentic_rl.errors import GameFileError

DOMAIN_SHA256 = "0af55e7f92d12b09d28515aa730e4d03fddd17228ef1fd7b18a3ee8ba49b27b9"
GRAMMAR_SHA256 = "10da93e13b58e1a6039723f5d4a59ceae7c60772515bfab9fc603bafa7f8ee06"
"""Of the grammar with the task's own words cut out."""

TASK_PREFIX = "Your task is to: "
_TASK = re.compile(f'{TASK_PREFIX}([^"\\\\#{{}}\\[\\]|]*)"')

ARITY = {
    "atlocation": 2,
    "receptacleatlocation": 2,
    "objectatlocation": 2,
    "inreceptacle": 2,
    "inreceptacleobject": 2,
    "objecttype": 2,
    "receptacletype": 2,
    "cancontain": 2,
    "pickupable": 1,
    "openable": 1,
    "toggleable": 1,
    "sliceable": 1,
    "cleanable": 1,
    "heatable": 1,
    "coolable": 1,
    "isreceptacleobject": 1,
    "iscool": 1,
}
"""Every predicate that an initial state may use, with its number of arguments."""

_PUT = "(and (exists (?r - receptacle) (exists (?o - object) (and {}))))"
_OF_TYPES = "(objecttype ?o OBJECT) (receptacletype ?r TARGET)"
GOALS = {
    "put": _PUT.format(f"(inreceptacle ?o ?r) {_OF_TYPES}"),
    "clean": _PUT.format(f"(cleanable ?o) {_OF_TYPES} (isclean ?o) (inreceptacle ?o ?r)"),
    "heat": _PUT.format(f"(heatable ?o) {_OF_TYPES} (ishot ?o) (inreceptacle ?o ?r)"),
    "cool": _PUT.format(f"(coolable ?o) {_OF_TYPES} (iscool ?o) (inreceptacle ?o ?r)"),
    "two": "(and (exists (?r - receptacle) (exists (?o1 - object) (and (objecttype ?o1 OBJECT)"
    " (receptacletype ?r TARGET) (inreceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2))"
    " (objecttype ?o2 OBJECT) (receptacletype ?r TARGET) (inreceptacle ?o2 ?r)))))))",
    "light": "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objecttype ?ot TARGET)"
    " (toggleable ?ot) (istoggled ?ot) (receptacleatlocation ?r ?l) (atlocation ?a ?l) (inreceptacle ?ot ?r)))"
    " (exists (?o - object ?a - agent) (and (objecttype ?o OBJECT) (holds ?a ?o))))",
}
"""The six forms of goal. OBJECT is the type to handle; TARGET the type of receptacle, or of lamp for `light`."""


type Facts = dict[str, list[list[str]]]
"""Predicate (lower case) to its facts in file order, each as its words: the predicate's and its arguments."""


class UnknownGameError(GameFileError):
    """A sound file whose domain, grammar or goal is not one that the simulator knows."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What one game adds to the rules: its facts, its goal and its task in words.

    Attributes
    ----------
    goal_kind, goal_object, goal_target
        One of `GOALS` and the two types in it.
    """

    name: str
    facts: Facts
    goal_kind: str
    goal_object: str
    goal_target: str
    task: str
    walkthrough: tuple[str, ...]


def read_text(path: Path) -> str:
    """The text of a game file, or the one error a user needs."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise GameFileError(f"{path}: not text (byte {error.start} is not UTF-8)", hint=REDOWNLOAD) from None
    except OSError as error:
        raise GameFileError(f"{path}: cannot be read ({error.strerror})", hint=REDOWNLOAD) from None


REDOWNLOAD = "Delete the file and run `alfworld-download` again."


def parse_file_text(text: str, name: str) -> Problem:
    """Read the JSON text of a `game.tw-pddl` file; `name` stands in errors."""
    record = read_record(text, name)
    domain, grammar, problem = (record[key] for key in ("pddl_domain", "grammar", "pddl_problem"))
    task = _TASK.search(grammar)
    if _sha256(domain) != DOMAIN_SHA256:
        raise UnknownGameError(f"{name}: pddl_domain is not ALFWorld's")
    if task is None or _sha256(grammar[: task.start(1)] + grammar[task.end(1) :]) != GRAMMAR_SHA256:
        raise UnknownGameError(f"{name}: grammar is not ALFWorld's")
    return parse_problem(problem, task[0][:-1], name, tuple(record["walkthrough"]))


def read_record(text: str, name: str) -> dict[str, Any]:
    """The JSON object of a game file, with its keys checked."""
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise GameFileError(f"{name}: not whole JSON: {error.msg} at {place}", hint=REDOWNLOAD) from None
    if not isinstance(record, dict):
        raise GameFileError(f"{name}: holds no JSON object", hint=REDOWNLOAD)
    record.setdefault("walkthrough", [])
    for key, kind in (("pddl_domain", str), ("grammar", str), ("pddl_problem", str), ("walkthrough", list)):
        if not isinstance(record.get(key), kind):
            fault = "is missing" if key not in record else f"is not a {kind.__name__}"
            raise GameFileError(f"{name}: the key {key!r} {fault}", hint=REDOWNLOAD)
    return record


def parse_problem(problem: str, task: str, name: str, walkthrough: tuple[str, ...] = ()) -> Problem:
    """Read a PDDL problem of ALFWorld's domain.

    Parameters
    ----------
    problem
        The whole `(define (problem …))`.
    task
        The sentence the game opens with, `Your task is to: …`.
    """
    text = problem.lower()
    start, end = text.find("(:init"), text.find("(:goal")
    if not 0 <= start < end:
        raise GameFileError(f"{name}: pddl_problem has no (:init …) before a (:goal …)", hint=REDOWNLOAD)
    facts: Facts = {predicate: [] for predicate in ARITY}
    lists = {f"({predicate}": instances for predicate, instances in facts.items()}
    # Cutting at every closing parenthesis leaves one fact a piece, then what closes the section and what follows it.
    *pieces, closing, rest = text[start + len("(:init") : end].split(")")
    try:
        for piece in pieces:
            words = piece.split()
            lists[words[0]].append(words)
    except (IndexError, KeyError):
        _complain(problem, start, end, name)
    sound = all({*map(len, instances)} <= {ARITY[predicate] + 1} for predicate, instances in facts.items())
    if not sound or closing.strip() or rest.strip() or text.count("(") != text.count(")"):
        _complain(problem, start, end, name)
    goal = " ".join(text[end:].replace("(", " (").split()).replace(" )", ")")
    for kind, pattern in _goal_patterns().items():
        if match := pattern.fullmatch(goal):
            return Problem(name, facts, kind, match["object"], match["target"], task, walkthrough)
    raise UnknownGameError(f"{name}: pddl_problem line {_line(text, end)}: the goal has none of the six known forms")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _goal_patterns() -> dict[str, re.Pattern[str]]:
    patterns = {}
    for kind, goal in GOALS.items():
        pattern = re.escape(f"(:goal {goal}))")
        for hole in ("OBJECT", "TARGET"):
            first, *others = pattern.split(hole)
            again = f"(?P={hole.lower()})"
            pattern = f"{first}(?P<{hole.lower()}>[\\w-]+){again.join(others)}"
        patterns[kind] = re.compile(pattern)
    return patterns


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


_FACT = re.compile(r"\s*\(([^\s()]+)((?:\s+[^\s()]+)*)\s*\)")


def _complain(problem: str, start: int, end: int, name: str) -> NoReturn:
    """Find the first thing that is wrong with a problem, and say what and where."""
    offset = start + len("(:init")
    while fact := _FACT.match(problem, offset, end):
        predicate, count = fact[1], len(fact[2].split())
        arity = ARITY.get(predicate.lower())
        if arity is None:
            _fail(problem, fact.start(1), f"unknown predicate {predicate!r}", name)
        if arity != count:
            _fail(problem, fact.start(1), f"{predicate!r} takes {arity}, not {count}", name)
        offset = fact.end()
    rest = problem[offset:end]
    if rest.strip() != ")":
        offset += len(rest) - len(rest.lstrip())
        _fail(problem, offset, f"not a fact: {problem[offset:end].partition(chr(10))[0].strip()!r}", name)
    depth = 0
    for parenthesis in re.finditer(r"[()]", problem):
        depth += 1 if parenthesis[0] == "(" else -1
        if depth < 0:
            _fail(problem, parenthesis.start(), "a ')' without its '('", name)
    _fail(problem, len(problem.rstrip()), f"the text ends with {depth} ')' too few", name)


def _fail(problem: str, offset: int, fault: str, name: str) -> NoReturn:
    raise GameFileError(f"{name}: pddl_problem line {_line(problem, offset)}: {fault}", hint=REDOWNLOAD)
