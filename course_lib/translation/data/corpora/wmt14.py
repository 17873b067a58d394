"""WMT 2014, German to English: 4.5 million sentences of the European Parliament, the web and the news.

Bojar et al. 2014 (W14-3302), what the paper trains on (section 5.1), in the other direction. Validation is
newstest2013; the test is the full newstest2014, sacrebleu's `wmt14/full`.
"""

from collections.abc import Mapping
from pathlib import Path

from course_lib.translation.data.corpora.archives import read_members, segments
from course_lib.translation.data.corpora.parallel_text import Corpus, ParallelText, side_by_side
from course_lib.translation.data.corpora.published import PublishedCorpus, PublishedFile

# The hashes of the training archives are those that Hugging Face's `datasets` recorded of these very files;
# those of the news tests stand in sacrebleu.
EUROPARL = PublishedFile(
    "training-parallel-europarl-v7.tgz",
    "https://www.statmt.org/wmt13",
    "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
COMMON_CRAWL = PublishedFile(
    "training-parallel-commoncrawl.tgz",
    "https://www.statmt.org/wmt13",
    "sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
NEWS_COMMENTARY = PublishedFile(
    "training-parallel-nc-v9.tgz",
    "https://www.statmt.org/wmt14",
    "sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
NEWSTEST2013 = PublishedFile(
    "test.tgz", "https://www.statmt.org/wmt13", "md5:48eca5d02f637af44e85186847141f67"
)
NEWSTEST2014 = PublishedFile(
    "test-full.tgz", "https://www.statmt.org/wmt14", "md5:a8cd784e006feb32ac6f3d9ec7eb389a"
)

#: Each training archive with the files in it that hold this pair of languages, less their last two letters.
TRAINING = {
    EUROPARL: "training/europarl-v7.de-en",
    COMMON_CRAWL: "commoncrawl.de-en",
    NEWS_COMMENTARY: "training/news-commentary-v9.de-en",
}


def _read(files: Mapping[str, Path]) -> Corpus:
    german: list[str] = []
    english: list[str] = []
    for archive, stem in TRAINING.items():
        path = files[archive.name]
        members = read_members(path, [f"{stem}.de", f"{stem}.en"])
        part = side_by_side(members[f"{stem}.de"], members[f"{stem}.en"], f"{path}, {stem}")
        german += part.german
        english += part.english

    def news(archive: PublishedFile, source: str, reference: str) -> ParallelText:
        path = files[archive.name]
        members = read_members(path, [source, reference])
        return side_by_side(segments(members[source]), segments(members[reference]), f"{path}, {source}")

    return Corpus(
        train=ParallelText(german, english),
        validation=news(NEWSTEST2013, "test/newstest2013-src.de.sgm", "test/newstest2013-src.en.sgm"),
        test=news(
            NEWSTEST2014, "test-full/newstest2014-deen-src.de.sgm", "test-full/newstest2014-deen-ref.en.sgm"
        ),
    )


WMT14 = PublishedCorpus("wmt14", (*TRAINING, NEWSTEST2013, NEWSTEST2014), _read)
