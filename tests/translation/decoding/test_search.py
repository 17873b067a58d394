"""The lab's search finds, token for token, what the reference's search finds without a cache."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from course_lib.transformer import length_penalty, padding_mask
from course_lib.translation.decoding import backends
from course_lib.translation.decoding import beam_search as batched_search
from course_lib.translation.decoding.backends import make_backend
from course_lib.translation.decoding.beam_search import search
from course_lib.translation.decoding.cached_decoder import CachedDecoder
from course_lib.translation.decoding.inference_model import InferenceTransformer
from course_lib.translation.decoding.search_settings import Hypothesis, SearchSettings
from course_lib.translation.model.precision import has_bfloat16
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

pytestmark = pytest.mark.slow

LENGTHS = [4, 1, 6, 3, 5, 2]
LIMITS = [9, 4, 12, 2, 15, 8]


def found(
    model: Any, rows: list[Tensor], limits: list[int], settings: SearchSettings, **more: Any
) -> list[list[Hypothesis]]:
    source = padded(rows)
    mask = padding_mask(source, PAD)
    return search(make_backend(model, **more), source, mask, torch.tensor(limits), settings, START, END)


@torch.no_grad()
def log_probability(model: Any, row: Tensor, ids: list[int]) -> float:
    """Return the model's log-probability of a translation, without dropout."""
    model.eval()
    source, target = row.unsqueeze(0), torch.tensor([[START, *ids]])
    causal = torch.ones(len(ids), len(ids)).tril().bool()
    logits = model(source, padding_mask(source, PAD), target[:, :-1], causal)[0]
    return float(logits.double().log_softmax(-1)[range(len(ids)), ids].sum())


def compare(model: Any, seed: int, beam: int, alpha: float, limits: list[int] = LIMITS) -> list[list[int]]:
    """Compare the translations of a batch with the reference's of single sentences, and return them."""
    rows = sentences(seed, LENGTHS)
    got = found(model, rows, limits, SearchSettings(beam, alpha))
    for row, limit, (best, *others) in zip(rows, limits, got, strict=True):
        ids = found_by_reference(model, row, limit, beam, alpha)
        assert not others
        if best.ids != ids:
            # In float32, two translations can have practically equal scores; in float64, they never do.
            assert next(model.parameters()).dtype == torch.float32
            score = log_probability(model, row, ids) / length_penalty(len(ids), alpha)
            assert best.score == pytest.approx(score, rel=1e-5)
    return [best.ids for best, *_ in got]


every_model = pytest.mark.parametrize("norm_first", [False, True])


@every_model
@given(
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    beam=st.integers(1, 5),
    alpha=st.floats(0, 1),
)
@settings(max_examples=10)
def test_cached_equals_uncached_token_for_token(
    norm_first: bool, seed: int, dtype: torch.dtype, beam: int, alpha: float
) -> None:
    model = taught(norm_first, tied=norm_first).to(dtype)
    compare(model, seed, beam, alpha)


@given(
    seed=st.integers(0, 10_000),
    norm_first=st.booleans(),
    tied=st.booleans(),
    # With many words, blocks speed up the choice; with few, beams are nearly as wide as the vocabulary.
    words=st.sampled_from([9, 40, 400]),
    beam=st.integers(1, 5),
    alpha=st.floats(0, 1),
)
@settings(max_examples=10)
def test_so_it_does_with_any_weights(
    seed: int, norm_first: bool, tied: bool, words: int, beam: int, alpha: float
) -> None:
    compare(enlarged(seed, words, norm_first, tied), seed, beam, alpha)


@every_model
def test_these_models_tell_searches_apart(norm_first: bool) -> None:
    """These models make different searches give different results, so the comparisons are meaningful."""
    model = taught(norm_first, tied=norm_first)
    outcomes = [
        [compare(model, seed, beam, alpha) for seed in range(5)]
        for beam, alpha in ((1, 0.0), (4, 0.0), (4, 1.0))
    ]
    assert len({str(outcome) for outcome in outcomes}) == 3
    for outcome in outcomes:
        translations = [ids for batch in outcome for ids in batch]
        assert len({len(ids) for ids in translations}) >= 4, "translations end at different steps"
        assert any(ids[-1] != END for ids in translations), "some are truncated"
        assert sum(ids[-1] == END for ids in translations) >= 6, "some end by themselves"
        assert len({tuple(ids) for ids in translations}) >= 8


def test_the_fused_attention_has_a_cache_too() -> None:
    compare(taught(fused=True), 11, 3, 0.6)


@pytest.mark.parametrize("beam", [2, 3, 9])
def test_a_beam_may_be_wider_than_there_are_words(beam: int) -> None:
    compare(enlarged(3, words=6), 3, beam, 0.6, [4] * len(LENGTHS))


