"""The search for the parts that make a student's model differ from the reference."""

from pathlib import Path

import pytest
import torch

from course_lib.student.parts import LESSONS, load_parts, unequal_parts
from tests.student.parts.conftest import Student, stub

pytestmark = pytest.mark.slow

#: A mistake for each part: a piece of the reference's source and its replacement.
MISTAKES = {
    "attention_scores": ("/ math.sqrt", "* math.sqrt"),
    "attention_weights": (".masked_fill(~mask, lowest)", ""),
    "scaled_dot_product_attention": ("kept @ value, weights", "kept @ key, weights"),
    "split_heads": (
        ".unflatten(-1, (heads, d_model // heads))",
        ".unflatten(-1, (d_model // heads, heads)).mT",
    ),
    "merge_heads": (
        ".transpose(-3, -2).flatten(-2)",
        ".transpose(-1, -2).flatten(-2).transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)",
    ),
    "MultiHeadAttention": ("split_heads(self.key_projection(key)", "split_heads(self.query_projection(key)"),
    "LayerNorm": ("correction=0", "correction=1"),
    "FeedForward": (".relu()", ".sigmoid()"),
    "SublayerConnection": (
        "return self.norm(x + self.dropout(sublayer(x)))",
        "return self.norm(sublayer(x))",
    ),
    "padding_mask": ("tokens != pad_id", "tokens != pad_id + 1"),
    "causal_mask": (".tril()", ".triu()"),
    "decoder_mask": (" & causal_mask(tokens.shape[1]).to(tokens.device)", ""),
    "shift_target": ("target[:, :-1]", "target[:, 1:]"),
    "sinusoids": ("10000.0", "1000.0"),
    "TokenEmbedding": (" * math.sqrt(self.table.embedding_dim)", ""),
    "PositionalEncoding": ("x + self.table", "x - self.table"),
    "EncoderLayer": ("return feed_forward_connection(x, self.feed_forward)", "return x"),
    "DecoderLayer": ("(y, memory, memory, source_mask)", "(y, memory, memory)"),
    "Transformer": ("if self.encoder_norm is None else self.encoder_norm(x)", ""),
    "tie_embeddings": ("    model.generator.weight = source.weight\n", ""),
    "greedy_decode": ("ended.all()", "ended.any()"),
    "learning_rate": ("warmup**-1.5", "warmup**-1.4"),
    "make_scheduler": ("done + 1", "max(done, 1)"),
    "smooth_targets": ("smoothing / vocab_size", "smoothing / (vocab_size - 1)"),
    "LabelSmoothingLoss": ("/ real_tokens", "/ labels.numel()"),
    "length_penalty": ("return ((5 + length)", "return ((6 + length)"),
    "beam_search": ("total[:, 0] = 0.0", "total[:] = 0.0"),
    "average_checkpoints": ("total / len(entries)", "total / 1"),
}


def test_there_is_a_mistake_for_each_part() -> None:
    # The lab tests the parts of lesson 12 itself, because they need several processes.
    assert list(MISTAKES) == [name for lesson, names in LESSONS.items() if lesson < "12" for name in names]


def test_right_parts_are_equal(student: Student) -> None:
    assert unequal_parts(load_parts(student.write())) == {}
    assert unequal_parts(load_parts(student.folder, through=6)) == {}


def test_the_reference_is_equal_to_itself(student: Student) -> None:
    assert unequal_parts(load_parts(student.folder)) == {}


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_gradients_may_be_off_in_the_notebook(student: Student, off: type[torch.no_grad]) -> None:
    with off():
        assert unequal_parts(load_parts(student.folder)) == {}


def test_every_part_that_breaks_equality_is_named(student: Student) -> None:
    for exercise in MISTAKES:
        student.swap(exercise, *MISTAKES[exercise])
    unequal = unequal_parts(load_parts(student.write()))
    assert list(unequal) == list(MISTAKES)
    assert not any("\n" in difference for difference in unequal.values())


