"""Loading parts from a student's notebooks, and the messages for parts that can't be used."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from course_lib import transformer
from course_lib.curriculum import public_curriculum
from course_lib.student.parts import LESSONS, PartsError, assembly, build_transformer, load_parts
from course_lib.transformer import TransformerConfig
from tests.student.parts.conftest import Student, cell, reference_code, stub

MISSING_ON_A_CLUSTER = {
    "IPython",
    "nbformat",
    "nbgrader",
    "altair",
    "course_lib.checks",
    "course_lib.charts",
}
SMALL = TransformerConfig(layers=1, d_model=8, heads=2, d_ff=16, dropout=0.0)


def why(student: Student, exercise: str) -> str:
    """Load the student's parts and return the problem of one of them, which must be a single line."""
    part = load_parts(student.write()).part(exercise)
    assert part.origin == "reference"
    assert "\n" not in part.problem
    assert "Traceback" not in part.problem
    return part.problem


def test_the_parts_are_the_blocks_that_a_run_uses() -> None:
    without = ("09-training", "10-translation-data")  # The lab has its own update and its own batches.
    ddp = {"broadcast_parameters", "all_reduce_gradients", "GradientBuckets", "ShardedOptimizer"}
    blocks = [
        (lesson.name, name)
        for name, (lesson, _) in public_curriculum().blocks.items()
        if lesson.name not in without and name not in ddp  # PyTorch's DDP replaces these.
    ]
    assert [(lesson, name) for lesson, names in LESSONS.items() for name in names] == blocks


def test_every_written_part_is_the_students(student: Student) -> None:
    parts = load_parts(student.write())
    assert parts.yours == [name for names in LESSONS.values() for name in names]
    assert parts.problems == []
    assert all(part.value is not getattr(transformer, part.source.exercise) for part in parts)
    assert "reference" not in parts.table()


def test_only_the_lessons_asked_for_are_read(student: Student) -> None:
    parts = load_parts(student.write(), through=6)
    assert "greedy_decode" in parts
    assert "learning_rate" not in parts
    assert load_parts(student.folder, through=9).yours == load_parts(student.folder, through=8).yours
    with pytest.raises(PartsError, match="there is no part 'learning_rate'"):
        parts["learning_rate"]


