"""Writes a household as the PDDL problem of an ALFWorld game."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from agentic_rl.games.generate.household import Household
from agentic_rl.games.generate.measured import measured

_IN_RECEPTACLE = "(inReceptacle ?o ?r)"
_TYPES = "(objectType ?o {object}Type) (receptacleType ?r {target}Type)"
_PUT = "(exists (?r - receptacle) (exists (?o - object) (and {})))"
GOALS = {
    "pick_and_place_simple": _PUT.format(f"{_IN_RECEPTACLE} {_TYPES}"),
    "pick_clean_then_place_in_recep": _PUT.format(f"(cleanable ?o) {_TYPES} (isClean ?o) {_IN_RECEPTACLE}"),
    "pick_heat_then_place_in_recep": _PUT.format(f"(heatable ?o) {_TYPES} (isHot ?o) {_IN_RECEPTACLE}"),
    "pick_cool_then_place_in_recep": _PUT.format(f"(coolable ?o) {_TYPES} (isCool ?o) {_IN_RECEPTACLE}"),
    "pick_two_obj_and_place": (
        "(exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 {object}Type)"
        " (receptacleType ?r {target}Type) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2))"
        " (objectType ?o2 {object}Type) (receptacleType ?r {target}Type) (inReceptacle ?o2 ?r))))))"
    ),
    "look_at_obj_in_light": (
        "(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot {target}Type)"
        " (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))"
        " (exists (?o - object ?a - agent) (and (objectType ?o {object}Type) (holds ?a ?o)))"
    ),
}
"""The goals of the six task types, fact for fact in the order of the real files."""


def problem_text(household: Household, name: str) -> str:
    """The whole `(define (problem …))`."""
    task, plan = household.task, household.layout
    goal = GOALS[task.type].format(object=task.object, target=task.target)
    locations = dict.fromkeys([plan.start, *(receptacle.location for receptacle in plan.receptacles)])
    declared = [
        "agent1 - agent",
        *_declared_kinds(),
        *(f"{thing.id} - object" for thing in household.things),
        *(f"{receptacle.id} - receptacle" for receptacle in plan.receptacles),
        *(f"{location} - location" for location in locations),
    ]
    return (
        f"\n(define (problem {name})\n(:domain alfred)\n(:objects\n{_lines(declared)})\n\n"
        f"(:init\n{_lines(_facts(household))})\n\n(:goal\n    (and {goal})\n)\n)\n"
    )


def _facts(household: Household) -> list[str]:
    world, plan, things = measured(), household.layout, household.things
    receptacles = plan.receptacles
    facts = [f"(receptacleType {item.id} {item.kind}Type)" for item in receptacles]
    facts += [f"(objectType {thing.id} {thing.kind}Type)" for thing in things]
    kinds = dict.fromkeys(thing.kind for thing in things)
    for holder in plan.by_kind:
        facts += [f"(canContain {holder}Type {kind}Type)" for kind in kinds if kind in world.holds.get(holder, ())]
    for predicate in ("pickupable", "isReceptacleObject"):
        facts += [f"({predicate} {thing.id})" for thing in things if predicate in world.objects[thing.kind]]
    facts += [f"(openable {item.id})" for item in receptacles if item.openable]
    facts.append(f"(atLocation agent1 {plan.start})")
    for predicate in ("cleanable", "heatable", "coolable"):
        facts += [f"({predicate} {thing.id})" for thing in things if predicate in world.objects[thing.kind]]
    facts += [f"(isCool {thing.id})" for thing in things if thing.cool]
    for predicate in ("toggleable", "sliceable"):
        facts += [f"({predicate} {thing.id})" for thing in things if predicate in world.objects[thing.kind]]
    facts += [f"(inReceptacleObject {things[inner].id} {things[outer].id})" for inner, outer in household.inside]
    facts += [f"(inReceptacle {thing.id} {receptacles[place].id})" for thing in things for place in thing.places]
    facts += [f"(receptacleAtLocation {item.id} {item.location})" for item in receptacles]
    facts += [f"(objectAtLocation {thing.id} {receptacles[thing.places[0]].location})" for thing in things]
    return facts


@cache
def _declared_kinds() -> tuple[str, ...]:
    """Every kind that the measured games have, declared in every game as theirs are."""
    world = measured()
    holders = sorted({kind for room in world.rooms.values() for kind in room.receptacles})
    return (*(f"{kind}Type - otype" for kind in sorted(world.objects)), *(f"{kind}Type - rtype" for kind in holders))


def _lines(items: Iterable[str]) -> str:
    return "".join(f"        {item}\n" for item in items)
