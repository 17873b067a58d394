"""Numbers in the lessons' text that no cell of the lesson prints."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import spacy
import torch

from course_lib.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    GradientBuckets,
    LayerNorm,
    MultiHeadAttention,
    PositionalEncoding,
    TokenEmbedding,
    Transformer,
    TransformerConfig,
    adam_update,
    beam_search,
    greedy_decode,
    learn_merges,
    learning_rate,
    sinusoids,
)
from course_lib.translation.configs.schema import DataConfig
from course_lib.translation.data.corpora import load_corpus
from course_lib.translation.decoding.translator import load_translator

SOLUTIONS = Path(__file__).parents[1] / "solutions"


def said(lesson: str, *numbers: str) -> None:
    """Check that the lesson still contains these numbers, so that these tests don't outlive the text."""
    [path] = SOLUTIONS.glob(f"{lesson}-*/{lesson}-*.py")
    text = " ".join(path.read_text(encoding="utf-8").replace("\n#", " ").split())
    assert all(number in text for number in numbers), numbers


def given(lesson: str, name: str) -> Callable[..., Any]:
    """Return a function that a lesson provides to students, taken from the lesson's source."""
    [path] = SOLUTIONS.glob(f"{lesson}-*/{lesson}-*.py")
    found = re.search(rf'^# %% given="{name}"\n(.*?)^# %%', path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found, f"lesson {lesson} has no given cell {name}"
    names: dict[str, Any] = {"Sequence": Sequence}
    exec(found[1], names)
    return names[name]


def parameters(*modules: torch.nn.Module) -> int:
    return sum(weight.numel() for module in modules for weight in module.parameters())


def _gradients(norm_first: bool, read_from_below: bool = True) -> list[float]:
    """Return the sizes of the gradients of 24 feed-forward networks, from the bottom up, as in lesson 03."""
    norm = LayerNorm(32)
    sizes = torch.zeros(24)
    for seed in range(5):
        torch.manual_seed(seed)
        networks = [FeedForward(32, 64, dropout=0.0) for _ in range(24)]
        x = torch.randn(64, 32)
        for network in networks:
            torch.nn.init.xavier_uniform_(network.inner.weight)
            torch.nn.init.xavier_uniform_(network.outer.weight)
            read = x if read_from_below else x.detach()
            x = x + network(norm(read)) if norm_first else norm(x + network(read))
        scores = (norm(x) if norm_first else x) @ torch.randn(32, 50) / 32**0.5
        torch.nn.functional.cross_entropy(scores, torch.randint(50, (64,))).backward()
        sizes += torch.stack([_gradient_size(network.outer.weight) for network in networks]) / 5
    return sizes.tolist()


def _gradient_size(weight: torch.Tensor) -> torch.Tensor:
    assert weight.grad is not None
    return weight.grad.norm()


def test_lesson_02() -> None:
    said("02", "2,048 of about a million")
    attention = MultiHeadAttention(512, 8)
    biases = sum(weight.numel() for name, weight in attention.named_parameters() if name.endswith("bias"))
    assert biases == 2048
    assert parameters(attention) == pytest.approx(1e6, rel=0.1)
    # Whatever the weights, a single mean of two neighbours has a mean squared error of at least one half.
    for p, q in ((0.5, 0.5), (0.9, 0.1), (1.0, 0.0)):
        total = p**2 + q**2
        assert (1 - p**2 / total + 1 - q**2 / total) / 2 == pytest.approx(0.5)


def test_lesson_03() -> None:
    said("03", "pre-norm's are about a third of that")
    gradients = {norm_first: _gradients(norm_first) for norm_first in (False, True)}
    assert gradients[True][-1] == pytest.approx(gradients[False][-1] / 3, rel=0.05)
    assert gradients[True][0] > 2 * gradients[True][-1]
    # Below the top, pre-norm's gradients are larger only because the networks above read what lower ones add.
    flat = _gradients(norm_first=True, read_from_below=False)
    assert max(flat) < 1.2 * min(flat)

    said("03", "Two thirds of an encoder", "In a text of `d_ff` words", r"\ln 50 \approx 3.9")
    network, attention = FeedForward(512, 2048), MultiHeadAttention(512, 8)
    norms = LayerNorm(512), LayerNorm(512)
    share = parameters(network) / parameters(network, attention, *norms)
    assert share == pytest.approx(2 / 3, abs=0.005)
    assert 2 * 2048 * 512 == 2 * 512 * 2048  # 2 n d for n = d_ff, and 2 d d_ff
    assert math.log(50) == pytest.approx(3.9, abs=0.05)


def test_lesson_05() -> None:
    said(
        "05",
        "60,611 positions",
        "up to a distance of 43",
        "only up to a distance of 3",
        "as large as 0.0004",
        "22.6",
    )
    assert 2 * math.pi * 10000 ** (510 / 512) == pytest.approx(60611, abs=1)
    assert pytest.approx(1e-4, rel=0.05) == 1 / 10000 ** (510 / 512)
    for d_model, last in ((512, 43), (16, 3)):
        table = sinusoids(101, d_model).double()
        falls = (table @ table[0]).diff() < 0
        assert falls[:last].all()
        assert not falls[last]
    exact = (4999 / 10000 ** (torch.arange(0, 512, 2).double() / 512)).sin()
    rounded = (4999 / 10000 ** (torch.arange(0, 512, 2).float() / 512)).sin()
    assert (exact - rounded).abs().max().item() == pytest.approx(4e-4, abs=1e-4)
    assert math.sqrt(512) == pytest.approx(22.6, abs=0.05)
    embedding = TokenEmbedding(1000, 512)
    assert embedding.table.weight.norm(dim=-1).mean().item() == pytest.approx(1, abs=0.02)
    encoding = PositionalEncoding(512)
    assert encoding.table.nbytes == pytest.approx(10e6, rel=0.05)  # "ten megabytes"
    assert not encoding.state_dict()


def test_lesson_06() -> None:
    said("06", "3.15 million", "0.07")
    assert parameters(EncoderLayer(512, 8, 2048)) == pytest.approx(3.15e6, rel=0.001)
    assert parameters(DecoderLayer(512, 8, 2048)) == 4_204_032
    assert pytest.approx(0.07, abs=0.005) == 1 / 14


def test_lesson_07() -> None:
    said(
        "07",
        "about 10 updates",
        "about 50 updates",
        "cross at update 2,000",
        r"\sqrt 8",
        "three fifths",
        "a fifth",
    )
    assert [round(1 / (1 - beta)) for beta in (0.9, 0.98)] == [10, 50]
    for update, factor in ((1000, 1.0), (2000, 1.0), (4000, 8**-0.5), (20_000, 8**-0.5)):
        right, wrong = learning_rate(update, 512, 4000), learning_rate(8 * update, 512, 4000)
        assert wrong == pytest.approx(factor * right) if update > 1000 else wrong > right
    assert pytest.approx(3 / 5, abs=0.02) == 1 - 0.985**59
    torch.manual_seed(0)
    weights, moves = torch.zeros(2000), []
    mean = variance = torch.zeros(2000)
    for step in range(1, 61):
        before = weights
        weights, mean, variance = adam_update(weights, torch.randn(2000), mean, variance, step, 1.0)
        moves.append((weights - before).abs().mean().item())
    assert moves[0] == pytest.approx(1)
    assert sum(moves[40:]) / 20 == pytest.approx(1 / 5, abs=0.03)


def test_lesson_08() -> None:
    said(
        "08",
        "about 82%",
        "one in ten of those",
        r"-\ln 0.99 = 0.01",
        r"-\ln 0.9999 = 0.0001",
        "The targets are 0.91",
    )
    assert pytest.approx(0.82) == 0.8 + 0.2 / 10
    assert -math.log(0.99) == pytest.approx(0.01, rel=0.01)
    assert -math.log(0.9999) == pytest.approx(0.0001, rel=0.01)
    assert pytest.approx(0.91) == 0.9 + 0.1 / 10


@pytest.mark.slow
def test_lesson_10() -> None:
    said("10", "padding to 72 wastes about three quarters of the computation", "waste more than a third")
    train = load_corpus(DataConfig(corpus="captions")).train
    sides = [
        [[token.text for token in tokenizer(sentence)] for sentence in sentences[:6000]]
        for tokenizer, sentences in ((spacy.blank("de"), train.german), (spacy.blank("en"), train.english))
    ]
    counts = Counter(word for side in sides for words in side for word in words)
    merges = learn_merges(counts, 1000)
    spell = given("10", "spell")
    pieces = {word: len(spell(word, merges)) for word in counts}
    lengths = [
        2 + max(sum(pieces[word] for word in words) for words in pair) for pair in zip(*sides, strict=True)
    ]
    assert max(lengths) <= 72
    assert 1 - sum(lengths) / (72 * len(lengths)) == pytest.approx(3 / 4, abs=0.01)
    size = round(2048 / 72)
    plain = [lengths[start : start + size] for start in range(0, len(lengths), size)]
    padded = sum(max(batch) * len(batch) for batch in plain)
    assert 0.36 < 1 - sum(lengths) / padded < 0.39  # "more than a third"


class _LastWordDecides(Transformer):
    """The toy model of lesson 11, in which the next word depends only on the last one."""

    def __init__(self, chances: torch.Tensor) -> None:
        torch.nn.Module.__init__(self)
        self.chances = chances
        self.generator = torch.nn.Identity()  # type: ignore[assignment]

    def encode(self, source: torch.Tensor, source_mask: torch.Tensor | None) -> torch.Tensor:
        return source.unsqueeze(-1).float()

    def decode(
        self,
        memory: torch.Tensor,
        source_mask: torch.Tensor | None,
        target: torch.Tensor,
        target_mask: torch.Tensor | None,
    ) -> torch.Tensor:
        return self.chances[target].log()


def test_lesson_11() -> None:
    said("11", "with its 0.36", r"0.25 \cdot 0.5 = 0.125$ at most", "65,504", r"0.6 \cdot 0.4 =", "0.24$")
    end, ha, ho, start = range(4)
    after_end, after_ha = [1.0, 0.0, 0.0, 0.0], [0.3, 0.5, 0.2, 0.0]
    after_ho, after_start = [0.9, 0.05, 0.05, 0.0], [0.1, 0.5, 0.4, 0.0]
    chances = torch.tensor([after_end, after_ha, after_ho, after_start])
    model = _LastWordDecides(chances)
    source, mask = torch.tensor([[start]]), torch.ones(1, 1, 1, dtype=torch.bool)
    found = beam_search(model, source, mask, 2, 6, start, end, 0.0)
    assert found.tolist() == [[start, ho, end]]
    written = greedy_decode(model, source, mask, 6, start, end)
    assert written.tolist() == [[start, ha, ha, ha, ha, ha]]
    assert (0.4 * chances[ho, end]).item() == pytest.approx(0.36)
    assert (0.25 * chances[ha].max()).item() == pytest.approx(0.125)
    assert torch.finfo(torch.float16).max == 65_504
    assert pytest.approx(0.24) == 0.6 * 0.4


def test_lesson_12() -> None:
    said(
        "12",
        "256 gradients",
        "take 51 ms",
        "17.4 ms instead of 12.5 ms",
        "it is 11.3 ms, and with 1 MB 22 ms",
        "63 million",
    )
    model = Transformer(8000, 8000, TransformerConfig(layers=6, d_model=256, heads=4, d_ff=1024))
    assert len(list(model.parameters())) == 256
    assert pytest.approx(51, abs=0.5) == 256 * 0.2

    def end(bucket_mb: int, gigabytes_per_second: float = 10.0) -> float:
        """Return the time in ms at which the last bucket arrives, in the lesson's network model."""
        sizes = [
            sum(one.nbytes for one in bucket) / 1e6
            for bucket in GradientBuckets(model, bucket_mb * 10**6).buckets
        ]
        free = 0.0
        for size, ready in zip(sizes, accumulate(0.15 * size for size in sizes), strict=True):
            free = max(free, ready) + 0.2 + size / gigabytes_per_second
        return free

    assert [end(100), end(25), end(5), end(1)] == pytest.approx([17.4, 12.5, 11.35, 22.1], abs=0.05)
    base = parameters(EncoderLayer(512, 8, 2048), DecoderLayer(512, 8, 2048)) * 6 + 37_000 * 512
    assert base == pytest.approx(63e6, rel=0.01)


def test_lesson_13() -> None:
    said("13", "The difference of the means, 0.037", "by 0.011 to 0.067", "1 of 32 cases")
    text = (SOLUTIONS / "13-final-lab" / "13-final-lab.py").read_text(encoding="utf-8")
    table = re.findall(r"# \| [1-6] \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", text)
    rows = [tuple(map(float, row)) for row in table]
    assert len(rows) == 6
    means = [sum(column) / 6 for column in zip(*rows, strict=True)]
    assert means[:2] == pytest.approx([0.535, 0.572], abs=0.0006)
    assert means[2:] == pytest.approx([69.5, 67.9], abs=0.051)
    assert means[1] - means[0] == pytest.approx(0.037, abs=0.0006)
    differences = [b - a for a, b, _, _ in rows]
    assert [min(differences), max(differences)] == pytest.approx([0.011, 0.067], abs=0.0006)
    assert all(bleu_a > bleu_b for _, _, bleu_a, bleu_b in rows)
    assert pytest.approx(1 / 32) == 2 * 0.5**6

    said("13", "3.3e18", "2.3e19")
    assert pytest.approx(3.3e18, rel=0.01) == 12 * 3600 * 8 * 9.5e12
    assert pytest.approx(2.3e19, rel=0.01) == 3.5 * 86400 * 8 * 9.5e12

    said("13", "head 3 of layer 2 both times, but *Hund* gets only 3% of the weight there, and *Katze* 6%")
    translator = load_translator("multi30k")
    for article, noun, pronoun, percent in [
        ("Ein kleiner", "Hund", "er", 3),
        ("Eine kleine", "Katze", "sie", 6),
    ]:
        maps = translator.attention(f"{article} {noun} schläft, weil {pronoun} müde ist.")
        row, column = maps.source_tokens.index(pronoun), maps.source_tokens.index(noun)
        weights = maps.encoder_self[:, :, row, column]
        assert weights.max() == weights[1, 2]
        assert round(100 * weights.max().item()) == percent