@pytest.mark.parametrize(
    "exercise",
    ["attention_scores", *(pytest.param(name, marks=pytest.mark.nightly) for name in list(MISTAKES)[1:])],
)
def test_the_part_that_breaks_equality_is_named(student: Student, exercise: str) -> None:
    right, wrong = MISTAKES[exercise]
    student.swap(exercise, right, wrong)
    parts = load_parts(student.write())
    unequal = unequal_parts(parts)
    assert list(unequal) == [exercise]
    assert "\n" not in unequal[exercise]


def test_two_parts_are_both_named(student: Student) -> None:
    for exercise in ("LayerNorm", "causal_mask"):
        student.swap(exercise, *MISTAKES[exercise])
    assert list(unequal_parts(load_parts(student.write()))) == ["LayerNorm", "causal_mask"]


def test_dropout_that_is_always_on(student: Student) -> None:
    student.leave_only("FeedForward")
    student.swap("FeedForward", "nn.Dropout(dropout)", "nn.Dropout(0.5)")
    assert list(unequal_parts(load_parts(student.write()))) == ["FeedForward"]


def test_a_detached_gradient(student: Student) -> None:
    student.leave_only("FeedForward", "LayerNorm")
    student.swap("FeedForward", "return self.outer(", "return self.outer(x.new_zeros(1)) + self.outer(")
    student.swap("LayerNorm", "torch.sqrt(variance + self.eps)", "torch.sqrt(variance + self.eps).detach()")
    unequal = unequal_parts(load_parts(student.write()))
    assert unequal["LayerNorm"].startswith("the gradient of")


def test_other_names_of_weights(student: Student) -> None:
    student.leave_only("LayerNorm")
    student.code["LayerNorm"] = student.code["LayerNorm"].replace("self.scale", "self.gain")
    assert "the model has no weight" in unequal_parts(load_parts(student.write()))["LayerNorm"]


def test_a_name_that_the_cell_does_not_define(student: Student) -> None:
    student.leave_only("FeedForward")
    student.swap("FeedForward", "return self.outer(", "return my_own_function(")
    told = unequal_parts(load_parts(student.write()))["FeedForward"]
    assert (
        "NameError: name 'my_own_function' is not defined; move what it needs into the solution cell" in told
    )


def test_a_result_on_another_device(student: Student) -> None:
    student.leave_only("LabelSmoothingLoss")
    student.swap("LabelSmoothingLoss", ".sum() / real_tokens", '.sum().to("meta") / real_tokens.to("meta")')
    told = unequal_parts(load_parts(student.write()))["LabelSmoothingLoss"]
    assert told == "the loss, post-norm: expected a tensor on cpu, got one on meta"


def test_a_missing_return(student: Student) -> None:
    student.leave_only("tie_embeddings")
    student.swap("tie_embeddings", "    return model", "    pass")
    assert "AttributeError" in unequal_parts(load_parts(student.write()))["tie_embeddings"]


