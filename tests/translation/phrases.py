"""Made-up sentence pairs for the lab's tests."""

import random
from pathlib import Path

NUMBERS = {"zwei": "two", "drei": "three", "vier": "four", "fünf": "five", "sechs": "six"}
COLOURS = {"rote": "red", "große": "big", "schöne": "beautiful", "müde": "tired"}
THINGS = {"Hunde": "dogs", "Äpfel": "apples", "Bäume": "trees", "Fußbälle": "footballs", "Züge": "trains"}


def phrase_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Return pairs of one to four phrases, so that lengths differ."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        phrases = [
            [rng.choice(list(words.items())) for words in (NUMBERS, COLOURS, THINGS)]
            for _ in range(rng.randint(1, 4))
        ]
        german = " und ".join(" ".join(word for word, _ in phrase) for phrase in phrases)
        english = " and ".join(" ".join(word for _, word in phrase) for phrase in phrases)
        pairs.append((f"{german}.", f"{english}."))
    return pairs


def write_split(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.de").write_text("".join(f"{german}\n" for german, _ in pairs), "utf-8")
    (folder / f"{name}.en").write_text("".join(f"{english}\n" for _, english in pairs), "utf-8")


def write_corpus(folder: Path) -> None:
    for seed, (name, count) in enumerate({"train": 240, "validation": 31, "test": 23}.items()):
        write_split(folder, name, phrase_pairs(count, seed))
