"""Reads a derivation aloud in German.

A German clause has fixed fields: the front, the verb in second place, the middle, the verb's particle, end.

    front      verb   middle                   particle  end
    Ein Mann   hebt   im Park einen Ball       auf
    Im Park    hebt   ein Mann einen Ball      auf,      der im Gras liegt

In a subordinate clause the verb joins its particle in the last place: "..., der im Park einen Ball aufhebt".
"""

from dataclasses import replace

from course_lib.translation.data.captions import german_forms as forms
from course_lib.translation.data.captions.german_forms import Declension
from course_lib.translation.data.captions.tree import (
    Clause,
    Front,
    Joined,
    NounPhrase,
    PrepositionalPhrase,
    RelativeClause,
    Subject,
    Subordinate,
    VerbPhrase,
)
from course_lib.translation.data.captions.words import Case, Determiner, Gender, Phenomenon, Weather

_ADJECTIVE_PHENOMENA = {
    Declension.STRONG: Phenomenon.STRONG_ADJECTIVE,
    Declension.MIXED: Phenomenon.MIXED_ADJECTIVE,
    Declension.WEAK: Phenomenon.WEAK_ADJECTIVE,
}
_NUMBERS = (Determiner.TWO, Determiner.THREE, Determiner.FOUR, Determiner.FIVE)
_POSSESSIVES = (Determiner.HIS, Determiner.HER, Determiner.THEIR)
_TWO_WAY = ("an", "auf", "hinter", "in", "neben", "über", "unter", "vor")


