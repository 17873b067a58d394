"""What a run is made of, as typed data: one YAML file, with overrides from the command line.

Every key is documented at its field. A key that no field has is refused by name.
"""

import difflib
import re
import textwrap
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from course_lib.errors import BadInputError

#: A key marked so may differ between a run and its continuation: it changes none of the weights.
MAY_CHANGE: dict[str, Any] = {"may_change": True}


class Section(BaseModel):
    """A part of the config: unknown keys are refused, values keep their type, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DataConfig(Section):
    """Where the sentences come from, and how they become tokens."""

    corpus: Literal["captions", "multi30k", "iwslt17", "wmt14", "folder"] = Field(
        description="captions: built in, needs no file. multi30k (29,000 captions), iwslt17 (206,000 "
        "sentences of talks), wmt14 (4.5 million of news, parliament and web): from a mirror folder or "
        "downloaded. folder: your own files."
    )
    folder: str | None = Field(
        default=None,
        description="For corpus: folder. It holds train, validation and test as NAME.de and NAME.en, "
        "one sentence a line, plain or as .gz.",
        json_schema_extra=MAY_CHANGE,
    )
    mirror: str | None = Field(
        default=None,
        description="A folder with the published files (or with a folder of the corpus's name in it), read "
        "in place of a download. Without it, the environment variable COURSE_DATA names that folder.",
        json_schema_extra=MAY_CHANGE,
    )
    url: str | None = Field(
        default=None,
        description="Where to download the published files from, if not from their own home.",
        json_schema_extra=MAY_CHANGE,
    )
    cache: str | None = Field(
        default=None,
        description="Where downloads are kept. Without it, the user's cache folder.",
        json_schema_extra=MAY_CHANGE,
    )
    vocabulary_size: int = Field(
        default=8000,
        ge=300,
        description="Subwords in a vocabulary, learnt from the training split. Words have min_count instead.",
    )
    max_length: int = Field(
        default=128,
        ge=3,
        le=4000,
        description="Tokens in a sentence, start and end counted. What becomes of longer ones says too_long.",
    )
    tokens: Literal["joint-bpe", "separate-bpe", "words"] = Field(
        default="joint-bpe",
        description="joint-bpe: subwords of one vocabulary for both languages, as in the paper. "
        "separate-bpe: a vocabulary for each. words: whole words by spaCy's tokenizers, as early "
        "translators had them.",
    )
    min_count: int = Field(
        default=2, ge=1, description="With tokens: words, rarer ones in the training split become unknown."
    )
    too_long: Literal["cut", "drop"] = Field(
        default="cut",
        description="What becomes of a training pair with a side longer than max_length. cut: what is too "
        "much goes, the end token stays. drop: the pair goes. Validation and test are only ever cut.",
    )
    both_directions: bool = Field(
        default=False,
        description="Learn from each pair both ways: a token at the source's start says into which language. "
        "A gain where there are few pairs, at twice the updates an epoch. Scored is German to English alone.",
    )
    bpe_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Probability of passing over a merge when the training split becomes subwords, drawn "
        "anew in each epoch (arXiv 1910.13267). A gain where there are few pairs; 0.1 is usual.",
    )

    @model_validator(mode="after")
    def _folder_fits_corpus(self) -> "DataConfig":
        if (self.corpus == "folder") != (self.folder is not None):
            raise ValueError('corpus: folder and the key "folder" go together: give both or neither')
        return self

    @model_validator(mode="after")
    def _both_ways_need_one_vocabulary(self) -> "DataConfig":
        if self.both_directions and not self.shares_vocabulary:
            raise ValueError(
                f"both_directions needs one vocabulary for both languages: expected tokens: joint-bpe, "
                f"came {self.tokens}"
            )
        return self

    @model_validator(mode="after")
    def _dropout_needs_merges(self) -> "DataConfig":
        if self.bpe_dropout and self.tokens == "words":
            raise ValueError("bpe_dropout needs subwords: with tokens: words it has to be 0")
        return self

    @property
    def shares_vocabulary(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.tokens == "joint-bpe"


class ModelConfig(Section):
    """The sizes of the Transformer, named as in the paper."""

    layers: int = Field(default=6, ge=1, description="Layers in the encoder, and as many in the decoder.")
    d_model: int = Field(default=512, ge=1, description="Features of each position.")
    heads: int = Field(default=8, ge=1, description="Attention heads; d_model must be a multiple.")
    d_ff: int = Field(default=2048, ge=1, description="Features inside the feed-forward network.")
    dropout: float = Field(
        default=0.1, ge=0, lt=1, description="Probability of dropping a number: section 5.4 of the paper."
    )
    inner_dropout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="The same inside the sublayers: for attention weights, and between the two layers of a "
        "feed-forward network. Section 5.4 names neither, so 0 is the paper's. Without it, as dropout.",
    )
    norm_first: bool = Field(
        default=False,
        description="true: normalise before each sublayer. false: after the sum, as in the paper.",
    )
    tied: bool = Field(default=True, description="Both embedding tables and the generator share one matrix.")
    attention: Literal["plain", "fused"] = Field(
        default="plain",
        description="plain: the matrix products of lesson 01, fastest for short sentences on a CPU. "
        "fused: PyTorch's kernel, fastest on a GPU.",
    )

    @model_validator(mode="after")
    def _heads_share_features(self) -> "ModelConfig":
        if self.d_model % self.heads:
            raise ValueError(
                f"d_model must be a multiple of heads: {self.d_model} is no multiple of {self.heads}"
            )
        return self


class TrainingConfig(Section):
    """How the weights are learnt."""

    epochs: int = Field(ge=1, description="Passes over the training split.", json_schema_extra=MAY_CHANGE)
    tokens_per_batch: int = Field(
        default=4096,
        ge=3,
        description="Largest batch: its longest sentence times its number of sentences, either side.",
    )
    batches_per_update: int = Field(
        default=1,
        ge=1,
        description="Batches that share one update. They are dealt to the processes; a process that gets "
        "several works through them in turn. The result does not depend on the number of processes.",
    )
    start_from: str | None = Field(
        default=None,
        description="The folder of another run whose model this one begins with: the weights that it "
        "translates with, and its vocabulary, whatever data says of one. Without it, random weights.",
        json_schema_extra=MAY_CHANGE,
    )
    label_smoothing: float = Field(
        default=0.1, ge=0, lt=1, description="Probability spread over the whole vocabulary."
    )
    optimizer: Literal["adam", "adamw"] = Field(default="adam", description="adam as in the paper, or adamw.")
    weight_decay: float = Field(default=0.0, ge=0, description="Decoupled weight decay, with adamw only.")
    warmup: int = Field(default=4000, ge=1, description="Updates over which the learning rate rises.")
    factor: float = Field(default=1.0, gt=0, description="Times the paper's learning rate (section 5.3).")
    precision: Literal["auto", "float32", "bfloat16", "float64"] = Field(
        default="auto",
        description="bfloat16: matrix products in bfloat16, weights and sums in float32. float64 is for "
        "exact comparisons. auto: bfloat16 where the hardware multiplies in it, float32 elsewhere; the "
        "run's own config says which it was.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto: a GPU where there is one.", json_schema_extra=MAY_CHANGE
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        description="CPU threads of each process. Without it, the cores are shared out evenly.",
        json_schema_extra=MAY_CHANGE,
    )
    log_every: int = Field(
        default=50,
        ge=1,
        description="Updates between two lines in metrics.jsonl.",
        json_schema_extra=MAY_CHANGE,
    )
    checkpoint_every: int = Field(
        default=500,
        ge=1,
        description="Updates between two checkpoints. Each epoch ends on one too.",
        json_schema_extra=MAY_CHANGE,
    )
    average_last: int = Field(
        default=0,
        ge=0,
        description="The last so many snapshots of the weights are averaged at the end, as in section 6.1; "
        "0 for no averaging.",
        json_schema_extra=MAY_CHANGE,
    )
    average_every: int | None = Field(
        default=None,
        ge=1,
        description="Updates between two of these snapshots. Without it, one at the end of each epoch.",
        json_schema_extra=MAY_CHANGE,
    )

    schedule: Literal["paper", "inverse-sqrt", "linear", "cosine", "constant"] = Field(
        default="paper",
        description="How the learning rate goes. paper: section 5.3, equation 3, times factor. All others "
        "rise over warmup updates to peak_rate; then inverse-sqrt falls with the root of the step, linear "
        "and cosine fall to zero at schedule_updates, and constant stays.",
    )
    peak_rate: float | None = Field(
        default=None, gt=0, description="Highest learning rate, for all schedules but the paper's."
    )
    schedule_updates: int | None = Field(
        default=None, ge=1, description="Updates after which a linear or cosine schedule has come to zero."
    )
    clip_norm: float | None = Field(
        default=None,
        gt=0,
        description="Gradients, of all processes together, that are longer than this are shortened to it.",
    )
    simcut_alpha: float = Field(
        default=0.0,
        ge=0,
        description="Weight of SimCut's divergence between a batch and a copy with tokens missing (arXiv "
        "2206.02368, where it is 3); 0 for none. It doubles the time of an update.",
    )
    simcut_p: float = Field(
        default=0.05, gt=0, lt=1, description="Probability with which SimCut's copy misses a token."
    )
    compile: bool = Field(
        default=False,
        description="true: let torch.compile write kernels for this model, for any length of sentence. Where "
        "that fails, training goes on without, and says so. On a GPU; a CPU gains nothing at these sizes.",
    )

    @model_validator(mode="after")
    def _decay_needs_adamw(self) -> "TrainingConfig":
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError("weight_decay needs optimizer: adamw")
        return self

    @model_validator(mode="after")
    def _schedule_has_its_numbers(self) -> "TrainingConfig":
        if (self.schedule == "paper") != (self.peak_rate is None):
            raise ValueError("peak_rate goes with every schedule but the paper's, whose height is factor")
        if self.schedule != "paper" and self.factor != 1:
            raise ValueError("factor goes with schedule: paper; for the others, set peak_rate")
        falls_to_zero = self.schedule in ("linear", "cosine")
        if falls_to_zero != (self.schedule_updates is not None):
            raise ValueError("schedule_updates goes with schedule: linear and schedule: cosine")
        if self.schedule_updates is not None and self.schedule_updates <= self.warmup:
            raise ValueError(
                f"schedule_updates must be more than warmup: {self.schedule_updates} is no more than "
                f"{self.warmup}"
            )
        return self


class EvaluationConfig(Section):
    """How the translator is scored."""

    bleu_every: int = Field(
        default=1,
        ge=0,
        description="Epochs between two BLEU scores on the validation split; 0 for none.",
        json_schema_extra=MAY_CHANGE,
    )
    tokens_per_batch: int = Field(
        default=8192, ge=3, description="Largest batch while scoring.", json_schema_extra=MAY_CHANGE
    )
    use: Literal["last", "best", "averaged"] = Field(
        default="last",
        description="The weights that the test split is translated with at the end.",
        json_schema_extra=MAY_CHANGE,
    )
    beam: int = Field(
        default=5,
        ge=1,
        description="Beginnings that the search keeps when the test split is translated; 1 is greedy. Scores "
        "on the way are of greedy translations.",
        json_schema_extra=MAY_CHANGE,
    )
    alpha: float | Literal["auto"] = Field(
        default="auto",
        description="Exponent of the length penalty, 0 or more. auto: the best on the validation split.",
        json_schema_extra=MAY_CHANGE,
    )

    @field_validator("alpha", mode="plain")
    @classmethod
    def _auto_or_number(cls, value: object) -> object:
        if value == "auto":
            return value
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
            return value
        raise ValueError(f"expected auto or a number that is 0 or more, came {yaml_value(value)}")


class CheckpointConfig(Section):
    """How a run is kept safe."""

    keep_last: int = Field(
        default=3,
        ge=1,
        description="Checkpoints kept: where the newest is damaged, the run goes on from the one before.",
        json_schema_extra=MAY_CHANGE,
    )
    listen_every: int = Field(
        default=10,
        ge=1,
        description="Updates after which several processes ask each other whether one was told to stop.",
        json_schema_extra=MAY_CHANGE,
    )


class SelectionConfig(Section):
    """Which weights are the best, and when to stop looking for better ones."""

    measure: Literal["loss", "bleu"] = Field(
        default="loss", description="What the validation split is measured by to find the best weights."
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        description="Training ends early after so many measurements in a row that are no better than the "
        "best. Without it, it never does.",
        json_schema_extra=MAY_CHANGE,
    )


class RunConfig(Section):
    """A whole run."""

    run_folder: str = Field(
        description="Where the run is kept: config, vocabulary, metrics, checkpoint, translations.",
        json_schema_extra=MAY_CHANGE,
    )
    seed: int = Field(
        default=1, ge=0, description="All randomness starts here: weights, order of batches, dropout."
    )
    data: DataConfig
    model: ModelConfig = ModelConfig()
    training: TrainingConfig
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    selection: SelectionConfig = SelectionConfig()

    @model_validator(mode="after")
    def _tying_needs_one_vocabulary(self) -> "RunConfig":
        if self.model.tied and not self.data.shares_vocabulary:
            raise ValueError(
                f"model.tied needs one vocabulary for both languages, and data.tokens: {self.data.tokens} "
                "makes two; set data.tokens to joint-bpe, or model.tied to false"
            )
        return self

    @model_validator(mode="after")
    def _longest_sentence_fits(self) -> "RunConfig":
        for name in ("training", "evaluation"):
            budget = getattr(self, name).tokens_per_batch
            if budget < self.data.max_length:
                raise ValueError(
                    f"{name}.tokens_per_batch must hold one sentence of data.max_length: "
                    f"{budget} is less than {self.data.max_length}"
                )
        return self

    @model_validator(mode="after")
    def _chosen_weights_exist(self) -> "RunConfig":
        if self.evaluation.use == "averaged" and not self.training.average_last:
            raise ValueError("evaluation.use: averaged needs training.average_last, which is 0")
        if self.selection.measure == "bleu" and not self.evaluation.bleu_every:
            raise ValueError("selection.measure: bleu needs evaluation.bleu_every, which is 0")
        return self


def load_config(name: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a config: a YAML file by its path, or a provided one by its name.

    `overrides` are `section.key=value`, each read as YAML. Raises BadInputError, in one line that names every
    wrong key and value.
    """
    origin, text = _read(name)
    values = _parse(origin, text)
    for override in overrides:
        _override(values, override)
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        faults = "; ".join(_fault(details) for details in error.errors())
        raise BadInputError(f"{origin}: {faults}") from None


