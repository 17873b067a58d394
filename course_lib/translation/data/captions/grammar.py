"""The grammar: grows a derivation by one choice after another.

Every rule is a method that chooses among what the lexicon allows. Who chooses is an argument: chance for the
corpus, and a search in the tests, which proves that a given sentence can be derived.
"""

from dataclasses import replace

from course_lib.translation.data.captions import selection
from course_lib.translation.data.captions.choices import DeadEnd
from course_lib.translation.data.captions.noun_phrases import possessive_of
from course_lib.translation.data.captions.nouns import noun
from course_lib.translation.data.captions.places import (
    ALTHOUGH,
    BECAUSE,
    COLD,
    RAIN,
    SNOW,
    TIMES,
    WEATHERS,
    WHILE,
)
from course_lib.translation.data.captions.predicates import Predicates
from course_lib.translation.data.captions.selection import LIVING, VERBS
from course_lib.translation.data.captions.tree import (
    Clause,
    Front,
    NounPhrase,
    RelativeClause,
    Subordinate,
    VerbPhrase,
)
from course_lib.translation.data.captions.verbs import (
    ACTIVITIES,
    BE,
    BEND_DOWN,
    HAVE,
    POSITIONS,
    POSTURES,
    SEPARABLES,
    TRANSITIVES,
    TRY,
    WEAR,
)
from course_lib.translation.data.captions.words import Determiner, Kind, Setting, Trait, Verb

_TOGETHER = tuple(
    verb for verb in (*POSTURES, *ACTIVITIES, *TRANSITIVES) if verb.can(Trait.MANY) or not verb.objects
)
_WITH_LIFELESS_OBJECTS = tuple(
    verb for verb in (*TRANSITIVES, *SEPARABLES) if not verb.objects & (LIVING | Kind.SPORT)
)
_HARD = tuple(verb for verb in VERBS if verb.can(Trait.HARD))
_STOOPING = tuple(verb for verb in VERBS if verb.can(Trait.STOOPING))
_BY_WEATHER = ("Schnee", "Regen", "Sonne")