def test_a_part_that_the_course_leaves_out_is_the_references(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = load_parts(student.write(), through=6)
    monkeypatch.setattr(assembly, "LESSONS", {"01-attention": ("attention_scores",)})
    assert parts["shard"] is transformer.shard


def test_the_students_earlier_parts_replace_the_references(student: Student) -> None:
    student.swap("attention_scores", "math.sqrt(query.shape[-1])", "1000.0")
    parts = load_parts(student.write())
    query = torch.randn(2, 3, 4)
    _, weights = parts["scaled_dot_product_attention"](query, query, query)
    assert torch.allclose(weights, torch.full_like(weights, 1 / 3), atol=0.01)
    model = parts["MultiHeadAttention"](4, 2)
    assert model.attention is parts["scaled_dot_product_attention"]


def test_an_alias_in_the_setup_cell_is_replaced_too(student: Student) -> None:
    student.setup["02-multi-head"] = student.setup["02-multi-head"].replace(
        "scaled_dot_product_attention", "scaled_dot_product_attention as attend"
    )
    student.swap("MultiHeadAttention", "= scaled_dot_product_attention,", "= attend,")
    parts = load_parts(student.write())
    assert parts["MultiHeadAttention"](4, 2).attention is parts["scaled_dot_product_attention"]


def test_the_references_parts_use_the_students_before_them(student: Student) -> None:
    student.swap("LayerNorm", "* (x - mean)", "* 0 * (x - mean)")
    student.code["SublayerConnection"] = stub("SublayerConnection")
    parts = load_parts(student.write())
    assert parts.part("SublayerConnection").origin == "reference"
    out = parts["SublayerConnection"](4)(torch.randn(1, 2, 4), lambda x: x)
    assert torch.equal(out, torch.zeros(1, 2, 4))


def test_without_student_code_the_reference_is_used_unchanged(tmp_path: Path) -> None:
    parts = load_parts(tmp_path)
    assert all(part.value is getattr(transformer, part.source.exercise) for part in parts)


def test_stubs_are_not_written_yet(student: Student) -> None:
    for name in student.code:
        student.code[name] = stub(name)
    parts = load_parts(student.write())
    assert parts.yours == []
    assert parts.problems == []
    assert all(part.unwritten for part in parts)
    assert parts.table().count("the reference's (not written yet)") == len(student.code)


def test_a_class_written_in_part_is_unfinished(student: Student) -> None:
    student.swap(
        "LayerNorm",
        "return self.scale *",
        'raise NotImplementedError("LayerNorm.forward is yours to write: 3") #',
    )
    assert "cell LayerNorm: not written yet (LayerNorm.forward is yours to write" in why(student, "LayerNorm")


def test_a_stub_after_a_return_is_ignored(student: Student) -> None:
    student.code["causal_mask"] += '\n    raise NotImplementedError("causal_mask is yours to write: 4")'
    assert load_parts(student.write()).part("causal_mask").origin == "student"


@pytest.mark.parametrize(
    ("body", "origin"),
    [
        ("if {x}:\n        return 1\n    else:\n        return 2", "student"),
        ("if {x}:\n        return 1", "reference"),
        ("if {x}:\n        return 1\n    elif {x} > 1:\n        return 2", "reference"),
        ("with open({x}) as file:\n        return 1", "student"),
        ("try:\n        return 1\n    except ValueError:\n        raise", "student"),
        ("try:\n        return 1\n    except ValueError:\n        pass", "reference"),
        ("try:\n        pass\n    finally:\n        return 1", "student"),
        ("while True:\n        return 1", "student"),
        ("while 1:\n        return 1", "student"),
        ("while {x}:\n        with open({x}):\n            break", "reference"),
        ("while True:\n        break", "reference"),
        ("while True:\n        for _ in {x}:\n            break\n        return 1", "student"),
        (
            "while True:\n        for _ in {x}:\n            pass\n        else:\n            break",
            "reference",
        ),
        (
            "match {x}:\n        case 1:\n            return 1\n        case _:\n            return 2",
            "student",
        ),
        ("match {x}:\n        case 1:\n            return 1\n        case _:\n            pass", "reference"),
        ("match {x}:\n        case 1:\n            return 1", "reference"),
        ("for _ in [1]:\n        return 1", "reference"),
    ],
)
def test_an_unreachable_stub_is_ignored(student: Student, body: str, origin: str) -> None:
    body = body.format(x="length")
    student.code["causal_mask"] = (
        f"def causal_mask(length):\n    {body}\n"
        '    raise NotImplementedError("causal_mask is yours to write: 4")'
    )
    assert load_parts(student.write()).part("causal_mask").origin == origin


def test_a_missing_notebook(student: Student) -> None:
    path = student.write() / "02-multi-head" / "02-multi-head.ipynb"
    path.unlink()
    parts = load_parts(student.folder)
    assert parts.part("split_heads").problem.startswith(
        "02-multi-head/02-multi-head.ipynb: there is no such notebook"
    )
    assert len(parts.problems) == 1
    table = parts.table()
    assert table.count("see [1]") == 3
    assert table.count("there is no such notebook") == 1


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(PartsError, match="there is no such folder"):
        load_parts(tmp_path / "lessons")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"cells": [', "isn't valid JSON (line 1)"),
        (b"<<<<<<< HEAD\n{}", "isn't valid JSON (line 1)"),
        (b"", "isn't valid JSON"),
        (b"\xff\xfe\x00", "isn't text"),
        (b"[]", "no list of cells"),
        (b'{"cells": {}}', "no list of cells"),
        (b"[" * 100_000, "isn't valid JSON"),
    ],
)
def test_a_file_that_is_not_a_notebook(student: Student, content: bytes, told: str) -> None:
    (student.write() / "04-masks" / "04-masks.ipynb").write_bytes(content)
    parts = load_parts(student.folder)
    assert told in parts.part("causal_mask").problem
    assert parts.part("causal_mask").problem.startswith("04-masks/04-masks.ipynb: not a notebook")
    assert parts.part("sinusoids").origin == "student"


def test_malformed_cells_are_skipped(student: Student) -> None:
    odd = [
        None,
        3,
        {},
        {"metadata": None},
        {"metadata": {"nbgrader": []}},
        {"metadata": {"nbgrader": {"grade_id": 7}}},
    ]
    student.write()
    student.write_lesson("04-masks", [*odd, *student.cells("04-masks")])  # type: ignore[list-item]
    assert load_parts(student.folder).part("causal_mask").origin == "student"


