"""Reads a derivation aloud in English.

The subject comes first wherever German puts it, and then what is done, to what, to whom, where: "A man is
picking up a ball in the park." Only times and clauses keep their place at the front: "In the morning, ..."
"""

from course_lib.translation.data.captions import english_forms as forms
from course_lib.translation.data.captions.adjectives import ADJECTIVES
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
from course_lib.translation.data.captions.verbs import ANIMAL, GROUPS, HAVE, HUMAN, POSITIONS, RELATIVE
from course_lib.translation.data.captions.words import Adjective, Determiner, Noun, Phenomenon, Verb, Weather

_PEOPLE = HUMAN | RELATIVE


def _with_several_translations() -> frozenset[str]:
    """The German verbs that are different verbs in English, "tragen" for one."""
    english: dict[str, set[str]] = {}
    for verb in (verb for group in (*GROUPS, POSITIONS) for verb in group):
        english.setdefault(verb.particle + verb.german, set()).add(verb.english.split()[0])
    return frozenset(german for german, words in english.items() if len(words) > 1)


_AMBIGUOUS_VERBS = _with_several_translations()
_AMBIGUOUS_ADJECTIVES = frozenset(word.german for word in ADJECTIVES if word.choices)


class EnglishWriter:
    """Writes one sentence as a list of words and commas, and notes in `shown` the phenomena that it shows."""

    def __init__(self) -> None:
        self.shown: set[Phenomenon] = set()

    def sentence(self, clause: Clause) -> list[str]:
        """A sentence; "a" becomes "an" at the end, when the next word is known."""
        words: list[str] = []
        if clause.time:
            words += [*clause.time.english.split(), ","]
        if clause.subordinate and clause.front is Front.SUBORDINATE:
            words += [*self._subordinate(clause.subordinate), ","]
        words += self._clause(clause)
        if clause.subordinate and clause.front is not Front.SUBORDINATE:
            words += self._subordinate(clause.subordinate)
        return self._articles(words)

    def _clause(self, clause: Clause) -> list[str]:
        first, *others = clause.predicates
        self._note_verb(first.verb)
        if first.verb in POSITIONS and first.verb.english == "be":
            assert first.place is not None
            be = "are" if _plural(clause.subject) else "is"
            return ["there", be, *self.subject(clause.subject), *self.prepositional_phrase(first.place)]
        words = [
            *self.subject(clause.subject),
            *self._finite(first, clause.subject),
            *self._complements(first),
        ]
        for other in others:
            self._note_verb(other.verb)
            words += ["and", *forms.participle(other.verb).split(), *self._complements(other)]
        return words

    def subject(self, subject: Subject) -> list[str]:
        """One noun phrase or two."""
        if isinstance(subject, Joined):
            return [*self.noun_phrase(subject.first), "and", *self.noun_phrase(subject.second)]
        return self.noun_phrase(subject)

    def noun_phrase(self, phrase: NounPhrase) -> list[str]:
        """Determiner, adjectives, noun and what follows. A living owner stands in front: "the man's dog"."""
        words = self._determiner(phrase)
        words += [self._adjective(adjective, phrase.noun) for adjective in phrase.adjectives]
        words += self._noun(phrase).split()
        if phrase.owner and phrase.owner.noun.kinds & (_PEOPLE | ANIMAL):
            *owner, last = self.noun_phrase(phrase.owner)
            words = [*owner, forms.possessive(last), *words[1:]]
        elif phrase.owner:
            words += ["of", *self.noun_phrase(phrase.owner)]
        if phrase.attribute:
            words += self.prepositional_phrase(phrase.attribute)
        if phrase.relative:
            words += self._relative_clause(phrase.relative, phrase)
        return words

    def prepositional_phrase(self, phrase: PrepositionalPhrase) -> list[str]:
        """Preposition and noun phrase."""
        return [*phrase.english.split(), *self.noun_phrase(phrase.phrase)]

    def _determiner(self, phrase: NounPhrase) -> list[str]:
        determiner = Determiner.A if phrase.determiner is Determiner.NO else phrase.determiner
        no_article = phrase.plural or phrase.noun.english_number or phrase.noun.mass
        if determiner is Determiner.A and no_article:
            return []
        return [determiner.value[1]] if determiner.value[1] else []

    def _noun(self, phrase: NounPhrase) -> str:
        if not phrase.plural:
            return phrase.noun.english
        word = forms.plural(phrase.noun)
        if phrase.noun.english_plural:
            self.shown.add(Phenomenon.IRREGULAR_PLURAL)
        return word

    def _adjective(self, adjective: Adjective, noun: Noun) -> str:
        if adjective.german in _AMBIGUOUS_ADJECTIVES:
            self.shown.add(Phenomenon.WORD_CHOICE)
        for kinds, english in adjective.choices:
            if noun.kinds & kinds:
                return english
        return adjective.english

    def _finite(self, predicate: VerbPhrase, subject: Subject) -> list[str]:
        plural = _plural(subject)
        be = "are" if plural else "is"
        if predicate.quality:
            assert isinstance(subject, NounPhrase)
            return [be, self._adjective(predicate.quality, subject.noun)]
        if predicate.verb is HAVE:
            return [forms.third_person(predicate.verb, plural)]
        negation = ["not"] if predicate.object and predicate.object.determiner is Determiner.NO else []
        return [be, *negation, *forms.participle(predicate.verb).split()]

    def _complements(self, predicate: VerbPhrase) -> list[str]:
        words: list[str] = []
        if predicate.object:
            words += self.noun_phrase(predicate.object)
        if predicate.recipient:
            words += ["to", *self.noun_phrase(predicate.recipient)]
        for infinitive in (predicate.attempt, predicate.purpose):
            if infinitive:
                self._note_verb(infinitive.verb)
                words += ["to", *infinitive.verb.english.split(), *self._complements(infinitive)]
        for phrase in (predicate.goal, predicate.place, predicate.companion):
            words += self.prepositional_phrase(phrase) if phrase else []
        return words

    def _relative_clause(self, clause: RelativeClause, head: NounPhrase) -> list[str]:
        predicate = clause.predicate
        self._note_verb(predicate.verb)
        if clause.subject is not None:
            subject = self.noun_phrase(clause.subject)
            return ["that", *subject, *self._finite(predicate, clause.subject), *self._complements(predicate)]
        pronoun = "who" if head.noun.kinds & _PEOPLE else "that"
        if predicate.verb.english == "be" and predicate.place:
            be = "are" if _plural(head) else "is"
            return [pronoun, be, *self.prepositional_phrase(predicate.place)]
        return [pronoun, *self._finite(predicate, head), *self._complements(predicate)]

    def _subordinate(self, subordinate: Subordinate) -> list[str]:
        clause = subordinate.clause
        words = clause.english.split() if isinstance(clause, Weather) else self._clause(clause)
        return [subordinate.conjunction.english, *words]

    def _articles(self, words: list[str]) -> list[str]:
        """Chooses "a" or "an" by the word that follows."""
        chosen = list(words)
        for index, word in enumerate(words[:-1]):
            if word == "a":
                chosen[index] = forms.indefinite_article(words[index + 1])
                if chosen[index] == "an":
                    self.shown.add(Phenomenon.ENGLISH_AN)
        return chosen

    def _note_verb(self, verb: Verb) -> None:
        if verb.particle + verb.german in _AMBIGUOUS_VERBS:
            self.shown.add(Phenomenon.WORD_CHOICE)


def _plural(subject: Subject) -> bool:
    """Whether the English verb is plural. "hair" is not, "pants" are, whatever German says."""
    if isinstance(subject, NounPhrase) and subject.noun.english_number:
        return subject.noun.english_number == "plural"
    return subject.plural