class Grammar(Predicates):
    """Grows one derivation after another, all choices made by the chooser it is built with."""

    def sentence(self) -> Clause:
        """One sentence of any shape. Raises DeadEnd when the choices made fit together in no sentence."""
        shapes = (
            (self.plain, 5.0),
            (self.two_actions, 2.2),
            (self.joined_subjects, 1.1),
            (self.meanwhile, 2.4),
            (self.in_any_weather, 1.1),
            (self.because_of_weather, 0.7),
            (self.scene, 1.6),
            (self.description, 1.8),
            (self.attempt, 1.2),
            (self.bending_down, 0.8),
            (self.wearing_none, 0.5),
            (self.hair, 0.4),
        )
        shape = self.choose([shape for shape, _ in shapes], [weight for _, weight in shapes])
        return shape()

    def subject(self, verb: Verb, also: Verb | None = None, simple: bool = False) -> NounPhrase:
        """Who does it. A simple subject has neither attribute nor relative clause."""
        actor = self.actor(verb.subjects, also.subjects if also else None)
        if self.chance(0.12):
            return self.definite_actor(actor)
        if actor.kinds & Kind.CROWD and not verb.can(Trait.WORN) and not simple and self.chance(0.08):
            return self.crowd(actor)
        phrase = self.indefinite_actor(actor)
        return phrase if simple else self.extended(phrase, verb)

    def plain(self) -> Clause:
        """As in "Am Strand wirft ein Mädchen mit langen Haaren einen Ball."."""
        verb = self.verb()
        subject = self.subject(verb)
        return self._fronted(Clause(subject, (self.predicate(verb, subject, rich=True),)))

    def two_actions(self) -> Clause:
        """As in "Ein Mann sitzt auf einer Bank und liest eine Zeitung."."""
        posture = self.choose(POSTURES)
        verb = self.verb_of(selection.calm_verbs(posture.subjects))
        subject = self.subject(posture, also=verb, simple=True)
        second = replace(self.predicate(verb, subject, placed=0.0), companion=None)
        thing = second.object if second.object and second.object.noun.kinds & LIVING else None
        first = VerbPhrase(posture, place=self.whereabouts(posture.where, subject, thing))
        return self._fronted(Clause(subject, (first, second)))

    def joined_subjects(self) -> Clause:
        """As in "Ein Mann und seine Freundin tanzen am Strand."."""
        verb = self.choose(_TOGETHER)
        subject = self.pair(verb)
        predicate = replace(self.predicate(verb, subject), companion=None)
        return self._fronted(Clause(subject, (predicate,)))

    def meanwhile(self) -> Clause:
        """As in "Während ein Mann Suppe kocht, spielen zwei Kinder im Garten."."""
        verb, other_verb = self.verb(), self.verb()
        if verb.can(Trait.WORN) or other_verb.can(Trait.WORN):
            raise DeadEnd
        subject, other = self.subject(verb, simple=True), self.subject(other_verb, simple=True)
        if subject.noun is other.noun:
            raise DeadEnd
        own = possessive_of(subject)
        if own and other.noun.kinds & Kind.DOG and self.chance(0.7):
            other = NounPhrase(other.noun, own, adjectives=other.adjectives)
        predicate = self.predicate(verb, subject)
        background = Clause(other, (self.predicate(other_verb, other),))
        front = self.choose((Front.SUBJECT, Front.SUBORDINATE), (0.6, 0.4))
        return Clause(subject, (predicate,), front, subordinate=Subordinate(WHILE, background))

    def in_any_weather(self) -> Clause:
        """As in "Zwei Kinder spielen im Park, obwohl es regnet."."""
        outside = self.chance(0.5)
        setting, conjunction = (Setting.OUTDOORS, ALTHOUGH) if outside else (Setting.ROOM, WHILE)
        weather = self.choose((RAIN, SNOW, COLD) if outside else (RAIN, SNOW))
        verb = self.verb_of(selection.verbs_within(setting))
        subject = self.subject(verb, simple=True)
        predicate = self.predicate(verb, subject, placed=1.0, within=setting)
        front = self.choose((Front.SUBJECT, Front.PLACE, Front.SUBORDINATE), (0.5, 0.2, 0.3))
        return Clause(subject, (predicate,), front, subordinate=Subordinate(conjunction, weather))

    def because_of_weather(self) -> Clause:
        """As in "Eine Frau hält einen Regenschirm, weil es regnet."."""
        weather = self.choose(WEATHERS)
        german, name = self.choose(weather.because)
        thing = noun(name)
        verb = self.choose([one for one in TRANSITIVES if one.german == german and one.objects & thing.kinds])
        subject = self.subject(verb, simple=True)
        predicate = VerbPhrase(verb, self.object(verb, subject, thing))
        front = self.choose((Front.SUBJECT, Front.SUBORDINATE), (0.6, 0.4))
        return Clause(subject, (predicate,), front, subordinate=Subordinate(BECAUSE, weather))

    def scene(self) -> Clause:
        """As in "Auf dem Tisch liegen drei rote Äpfel."."""
        verb = self.verb_of(POSITIONS)
        subject = self.thing(verb)
        place = self.whereabouts(verb.where, subject, None)
        front = self.choose((Front.PLACE, Front.SUBJECT), (0.65, 0.35))
        return Clause(subject, (VerbPhrase(verb, place=place),), front)

    def description(self) -> Clause:
        """As in "Der Ball, den der Junge wirft, ist rot." or "Die Frau, die im Park sitzt, ist müde."."""
        if self.chance(0.45):
            verb = self.verb()
            subject = NounPhrase(self.actor(verb.subjects), Determiner.THE, plural=self.chance(0.25))
            clause = RelativeClause(replace(self.predicate(verb, subject), companion=None))
        else:
            verb = self.verb_of(_WITH_LIFELESS_OBJECTS)
            thing = self.choose([one for one in selection.nouns(verb.objects) if not one.mass])
            subject = NounPhrase(thing, Determiner.THE, plural=bool(thing.kinds & Kind.FOOTWEAR))
            actor = self.actor(verb.subjects)
            doer = NounPhrase(actor, Determiner.THE, adjectives=self.adjectives(actor, 0.3))
            clause = RelativeClause(VerbPhrase(verb), doer)
        quality = self.choose(selection.predicates(subject.noun))
        return Clause(replace(subject, relative=clause), (VerbPhrase(BE, quality=quality),))

    def attempt(self) -> Clause:
        """As in "Ein kleiner Junge versucht, einen Ball zu fangen."."""
        verb = self.verb_of(_HARD)
        subject = self.subject(verb)
        attempt = self.predicate(verb, subject, rich=True)
        outer = VerbPhrase(TRY, place=attempt.place, attempt=replace(attempt, place=None))
        return self._fronted(Clause(subject, (outer,)))

    def bending_down(self) -> Clause:
        """As in "Eine Frau bückt sich, um einen Stock aufzuheben."."""
        verb = self.verb_of(_STOOPING)
        subject = self.subject(verb)
        purpose = self.predicate(verb, subject, rich=True)
        outer = VerbPhrase(BEND_DOWN, place=purpose.place, purpose=replace(purpose, place=None))
        return self._fronted(Clause(subject, (outer,)))

    def wearing_none(self) -> Clause:
        """As in "Die Kinder tragen keine Helme."."""
        subject = self.definite_actor(self.actor(WEAR.subjects))
        missing = Kind.HEADWEAR | Kind.FOOTWEAR | Kind.EYEWEAR | Kind.WARM_WEAR
        thing = self.worn(self.choose(selection.nouns(missing)), subject)
        return self._fronted(Clause(subject, (VerbPhrase(WEAR, replace(thing, determiner=Determiner.NO)),)))

    def hair(self) -> Clause:
        """As in "Das Mädchen hat lange blonde Haare."."""
        actor = self.actor(HAVE.subjects)
        subject = self.definite_actor(actor) if self.chance(0.6) else self.indefinite_actor(actor)
        return Clause(subject, (VerbPhrase(HAVE, self.hairdo()),))

    def _fronted(self, clause: Clause) -> Clause:
        """Chooses what stands before the verb: the subject, a place or a time."""
        place = clause.predicates[0].place
        in_weather = place is not None and place.phrase.noun.german in _BY_WEATHER
        if not in_weather and self.chance(0.22):
            return replace(clause, front=Front.TIME, time=self.choose(TIMES))
        if place and self.chance(0.4):
            return replace(clause, front=Front.PLACE)
        return clause
