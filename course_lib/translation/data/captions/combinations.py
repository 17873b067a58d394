"""Which word pairs a derivation combines, and which of them are kept for the test split.

A model that has learnt the grammar, and not the sentences, translates "ein gelber Schlitten" though it has
only met yellow boats and red sleds. So about one combination in twelve is reserved: no sentence of the
training and validation splits holds it, and every test sentence holds at least one such.
"""

import zlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

from course_lib.translation.data.captions.tree import (
    Clause,
    Joined,
    NounPhrase,
    PrepositionalPhrase,
    RelativeClause,
    Subject,
    Subordinate,
    VerbPhrase,
)

RESERVED_ONE_IN = 12
_NODES = (Clause, Joined, NounPhrase, PrepositionalPhrase, RelativeClause, Subordinate, VerbPhrase)


class Combination(NamedTuple):
    """Two German words that meet in one derivation."""

    kind: Literal["adjective+noun", "verb+object", "subject+place"]
    first: str
    second: str

    @property
    def reserved(self) -> bool:
        """Whether it is kept for the test split: a fixed rule, the same for every seed and size."""
        return zlib.crc32("|".join(self).encode()) % RESERVED_ONE_IN == 0


def combinations(clause: Clause) -> frozenset[Combination]:
    """All combinations in a sentence."""
    return frozenset(_found(clause))


def _found(node: object) -> Iterator[Combination]:
    if isinstance(node, NounPhrase):
        for adjective in node.adjectives:
            yield Combination("adjective+noun", adjective.german, node.noun.german)
        if node.relative:
            yield from _of_relative(node.relative, node)
    if isinstance(node, Clause):
        for predicate in node.predicates:
            yield from _of_predicate(predicate, node.subject)
    for value in vars(node).values():
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, _NODES):
                yield from _found(child)


def _of_relative(clause: RelativeClause, head: NounPhrase) -> Iterator[Combination]:
    if clause.subject is None:
        yield from _of_predicate(clause.predicate, head)
    else:
        yield from _of_predicate(clause.predicate, clause.subject)
        yield Combination("verb+object", clause.predicate.verb.lemma, head.noun.german)


def _of_predicate(predicate: VerbPhrase, subject: Subject) -> Iterator[Combination]:
    subjects = (subject.first, subject.second) if isinstance(subject, Joined) else (subject,)
    if predicate.object:
        yield Combination("verb+object", predicate.verb.lemma, predicate.object.noun.german)
    if predicate.quality:
        yield from (
            Combination("adjective+noun", predicate.quality.german, one.noun.german) for one in subjects
        )
    for place in (predicate.place, predicate.goal):
        if place:
            landmark = place.phrase.owner or place.phrase
            yield from (
                Combination("subject+place", one.noun.german, landmark.noun.german) for one in subjects
            )
    for inner in (predicate.attempt, predicate.purpose):
        if inner:
            yield from _of_predicate(inner, subject)