def test_a_part_that_never_returns(student: Student, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_lib.student.parts.equality._TIMEOUT", 1.0)
    student.leave_only("greedy_decode")
    student.swap("greedy_decode", "target.shape[1] < max_length and not ended.all()", "True")
    student.swap("greedy_decode", "target = torch.cat([target, token.unsqueeze(1)], dim=1)", "pass")
    assert unequal_parts(load_parts(student.write())) == {
        "greedy_decode": "it doesn't return within 1 seconds"
    }


def test_a_difference_that_does_not_recur(student: Student, tmp_path: Path) -> None:
    student.leave_only("FeedForward")
    once = tmp_path / "once"
    student.swap(
        "FeedForward",
        "return self.outer(",
        f"x = x * until_marked({str(once)!r})\n        return self.outer(",
    )
    student.code["FeedForward"] += (
        "\n\ndef until_marked(path):\n    from pathlib import Path\n"
        "    new = not Path(path).exists()\n    Path(path).touch()\n    return 1 + new\n"
    )
    parts = load_parts(student.write())
    once.unlink(missing_ok=True)
    (told,) = unequal_parts(parts).values()
    assert told.startswith(
        "with your earlier parts, the model sometimes differs (the logits, post-norm: off by"
    )


def test_parts_that_are_correct_alone_but_not_together(student: Student) -> None:
    """Each part works with the reference's version of the other, but the two don't work together."""
    student.leave_only("LayerNorm", "SublayerConnection")
    student.swap("LayerNorm", "self.eps = eps", "self.eps, self.odd = eps, True")
    student.swap(
        "SublayerConnection",
        "if self.norm_first:",
        'x = x * 2 if hasattr(self.norm, "odd") else x\n        if self.norm_first:',
    )
    unequal = unequal_parts(load_parts(student.write()))
    assert list(unequal) == ["SublayerConnection"]
    assert unequal["SublayerConnection"].startswith(
        "correct on its own, but not with your earlier parts (the"
    )


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("return self.scale *", "x = x.double()\n        return self.scale *", "dtype"),
        ("/ torch.sqrt(variance", "/ torch.sqrt(variance.to(self.scale.dtype)", ""),
        ("return self.scale *", "assert x.dtype != torch.bfloat16\n        return self.scale *", ""),
    ],
)
def test_arithmetic_in_lower_precision(student: Student, right: str, wrong: str, told: str) -> None:
    student.leave_only("LayerNorm")
    student.swap("LayerNorm", right, wrong)
    unequal = unequal_parts(load_parts(student.write()))
    assert list(unequal) == (["LayerNorm"] if told else [])
    assert told in unequal.get("LayerNorm", "")


def test_a_part_that_fails_in_bfloat16(student: Student) -> None:
    student.leave_only("FeedForward")
    student.swap("FeedForward", "self.inner(x).relu()", "self.refused(self.inner(x)).relu()")
    student.code["FeedForward"] += (
        "\n    def refused(self, x):\n        if x.dtype == torch.bfloat16:\n"
        '            raise TypeError("no bfloat16 here")\n        return x\n'
    )
    told = unequal_parts(load_parts(student.write()))
    assert told == {"FeedForward": "it raises TypeError: no bfloat16 here"}


def test_an_additional_weight(student: Student) -> None:
    student.leave_only("LayerNorm")
    student.swap("LayerNorm", "self.eps = eps", "self.eps, self.more = eps, nn.Parameter(torch.ones(1))")
    student.write()
    assert unequal_parts(load_parts(student.folder)) == {}  # The additional weight gets no gradient.
    student.swap("LayerNorm", "return self.scale *", "return self.more * self.scale *")
    told = unequal_parts(load_parts(student.write()))["LayerNorm"]
    assert told.startswith(
        "the model trains a weight that the lesson's model doesn't have: encoder_layers.0."
    )


def test_a_weight_with_two_names(student: Student) -> None:
    student.leave_only("MultiHeadAttention")
    student.swap(
        "MultiHeadAttention",
        "        self.query_projection = nn.Linear(d_model, d_model)\n",
        "        self.all = nn.ModuleList([nn.Linear(d_model, d_model)])\n"
        "        self.query_projection = self.all[0]\n",
    )
    assert unequal_parts(load_parts(student.write())) == {}


def test_embeddings_tied_to_another_of_the_three(student: Student) -> None:
    student.leave_only("tie_embeddings")
    student.code["tie_embeddings"] = (
        "def tie_embeddings(model):\n"
        "    model.source_embedding.table.weight = model.generator.weight\n"
        "    model.target_embedding.table.weight = model.generator.weight\n"
        "    return model\n"
    )
    assert unequal_parts(load_parts(student.write())) == {}


def test_unwritten_parts_are_ignored(student: Student) -> None:
    for exercise in ("attention_scores", "Transformer", "tie_embeddings"):
        student.code[exercise] = stub(exercise)
    parts = load_parts(student.write())
    assert unequal_parts(parts) == {}
    assert len(parts.yours) == len(list(parts)) - 3
