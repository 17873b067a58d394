"""German endings: articles, adjectives, nouns, verbs. Nothing here knows of sentences."""

import re
from enum import Enum

from course_lib.translation.data.captions.words import Adjective, Case, Determiner, Gender, Noun, Verb

# Columns: masculine, feminine, neuter, plural.
_COLUMN = {Gender.MASCULINE: 0, Gender.FEMININE: 1, Gender.NEUTER: 2, Gender.PLURAL: 3}

DEFINITE = {
    Case.NOMINATIVE: ("der", "die", "das", "die"),
    Case.ACCUSATIVE: ("den", "die", "das", "die"),
    Case.DATIVE: ("dem", "der", "dem", "den"),
    Case.GENITIVE: ("des", "der", "des", "der"),
}
# The relative pronoun is the article, but for two longer forms.
RELATIVE = {
    Case.NOMINATIVE: ("der", "die", "das", "die"),
    Case.ACCUSATIVE: ("den", "die", "das", "die"),
    Case.DATIVE: ("dem", "der", "dem", "denen"),
}
# "ein", "kein", "mein", "sein", "ihr", and in the plural also "einige", "viele".
INDEFINITE_ENDINGS = {
    Case.NOMINATIVE: ("", "e", "", "e"),
    Case.ACCUSATIVE: ("en", "e", "", "e"),
    Case.DATIVE: ("em", "er", "em", "en"),
    Case.GENITIVE: ("es", "er", "es", "er"),
}


class Declension(Enum):
    """Three sets of adjective endings: the less the word in front shows, the more the adjective must."""

    STRONG = "strong"  # nothing in front, or a number: "kalter Tee", "zwei rote Bälle"
    MIXED = "mixed"  # after "ein", "kein", "sein": "ein roter Ball"
    WEAK = "weak"  # after "der": "der rote Ball"


ADJECTIVE_ENDINGS = {
    Declension.STRONG: {
        Case.NOMINATIVE: ("er", "e", "es", "e"),
        Case.ACCUSATIVE: ("en", "e", "es", "e"),
        Case.DATIVE: ("em", "er", "em", "en"),
        Case.GENITIVE: ("en", "er", "en", "er"),
    },
    Declension.MIXED: {
        Case.NOMINATIVE: ("er", "e", "es", "en"),
        Case.ACCUSATIVE: ("en", "e", "es", "en"),
        Case.DATIVE: ("en", "en", "en", "en"),
        Case.GENITIVE: ("en", "en", "en", "en"),
    },
    Declension.WEAK: {
        Case.NOMINATIVE: ("e", "e", "e", "en"),
        Case.ACCUSATIVE: ("en", "e", "e", "en"),
        Case.DATIVE: ("en", "en", "en", "en"),
        Case.GENITIVE: ("en", "en", "en", "en"),
    },
}

_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}

_HISSES = ("s", "ß", "z", "x", "sch")
_ONE_SYLLABLE = re.compile("[^aeiouäöü]*(au|ei|eu|äu|ie|[aeiouäöü])[^aeiouäöüé]+")
_PLAIN_GENITIVES = ("Park", "Koch")  # short, and yet with -s

_POSSESSIVES = (Determiner.HIS, Determiner.HER, Determiner.THEIR)
_INFLECTED_LIKE_EIN = (Determiner.A, Determiner.NO, *_POSSESSIVES)
_QUANTITIES = {Determiner.SOME: "einig", Determiner.SEVERAL: "mehrer", Determiner.MANY: "viel"}


def declension(determiner: Determiner, plural: bool) -> Declension:
    """Which adjective endings follow a determiner. The plural of "ein" is nothing at all."""
    if determiner is Determiner.THE:
        return Declension.WEAK
    if determiner is Determiner.A:
        return Declension.STRONG if plural else Declension.MIXED
    return Declension.MIXED if determiner in _INFLECTED_LIKE_EIN else Declension.STRONG


def article(determiner: Determiner, case: Case, gender: Gender) -> str:
    """The determiner's form, "" where there is none."""
    column = _COLUMN[gender]
    if determiner is Determiner.THE:
        return DEFINITE[case][column]
    if determiner is Determiner.A and gender is Gender.PLURAL:
        return ""
    if determiner in _INFLECTED_LIKE_EIN:
        return determiner.value[0] + INDEFINITE_ENDINGS[case][column]
    if determiner in _QUANTITIES:
        return _QUANTITIES[determiner] + INDEFINITE_ENDINGS[case][column]
    return determiner.value[0]


def relative_pronoun(case: Case, gender: Gender) -> str:
    """The form of "der" that opens a relative clause."""
    return RELATIVE[case][_COLUMN[gender]]


def adjective(word: Adjective, endings: Declension, case: Case, gender: Gender) -> str:
    """The adjective in front of a noun."""
    if word.indeclinable:
        return word.german
    return (word.stem or word.german) + ADJECTIVE_ENDINGS[endings][case][_COLUMN[gender]]


def noun(word: Noun, case: Case, plural: bool) -> str:
    """The noun's form: -n in the dative plural, -(e)s in the genitive, -(e)n in weak ones."""
    if plural:
        needs_n = case is Case.DATIVE and not word.plural.endswith(("n", "s"))
        return word.plural + "n" if needs_n else word.plural
    if word.weak and case is not Case.NOMINATIVE:
        return word.plural
    if case is Case.GENITIVE and word.gender is not Gender.FEMININE:
        return word.genitive or word.german + _genitive_ending(word.german)
    return word.german


def third_person(verb: Verb, plural: bool) -> str:
    """The present tense, "hebt" or "heben", without the particle."""
    if plural:
        return "sind" if verb.german == "sein" else verb.german
    if verb.singular:
        return verb.singular
    stem = verb.german.removesuffix("en") if verb.german.endswith("en") else verb.german.removesuffix("n")
    return stem + ("et" if stem.endswith(("t", "d")) else "t")


def contraction(preposition: str, following: str) -> str:
    """Gives "im" for "in dem" and its like, "" where the two words stay apart."""
    return _CONTRACTIONS.get((preposition, following), "")


def _genitive_ending(german: str) -> str:
    if german in _PLAIN_GENITIVES:
        return "s"
    return "es" if german.endswith(_HISSES) or _ONE_SYLLABLE.fullmatch(german.lower()) else "s"
