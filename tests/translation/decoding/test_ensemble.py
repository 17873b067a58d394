"""An ensemble finds the translations that the reference's search finds with averaged probabilities."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.errors import BadInputError
from course_lib.transformer import padding_mask
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.configs.loader import load_config
from course_lib.translation.decoding.backends import Ensemble, make_backend
from course_lib.translation.decoding.beam_search import search
from course_lib.translation.decoding.search_settings import SearchSettings, load_settings
from course_lib.translation.decoding.translator import Translator, load_translator
from course_lib.translation.distributed import SINGLE_PROCESS
from course_lib.translation.train.experiment import train
from course_lib.translation.translate import main
from tests.translation.decoding.taught import (
    END,
    PAD,
    START,
    enlarged,
    found_by_reference,
    padded,
    sentences,
    taught,
)
from tests.translation.phrases import write_corpus

pytestmark = pytest.mark.slow

GERMAN = ["zwei rote Hunde.", "drei große Bäume und vier schöne Züge."]
LENGTHS = [4, 1, 6, 3]
LIMITS = [9, 4, 12, 8]


class Average(nn.Module):
    """A single model equivalent to the ensemble: it concatenates the features of all members."""

    def __init__(self, *models: Any) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def _each(self, method: str, memory: Tensor, *more: Tensor) -> Tensor:
        parts = memory.chunk(len(self.models), dim=-1)
        found = [getattr(model, method)(part, *more) for model, part in zip(self.models, parts, strict=True)]
        return torch.cat(found, dim=-1)

    def encode(self, source: Tensor, mask: Tensor) -> Tensor:
        return torch.cat([model.encode(source, mask) for model in self.models], dim=-1)

    def decode(self, memory: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor) -> Tensor:
        return self._each("decode", memory, source_mask, target, target_mask)

    def generator(self, hidden: Tensor) -> Tensor:
        logits = self._each("generator", hidden).unflatten(-1, (len(self.models), -1))
        return logits.softmax(-1).mean(-2).log()


@given(
    seed=st.integers(0, 10_000),
    beam=st.integers(1, 4),
    alpha=st.floats(0, 1),
    members=st.lists(st.sampled_from(["taught", "pre-norm", "enlarged", "tied"]), min_size=1, max_size=3),
)
@settings(max_examples=15)
def test_the_average_of_all_is_searched(seed: int, beam: int, alpha: float, members: list[str]) -> None:
    make = {
        "taught": taught,
        "pre-norm": lambda: taught(norm_first=True),
        "enlarged": lambda: enlarged(seed),
        "tied": lambda: taught(tied=True),
    }
    models: list[Any] = [make[member]() for member in members]
    rows = sentences(seed, LENGTHS)
    source = padded(rows)
    found = search(
        make_backend(Ensemble(models)),
        source,
        padding_mask(source, PAD),
        torch.tensor(LIMITS),
        SearchSettings(beam, alpha),
        START,
        END,
    )
    average = Average(*models)
    for row, limit, (best,) in zip(rows, LIMITS, found, strict=True):
        assert best.ids == found_by_reference(average, row, limit, beam, alpha)


def test_probabilities_are_averaged_and_not_logarithms() -> None:
    """A token that is impossible for one model may be certain for another."""
    models = [taught(), taught()]
    for model, word in zip(models, (4, 5), strict=True):
        with torch.no_grad():
            model.generator.weight.zero_()
            model.generator.bias.fill_(-200.0)
            model.generator.bias[word] = 200.0
    source = torch.tensor([[3, 4, 5]])
    mask = padding_mask(source, PAD)
    (found,) = search(
        make_backend(Ensemble(models)), source, mask, torch.tensor([2]), SearchSettings(2, 0.0, 2), START, END
    )
    assert {tuple(each.ids) for each in found} == {(4,), (5,)}
    assert [each.log_probability for each in found] == pytest.approx([math.log(0.5)] * 2)


@pytest.fixture(scope="module")
def other_folder(trained_folder: Path) -> Path:
    """A run on the same corpus with a different seed."""
    folder = trained_folder.parent / "other"
    config = load_config(
        str(trained_folder / "config.yaml"),
        [f"run_folder={folder}", "seed=7", "training.average_last=0", "evaluation.beam_size=1"],
    )
    train(config, SINGLE_PROCESS)
    return folder


def test_runs_translate_together(
    trained_folder: Path,
    other_folder: Path,
    translator: Translator,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = load_translator(trained_folder, ensemble_with=[other_folder])
    turned = load_translator(other_folder, ensemble_with=[trained_folder])
    alone = load_translator(other_folder)
    for beam in (1, 3):
        ways = [each.n_best(GERMAN, 1, beam=beam, alpha=0.6) for each in (both, turned)]
        assert [each[0].tokens for each in ways[0]] == [each[0].tokens for each in ways[1]]
        scores = [found[0].log_probability for found in ways[0]]
        assert scores == pytest.approx([found[0].log_probability for found in ways[1]], rel=1e-5)
        for one in (translator, alone):
            theirs = one.n_best(GERMAN, 1, beam=beam, alpha=0.6)
            assert scores != pytest.approx([found[0].log_probability for found in theirs], rel=1e-3)

    german = tmp_path / "some.de"
    german.write_text("\n".join(GERMAN) + "\n", "utf-8")
    assert main([str(trained_folder), str(german), "--with", str(other_folder)]) == 0
    assert capsys.readouterr().out.splitlines() == both.translate(GERMAN)

    # The attention weights are the first model's.
    maps, firsts = both.attention(GERMAN[0], "two dogs"), translator.attention(GERMAN[0], "two dogs")
    torch.testing.assert_close(maps.cross, firsts.cross)


def test_tuning_several_leaves_the_run_as_it_was(
    trained_folder: Path, other_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = RunFolder(trained_folder).search
    before = kept.read_bytes()
    assert load_settings(kept) is not None
    assert main([str(trained_folder), "--with", str(other_folder), "--tune"]) == 0
    assert capsys.readouterr().err.count("<- chosen") == 1
    assert kept.read_bytes() == before


def test_others_that_do_not_fit_are_refused_by_name(
    trained_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInputError, match="nowhere: there is no such folder"):
        load_translator(trained_folder, ensemble_with=[tmp_path / "nowhere"])
    write_corpus(tmp_path / "corpus")
    for override, message in (
        ("data.vocab_size=300", "this run's vocabulary differs"),
        ("data.max_length=30", "this model reads 30 tokens, but the first one reads 40"),
    ):
        folder = tmp_path / override
        config = load_config(
            str(trained_folder / "config.yaml"),
            [f"run_folder={folder}", "training.epochs=1", "evaluation.beam_size=1", override],
        )
        train(config, SINGLE_PROCESS)
        capsys.readouterr()
        assert main([str(trained_folder), "--with", str(folder)]) == 2
        error = capsys.readouterr().err
        assert f"translate: {folder}: {message}" in error
        assert len(error.splitlines()) == 1
