"""A derivation: what is said, before it is said in German or in English.

The grammar grows such trees (`grammar`), and each language has a writer that reads them aloud (`german`,
`english`). That makes the grammar synchronous: one tree, two sentences.
"""

from dataclasses import dataclass
from enum import Enum, auto

from course_lib.translation.data.captions.words import (
    Adjective,
    Case,
    Determiner,
    Noun,
    Phrase,
    Verb,
    Weather,
)


@dataclass(frozen=True)
class NounPhrase:
    """As in "ein alter Mann mit einem roten Hut, der lacht", or with an owner, "der Hund des Mannes"."""

    noun: Noun
    determiner: Determiner
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    attribute: "PrepositionalPhrase | None" = None
    owner: "NounPhrase | None" = None
    relative: "RelativeClause | None" = None


@dataclass(frozen=True)
class Joined:
    """As in "ein Mann und eine Frau": always a plural subject."""

    first: NounPhrase
    second: NounPhrase

    @property
    def plural(self) -> bool:
        """Two are many."""
        return True


Subject = NounPhrase | Joined


@dataclass(frozen=True)
class PrepositionalPhrase:
    """As in "auf dem Tisch". `without` is for "ohne Hut", where only English has an article."""

    german: str
    english: str
    case: Case
    phrase: NounPhrase
    without: bool = False


@dataclass(frozen=True)
class VerbPhrase:
    """A verb with what belongs to it.

    `quality` is for "ist müde", `attempt` for "versucht, ...", `purpose` for "bückt sich, um ...".
    """

    verb: Verb
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    companion: PrepositionalPhrase | None = None
    place: PrepositionalPhrase | None = None
    goal: PrepositionalPhrase | None = None
    quality: Adjective | None = None
    attempt: "VerbPhrase | None" = None
    purpose: "VerbPhrase | None" = None


@dataclass(frozen=True)
class RelativeClause:
    """Tells more of a noun. If it has a subject, the noun is its object: "der Ball, den er wirft"."""

    predicate: VerbPhrase
    subject: NounPhrase | None = None


@dataclass(frozen=True)
class Subordinate:
    """As in "während ein Kind schläft" or "weil es regnet"."""

    conjunction: Phrase
    clause: "Clause | Weather"


class Front(Enum):
    """What stands before the German verb."""

    SUBJECT = auto()
    PLACE = auto()
    TIME = auto()
    SUBORDINATE = auto()


@dataclass(frozen=True)
class Clause:
    """A sentence, or what follows a conjunction. Several predicates share the subject: "sitzt und liest"."""

    subject: Subject
    predicates: tuple[VerbPhrase, ...]
    front: Front = Front.SUBJECT
    time: Phrase | None = None
    subordinate: Subordinate | None = None