@pytest.mark.parametrize(("looks", "share"), [(1, 0.0), (3, 0.0), (4, 0.5), (100, 1.0)])
def test_nothing_depends_on_when_it_looks_and_whom_it_drops(
    looks: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(batched_search.STEPS_BETWEEN_CHECKS, "cpu", looks)
    monkeypatch.setattr(batched_search, "FINISHED_SHARE", share)
    for beam in (1, 4):
        compare(taught(), 21, beam, 0.6)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every decoding step appends the number of sentences."""
    sizes: list[int] = []
    step = CachedDecoder.step

    def counting(self: CachedDecoder, tokens: Tensor) -> Tensor:
        sizes.append(len(tokens))
        return step(self, tokens)

    monkeypatch.setattr(CachedDecoder, "step", counting)
    return sizes


def test_a_sentence_leaves_once_nothing_can_overtake_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows, limits = taught(), sentences(7, LENGTHS), [60] * len(LENGTHS)
    sizes = counted(monkeypatch)
    best = found(model, rows, limits, SearchSettings(4, 0.0))
    early = len(sizes)
    assert early < 59
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < len(rows), "finished sentences leave the batch"
    sizes.clear()
    everything = found(model, rows, limits, SearchSettings(4, 0.0, n_best=4))
    assert len(sizes) > early, "finding the whole beam takes longer"
    assert [each[0].ids for each in everything] == [each[0].ids for each in best]


def test_the_cache_does_not_grow_with_the_beam_where_the_source_is_kept() -> None:
    model, source = taught(), padded(sentences(1, LENGTHS))
    mask = padding_mask(source, PAD)
    inference = InferenceTransformer(model, torch.float64)
    memory = inference.encode(source, mask)
    kept = [CachedDecoder(inference, memory, mask, beam)._layers[0]._source for beam in (1, 5)]
    assert [keys.shape for keys, _ in kept] == [kept[0][0].shape] * 2


@given(seed=st.integers(0, 10_000), beam=st.integers(2, 5))
@settings(max_examples=8)
def test_one_list_of_n_best_tells_what_every_penalty_finds(seed: int, beam: int) -> None:
    model, rows = taught(), sentences(seed, LENGTHS)
    everything = found(model, rows, LIMITS, SearchSettings(beam, 0.3, n_best=beam))
    for alpha in (0.0, 0.6, 2.0):
        anew = found(model, rows, LIMITS, SearchSettings(beam, alpha))
        for hypotheses, (best, *_) in zip(everything, anew, strict=True):
            scores = [each.log_probability / length_penalty(len(each.ids), alpha) for each in hypotheses]
            assert max(scores) == pytest.approx(best.score, rel=1e-12)
            assert hypotheses[scores.index(max(scores))].ids == best.ids


def test_n_best_are_different_sorted_and_rightly_scored() -> None:
    model, rows = taught(), sentences(5, LENGTHS)
    for row, hypotheses in zip(rows, found(model, rows, LIMITS, SearchSettings(5, 0.6, 3)), strict=True):
        assert len({tuple(each.ids) for each in hypotheses}) == 3
        scores = [each.score for each in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for each in hypotheses:
            assert each.log_probability == pytest.approx(log_probability(model, row, each.ids), rel=1e-9)
            assert each.score == pytest.approx(each.log_probability / length_penalty(len(each.ids), 0.6))


def test_bfloat16_is_near_and_leaves_the_weights_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = taught().float(), sentences(5, LENGTHS)
    exact = found(model, rows, LIMITS, SearchSettings(3, 0.6))
    small = found(model, rows, LIMITS, SearchSettings(3, 0.6), precision="bfloat16")
    assert small == exact, "a model this small isn't decoded in bfloat16 on a CPU"
    monkeypatch.setattr(backends, "BFLOAT16_MIN_D_MODEL", 1)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(backends, "has_bfloat16", lambda device: False)
        assert found(model, rows, LIMITS, SearchSettings(3, 0.6), precision="bfloat16") == exact
    monkeypatch.undo()
    if not has_bfloat16(torch.device("cpu")):
        pytest.skip("this CPU has no matrix products in bfloat16")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    got = found(model, rows, LIMITS, SearchSettings(3, 0.6), precision="bfloat16", any_size=True)
    assert got != exact
    monkeypatch.setattr(backends, "BFLOAT16_MIN_D_MODEL", 1)
    assert found(model, rows, LIMITS, SearchSettings(3, 0.6), precision="bfloat16") == got
    for row, (best, *_) in zip(rows, got, strict=True):
        assert best.log_probability == pytest.approx(log_probability(model, row, best.ids), rel=0.1, abs=0.3)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 0}, "beam: expected a number from 1 to 100, got 0"),
        ({"alpha": -0.5}, "alpha: expected 0 or more, got -0.5"),
        ({"alpha": float("nan")}, "got nan"),
        ({"beam": 3, "n_best": 4}, "n_best: expected a number from 1 to the beam, which is 3, got 4"),
        ({"beam": 3, "n_best": 0}, "got 0"),
    ],
)
def test_a_search_that_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchSettings(**wrong)
