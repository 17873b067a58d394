"""Properties of the whole package: its contract, imports, documentation and tests."""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch

import course_lib.transformer
from course_lib.checks.engine.exercise import ExerciseCheck
from course_lib.checks.exercises.registry import catalogue
from course_lib.transformer import MultiHeadAttention, TransformerConfig, attention_scores, padding_mask

PACKAGE = Path(course_lib.transformer.__file__).parent
MODULES = sorted(module.name for module in pkgutil.iter_modules([str(PACKAGE)]))
TREES = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.glob("*.py"))}
every_file = pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())

# The signatures of the exercises' contract: students' code and the lab rely on them, and they change only
# with a new minor version.
SIGNATURES = {
    "pairwise_differences": "x",
    "attention_scores": "query, key",
    "attention_weights": "scores, mask=None",
    "scaled_dot_product_attention": "query, key, value, mask=None, dropout=None",
    "split_heads": "x, heads",
    "merge_heads": "x",
    "MultiHeadAttention": "d_model, heads, dropout=0.1, attention=scaled_dot_product_attention",
    "MultiHeadAttention.forward": "self, query, key, value, mask=None",
    "LayerNorm": "d_model, eps=1e-06",
    "FeedForward": "d_model, d_ff, dropout=0.1",
    "SublayerConnection": "d_model, dropout=0.1, norm_first=False",
    "SublayerConnection.forward": "self, x, sublayer",
    "padding_mask": "tokens, pad_id",
    "causal_mask": "length",
    "decoder_mask": "tokens, pad_id",
    "shift_target": "target",
    "sinusoids": "length, d_model",
    "TokenEmbedding": "vocab_size, d_model",
    "PositionalEncoding": "d_model, dropout=0.1, max_length=5000",
    "EncoderLayer": "d_model, heads, d_ff, dropout=0.1, norm_first=False, "
    "attention=scaled_dot_product_attention",
    "EncoderLayer.forward": "self, x, source_mask",
    "DecoderLayer": "d_model, heads, d_ff, dropout=0.1, norm_first=False, "
    "attention=scaled_dot_product_attention",
    "DecoderLayer.forward": "self, x, memory, source_mask, target_mask",
    "TransformerConfig": "layers=6, d_model=512, heads=8, d_ff=2048, dropout=0.1, norm_first=False, "
    "attention=scaled_dot_product_attention",
    "Transformer": "source_vocab, target_vocab, config",
    "Transformer.encode": "self, source, source_mask",
    "Transformer.decode": "self, memory, source_mask, target, target_mask",
    "Transformer.forward": "self, source, source_mask, target, target_mask",
    "tie_embeddings": "model",
    "greedy_decode": "model, source, source_mask, max_length, start_id, end_id",
    "learning_rate": "step, d_model, warmup, factor=1.0",
    "make_scheduler": "optimizer, d_model, warmup, factor=1.0",
    "adam_update": "parameter, gradient, mean, variance, step, lr, beta1=0.9, beta2=0.98, eps=1e-09",
    "smooth_targets": "labels, vocab_size, pad_id, smoothing",
    "LabelSmoothingLoss": "vocab_size, pad_id, smoothing=0.1",
    "LabelSmoothingLoss.forward": "self, logits, labels",
    "train_step": "model, loss, micro_batches, optimizer, scheduler",
    "build_vocabulary": "sentences, min_count, specials",
    "learn_merges": "words, count",
    "token_batches": "lengths, max_tokens",
    "collate": "pairs, pad_id, start_id, end_id, max_length",
    "length_penalty": "length, alpha",
    "beam_search": "model, source, source_mask, beam, max_length, start_id, end_id, alpha",
    "average_checkpoints": "state_dicts",
    "shard": "batches, rank, world_size",
    "global_token_mean": "loss_sum, token_count",
    "broadcast_parameters": "model, source=0",
    "all_reduce_gradients": "model",
    "GradientBuckets": "model, bucket_bytes",
    "GradientBuckets.finish": "self",
    "GradientBuckets.no_sync": "self",
    "ShardedOptimizer": "parameters, make_optimizer",
    "ShardedOptimizer.step": "self",
    "ShardedOptimizer.zero_grad": "self",
    "ShardedOptimizer.state_dict": "self",
}


@pytest.mark.parametrize(("name", "expected"), SIGNATURES.items())
def test_every_exercise_has_the_signature_of_the_contract(name: str, expected: str) -> None:
    target = course_lib.transformer
    for part in name.split("."):
        target = getattr(target, part)

    def shown(parameter: inspect.Parameter) -> str:
        default = parameter.default
        if default is inspect.Parameter.empty:
            return parameter.name
        return f"{parameter.name}={getattr(default, '__name__', repr(default))}"

    parameters = list(inspect.signature(target).parameters.values())
    names = expected.split(", ")
    assert [shown(parameter) for parameter in parameters[: len(names)]] == names
    for extra in parameters[len(names) :]:
        assert extra.default is not inspect.Parameter.empty, (
            f"{extra.name} has no default, but is not in the contract"
        )


def test_what_is_public_is_listed_and_nothing_else() -> None:
    public = {
        node.name
        for tree in TREES.values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    assert set(course_lib.transformer.__all__) == public | {"AttentionFunction"}
    assert all(hasattr(course_lib.transformer, name) for name in course_lib.transformer.__all__)
    exercises = {entry.name for entry in catalogue().values() if isinstance(entry, ExerciseCheck)}
    assert exercises <= {name.split(".")[0] for name in SIGNATURES} <= public


# The import hook of tests/conftest.py checks annotated shapes, in every worker of pytest-xdist too.


def test_a_wrong_shape_is_refused_under_the_tests() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="attention_scores"):
        attention_scores(torch.zeros(3, 4), torch.zeros(5, 6))
    with pytest.raises(jaxtyping.TypeCheckError, match=r"MultiHeadAttention\.forward"):
        MultiHeadAttention(4, 2)(torch.zeros(2, 3, 4), torch.zeros(1, 3, 4), torch.zeros(1, 3, 4))


