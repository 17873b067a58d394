"""Rules of the grammar for what is done: the verb, its object, where and where to, and relative clauses."""

from collections.abc import Sequence
from dataclasses import replace

from course_lib.translation.data.captions import selection
from course_lib.translation.data.captions.noun_phrases import QUANTITIES, WEARABLE, NounPhrases, nouns_of
from course_lib.translation.data.captions.selection import LIVING
from course_lib.translation.data.captions.tree import (
    NounPhrase,
    PrepositionalPhrase,
    RelativeClause,
    Subject,
    VerbPhrase,
)
from course_lib.translation.data.captions.verbs import (
    ACTIVITIES,
    GROUPS,
    MOTIONS,
    PERSON,
    PLACINGS,
    POSITIONS,
    POSTURES,
)
from course_lib.translation.data.captions.words import Determiner, Place, Setting, Trait, Verb

_GROUP_WEIGHTS = (1.3, 2.6, 1.9, 5.2, 3.6, 1.3, 1.3, 1.3, 1.3)
_STAYING = (*POSTURES, *MOTIONS)  # nobody just sits, or runs: it is always somewhere
ANYWHERE = ~Setting(0)


class Predicates(NounPhrases):
    """Chooses verbs and all that belongs to them."""

    def verb(self) -> Verb:
        """Any verb, those of the larger groups more often."""
        return self.verb_of(self.choose(GROUPS, _GROUP_WEIGHTS))

    def verb_of(self, verbs: Sequence[Verb]) -> Verb:
        """One of these verbs, those with many objects more often."""
        return self.choose(verbs, [selection.breadth(verb) for verb in verbs])

    def predicate(
        self,
        verb: Verb,
        subject: Subject,
        placed: float = 0.75,
        within: Setting = ANYWHERE,
        rich: bool = False,
    ) -> VerbPhrase:
        """The verb with its object, recipient, goal, place and company.

        `placed` is the probability of a place where the verb takes one; `within` limits the sort of place.
        Only a rich predicate has an object with a relative clause.
        """
        thing = self.object(verb, subject) if verb.objects else None
        recipient = self.recipient(verb, subject) if verb.recipients else None
        place = goal = None
        if verb.where_to and self._goes_somewhere(verb):
            goal = self.place(self.choose(selection.goals(verb.where_to, nouns_of(subject))))
        elif verb.where & within and (verb in _STAYING or self.chance(placed)):
            place = self.whereabouts(verb.where & within, subject, thing)
        companion = self.companion(subject) if verb.can(Trait.SHARED) and self.chance(0.33) else None
        if rich and thing and not place and not goal and self.chance(0.5):
            thing = self._with_relative_clause(thing, verb)
        return VerbPhrase(verb, thing, recipient, companion, place, goal)

    def whereabouts(
        self, setting: Setting, subject: Subject, thing: NounPhrase | None
    ) -> PrepositionalPhrase:
        """Where something happens. A living object must be found there too."""
        present = (*nouns_of(subject), thing.noun) if thing else nouns_of(subject)
        return self.place(self.choose(selection.places(setting, present)))

    def place(self, place: Place) -> PrepositionalPhrase:
        """The place as a phrase, with an article and maybe an adjective: "in einem ruhigen Park"."""
        determiner = self.choose(place.determiners)
        adjectives = self.adjectives(place.noun, 0.5) if determiner is Determiner.A else ()
        phrase = NounPhrase(place.noun, determiner, adjectives=adjectives)
        if place.part:
            phrase = NounPhrase(place.part, Determiner.THE, owner=phrase)
        return PrepositionalPhrase(place.german, place.english, place.case, phrase)

    def extended(self, actor: NounPhrase, verb: Verb) -> NounPhrase:
        """As in "ein Mann in einer Jacke" or "ein Mann, der lacht", or left as it is."""
        if verb.objects & WEARABLE:
            return actor  # or a man without shoes would take off his shoes
        person = bool(actor.noun.kinds & PERSON)
        extension = self.choose(("none", "attribute", "relative"), (0.45, 0.27 if person else 0.0, 0.28))
        if extension == "attribute":
            return replace(actor, attribute=self.attribute(actor))
        others = selection.side_activities(actor.noun, verb)
        if extension == "none" or not others:
            return actor
        other = self.predicate(self.choose(others), actor, placed=0.0)
        return replace(actor, relative=RelativeClause(replace(other, companion=None)))

    def _goes_somewhere(self, verb: Verb) -> bool:
        if verb in PLACINGS or not (verb.objects or verb.where):
            return True
        return self.chance(0.65)

    def _with_relative_clause(self, thing: NounPhrase, verb: Verb) -> NounPhrase:
        """As in "einen Hund, der schläft" or "einen Ball, der im Gras liegt"."""
        if thing.owner or thing.determiner not in (Determiner.A, *QUANTITIES):
            return thing
        states = [state for state in self._states(thing, verb) if state.subjects & thing.noun.kinds]
        if not states:
            return thing
        living = bool(thing.noun.kinds & LIVING)
        state = self.predicate(self.choose(states), thing, placed=0.75 if living else 1.0)
        return replace(thing, relative=RelativeClause(replace(state, companion=None)))

    def _states(self, thing: NounPhrase, verb: Verb) -> Sequence[Verb]:
        """What an object may be doing while something is done to it."""
        if not thing.noun.kinds & LIVING:
            return POSITIONS if verb.can(Trait.FOUND) else ()
        if verb.can(Trait.DISTANT):
            return (*POSTURES, *ACTIVITIES)
        return (*POSTURES, *(activity for activity in ACTIVITIES if activity.can(Trait.CALM)))
