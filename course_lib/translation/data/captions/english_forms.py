"""English endings: plurals, participles, "a" or "an". Nothing here knows of sentences."""

import re

from course_lib.translation.data.captions.words import Noun, Verb

_VOWELS = "aeiou"
_SIBILANTS = ("s", "x", "z", "ch", "sh")
_IRREGULAR_THIRD_PERSON = {"be": "is", "have": "has"}


def plural(noun: Noun) -> str:
    """As in "children", "boxes", "ladies", "dogs". Words that are plural already stay as they are."""
    if noun.english_number:
        return noun.english
    if noun.english_plural:
        return noun.english_plural
    word = noun.english
    if word.endswith(_SIBILANTS):
        return word + "es"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def participle(verb: Verb) -> str:
    """The -ing form: "picking up", "riding", "lying", "running"."""
    word, *rest = verb.english.split(" ")
    if word.endswith("ie"):
        stem = word[:-2] + "y"
    elif word.endswith("e") and not word.endswith("ee"):
        stem = word[:-1]
    elif re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", word):
        stem = word + word[-1]
    else:
        stem = word
    return " ".join([stem + "ing", *rest])


def third_person(verb: Verb, plural: bool) -> str:
    """The simple present of the few verbs that take no progressive: "has", "is"."""
    return (
        ("are" if verb.english == "be" else verb.english) if plural else _IRREGULAR_THIRD_PERSON[verb.english]
    )


def indefinite_article(following: str) -> str:
    """Gives "an" before a vowel."""
    return "an" if following[0].lower() in _VOWELS else "a"


def possessive(owner: str) -> str:
    """As in "the man's" or "the boys'"."""
    return owner + ("'" if owner.endswith("s") else "'s")