def test_an_unreadable_notebook(student: Student) -> None:
    path = student.write() / "04-masks" / "04-masks.ipynb"
    path.unlink()
    path.mkdir()
    assert "04-masks/04-masks.ipynb: can't be read" in load_parts(student.folder).part("causal_mask").problem


def test_a_missing_cell(student: Student) -> None:
    student.write()
    cells = [entry for entry in student.cells("04-masks") if entry["id"] != "causal_mask"]
    student.write_lesson("04-masks", cells)
    parts = load_parts(student.folder)
    assert "the solution cell causal_mask is missing" in parts.part("causal_mask").problem
    assert parts.part("decoder_mask").origin == "student"


def test_a_solution_cell_converted_to_markdown(student: Student) -> None:
    student.write()
    cells = [
        entry
        if entry["id"] != "causal_mask"
        else cell("causal_mask", "# a mask", solution=True, kind="markdown")
        for entry in student.cells("04-masks")
    ]
    student.write_lesson("04-masks", cells)
    assert "this is a text cell now" in load_parts(student.folder).part("causal_mask").problem


def test_two_cells_with_the_same_name(student: Student) -> None:
    student.write()
    cells = student.cells("04-masks")
    student.write_lesson("04-masks", [*cells, next(entry for entry in cells if entry["id"] == "causal_mask")])
    assert "two cells have this name" in load_parts(student.folder).part("causal_mask").problem


def test_a_syntax_error(student: Student) -> None:
    student.code["split_heads"] = "def split_heads(x, heads)\n    return x"
    assert why(student, "split_heads").startswith(
        "02-multi-head/02-multi-head.ipynb, cell split_heads, line 1: not valid Python (expected ':')"
    )


def test_a_null_byte(student: Student) -> None:
    student.code["split_heads"] = "def split_heads(x, heads):\n    return '\0'"
    assert "not valid Python" in why(student, "split_heads")


def test_a_jupyter_command(student: Student) -> None:
    student.code["split_heads"] = "%timeit 1 + 1\n" + student.code["split_heads"]
    assert "line 1: '%timeit 1 + 1' is a Jupyter command" in why(student, "split_heads")


def test_a_renamed_function(student: Student) -> None:
    student.code["split_heads"] = "def split_head(x, heads):\n    return x"
    assert "split_heads is missing, and the cell defines split_head; restore the name split_heads" in why(
        student, "split_heads"
    )


def test_an_empty_cell(student: Student) -> None:
    student.code["split_heads"] = "# later"
    assert "split_heads is missing, and the cell defines nothing" in why(student, "split_heads")


def test_a_value_that_is_not_callable(student: Student) -> None:
    student.code["split_heads"] = "split_heads = 8"
    assert "should be a function or a class, got an object of type int" in why(student, "split_heads")


def test_code_that_raises(student: Student) -> None:
    student.code["split_heads"] += "\n\nsplit_heads(torch.ones(1, 2, 3), 2)"
    told = why(student, "split_heads")
    assert "raised ValueError: 3 features cannot be split into 2 heads" in told
    assert f"line {student.code['split_heads'].count(chr(10)) + 1}" in told


@pytest.mark.parametrize("way", ["exit()", "raise SystemExit", "import sys; sys.exit(1)"])
def test_code_that_exits(student: Student, way: str) -> None:
    student.code["split_heads"] += f"\n\n{way}"
    assert "raised" in why(student, "split_heads")


def test_a_name_from_another_cell(student: Student) -> None:
    student.code["split_heads"] = "width = my_width\n" + student.code["split_heads"]
    told = why(student, "split_heads")
    assert "line 1: raised NameError: name 'my_width' is not defined" in told
    assert "move what split_heads needs into this cell" in told


