"""Plausible errors, put into the simulator one at a time: the recorded rare house catches every one.

Each mutation is a piece of source text and what a mistaken author might have written instead. A mutation whose text is
no longer in the source fails, so that the list keeps up with the code; so does one that nothing notices.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from types import ModuleType

import pytest
from rare_house import TASKS, problem_of, recorded_plays

from agentic_rl.games import simulator

PACKAGE = "agentic_rl.games"
ROOMS = ("world", "simulator")
"""The modules that hold the rules, in the order in which they build on each other."""

SIMULATOR = {
    "commands are not sorted": ("here = sorted({", "here = list({"),
    "taken from behind a closed door": (
        "if not receptacle.openable or r in state.opened:\n            if",
        "if True:\n            if",
    ),
    "everything can be picked up": ("if world.objects[o].pickupable:", "if True:"),
    "every receptacle takes everything": ("elif held.type in receptacle.accepts:", "elif True:"),
    "a lamp behind a closed door cannot be used": (
        "if world.objects[o].toggleable:",
        "if world.objects[o].toggleable and (not receptacle.openable or r in state.opened):",
    ),
    "everything can be cleaned": ("if held.cleanable and", "if"),
    "everything can be heated": ("if held.heatable and", "if"),
    "everything can be cooled": ("if held.coolable and", "if"),
    "cleaning in a basin only": ('("sinktype", "sinkbasintype")', '("sinkbasintype",)'),
    "cleaning in a bathtub": ('("sinktype", "sinkbasintype")', '("sinktype", "sinkbasintype", "bathtubbasintype")'),
    "heating needs an open door": (
        'receptacle.type in TOOLS["heat"]:',
        'receptacle.type in TOOLS["heat"] and r in state.opened:',
    ),
    "cooling needs an open door": (
        'receptacle.type in TOOLS["cool"]:',
        'receptacle.type in TOOLS["cool"] and r in state.opened:',
    ),
    "heating twice is not offered": ("if held.heatable and", "if held.heatable and state.held not in state.hot and"),
    "a butter knife does not cut": ('("knifetype", "butterknifetype")', '("knifetype",)'),
    "anything held cuts": ("if held.type in KNIVES:", "if True:"),
    "whatever lies in a receptacle here can be sliced": (
        "for o in state.lying[state.place]:",
        "for o in {o for r in world.receptacles_at[state.place] for o in state.contents[r]}:",
    ),
    "slicing twice is not offered": (
        "if world.objects[o].sliceable:",
        "if world.objects[o].sliceable and o not in state.sliced:",
    ),
    "what is visible can be examined": (
        "        for o in state.contents[r]:\n            if world.objects[o].toggleable:",
        '        for o in state.contents[r]:\n            yield f"examine {world.objects[o].name}"\n'
        "            if world.objects[o].toggleable:",
    ),
    "arriving shows nothing": (
        'You arrive at {receptacle.name}. {receptacle_text(world, state, r)}"',
        'You arrive at {receptacle.name}."',
    ),
    "doors do not open": ("opened=state.opened | {r}", "opened=state.opened"),
    "doors do not close": ("opened=state.opened - {r}", "opened=state.opened"),
    "leaving closes all doors": (
        "State(receptacle.place, *state[1:])",
        "State(receptacle.place, state.held, frozenset(), *state[3:])",
    ),
    "taking empties every receptacle of the object": (
        "contents=_replaced(state.contents, r, _without(state.contents[r], o)),",
        "contents=tuple(_without(members, o) for members in state.contents),",
    ),
    "taking clears the recorded place everywhere": (
        "lying=_replaced(state.lying, state.place, _without(state.lying[state.place], o)),",
        "lying=tuple(_without(members, o) for members in state.lying),",
    ),
    "taking leaves the recorded place": (
        "lying=_replaced(state.lying, state.place, _without(state.lying[state.place], o)),",
        "lying=state.lying,",
    ),
    "taking is forgotten": ("taken=state.taken | {(o, r)}", "taken=state.taken"),
    "putting back does not forget the taking": ("taken=state.taken - {(o, r)}", "taken=state.taken"),
    "laying down forgets every taking": (
        "taken=state.taken - {(o, r)}",
        "taken=frozenset(pair for pair in state.taken if pair[0] != o)",
    ),
    "laying down records no place": (
        "lying=_replaced(state.lying, state.place, _with(state.lying[state.place], o)),",
        "lying=state.lying,",
    ),
    "the last to come is listed last": ("tuple(sorted((*members, o)))", "(*members, o)"),
    "the hand stays full": ("held=None,\n        contents", "held=o,\n        contents"),
    "a heated object stays cool": ("hot=state.hot | {o}, cool=state.cool - {o}", "hot=state.hot | {o}"),
    "a cooled object stays hot": ("cool=state.cool | {o}, hot=state.hot - {o}", "cool=state.cool | {o}"),
    "heating makes dirty": (
        "hot=state.hot | {o}, cool=state.cool - {o}",
        "hot=state.hot | {o}, cool=state.cool - {o}, clean=state.clean - {o}",
    ),
    "slicing makes cold": ("sliced=state.sliced | {o}", "sliced=state.sliced | {o}, hot=state.hot - {o}"),
    "using again turns off": ("toggled=state.toggled | {o}", "toggled=state.toggled ^ {o}"),
    "an before a vowel": (
        "return article + names[0]",
        'return ("an " if names[0][0] in "aeiou" else article) + names[0]',
    ),
    "two without a comma": (", and {article}{names[-1]}", " and {article}{names[-1]}"),
    "a closed door shows what is inside": (
        "if receptacle.openable and r not in state.opened:",
        "if False:",
    ),
    "a clean bowl does not say what is in it": (
        "if one.holds is not None:",
        "if one.holds is not None and o not in state.clean:",
    ),
    "cool alone says cool": ('adjective = "cold"', 'adjective = "cool"'),
    "cold when sliced too": ('if adjective == "cool" and not sliced:', 'if adjective == "cool":'),
    "clean before hot": (
        '(warmth, "clean" if o in state.clean else "")',
        '("clean" if o in state.clean else "", warmth)',
    ),
    "sliced is not said": ('" sliced" if o in state.sliced else ""', '""'),
    "nothing special has an article": (
        "There's nothing special about {one.name}.",
        "There's nothing special about the {one.name}.",
    ),
    "looking at the start shows the room": (
        "middle_of_room([])",
        "middle_of_room([one.name for one in world.receptacles])",
    ),
    "facing with articles": ("for r in here], article=", "for r in here], article='a ' or "),
    "the floor names nothing twice": ("{joined(floor)}", "{joined(list(dict.fromkeys(floor)))}"),
    "the floor names what was carried off": (" and o in state.lying[state.place]]", "]"),
    "the floor names what was taken elsewhere": ("if r in here and o in state", "if o in state"),
    "the opening lacks its last line": ("{room}\\n\\n{world.task}", "{room}\\n\\n{world.task}\\n"),
    "one object is enough for two": (">= 2", ">= 1"),
    "two objects anywhere": (
        "any(len(goal.objects.intersection(state.contents[r])) >= 2 for r in goal.receptacles)",
        "sum(len(goal.objects.intersection(state.contents[r])) for r in goal.receptacles) >= 2",
    ),
    "dirty counts as clean": ("ready = ready & state.clean", "pass"),
    "cold counts as hot": ("ready = ready & state.hot", "pass"),
    "warm counts as cool": ("ready = ready & state.cool", "pass"),
    "what was cool at first does not count": (
        "ready = ready & state.cool",
        "ready = ready & state.cool - world.start.cool",
    ),
    "a lamp need not be used": (" and lamp in state.toggled", ""),
    "a lamp anywhere will do": (
        "for r in world.receptacles_at[state.place]\n            for lamp",
        "for r in range(len(world.receptacles))\n            for lamp",
    ),
    "by the lamp with anything in hand": ("state.held in goal.objects and any(", "state.held is not None and any("),
    "a win is never lost": (
        "self._won = is_won(world, state)",
        "self._won = self._won or is_won(world, state)",
    ),
    "taking decides nothing": ('MAY_DECIDE = frozenset({"take", ', "MAY_DECIDE = frozenset({"),
    "cleaning decides nothing": ('"move", "clean", "heat", "cool"}', '"move", "heat", "cool"}'),
    "going decides nothing": ('"use", "go"}', '"use"}'),
    "using decides nothing": ('"move", "use", "go"}', '"move", "go"}'),
    "an old list is kept": ("self._lists.pop(state.place, None)", "pass"),
    "capital letters are understood": ("action.strip()", "action.strip().lower()"),
    "inner spaces are folded": ("action.strip()", '" ".join(action.split())'),
    "spaces around are not taken off": ("command = action.strip()", "command = action"),
    "help lacks its last newline": ('using a sharp object\n"""', 'using a sharp object"""'),
    "help begins with a newline": ('HELP = """\\', 'HELP = """'),
}
WORLD = {
    "numbers count upwards": ("zip(raw_ids, bases, strict=True)", "zip(raw_ids[::-1], bases[::-1], strict=True)"),
    "a basin is named by its first part": ('("basin" if "basin" in raw else "")', '""'),
    "a way leads to where one is": ("for command, to in commands if to != place", "for command, to in commands"),
    "cabinet 2 before cabinet 10": ("commands = sorted(", "commands = list("),
    "nothing is cool at first": ('_flagged(facts, "iscool")', "()"),
    "things are listed as the file has them": ("in sorted({*pairs}):", "in dict.fromkeys(pairs):"),
    "receptacles are numbered as the file has them": ("in enumerate(sorted(raw_ids))", "in enumerate(raw_ids)"),
    "bowls are like anything else": ("inside[o] if raw in hollow else None", "None"),
    "every bowl is empty": ("inside[o] if raw in hollow else None", "() if raw in hollow else None"),
    "all doors are glass": ("raw in openable, accepted", "False, accepted"),
}
MUTATIONS = [
    (room, *mutation) for room, table in zip(ROOMS, (WORLD, SIMULATOR), strict=True) for mutation in table.items()
]


@cache
def source_of(room: str) -> str:
    spec = importlib.util.find_spec(f"{PACKAGE}.{room}")
    assert spec is not None
    assert spec.loader is not None
    return spec.loader.get_source(spec.name)  # type: ignore[attr-defined]


def mutated_simulator(monkeypatch: pytest.MonkeyPatch, room: str, old: str, new: str) -> ModuleType:
    """The simulator with one change in one of its modules, which nobody else gets to see."""
    assert source_of(room).count(old) == 1, "the mutation does not fit the source any more"
    for name in ROOMS[ROOMS.index(room) :]:
        source = source_of(name).replace(old, new) if name == room else source_of(name)
        module = ModuleType(f"{PACKAGE}.{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(source, f"<mutated {name}>", "exec"), module.__dict__)
    return sys.modules[f"{PACKAGE}.simulator"]


@cache
def plays_by_kind() -> dict[str, list[list]]:
    return {kind: [play["shown"] for play in recorded_plays() if play["kind"] == kind] for kind in TASKS}


def plays_as_recorded(module: ModuleType) -> bool:
    for kind, (sentence, *_) in TASKS.items():
        game = module.build_game(problem_of(kind), f"Your task is to: {sentence}", kind)
        for shown in plays_by_kind()[kind]:
            episode = game.episode()
            for command, observation, admissible, won in shown:
                result = episode.reset() if command is None else episode.step(command)
                if result.observation != observation or result.won != won:
                    return False
                if list(result.admissible_actions) != admissible:
                    return False
    return True


def test_the_simulator_as_it_is_plays_as_recorded() -> None:
    assert plays_as_recorded(simulator)


@pytest.mark.parametrize(("room", "error", "change"), MUTATIONS, ids=[mutation[1] for mutation in MUTATIONS])
def test_a_plausible_error_is_noticed(
    monkeypatch: pytest.MonkeyPatch, room: str, error: str, change: tuple[str, str]
) -> None:
    assert not plays_as_recorded(mutated_simulator(monkeypatch, room, *change)), f"nothing notices that {error}"
