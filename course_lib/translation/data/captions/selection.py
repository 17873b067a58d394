"""Looks up in the lexicon what fits together.

Every answer is remembered, since the grammar asks the same again and again.
"""

import math
from functools import cache

from course_lib.translation.data.captions.adjectives import ADJECTIVES
from course_lib.translation.data.captions.nouns import ANIMALS, NOUNS, PEOPLE
from course_lib.translation.data.captions.places import WHERE, WHERE_TO
from course_lib.translation.data.captions.verbs import ANIMAL, GROUPS, HUMAN, POSTURES, RELATIVE
from course_lib.translation.data.captions.words import Adjective, Kind, Noun, Place, Setting, Trait, Verb

LIVING = HUMAN | ANIMAL
VERBS = tuple(verb for group in GROUPS for verb in group)
# People and animals that can be a subject of their own; parents and friends always belong to someone.
ACTORS = tuple(one for one in (*PEOPLE, *ANIMALS) if not one.kinds & RELATIVE)


@cache
def nouns(kinds: Kind) -> tuple[Noun, ...]:
    """All nouns of one of these kinds."""
    return tuple(one for one in NOUNS if one.kinds & kinds)


@cache
def actors(kinds: Kind) -> tuple[Noun, ...]:
    """All people and animals of one of these kinds."""
    return tuple(one for one in ACTORS if one.kinds & kinds)


@cache
def adjectives(described: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can be said of a noun."""
    return tuple(one for one in ADJECTIVES if one.kinds & described.kinds)


@cache
def colours(described: Noun) -> tuple[Adjective, ...]:
    """Those of them that are colours."""
    return tuple(one for one in adjectives(described) if one.colour)


@cache
def qualities(described: Noun) -> tuple[Adjective, ...]:
    """Those of them that are not."""
    return tuple(one for one in adjectives(described) if not one.colour)


@cache
def predicates(described: Noun) -> tuple[Adjective, ...]:
    """Those of them that can stand behind "is"."""
    return tuple(one for one in adjectives(described) if not one.only_before & described.kinds)


def places(setting: Setting, present: tuple[Noun, ...]) -> tuple[Place, ...]:
    """Where all those present can be. Things can be anywhere."""
    return tuple(place for place in _of_setting(WHERE, setting) if _welcomes(place, present))


def goals(setting: Setting, present: tuple[Noun, ...]) -> tuple[Place, ...]:
    """Where all those present can go."""
    return tuple(place for place in _of_setting(WHERE_TO, setting) if _welcomes(place, present))


@cache
def calm_verbs(doer: Kind) -> tuple[Verb, ...]:
    """What can be done while sitting or standing."""
    return tuple(verb for verb in VERBS if verb.can(Trait.CALM) and verb.subjects & doer)


@cache
def verbs_within(setting: Setting) -> tuple[Verb, ...]:
    """What is done in such places, without going anywhere."""
    return tuple(verb for verb in VERBS if verb.where & setting and not verb.where_to)


@cache
def side_activities(doer: Noun, main: Verb) -> tuple[Verb, ...]:
    """What someone may be said to do besides: wear something always, more while sitting or standing."""
    worn = [verb for verb in VERBS if verb.can(Trait.WORN) and verb.subjects & doer.kinds]
    calm = [verb for verb in calm_verbs(doer.kinds) if not verb.objects & LIVING] if main in POSTURES else []
    return (*worn, *calm)


@cache
def rarity(thing: Noun) -> float:
    """How often to choose a noun among its like: the fewer verbs it goes with, the more often."""
    return 1.0 / sum(1 for verb in VERBS if verb.objects & thing.kinds)


@cache
def breadth(verb: Verb) -> float:
    """How often to choose a verb: with many objects more often, so that all nouns get their share."""
    return 1.5 + math.fsum(rarity(one) for one in nouns(verb.objects))


@cache
def _of_setting(rows: tuple[Place, ...], setting: Setting) -> tuple[Place, ...]:
    return tuple(place for place in rows if place.setting & setting)


def _welcomes(place: Place, present: tuple[Noun, ...]) -> bool:
    return all(place in _open_to(one) for one in present)


@cache
def _open_to(one: Noun) -> frozenset[Place]:
    return frozenset(
        place for place in (*WHERE, *WHERE_TO) if place.visitors & one.kinds or not one.kinds & LIVING
    )