def test_a_missing_package(student: Student) -> None:
    student.code["split_heads"] = "import a_package_of_mine\n" + student.code["split_heads"]
    assert "raised ModuleNotFoundError" in why(student, "split_heads")
    assert "use only modules that the setup cell imports" in why(student, "split_heads")


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n    pass",
        "while True:\n    try:\n        x = 1\n    except:\n        pass",
        "import time\ntime.sleep(60)",
    ],
)
def test_an_endless_loop(student: Student, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_lib.student.parts.assembly._TIMEOUT", 0.5)
    student.code["split_heads"] += f"\n\n{loop}"
    begin = time.monotonic()
    assert "cell split_heads: stopped after 0.5 seconds" in why(student, "split_heads")
    assert time.monotonic() - begin < 20


def test_an_endless_loop_in_another_thread(student: Student, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course_lib.student.parts.assembly._TIMEOUT", 0.5)
    student.code["split_heads"] += "\n\nwhile True:\n    pass"
    student.write()
    told: list[str] = []
    thread = threading.Thread(
        target=lambda: told.append(load_parts(student.folder).part("split_heads").problem)
    )
    thread.start()
    thread.join(30)
    assert "stopped after 0.5 seconds" in told[0]


def test_a_missing_setup_cell(student: Student) -> None:
    student.write()
    student.write_lesson("04-masks", [entry for entry in student.cells("04-masks") if entry["id"] != "setup"])
    assert "NameError" in load_parts(student.folder).part("causal_mask").problem


def test_a_setup_cell_with_a_syntax_error(student: Student) -> None:
    student.setup["04-masks"] = "from torch import ("
    assert "NameError" in why(student, "causal_mask")


@pytest.mark.parametrize("code", ["def f(", "1 / 0", "raise SystemExit(1)"])
def test_a_setup_cell_that_imports_a_broken_module(
    student: Student, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (student.folder / "my_broken_module.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(student.folder)
    student.setup["04-masks"] = f"import my_broken_module\n{student.setup['04-masks']}"
    assert load_parts(student.write()).part("causal_mask").origin == "student"


def test_the_line_of_a_syntax_error_is_counted_as_python_does(student: Student) -> None:
    student.code["causal_mask"] = "# a\f\u2028form feed\n%matplotlib inline"
    assert "line 2: '%matplotlib inline' is a Jupyter command" in why(student, "causal_mask")


def test_output_of_cells_is_discarded(student: Student, capsys: pytest.CaptureFixture[str]) -> None:
    student.code["split_heads"] = (
        "import sys, warnings\nprint('hello')\nprint('oh', file=sys.stderr)\n"
        "warnings.warn('old')\nx = '\\d'\n" + student.code["split_heads"]
    )
    assert load_parts(student.write()).part("split_heads").origin == "student"
    assert capsys.readouterr() == ("", "")


def test_one_bad_part_leaves_the_others(student: Student) -> None:
    student.code["merge_heads"] = "def merge_heads(x:"
    parts = load_parts(student.write())
    assert len(parts.yours) == len(list(parts)) - 1
    model = build_transformer(parts, 9, 9, SMALL)
    tokens = torch.ones(1, 3, dtype=torch.long)
    mask = torch.ones(1, 1, 3, dtype=torch.bool)
    assert model(tokens, mask, tokens, mask).shape == (1, 3, 9)


def test_the_model_is_made_of_the_students_parts(student: Student) -> None:
    parts = load_parts(student.write())
    model = build_transformer(parts, 9, 7, SMALL)
    assert type(model) is parts["Transformer"]
    kinds = {type(module) for module in model.modules()}
    assert {
        parts[name] for name in ("LayerNorm", "MultiHeadAttention", "EncoderLayer", "TokenEmbedding")
    } <= kinds
    assert model.encoder_layers[0].self_attention.attention is parts["scaled_dot_product_attention"]


def test_a_configured_attention_is_kept(student: Student) -> None:
    def attend(*arguments):
        raise AssertionError

    parts = load_parts(student.write())
    config = TransformerConfig(layers=1, d_model=8, heads=2, d_ff=16, attention=attend)
    assert build_transformer(parts, 9, 9, config).encoder_layers[0].self_attention.attention is attend


def test_layers_without_the_attention_argument(student: Student) -> None:
    """The contract doesn't require the argument, so students may omit it in their own model."""
    for name in ("EncoderLayer", "DecoderLayer"):
        student.code[name] = (
            student.code[name]
            .replace("        attention: AttentionFunction = scaled_dot_product_attention,\n", "")
            .replace("dropout, attention)", "dropout)")
        )
    student.swap("Transformer", "config.norm_first, config.attention", "config.norm_first")
    model = build_transformer(load_parts(student.write()), 9, 9, SMALL)
    assert model.encoder_layers[0].self_attention.attention.__module__ == "__main__"


def test_a_model_that_cannot_be_built(student: Student) -> None:
    student.swap("EncoderLayer", "self.feed_forward = FeedForward(", "self.feed_forward = FeedForward(1, ")
    parts = load_parts(student.write())
    with pytest.raises(
        PartsError, match=r"can't build the model from these parts: Transformer raised TypeError"
    ):
        build_transformer(parts, 9, 9, SMALL)


def test_a_transformer_that_is_not_a_module(student: Student) -> None:
    student.code["Transformer"] = "def Transformer(*arguments):\n    return 3"
    with pytest.raises(PartsError, match="got an object of type int"):
        build_transformer(load_parts(student.write()), 9, 9, SMALL)


def test_ipython_shows_only_the_message_of_an_error() -> None:
    assert PartsError("one line")._render_traceback_() == ["✗ one line"]


@pytest.mark.slow
def test_a_cluster_node_needs_neither_jupyter_nor_the_checks(student: Student) -> None:
    student.write()
    program = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name in {MISSING_ON_A_CLUSTER}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
from course_lib.student.parts import load_parts, unequal_parts
parts = load_parts({str(student.folder)!r})
print(len(list(parts)) - len(parts.yours), unequal_parts(parts))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "0 {}\n"


def test_a_kept_copy_gives_the_same_parts(student: Student) -> None:
    student.swap("LayerNorm", "correction=0", "unbiased=False")
    student.code["FeedForward"] = stub("FeedForward")
    parts = load_parts(student.write())
    copy = student.folder / "parts.json"
    parts.keep(copy)
    student.swap("LayerNorm", "unbiased=False", "correction=1")  # The notebook keeps changing.
    kept = load_parts(copy)
    assert kept.yours == parts.yours
    assert kept.fingerprints == parts.fingerprints
    assert load_parts(student.write()).fingerprints != parts.fingerprints
    model = build_transformer(kept, 9, 9, SMALL)
    build_transformer(parts, 9, 9, SMALL).load_state_dict(model.state_dict())


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"parts": [1]}', '{"parts": [{"exercise": "LayerNorm"}]}']
)
def test_a_file_that_is_not_a_kept_copy(student: Student, content: str) -> None:
    (student.folder / "parts.json").write_text(content, encoding="utf-8")
    with pytest.raises(PartsError, match=r"parts.json: this file is not a valid parts.json. Pass the folder"):
        load_parts(student.folder / "parts.json")


def test_parts_can_be_replaced_with_the_references(student: Student) -> None:
    parts = load_parts(student.write()).without({"LayerNorm": "it is off"})
    assert parts.part("LayerNorm").origin == "reference"
    assert "LayerNorm" not in parts.fingerprints
    assert parts.table({"sinusoids": "not used"}).splitlines()[-1] == "[1] it is off"
    assert "yours (not used)" in parts.table({"sinusoids": "not used"})


def test_additional_names_for_every_cell(student: Student) -> None:
    said: list[str] = []
    student.swap("split_heads", "    d_model = x.shape[-1]", '    print("split")\n    d_model = x.shape[-1]')
    parts = load_parts(student.write(), names={"print": said.append})
    parts.only(["split_heads"])["split_heads"](torch.zeros(1, 2, 4), 2)
    assert said == ["split"]


def test_the_built_lessons_are_read() -> None:
    """A released lesson contains only stubs."""
    lessons = Path(__file__).parents[3] / "lessons"
    built = json.loads((lessons / "01-attention" / "01-attention.ipynb").read_text(encoding="utf-8"))
    assert built["cells"]
    parts = load_parts(lessons, through=1)
    assert [part.unwritten for part in parts] == [True, True, True]


def test_the_built_lessons_give_each_part_what_it_needs(tmp_path: Path) -> None:
    """Use the real setup cells, with the reference's code in the solution cells."""
    lessons = Path(__file__).parents[3] / "lessons"
    for lesson, names in LESSONS.items():
        built = json.loads((lessons / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8"))
        for one in built["cells"]:
            name = one["metadata"].get("nbgrader", {}).get("grade_id")
            if name in names:
                one["source"] = reference_code(name)
        (tmp_path / lesson).mkdir()
        (tmp_path / lesson / f"{lesson}.ipynb").write_text(json.dumps(built), encoding="utf-8")
    parts = load_parts(tmp_path)
    assert parts.problems == []
    assert len(parts.yours) == len(list(parts))
