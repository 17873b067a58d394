"""IWSLT 2017, German to English: 206,000 sentences of TED talks.

Cettolo et al. 2017, "Overview of the IWSLT 2017 Evaluation Campaign", from the WIT3 archive. Validation is
dev2010, the test is tst2010 to tst2015 together, as the Hugging Face hub's `IWSLT/iwslt2017` has them. The
talks are under CC BY-NC-ND 4.0, so they are downloaded, or read from a mirror folder, and never shipped.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from course_lib.translation.data.corpora.archives import read_members, segments
from course_lib.translation.data.corpora.parallel_text import Corpus, ParallelText, side_by_side
from course_lib.translation.data.corpora.published import PublishedCorpus, PublishedFile

#: The hash is the one that Hugging Face's `datasets` recorded of the first home, wit3.fbk.eu, which is gone.
ARCHIVE = PublishedFile(
    "de-en.tgz",
    "https://raw.githubusercontent.com/hlt-mt/WIT3/master/archive/2017-01-trnted/texts/de/en",
    "sha256:ebcd53c53c8df742437e3a0fb964772e78764c3f6d4e38df0b6a2f71abc3a8b4",
)

TRAIN = "de-en/train.tags.de-en"
VALIDATION = ("de-en/IWSLT17.TED.dev2010.de-en",)
TEST = tuple(f"de-en/IWSLT17.TED.tst{year}.de-en" for year in range(2010, 2016))

#: What stands in <url>, <title> and the like is about a talk, and no part of it.
TAG = re.compile(r"</?[A-Za-z]")


def _read(files: Mapping[str, Path]) -> Corpus:
    archive = files[ARCHIVE.name]
    sets = [f"{stem}.{language}.xml" for stem in (*VALIDATION, *TEST) for language in ("de", "en")]
    members = read_members(archive, [f"{TRAIN}.de", f"{TRAIN}.en", *sets])

    def train(language: str) -> list[str]:
        return [line for line in members[f"{TRAIN}.{language}"] if not TAG.match(line)]

    def together(stems: tuple[str, ...]) -> ParallelText:
        parts = [
            side_by_side(
                segments(members[f"{stem}.de.xml"]), segments(members[f"{stem}.en.xml"]), f"{archive}, {stem}"
            )
            for stem in stems
        ]
        return ParallelText(
            [sentence for part in parts for sentence in part.german],
            [sentence for part in parts for sentence in part.english],
        )

    return Corpus(
        train=side_by_side(train("de"), train("en"), f"{archive}, {TRAIN}"),
        validation=together(VALIDATION),
        test=together(TEST),
    )


IWSLT17 = PublishedCorpus("iwslt17", (ARCHIVE,), _read)