def test_a_wrong_dtype_or_type_is_refused_under_the_tests() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="padding_mask"):
        padding_mask(torch.zeros(2, 3), 0)
    with pytest.raises(jaxtyping.TypeCheckError, match="TransformerConfig"):
        TransformerConfig(layers="six")


@pytest.mark.usefixtures("shapes_unchecked")
def test_users_have_no_hook_and_the_tests_can_do_without() -> None:
    assert MultiHeadAttention(4, 2)(*(torch.zeros(2, 3, 4) for _ in range(3))).shape == (2, 3, 4)
    with pytest.raises(RuntimeError):
        attention_scores(torch.zeros(3, 4), torch.zeros(5, 6))


@pytest.mark.parametrize("name", MODULES)
def test_every_module_of_the_reference_is_under_the_hook(name: str) -> None:
    module = importlib.import_module(f"course_lib.transformer.{name}")
    assert type(module.__spec__.loader).__module__ == "jaxtyping._import_hook"
    for thing in vars(module).values():
        if inspect.isfunction(thing) and thing.__module__ == module.__name__:
            assert hasattr(thing, "__wrapped__"), f"{thing.__name__} is not checked"


def test_the_lab_s_engine_is_under_the_hook() -> None:
    loader = importlib.util.find_spec("course_lib.translation.train.batches").loader
    assert type(loader).__module__ == "jaxtyping._import_hook"


def imports(tree: ast.Module) -> set[str]:
    """Return the full names of all imports, including those inside functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "expected an absolute import"
            found.add(node.module)
        elif isinstance(node, ast.Name):
            assert node.id not in ("__import__", "importlib"), "expected an import statement"
    return found


@every_file
def test_only_torch_jaxtyping_and_the_standard_library_are_imported(tree: ast.Module) -> None:
    for name in imports(tree):
        if name.startswith("course_lib"):
            assert name.startswith("course_lib.transformer."), f"transformer imports {name}"
        else:
            assert name.split(".")[0] in {"torch", "jaxtyping"} | sys.stdlib_module_names, name


FRESH = """
import sys

class Refuse:
    refused = "IPython altair anywidget autograder beartype hypothesis jupyter_client nbformat nbgrader"
    refused += " pandas pydantic rich sacrebleu spacy tokenizers yaml"
    refused = refused.split()

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.refused:
            raise ImportError(f"{name} is not for the reference")

sys.meta_path.insert(0, Refuse())
import torch
before = torch.get_rng_state()
import course_lib.transformer as t
assert torch.equal(torch.get_rng_state(), before), "random numbers were drawn"
assert not torch.distributed.is_initialized()
ours = {name for name in sys.modules if name.startswith(("course_lib", "autograder"))}
strangers = {name for name in ours if not name.startswith("course_lib.transformer")} - {"course_lib"}
assert not strangers, strangers
model = t.Transformer(9, 9, t.TransformerConfig(1, 8, 2, 8))
tokens = torch.tensor([[3, 4, 0]])
print(tuple(t.greedy_decode(model, tokens, t.padding_mask(tokens, 0), 1, 1, 2).shape))
"""


@pytest.mark.slow
def test_pitfall_18_importing_does_nothing_and_needs_nothing_else(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    finished = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:course_lib", "-c", FRESH],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "(1, 1)\n"
    assert finished.stderr == ""
    assert list(tmp_path.iterdir()) == []


def public_definitions(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the public functions, classes and methods of a file."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            found.append(node)
            if isinstance(node, ast.ClassDef):
                methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
                found += [method for method in methods if not method.name.startswith("_")]
    return found


@every_file
def test_all_that_is_public_has_a_docstring_that_ends_its_first_line(tree: ast.Module) -> None:
    for node in (tree, *public_definitions(tree)):
        name = getattr(node, "name", "the module")
        assert ast.get_docstring(node), f"{name} has no docstring"
        assert ast.get_docstring(node).splitlines()[0].endswith((".", ":")), name


@pytest.mark.parametrize("name", MODULES)
def test_every_module_cites_the_paper(name: str) -> None:
    cited = re.search(r"[Ss]ections? \d(\.\d)?|figure 1", ast.get_docstring(TREES[name]))
    assert cited, f"{name} cites no section of the paper"


def test_every_field_of_the_config_is_documented() -> None:
    (config,) = (
        node for node in TREES["model"].body if getattr(node, "name", None) == TransformerConfig.__name__
    )
    documented = {
        field.target.id
        for field, text in zip(config.body, config.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
    assert documented == {field.name for field in dataclasses.fields(TransformerConfig)}


@every_file
def test_every_argument_and_result_is_annotated(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.returns is not None, f"{node.name} has no return annotation"
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                assert argument.annotation or argument.arg == "self", f"{node.name}: {argument.arg}"


@every_file
def test_pitfall_17_no_default_can_be_changed(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                assert isinstance(default, ast.Constant | ast.Name | ast.UnaryOp), ast.unparse(default)


# Pitfalls 19 and 20 concern the padding and the vocabularies of the lab's data, so they have no test here.
PITFALLS = {*range(1, 23)} - {19, 20}


def test_every_pitfall_has_a_test_that_is_named_after_it() -> None:
    texts = (path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    named = {int(number) for text in texts for number in re.findall(r"\ndef test_pitfall_(\d\d)_", text)}
    assert named == PITFALLS


def test_every_module_has_its_tests_beside_it() -> None:
    names = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert {f"test_{module}" for module in MODULES} <= names
