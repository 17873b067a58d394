"""Configs are typed and documented, and an invalid one is rejected in one line that names the key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from course_lib.errors import BadInputError
from course_lib.transformer import PositionalEncoding
from course_lib.translation.configs.loader import (
    RENAMED,
    changed_values,
    describe_keys,
    documented_yaml,
    load_config,
    provided_configs,
    yaml_values,
)
from course_lib.translation.configs.schema import MAX_POSITIONS, RunConfig, Section

MINIMAL = "run_folder: runs/x\ndata: {corpus: captions}\ntraining: {epochs: 1}\n"


def refusal(tmp_path: Path, text: str, *overrides: str) -> str:
    path = tmp_path / "wrong.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInputError) as refused:
        load_config(str(path), overrides)
    message = str(refused.value)
    assert "\n" not in message
    return message.replace(str(path), "wrong.yaml")


def written(tmp_path: Path, text: str, *overrides: str) -> RunConfig:
    path = tmp_path / "right.yaml"
    path.write_text(text, "utf-8")
    return load_config(str(path), overrides)


def all_fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from all_fields(field.annotation)
        else:
            yield key, field


@pytest.mark.parametrize("name", sorted(provided_configs()))
def test_provided_configs_can_be_read_by_name(name: str) -> None:
    config = load_config(name)
    assert config.run_folder == f"runs/{name}"


def test_every_corpus_has_a_provided_config() -> None:
    corpora = {load_config(name).data.corpus for name in provided_configs()}
    assert corpora == {"captions", "multi30k", "iwslt17", "wmt14"}


def test_alpha_may_be_an_integer() -> None:
    assert type(load_config("captions", ["evaluation.alpha=0"]).evaluation.alpha) is float


def test_every_key_is_documented() -> None:
    for key, field in all_fields(RunConfig):
        assert (field.description or "").endswith("."), key
        assert " ".join(str(field.description).split()) in " ".join(describe_keys().split()), key


def test_a_written_config_is_read_back_the_same(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        MINIMAL,
        "training.lr_factor=1e-3",
        "data.mirror='a: strange, #name'",
        "model.norm_first=true",
        "training.epochs=7",
    )
    assert (config.training.lr_factor, config.model.norm_first, config.training.epochs) == (1e-3, True, 7)
    assert config.data.mirror == "a: strange, #name"
    assert written(tmp_path, documented_yaml(config)) == config


def test_home_folders_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/student")
    config = written(
        tmp_path,
        MINIMAL,
        "run_folder=~/run",
        "data={corpus: folder, folder: ~/corpus, mirror: ~/mirror, prepared: ~/prepared}",
        "training.init_from=~/first",
    )
    data = config.data
    paths = [config.run_folder, data.folder, data.mirror, data.prepared, config.training.init_from]
    assert paths == [f"/home/student/{name}" for name in ("run", "corpus", "mirror", "prepared", "first")]


def test_a_file_with_a_similar_name_is_suggested(tmp_path: Path) -> None:
    written(tmp_path, MINIMAL)
    with pytest.raises(BadInputError, match=rf'Did you mean "{tmp_path}/right\.yaml"\?$'):
        load_config(str(tmp_path / "right.yml"))


def test_a_model_has_a_position_for_each_token_that_a_config_allows() -> None:
    assert len(PositionalEncoding(2).table) == MAX_POSITIONS


def test_every_old_key_leads_to_one_that_exists() -> None:
    keys = yaml_values(load_config("captions")).keys()
    assert set(RENAMED.values()) <= keys
    assert not RENAMED.keys() & keys


def test_overrides_reach_a_section_that_the_file_leaves_out(tmp_path: Path) -> None:
    assert written(tmp_path, MINIMAL, "model.layers=2", "seed=5").model.layers == 2


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.epoch=1", 'there is no key "training.epoch"; did you mean "training.epochs"?'),
        ("trainning.epochs=1", 'there is no key "trainning"; did you mean "training"?'),
        ("epochs=1", 'there is no key "epochs"; did you mean "training.epochs"?'),
        (
            "model.colour=red",
            'there is no key "model.colour"; the keys there are layers, d_model, heads, d_ff,',
        ),
        ("training.epochs=many", "training.epochs: expected an integer, got many"),
        ("training.epochs=2.5", "training.epochs: expected an integer, got 2.5"),
        ("training.epochs=true", "training.epochs: expected an integer, got true"),
        ("training.epochs=0", "training.epochs: expected a number greater than or equal to 1, got 0"),
        (f"seed={2**63}", f"seed: expected a number less than or equal to {2**63 - 1}, got {2**63}"),
        (f"training.warmup_steps=1{'0' * 309}", "training.warmup_steps: must be less than 2^63"),
        ("training.threads=2000", "training.threads: expected a number less than or equal to 1024, got 2000"),
        ("model.dropout=1", "model.dropout: expected a number less than 1, got 1"),
        ("model.tie_embeddings=0.5", "model.tie_embeddings: expected a boolean, got 0.5"),
        (
            "training.precision=float8",
            'training.precision: expected "auto", "float32", "tf32", "bfloat16", "float16" or "float64", '
            "got float8",
        ),
        ("model=big", '"model" is a section: expected keys with values, got big'),
        ("model.heads=7", "model.d_model: must be divisible by heads (7), but got 512"),
        ("training.weight_decay=0.1", "training.weight_decay: can only be set if optimizer is 'adamw'"),
        (
            "training.schedule=cosine",
            "training.lr: must be set if schedule is 'cosine'",
        ),
        ("training.lr=0.001", "training.lr: is not used if schedule is 'paper'; set lr_factor, or"),
        (
            "training={epochs: 1, schedule: constant, lr: 0.001, lr_factor: 2.0}",
            "training.lr_factor: is only used if schedule is 'paper'; set lr",
        ),
        (
            "training={epochs: 1, schedule: linear, lr: 0.001}",
            "training.decay_steps: must be set if schedule is 'linear' or 'cosine', and only then",
        ),
        (
            "training={epochs: 1, schedule: linear, lr: 0.001, decay_steps: 4000}",
            "training.decay_steps: must be greater than warmup_steps (4000), but got 4000",
        ),
        ("training.max_grad_norm=0", "training.max_grad_norm: expected a number greater than 0, got 0"),
        ("training.simcut_p=1", "training.simcut_p: expected a number less than 1, got 1"),
        (
            "data.folder=here",
            "data.folder: is only used if corpus is 'folder', but corpus is 'captions'; set data.folder=null",
        ),
        ("data.corpus=folder", "data.folder: must be set if corpus is 'folder'"),
        ("run_folder=''", "run_folder: must not be empty"),
        ("run_folder=~nobody-here/x", "run_folder: the home folder in ~nobody-here/x is not known; write"),
        (
            "evaluation.beam_size=101",
            "evaluation.beam_size: expected a number less than or equal to 100, got",
        ),
        (
            "training.tokens_per_batch=100",
            "training.tokens_per_batch: must be at least data.max_length (128), so that every sentence fits, "
            "but got 100",
        ),
        ("evaluation.length_factor=.inf", "evaluation.length_factor: expected a finite number, got .inf"),
        (
            "training={epochs: 1, tokens_per_batch: 4000}\ndata.max_length=2500\nevaluation.length_factor=3",
            "evaluation.length_factor: with data.max_length=2500, a translation may have 7,510 tokens, but a "
            "model has only 5,000 positions; set a smaller",
        ),
        ("training.lr_factor=.inf", "training.lr_factor: expected a finite number, got .inf"),
        ("training.clip_norm=1", 'there is no key "training.clip_norm"; it is now "training.max_grad_norm"'),
        ("data.tokenizer=words", 'there is no key "data.tokenizer"; the keys there are corpus, direction,'),
        ("data.too_long=cut", 'data.too_long: expected "truncate" or "drop", got cut'),
        (
            "evaluation.alpha=-1",
            'evaluation.alpha: expected "auto" or a number greater than or equal to 0, got -1',
        ),
        ("training.epochs", '"training.epochs": expected an override of the form section.key=value, for'),
        ("=3", '"=3": expected an override of the form section.key=value'),
        ("seed.first=3", '"seed.first=3": "seed" is a value, not a section'),
        ("model.layers=[", '"model.layers=[", line 1: not valid YAML'),
    ],
)
def test_wrong_keys_and_values_are_named(tmp_path: Path, override: str, expected: str) -> None:
    assert expected in refusal(tmp_path, f"seed: 1\n{MINIMAL}", *override.split("\n"))


def test_all_errors_are_in_one_line(tmp_path: Path) -> None:
    message = refusal(tmp_path, MINIMAL, "training.epochs=0", "model.layer=2")
    assert message == (
        'wrong.yaml: there is no key "model.layer"; did you mean "model.layers"?; '
        "training.epochs: expected a number greater than or equal to 1, got 0"
    )


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    message = refusal(tmp_path, "run_folder: runs/x\ntraining: {}\n")
    assert message == (
        'wrong.yaml: the key "data" is missing; training.epochs: set epochs, '
        "updates or both, so that training ends"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run_folder: [\n", "wrong.yaml, line 2: not valid YAML"),
        ("just words", "wrong.yaml: expected keys with values, got just words"),
        ("", "wrong.yaml: the file is empty. Write keys with values into it."),
        ("seed: 1\nseed: 2\n", 'wrong.yaml, line 2: not valid YAML: the key "seed" is given twice'),
        ("data: {corpus: captions, corpus: multi30k}", 'the key "corpus" is given twice'),
        ("data: &all {}\nmodel: *all", "wrong.yaml, line 2: not valid YAML: aliases (*name) are not allowed"),
        ("run_folder: 2020-99-99", "wrong.yaml: not valid YAML: month must be in 1..12"),
    ],
)
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refusal(tmp_path, text)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r'captoins: cannot be read .*Did you mean "captions"\?'):
        load_config("captoins")
    with pytest.raises(BadInputError, match="cannot be read"):
        load_config(str(tmp_path))
    (tmp_path / "latin.yaml").write_bytes("seed: 1 # größe".encode("latin-1"))
    with pytest.raises(BadInputError, match="not valid UTF-8"):
        load_config(str(tmp_path / "latin.yaml"))


def test_changed_values_leave_out_what_shapes_no_weight(tmp_path: Path) -> None:
    before = written(tmp_path, MINIMAL)
    now = written(tmp_path, MINIMAL, "model.d_ff=64", "seed=2", "training.epochs=9", "run_folder=elsewhere")
    assert changed_values(before, now) == {"seed": ("1", "2"), "model.d_ff": ("2048", "64")}
    assert changed_values(before, before) == {}