def provided_configs() -> dict[str, str]:
    """Give the text of each config that the package brings, by name."""
    folder = resources.files("course_lib.translation.configs")
    files = sorted((file for file in folder.iterdir()), key=lambda file: file.name)
    return {
        file.name.removesuffix(".yaml"): file.read_text("utf-8")
        for file in files
        if file.name.endswith(".yaml")
    }


def documented_yaml(config: RunConfig) -> str:
    """Write a config with every key and, above each, what it means. `load_config` reads it back."""
    lines = []
    for key, field in RunConfig.model_fields.items():
        value = getattr(config, key)
        if not isinstance(value, Section):
            lines += [*_comment(field.description), _yaml_line(key, value)]
            continue
        lines += ["", *_comment(type(value).__doc__), f"{key}:"]
        for name, inner in type(value).model_fields.items():
            lines += [*_comment(inner.description, "  "), f"  {_yaml_line(name, getattr(value, name))}"]
    return "\n".join(lines) + "\n"


def describe_keys() -> str:
    """List every key with its default and meaning, for `--help`."""
    lines = []
    for path, field in _fields(RunConfig):
        default = "" if field.is_required() else f" [{yaml_value(field.default)}]"
        lines += [f"  {path}{default}", *_wrap(field.description, "      ")]
    return "\n".join(lines)