class GermanWriter:
    """Writes one sentence as a list of words and commas, and notes in `shown` the phenomena that it shows."""

    def __init__(self) -> None:
        self.shown: set[Phenomenon] = set()

    def sentence(self, clause: Clause) -> list[str]:
        """A main clause: the verb in second place."""
        first, *others = clause.predicates
        front = self._front(clause, first)
        words = [*front, self._finite(first, clause.subject.plural)]
        if clause.front is Front.SUBJECT:
            words += self._reflexive(first)
        else:
            self.shown.add(Phenomenon.INVERSION)
            words += [*self._reflexive(first), *self.subject(clause.subject)]
        words += [
            *self._middle(first, place=clause.front is not Front.PLACE),
            *self._particle(first),
            *self._end(first),
        ]
        for other in others:
            self.shown.add(Phenomenon.COORDINATION)
            words += ["und", self._finite(other, clause.subject.plural), *self._reflexive(other)]
            words += [*self._middle(other), *self._particle(other), *self._end(other)]
        if clause.subordinate and clause.front is not Front.SUBORDINATE:
            words += [",", *self._subordinate(clause.subordinate)]
        return words

    def subject(self, subject: Subject) -> list[str]:
        """The subject, in the nominative."""
        if isinstance(subject, Joined):
            self.shown.add(Phenomenon.COORDINATION)
            return [*self.subject(subject.first), "und", *self.subject(subject.second)]
        return self.noun_phrase(subject, Case.NOMINATIVE)

    def noun_phrase(self, phrase: NounPhrase, case: Case, with_relative: bool = True) -> list[str]:
        """Determiner, adjectives and noun agree in gender, case and number; all else follows."""
        self._note_noun_phrase(phrase, case)
        gender = Gender.PLURAL if phrase.plural else phrase.noun.gender
        endings = forms.declension(phrase.determiner, phrase.plural)
        article = forms.article(phrase.determiner, case, gender)
        words = [article] if article else []
        for adjective in phrase.adjectives:
            self.shown.add(_ADJECTIVE_PHENOMENA[endings])
            words.append(forms.adjective(adjective, endings, case, gender))
        words.append(forms.noun(phrase.noun, case, phrase.plural))
        if phrase.owner:
            self.shown.add(Phenomenon.GENITIVE)
            words += self.noun_phrase(phrase.owner, Case.GENITIVE)
        if phrase.attribute:
            words += self.prepositional_phrase(phrase.attribute)
        if phrase.relative and with_relative:
            words += self._relative_clause(phrase.relative, gender)
        return words

    def prepositional_phrase(self, phrase: PrepositionalPhrase) -> list[str]:
        """Preposition and noun phrase, contracted where German does so: "im", "ans", "zur"."""
        if phrase.without:
            self.shown.add(Phenomenon.NEGATION)
            return [
                phrase.german,
                *self.noun_phrase(replace(phrase.phrase, determiner=Determiner.BARE), phrase.case),
            ]
        article, *others = self.noun_phrase(phrase.phrase, phrase.case)
        contraction = forms.contraction(phrase.german, article)
        if contraction:
            self.shown.add(Phenomenon.CONTRACTION)
            return [contraction, *others]
        return [phrase.german, article, *others]

    def _place(self, phrase: PrepositionalPhrase) -> list[str]:
        """Where, in the dative, or where to, in the accusative."""
        if phrase.german in _TWO_WAY:
            where = phrase.case is Case.DATIVE
            self.shown.add(Phenomenon.PLACE_DATIVE if where else Phenomenon.PLACE_ACCUSATIVE)
        return self.prepositional_phrase(phrase)

    def _front(self, clause: Clause, predicate: VerbPhrase) -> list[str]:
        if clause.front is Front.PLACE:
            assert predicate.place is not None
            return self._place(predicate.place)
        if clause.front is Front.TIME:
            assert clause.time is not None
            return clause.time.german.split()
        if clause.front is Front.SUBORDINATE:
            assert clause.subordinate is not None
            return [*self._subordinate(clause.subordinate), ","]
        return self.subject(clause.subject)

    def _finite(self, predicate: VerbPhrase, plural: bool) -> str:
        return forms.third_person(predicate.verb, plural)

    def _particle(self, predicate: VerbPhrase) -> list[str]:
        if not predicate.verb.particle:
            return []
        self.shown.add(Phenomenon.SEPARABLE_SPLIT)
        return [predicate.verb.particle]

    def _reflexive(self, predicate: VerbPhrase) -> list[str]:
        if not predicate.verb.reflexive:
            return []
        self.shown.add(Phenomenon.REFLEXIVE)
        return ["sich"]

    def _middle(self, predicate: VerbPhrase, place: bool = True) -> list[str]:
        words: list[str] = []
        if predicate.recipient:
            self.shown.add(Phenomenon.DATIVE_OBJECT)
            words += self.noun_phrase(predicate.recipient, Case.DATIVE)
        if predicate.companion:
            words += self.prepositional_phrase(predicate.companion)
        if predicate.place and place:
            words += self._place(predicate.place)
        if predicate.object:
            if predicate.verb.case is Case.DATIVE and not predicate.verb.preposition:
                self.shown.add(Phenomenon.DATIVE_OBJECT)
            words += [predicate.verb.preposition] if predicate.verb.preposition else []
            words += self.noun_phrase(predicate.object, predicate.verb.case, with_relative=False)
        if predicate.goal:
            words += self._place(predicate.goal)
        if predicate.quality:
            words.append(predicate.quality.german)
        return words

    def _end(self, predicate: VerbPhrase) -> list[str]:
        """What stands behind the particle: the object's relative clause, and infinitives."""
        words: list[str] = []
        if predicate.object and predicate.object.relative:
            gender = Gender.PLURAL if predicate.object.plural else predicate.object.noun.gender
            words += self._relative_clause(predicate.object.relative, gender)
        if predicate.attempt:
            words += [",", *self._infinitive(predicate.attempt)]
        if predicate.purpose:
            words += [",", "um", *self._infinitive(predicate.purpose)]
        return words

    def _infinitive(self, predicate: VerbPhrase) -> list[str]:
        self.shown.add(Phenomenon.INFINITIVE)
        verb = predicate.verb
        words = [*self._reflexive(predicate), *self._middle(predicate)]
        if verb.particle:
            self.shown.add(Phenomenon.SEPARABLE_JOINED)
            return [*words, f"{verb.particle}zu{verb.german}", *self._end(predicate)]
        return [*words, "zu", verb.german, *self._end(predicate)]

    def _verb_final(self, predicate: VerbPhrase, plural: bool) -> list[str]:
        if predicate.verb.particle:
            self.shown.add(Phenomenon.SEPARABLE_JOINED)
        return [*self._middle(predicate), predicate.verb.particle + self._finite(predicate, plural)]

    def _relative_clause(self, clause: RelativeClause, gender: Gender) -> list[str]:
        predicate = clause.predicate
        if clause.subject is None:
            self.shown.add(Phenomenon.RELATIVE_CLAUSE)
            pronoun = forms.relative_pronoun(Case.NOMINATIVE, gender)
            body = [*self._reflexive(predicate), *self._verb_final(predicate, gender is Gender.PLURAL)]
            return [",", pronoun, *body, ","]
        self.shown.add(Phenomenon.OBJECT_RELATIVE)
        pronoun = forms.relative_pronoun(predicate.verb.case, gender)
        doer = [*self._reflexive(predicate), *self.subject(clause.subject)]
        body = [*doer, *self._verb_final(predicate, clause.subject.plural)]
        preposition = [predicate.verb.preposition] if predicate.verb.preposition else []
        return [",", *preposition, pronoun, *body, ","]

    def _subordinate(self, subordinate: Subordinate) -> list[str]:
        self.shown.add(Phenomenon.VERB_FINAL)
        conjunction = subordinate.conjunction.german
        clause = subordinate.clause
        if isinstance(clause, Weather):
            return [conjunction, *clause.german.split()]
        (predicate,) = clause.predicates
        words = [conjunction, *self._reflexive(predicate), *self.subject(clause.subject)]
        return [*words, *self._verb_final(predicate, clause.subject.plural)]

    def _note_noun_phrase(self, phrase: NounPhrase, case: Case) -> None:
        determiner, noun = phrase.determiner, phrase.noun
        if determiner in _NUMBERS:
            self.shown.add(Phenomenon.NUMBER)
        if determiner is Determiner.NO:
            self.shown.add(Phenomenon.NEGATION)
        if determiner in _POSSESSIVES:
            self.shown.add(Phenomenon.POSSESSIVE)
        if phrase.plural:
            self.shown.add(Phenomenon.PLURAL)
        if noun.compound:
            self.shown.add(Phenomenon.COMPOUND)
        if noun.weak and not phrase.plural and case is not Case.NOMINATIVE:
            self.shown.add(Phenomenon.WEAK_NOUN)
        if noun.english_number:
            self.shown.add(Phenomenon.NUMBER_MISMATCH)
        masculine = noun.gender is Gender.MASCULINE and not phrase.plural
        inflected = phrase.adjectives or determiner not in (Determiner.BARE, Determiner.PLAYED)
        if case is Case.ACCUSATIVE and masculine and inflected:
            self.shown.add(Phenomenon.ACCUSATIVE)
