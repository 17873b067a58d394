"""The built-in corpus: what its sentences promise, checked by rules that the grammar does not share."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

import pytest

from course_lib.translation.data.captions import (
    Pair,
    Phenomenon,
    Split,
    english_forms,
    german_forms,
    of_phenomenon,
    splits,
    words_of,
)
from course_lib.translation.data.captions import __main__ as command
from course_lib.translation.data.captions.adjectives import ADJECTIVES
from course_lib.translation.data.captions.choices import Chance, DeadEnd
from course_lib.translation.data.captions.corpus import draw, pair_of
from course_lib.translation.data.captions.german_forms import Declension
from course_lib.translation.data.captions.grammar import Grammar
from course_lib.translation.data.captions.nouns import NOUNS, noun
from course_lib.translation.data.captions.verbs import BE, BEND_DOWN, GROUPS, HAVE, POSITIONS, TRY
from course_lib.translation.data.captions.words import (
    Adjective,
    Case,
    Determiner,
    Gender,
    Noun,
    Phrase,
    Place,
    Verb,
    Weather,
)

Option = TypeVar("Option")
Corpus = dict[Split, list[Pair]]

VERBS = [verb for group in (*GROUPS, POSITIONS) for verb in group] + [BE, HAVE, TRY, BEND_DOWN]

# The corpus that every page, figure and example of the course was made with.
DEFAULT_CORPUS = "7d55bf504019d7c10430a85b5f764943f25a3cc29a2e88c9acbf1b90af3fe326"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return splits()


@pytest.fixture(scope="module")
def everything(corpus: Corpus) -> list[Pair]:
    return [pair for pairs in corpus.values() for pair in pairs]


def fingerprint(corpus: Corpus) -> str:
    lines = (f"{name}\t{pair.german}\t{pair.english}\n" for name, pairs in corpus.items() for pair in pairs)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


# The splits


def test_the_default_corpus_is_the_pinned_one(corpus: Corpus) -> None:
    assert fingerprint(corpus) == DEFAULT_CORPUS


def test_another_process_with_another_string_hash_draws_the_same() -> None:
    program = (
        "from course_lib.translation.data.captions import splits\n"
        "for pair in splits(3, 80, 5, 5)['train']: print(pair.german, pair.english, sorted(pair.phenomena))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") == 80


def test_another_seed_draws_another_corpus() -> None:
    first, second = (splits(seed, 100, 5, 5) for seed in (1, 2))
    shared = {pair.german for pair in first["train"]} & {pair.german for pair in second["train"]}
    assert len(shared) < 10


def test_sizes_are_those_asked_for(corpus: Corpus) -> None:
    assert {name: len(pairs) for name, pairs in corpus.items()} == {
        "train": 6000,
        "validation": 300,
        "test": 300,
    }
    small = splits(5, train=500, validation=7, test=9)
    assert {name: len(pairs) for name, pairs in small.items()} == {"train": 500, "validation": 7, "test": 9}


def test_no_sentence_stands_twice_in_either_language(everything: list[Pair]) -> None:
    assert len({pair.german for pair in everything}) == len(everything)
    assert len({pair.english for pair in everything}) == len(everything)


def test_words_of_the_other_splits_occur_in_train(corpus: Corpus) -> None:
    for side in ("german", "english"):
        known = {word for pair in corpus["train"] for word in words_of(getattr(pair, side))}
        for name in ("validation", "test"):
            assert {word for pair in corpus[name] for word in words_of(getattr(pair, side))} <= known


def test_reserved_combinations_are_for_the_test_split_alone(corpus: Corpus) -> None:
    seen = {one for name in ("train", "validation") for pair in corpus[name] for one in pair.combinations}
    kinds: Counter[str] = Counter()
    for pair in corpus["test"]:
        unseen = pair.combinations - seen
        assert {one for one in pair.combinations if one.reserved} <= unseen
        assert any(one.reserved for one in pair.combinations), pair.german
        kinds.update({one.kind for one in pair.combinations if one.reserved})
    assert min(kinds[kind] for kind in ("adjective+noun", "verb+object", "subject+place")) >= 50


def test_reserved_adjectives_stand_before_their_nouns_in_no_other_sentence(corpus: Corpus) -> None:
    """The same by looking at letters, without asking the derivation."""
    text = "\n".join(pair.german for name in ("train", "validation") for pair in corpus[name])
    stems = {word.german: word.stem or word.german for word in ADJECTIVES}
    reserved = {one for pair in corpus["test"] for one in pair.combinations if one.reserved}
    patterns = [
        rf"\b{stems[one.first]}(e|e[mnrs])? ({one.second}|{noun(one.second).plural or one.second})n?\b"
        for one in reserved
        if one.kind == "adjective+noun"
    ]
    assert len(patterns) > 30
    assert [pattern for pattern in patterns if re.search(pattern, text, re.IGNORECASE)] == []


def test_every_word_of_the_lexicon_occurs_in_train(corpus: Corpus) -> None:
    counts = Counter(word.lower() for pair in corpus["train"] for word in words_of(pair.german))
    rare = [one.german for one in NOUNS if counts[one.german.lower()] + counts[one.plural.lower()] < 4]
    assert rare == []
    text = "\n".join(pair.german for pair in corpus["train"]).lower()
    assert [one.german for one in ADJECTIVES if not re.search(rf"\b{one.stem or one.german}", text)] == []
    for verb in VERBS:
        forms = [german_forms.third_person(verb, plural) for plural in (False, True)]
        assert any(re.search(rf"\b({verb.particle})?(zu)?{form}\b", text) for form in forms), verb.lemma


def test_sentences_have_the_length_of_captions(corpus: Corpus) -> None:
    for side in ("german", "english"):
        lengths = [len(words_of(getattr(pair, side))) for pair in corpus["train"]]
        assert 5 <= min(lengths) <= max(lengths) <= 20
        assert 10 <= sum(lengths) / len(lengths) <= 12.5


@pytest.mark.parametrize("size", [{"train": 0}, {"validation": -1}, {"test": 0}])
def test_sizes_must_be_positive(size: dict[str, int]) -> None:
    ((name, value),) = size.items()
    with pytest.raises(ValueError, match=f"{name} must be at least 1 sentence, not {value}"):
        splits(**size)


def test_a_train_split_too_small_for_the_others_is_refused() -> None:
    with pytest.raises(ValueError, match=r"of 300 validation sentences found.*more in train"):
        splits(train=3)


def test_the_corpus_needs_the_standard_library_alone() -> None:
    program = (
        "import sys; from course_lib.translation import captions; captions.splits(0, 50, 1, 1);"
        "print({'torch', 'numpy', 'jaxtyping', 'tokenizers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# German and English


def test_one_german_sentence_has_one_translation(everything: list[Pair]) -> None:
    translations = {pair.german: pair.english for pair in everything}
    chance = Chance(12345)
    for _ in range(4000):
        pair = draw(chance)
        assert translations.setdefault(pair.german, pair.english) == pair.english


def test_sentences_are_spelled_as_sentences(everything: list[Pair]) -> None:
    shape = re.compile(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüßé'-]*(,? [A-Za-zÄÖÜäöüßé'-]+)*\.")
    for pair in everything:
        assert shape.fullmatch(pair.german), pair.german
        assert shape.fullmatch(pair.english), pair.english
        for text in (pair.german, pair.english):
            stuttered = re.search(r"\b(\w+) \1\b", text, re.IGNORECASE)
            assert not stuttered or stuttered[1] in ("die", "das", "der"), (
                text
            )  # "die Tür, die die Frau putzt"


def test_english_says_an_before_vowels_only(everything: list[Pair]) -> None:
    for pair in everything:
        assert not re.search(r"\b(a [aeiou]|an [^aeiou])", pair.english, re.IGNORECASE), pair.english


# Which genders a form can stand for, and the endings of adjectives after it: written down anew.
M, F, N, PL = "masculine", "feminine", "neuter", "plural"
AGREEMENT: dict[str, dict[str, set[str]]] = {
    "der": {M: {"e"}, F: {"en"}},
    "die": {F: {"e"}, PL: {"en"}},
    "das": {N: {"e"}},
    "den": {M: {"en"}, PL: {"en"}},
    "dem": {M: {"en"}, N: {"en"}},
    "des": {M: {"en"}, N: {"en"}},
    "im": {M: {"en"}, N: {"en"}},
    "am": {M: {"en"}, N: {"en"}},
    "zum": {M: {"en"}, N: {"en"}},
    "zur": {F: {"en"}},
    "ins": {N: {"e"}},
    "ans": {N: {"e"}},
    **{stem: {M: {"er"}, N: {"es"}} for stem in ("ein", "kein", "sein", "ihr")},
    "eine": {F: {"e"}},
    **{f"{stem}e": {F: {"e"}, PL: {"en"}} for stem in ("kein", "sein", "ihr")},
    "einen": {M: {"en"}},
    **{f"{stem}en": {M: {"en"}, PL: {"en"}} for stem in ("kein", "sein", "ihr")},
    **{f"{stem}em": {M: {"en"}, N: {"en"}} for stem in ("ein", "sein", "ihr")},
    **{f"{stem}er": {F: {"en"}} for stem in ("ein", "sein", "ihr")},
    **{number: {PL: {"e", "en"}} for number in ("zwei", "drei", "vier", "fünf")},
    **{f"{word}e": {PL: {"e"}} for word in ("einig", "mehrer", "viel")},
    **{f"{word}en": {PL: {"en"}} for word in ("einig", "mehrer", "viel")},
}
TIME_NOUNS = {"Morgen": M, "Nachmittag": M, "Abend": M, "Wochenende": N, "Tag": M}


def genders_by_form() -> dict[str, set[str]]:
    forms = {word: {gender} for word, gender in TIME_NOUNS.items()}
    names = {Gender.MASCULINE: M, Gender.FEMININE: F, Gender.NEUTER: N}
    for one in NOUNS:
        singular = {one.german, one.genitive, *(one.german + ending for ending in ("s", "es"))}
        singular |= {one.plural} if one.weak else set()
        for form in singular:
            forms.setdefault(form, set()).add(names[one.gender])
        for form in (one.plural, one.plural + "n"):
            forms.setdefault(form, set()).add(PL)
    return forms


GENDERS = genders_by_form()
STEMS = {one.stem or one.german for one in ADJECTIVES} | {"sonnig", "windig"}
UNCHANGING = {one.german for one in ADJECTIVES if one.indeclinable}


def determined_phrases(german: str) -> Iterator[tuple[str, list[str], str]]:
    """The determiners of a sentence with the adjectives and the noun that follow them.

    A "der" after a comma, or after a comma and a preposition, opens a relative clause and is left out.
    """
    words = re.sub(
        r"(, )((an|auf|mit|nach) )?(der|die|das|den|dem)\b", r"\1\2_", german.removesuffix(".")
    ).split()
    for index, word in enumerate(words):
        following = [other.removesuffix(",") for other in words[index + 1 :]]
        length = next((at for at, other in enumerate(following) if other[0].isupper()), None)
        if word.lower() in AGREEMENT and length is not None:
            yield word.lower(), following[:length], following[length]


def disagreement(determiner: str, adjectives: Sequence[str], head: str) -> str | None:
    """What is wrong with a noun phrase, None if nothing is."""
    possible = {
        gender: ends for gender, ends in AGREEMENT[determiner].items() if gender in GENDERS.get(head, ())
    }
    if not possible:
        return f"{determiner} does not go with {head}"
    for word in adjectives:
        if word in UNCHANGING:
            continue
        fits = any(word == stem + ending for ends in possible.values() for ending in ends for stem in STEMS)
        if not fits:
            return f"{word} does not go with {determiner} ... {head}"
    return None


def test_articles_and_adjectives_agree_with_their_nouns(everything: list[Pair]) -> None:
    checked = 0
    for pair in everything:
        for determiner, adjectives, head in determined_phrases(pair.german):
            assert disagreement(determiner, adjectives, head) is None, pair.german
            checked += 1
    assert checked > 15_000


@pytest.mark.parametrize(
    "wrong",
    [
        "Die Mann schläft.",
        "Ein kleine Hund bellt.",
        "Ein Kind spielt mit dem Katze.",
        "Ein Mann trägt einen rote Hut.",
        "Zwei Frau tanzen.",
        "Ein Vogel sitzt im Küche.",
        "Eine Frau hilft einen alten Dame.",
        "Der alten Mann lacht.",
    ],
)
def test_the_rule_for_agreement_finds_mistakes(wrong: str) -> None:
    assert any(disagreement(*phrase) for phrase in determined_phrases(wrong))


def test_adjectives_without_an_article_show_the_gender_themselves(everything: list[Pair]) -> None:
    """What is eaten or drunk stands in the accusative: "kalten Saft", "heiße Suppe", "frisches Brot"."""
    endings = {Gender.MASCULINE: "en", Gender.FEMININE: "e", Gender.NEUTER: "es"}
    by_name = {one.german: one for one in NOUNS if one.mass and one.english != "soccer"}
    found = 0
    for pair in everything:
        words = [word.removesuffix(",") for word in pair.german.removesuffix(".").split()]
        for before, word, head in zip(words, words[1:], words[2:], strict=False):
            if head in by_name and word.islower() and before.lower() not in AGREEMENT:
                stem = next(
                    (stem for stem in ("kalt", "heiß", "warm", "frisch") if word.startswith(stem)), None
                )
                if stem:
                    assert word == stem + endings[by_name[head].gender], pair.german
                    found += 1
    assert found > 100


SINGULAR_FINITE = {german_forms.third_person(verb, plural=False) for verb in VERBS}
PLURAL_FINITE = {german_forms.third_person(verb, plural=True) for verb in VERBS}


def test_subject_and_verb_agree_in_number_in_both_languages(everything: list[Pair]) -> None:
    checked = 0
    for pair in everything:
        if "," in pair.german:
            continue  # a clause more would bring another verb
        if Phenomenon.NUMBER_MISMATCH in pair.phenomena:
            continue  # "Eine Hose liegt", but "pants are lying"
        finite = next(word for word in words_of(pair.german) if word in SINGULAR_FINITE | PLURAL_FINITE)
        be = next(word for word in words_of(pair.english) if word in {"is", "are", "has", "have"})
        assert (finite in PLURAL_FINITE) == (be in {"are", "have"}), pair
        if re.match(r"(Zwei|Drei|Vier|Fünf|Einige|Mehrere|Viele) ", pair.german):
            assert finite in PLURAL_FINITE, pair.german
        checked += 1
    assert checked > 2500


def test_the_verb_stands_second_after_a_time_or_a_clause(everything: list[Pair]) -> None:
    times = r"Am (?:Morgen|Nachmittag|Abend|Wochenende)|An einem (?:sonn|wind)igen Tag|Bei \w+|Nach dem Regen"
    front = re.compile(rf"(?:{times}|(?:Während|Weil|Obwohl) [^,]*,) (\S+) ")
    verbs = [opened[1] for pair in everything if (opened := front.match(pair.german))]
    assert set(verbs) <= SINGULAR_FINITE | PLURAL_FINITE
    assert len(verbs) > 1000


def test_the_verb_stands_last_in_subordinate_clauses(everything: list[Pair]) -> None:
    joined = {
        verb.particle + german_forms.third_person(verb, plural) for verb in VERBS for plural in (False, True)
    }
    last = joined | {"regnet", "schneit", "scheint"}
    conjunction = re.compile(r"\b(?:während|weil|obwohl) ([^,.]*)", re.IGNORECASE)
    # Where an article follows, the first comma opens a relative clause, or "den Ball zu fangen".
    relative = re.compile(r"[^,]*, (?:(?:an|auf|mit|nach) )?(?:der|die|das|den|dem) ([^,.]*)")
    infinitive = re.compile(r"(zu \w+|\w+zu\w+en)$")
    checked = 0
    for pair in everything:
        clauses = conjunction.findall(pair.german)
        opened = relative.match(pair.german)
        if opened and not conjunction.match(pair.german) and not infinitive.search(opened[1]):
            clauses.append(opened[1])
        for clause in clauses:
            assert clause.split()[-1] in last, pair.german
            checked += 1
    assert checked > 1500


# Phenomena

# The rule of the grammar, the German sentence, the English one, and what the pair must be said to show.
GOLDEN = [
    (
        "plain",
        "Am Strand spielt ein kleines Kind.",
        "A little child is playing on the beach.",
        {"inversion", "contraction", "place-dative", "mixed-adjective", "word-choice"},
    ),
    (
        "plain",
        "Im Garten hebt ein alter Mann einen Stock auf.",
        "An old man is picking up a stick in the garden.",
        {"separable-split", "accusative", "english-an", "inversion"},
    ),
    (
        "description",
        "Die Frau, die einen Stock aufhebt, ist müde.",
        "The woman who is picking up a stick is tired.",
        {"separable-joined", "relative-clause"},
    ),
    (
        "bending_down",
        "Ein Junge bückt sich, um einen Ball aufzuheben, der im Gras liegt.",
        "A boy is bending down to pick up a ball that is lying in the grass.",
        {"infinitive", "separable-joined", "reflexive", "relative-clause"},
    ),
    (
        "attempt",
        "Ein Mädchen versucht im Park, den Ball zu fangen.",
        "A girl is trying to catch the ball in the park.",
        {"infinitive"},
    ),
    (
        "plain",
        "Ein Mann, der einen roten Hut trägt, sitzt auf einer Bank.",
        "A man who is wearing a red hat is sitting on a bench.",
        {"relative-clause", "accusative", "word-choice"},
    ),
    (
        "plain",
        "Einige Frauen tragen schwere Körbe.",
        "Some women are carrying heavy baskets.",
        {"strong-adjective", "plural", "irregular-plural", "word-choice"},
    ),
    (
        "description",
        "Der Ball, den der Junge wirft, ist rot.",
        "The ball that the boy is throwing is red.",
        {"object-relative"},
    ),
    (
        "description",
        "Das Fahrrad, auf dem die Frau fährt, ist neu.",
        "The bicycle that the woman is riding is new.",
        {"object-relative", "compound"},
    ),
    (
        "description",
        "Das Bild, das sich der Tourist ansieht, ist alt.",
        "The picture that the tourist is looking at is old.",
        {"object-relative", "reflexive", "separable-joined"},
    ),
    (
        "meanwhile",
        "Während ein Hund schläft, spielen zwei Kinder im Garten.",
        "While a dog is sleeping, two children are playing in the garden.",
        {"verb-final", "inversion", "number", "irregular-plural"},
    ),
    (
        "meanwhile",
        "Eine Frau liest ein Buch, während ihr Hund im Gras schläft.",
        "A woman is reading a book while her dog is sleeping in the grass.",
        {"verb-final", "possessive"},
    ),
    (
        "in_any_weather",
        "Zwei Kinder spielen im Park, obwohl es regnet.",
        "Two children are playing in the park although it is raining.",
        {"verb-final", "number"},
    ),
    (
        "because_of_weather",
        "Eine Frau hält einen roten Regenschirm, weil es regnet.",
        "A woman is holding a red umbrella because it is raining.",
        {"verb-final", "compound", "accusative"},
    ),
    (
        "scene",
        "Auf dem Tisch liegen drei reife Äpfel.",
        "Three ripe apples are lying on the table.",
        {"inversion", "place-dative", "strong-adjective", "number"},
    ),
    (
        "scene",
        "Vor der Kirche stehen viele alte Autos.",
        "There are many old cars in front of the church.",
        {"inversion", "plural", "word-choice"},
    ),
    (
        "plain",
        "Drei Kinder springen auf dem Bett.",
        "Three children are jumping on the bed.",
        {"place-dative"},
    ),
    ("plain", "Eine Katze springt auf das Bett.", "A cat is jumping onto the bed.", {"place-accusative"}),
    ("plain", "Eine Katze schläft unter dem Tisch.", "A cat is sleeping under the table.", {"place-dative"}),
    ("plain", "Eine Katze rennt unter den Tisch.", "A cat is running under the table.", {"place-accusative"}),
    (
        "plain",
        "Der Hund des alten Bauern bellt am Ufer des Sees.",
        "The old farmer's dog is barking on the shore of the lake.",
        {"genitive", "weak-noun", "weak-adjective"},
    ),
    (
        "two_actions",
        "Ein Vogel sitzt auf dem Dach des Hauses und singt.",
        "A bird is sitting on the roof of the house and singing.",
        {"coordination", "genitive"},
    ),
    (
        "two_actions",
        "Eine junge Frau sitzt an der Bushaltestelle und liest ein Kinderbuch.",
        "A young woman is sitting at the bus stop and reading a children's book.",
        {"coordination", "compound"},
    ),
    (
        "joined_subjects",
        "Ein Junge und sein Großvater angeln am Fluss.",
        "A boy and his grandfather are fishing by the river.",
        {"coordination", "possessive"},
    ),
    (
        "wearing_none",
        "Die Kinder tragen keine Helme.",
        "The children are not wearing helmets.",
        {"negation", "plural"},
    ),
    (
        "plain",
        "Ein Kind ohne Schuhe rennt durch den Schnee.",
        "A child without shoes is running through the snow.",
        {"negation"},
    ),
    (
        "hair",
        "Das Mädchen hat lange dunkle Haare.",
        "The girl has long dark hair.",
        {"number-mismatch", "strong-adjective"},
    ),
    (
        "plain",
        "Ein Mann in einer schwarzen Hose trinkt im Café heißen Kaffee.",
        "A man in black pants is drinking hot coffee in the café.",
        {"number-mismatch", "strong-adjective"},
    ),
    (
        "plain",
        "Eine Gruppe von Touristen hört einem Straßenmusiker zu.",
        "A group of tourists is listening to a street musician.",
        {"dative-object", "separable-split"},
    ),
    (
        "plain",
        "Ein Junge gibt einem müden Esel eine Karotte.",
        "A boy is giving a carrot to a tired donkey.",
        {"dative-object"},
    ),
    (
        "plain",
        "Auf der Wiese ruht sich ein Esel aus.",
        "A donkey is resting in the meadow.",
        {"reflexive", "separable-split", "inversion"},
    ),
    (
        "plain",
        "Eine Frau geht mit ihrem Hund in den Wald.",
        "A woman is walking into the forest with her dog.",
        {"possessive", "place-accusative"},
    ),
    (
        "plain",
        "Ein Junge zeigt auf einen Elefanten, der im Fluss steht.",
        "A boy is pointing at an elephant that is standing in the river.",
        {"weak-noun", "english-an"},
    ),
    (
        "plain",
        "Zwei Frauen tragen lila Kleider.",
        "Two women are wearing purple dresses.",
        {"number", "word-choice"},
    ),
]


class GuidedChance:
    """Chooses at random among what the wanted sentence mentions: soon it is hit, if it can be derived."""

    def __init__(self, wanted: str, random: Random) -> None:
        self._wanted = folded(wanted)
        self._random = random
        self._used: Counter[object] = Counter()

    def __call__(self, options: Sequence[Option], weights: Sequence[float] | None = None) -> Option:
        weighted = zip(options, weights or [1.0] * len(options), strict=True)
        mentioned = [(option, weight) for option, weight in weighted if weight and self._mentions(option)]
        if not mentioned:
            raise DeadEnd
        chances = [weight if isinstance(option, bool | str) else 1.0 for option, weight in mentioned]
        (chosen,) = self._random.choices([option for option, _ in mentioned], chances)
        self._used[chosen.noun if isinstance(chosen, Place) else chosen] += 1
        return chosen

    def _mentions(self, option: object) -> bool:
        if isinstance(option, tuple):
            return any(self._mentions(member) for member in option)
        if isinstance(option, Place):
            return self._mentions(option.noun) and (option.part is None or self._mentions(option.part))
        names = names_of(option)
        return not names or max(self._wanted.count(folded(name)) for name in names) > self._used[option]


def names_of(option: object) -> list[str]:
    """How a word looks in a sentence; nothing for choices that are no words."""
    if isinstance(option, Noun):
        return [option.german, option.plural or option.german]
    if isinstance(option, Adjective):
        return [option.stem or option.german]
    if isinstance(option, Verb):
        return [option.german, german_forms.third_person(option, plural=False)]
    if isinstance(option, Phrase | Weather):
        return [option.german]
    if isinstance(option, Determiner) and option.value[1] in (
        "two",
        "three",
        "four",
        "five",
        "some",
        "several",
        "many",
    ):
        return [option.value[0]]
    return []


def folded(text: str) -> str:
    return text.lower().translate(str.maketrans("äöü", "aou"))


@pytest.mark.parametrize(("rule", "german", "english", "shown"), GOLDEN, ids=[row[1] for row in GOLDEN])
def test_the_grammar_derives(rule: str, german: str, english: str, shown: set[str]) -> None:
    random = Random(0)
    for _ in range(40_000):
        try:
            pair = pair_of(getattr(Grammar(GuidedChance(german, random)), rule)())
        except DeadEnd:
            continue
        if pair.german == german:
            assert pair.english == english
            assert shown <= pair.phenomena
            return
    pytest.fail("no derivation found")


def test_the_golden_sentences_show_every_phenomenon() -> None:
    assert {name for *_, shown in GOLDEN for name in shown} == set(Phenomenon)


@pytest.mark.parametrize("phenomenon", Phenomenon)
def test_every_phenomenon_is_shown_often(corpus: Corpus, phenomenon: Phenomenon) -> None:
    assert len(of_phenomenon(corpus["train"], phenomenon)) >= 200
    assert len(of_phenomenon(corpus["test"], phenomenon)) >= 8


def test_phenomena_are_where_their_words_are(everything: list[Pair]) -> None:
    """Some phenomena can be told from the letters alone."""
    tells = {
        Phenomenon.CONTRACTION: r"\b(im|am|ins|ans|zum|zur)\b(?! (morgen|nachmittag|abend|wochenende))",
        Phenomenon.NEGATION: r"\b(kein\w*|ohne)\b",
        Phenomenon.REFLEXIVE: r"\bsich\b",
        Phenomenon.NUMBER: r"\b(zwei|drei|vier|fünf)\b",
        Phenomenon.INFINITIVE: r"\b(versuch(t|en)|bück(t|en))\b",
        Phenomenon.VERB_FINAL: r"\b(während|weil|obwohl)\b",
        Phenomenon.POSSESSIVE: r"\b(sein|ihr)(e|en|em|er)?\b",
    }
    for pair in everything:
        for phenomenon, tell in tells.items():
            assert (phenomenon in pair.phenomena) == bool(re.search(tell, pair.german, re.IGNORECASE)), (
                pair.german
            )
        assert (Phenomenon.ENGLISH_AN in pair.phenomena) == bool(
            re.search(r"\ban\b", pair.english, re.IGNORECASE)
        )


def test_an_unknown_phenomenon_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"no phenomenon is called 'genitiv'; choose one of: inversion, .*genitive"
    ):
        of_phenomenon([], "genitiv")


# Forms


@pytest.mark.parametrize(
    ("name", "case", "plural", "form"),
    [
        ("Mann", Case.GENITIVE, False, "Mannes"),
        ("Haus", Case.GENITIVE, False, "Hauses"),
        ("See", Case.GENITIVE, False, "Sees"),
        ("Café", Case.GENITIVE, False, "Cafés"),
        ("Park", Case.GENITIVE, False, "Parks"),
        ("Gärtner", Case.GENITIVE, False, "Gärtners"),
        ("Straße", Case.GENITIVE, False, "Straße"),
        ("Junge", Case.GENITIVE, False, "Jungen"),
        ("Junge", Case.NOMINATIVE, False, "Junge"),
        ("Elefant", Case.DATIVE, False, "Elefanten"),
        ("Kind", Case.DATIVE, True, "Kindern"),
        ("Kind", Case.ACCUSATIVE, True, "Kinder"),
        ("Mädchen", Case.DATIVE, True, "Mädchen"),
        ("Auto", Case.DATIVE, True, "Autos"),
    ],
)
def test_german_nouns(name: str, case: Case, plural: bool, form: str) -> None:
    assert german_forms.noun(noun(name), case, plural) == form


def test_compounds_take_gender_and_plural_from_their_last_part() -> None:
    pairs = [
        (whole, part)
        for whole in NOUNS
        for part in NOUNS
        if whole.compound and whole is not part and whole.german.endswith(part.german.lower())
    ]
    assert len(pairs) > 30
    for whole, part in pairs:
        assert whole.gender is part.gender, whole.german
        assert whole.plural in ("", whole.german.removesuffix(part.german.lower()) + part.plural.lower())


@pytest.mark.parametrize(
    ("german", "endings", "case", "gender", "form"),
    [
        ("rot", Declension.MIXED, Case.NOMINATIVE, Gender.MASCULINE, "roter"),
        ("rot", Declension.WEAK, Case.NOMINATIVE, Gender.MASCULINE, "rote"),
        ("rot", Declension.STRONG, Case.DATIVE, Gender.NEUTER, "rotem"),
        ("hoch", Declension.MIXED, Case.NOMINATIVE, Gender.MASCULINE, "hoher"),
        ("dunkel", Declension.STRONG, Case.ACCUSATIVE, Gender.PLURAL, "dunkle"),
        ("müde", Declension.MIXED, Case.ACCUSATIVE, Gender.NEUTER, "müdes"),
        ("rosa", Declension.MIXED, Case.DATIVE, Gender.FEMININE, "rosa"),
    ],
)
def test_german_adjectives(german: str, endings: Declension, case: Case, gender: Gender, form: str) -> None:
    (word,) = (one for one in ADJECTIVES if one.german == german)
    assert german_forms.adjective(word, endings, case, gender) == form


def test_english_forms() -> None:
    words = (
        "Frau",
        "Kind",
        "Maus",
        "Schaf",
        "Messer",
        "Kiste",
        "Dame",
        "Bus",
        "Kirche",
        "Tomate",
        "Hose",
        "Kinderbuch",
    )
    assert [english_forms.plural(noun(word)) for word in words] == [
        "women",
        "children",
        "mice",
        "sheep",
        "knives",
        "boxes",
        "ladies",
        "buses",
        "churches",
        "tomatoes",
        "pants",
        "children's books",
    ]
    participles = {verb.english: english_forms.participle(verb) for verb in VERBS}
    wanted = {
        "pick up": "picking up",
        "sit": "sitting",
        "lie": "lying",
        "ride": "riding",
        "run": "running",
        "cry": "crying",
        "throw": "throwing",
        "open": "opening",
        "have breakfast": "having breakfast",
        "play": "playing",
        "eat": "eating",
    }
    assert {english: participles[english] for english in wanted} == wanted


# The command


def test_the_command_prints_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--split", "test", "--show", "object-relative", "--count", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("object-relative") == 2
    assert len(re.findall(r"^[A-ZÄÖÜ].*\.$", printed, re.MULTILINE)) == 4


def test_the_command_refuses_an_unknown_phenomenon(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(["--show", "umlaut"])
    assert stopped.value.code == 2
    assert "no phenomenon is called 'umlaut'" in capsys.readouterr().err