def differing_keys(before: RunConfig, now: RunConfig) -> list[str]:
    """Name the keys, among those that shape the weights, in which two configs differ."""
    return [
        path
        for path, field in _fields(RunConfig)
        if field.json_schema_extra != MAY_CHANGE and _value_at(before, path) != _value_at(now, path)
    ]


def keys() -> list[str]:
    """List every key, as `section.key`."""
    return [path for path, _ in _fields(RunConfig)]


def value_text(config: RunConfig, path: str) -> str:
    """Write the value at `section.key` as YAML has it."""
    return yaml_value(_value_at(config, path))


def yaml_value(value: Any) -> str:
    """Write one plain value as YAML has it."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")


def _read(name: str) -> tuple[str, str]:
    provided = provided_configs()
    if name in provided:
        return name, provided[name]
    try:
        return name, Path(name).read_text("utf-8")
    except OSError as error:
        near = difflib.get_close_matches(name, provided, n=1)
        guess = f' Did you mean "{near[0]}"?' if near else ""
        raise BadInputError(
            f"{name}: expected a YAML file or one of {', '.join(provided)}, but it cannot be read "
            f"({error.strerror}).{guess}"
        ) from None
    except UnicodeDecodeError:
        raise BadInputError(f"{name}: expected a YAML file in UTF-8, but it holds other bytes") from None


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, and reads 1e-9 as a number as YAML 1.2 does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'the key "{key}" stands twice', key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _parse(origin: str, text: str) -> dict[str, Any]:
    try:
        values = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise BadInputError(f"{origin}{line}: not valid YAML: {problem}") from None
    if not isinstance(values, dict):
        raise BadInputError(f"{origin}: expected keys with values, came {yaml_value(values)}")
    return values


def _override(values: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    *sections, key = path.split(".")
    if not equals or not all([*sections, key]):
        raise BadInputError(
            f'"{override}": expected an override section.key=value, for example training.epochs=3'
        )
    place = values
    for section in sections:
        inner = place.setdefault(section, {})
        if not isinstance(inner, dict):
            raise BadInputError(f'"{override}": "{section}" is a value and has no keys of its own')
        place = inner
    place[key] = _parse(f'"{override}"', f"value: {text}")["value"]


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from _fields(field.annotation, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", field


def _value_at(config: RunConfig, path: str) -> Any:
    value: Any = config
    for key in path.split("."):
        value = getattr(value, key)
    return value


def _comment(text: str | None, indent: str = "") -> list[str]:
    return _wrap(text, f"{indent}# ")


def _wrap(text: str | None, before: str) -> list[str]:
    return textwrap.wrap(
        text or "", 100, initial_indent=before, subsequent_indent=before, break_on_hyphens=False
    )


def _yaml_line(key: str, value: Any) -> str:
    return f"{key}: {yaml_value(value)}"


def _fault(details: ErrorDetails) -> str:
    path = ".".join(str(part) for part in details["loc"])
    kind, came = details["type"], details["input"]
    if kind == "extra_forbidden":
        return f'there is no key "{path}"{_suggestion(path)}'
    if kind == "missing":
        return f'the key "{path}" is missing'
    if kind == "model_type":
        return f'"{path}" is a section: expected keys with values, came {yaml_value(came)}'
    if kind == "value_error":
        return f"{path}: {details['ctx']['error']}" if path else str(details["ctx"]["error"])
    expected = details["msg"].removeprefix("Input should be ").replace("'", '"')
    return f"{path}: expected {expected}, came {yaml_value(came)}"


def _suggestion(path: str) -> str:
    known = [known for known, _ in _fields(RunConfig)]
    known += [key for key in RunConfig.model_fields if key not in known]
    section, _, key = path.rpartition(".")
    siblings = {name: name.rpartition(".")[2] for name in known if name.rpartition(".")[0] == section}
    near = difflib.get_close_matches(key, siblings.values(), n=1)
    if near:
        guess = next(name for name, last in siblings.items() if last == near[0])
    else:
        elsewhere = {name: name.rpartition(".")[2] for name in known}
        close = difflib.get_close_matches(key, elsewhere.values(), n=1, cutoff=0.8)
        if not close:
            return f"; the keys there are {', '.join(siblings.values())}" if siblings else ""
        guess = next(name for name, last in elsewhere.items() if last == close[0])
    return f'; did you mean "{guess}"?'
