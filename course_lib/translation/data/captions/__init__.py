"""The built-in German-English corpus: image captions from our own grammar, nothing downloaded.

    from course_lib.translation.data.captions import of_phenomenon, splits

    corpus = splits()                       # {"train": 6000 pairs, "validation": 300, "test": 300}
    corpus["train"][0].german, corpus["train"][0].english
    of_phenomenon(corpus["train"], "separable-split")

How it is made, in the order of reading:

- `words`: what the lexicon is made of. `nouns`, `adjectives`, `verbs`, `places`: the lexicon.
- `german_forms`, `english_forms`: the endings.
- `tree`: a derivation. `noun_phrases`, `predicates`, `grammar`: grow one, choice by choice.
- `german`, `english`: read the same derivation aloud in either language, word order and agreement included.
- `combinations`, `corpus`: which word pairs only the test split shows, and the splits.

`python -m course_lib.translation.data.captions --show genitive` prints examples.
"""

from course_lib.translation.data.captions.combinations import Combination
from course_lib.translation.data.captions.corpus import Pair, Split, of_phenomenon, splits, words_of
from course_lib.translation.data.captions.words import Phenomenon

__all__ = ["Combination", "Pair", "Phenomenon", "Split", "of_phenomenon", "splits", "words_of"]
