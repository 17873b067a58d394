"""The settings of a run, as typed data. `loader` reads them from YAML.

The docstring of a field is its documentation: `--help` prints it, and a run's own config repeats it as a
comment.
"""

import os
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

T = TypeVar("T")


class MayChangeMarker:
    """A marker for fields that don't influence the weights, so a resumed run may change their values."""


MayChange = Annotated[T, MayChangeMarker]


def _expand_home(path: str) -> str:
    """Replace a leading ~, which the shell leaves unchanged in a config file."""
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise ValueError(f"the home folder in {path} is not known; write the whole path")
    return expanded


#: The path of a file or folder. A leading ~ or ~USER is replaced by the home folder.
LocalPath = Annotated[str, Field(min_length=1), AfterValidator(_expand_home)]

#: The source and the target language of a translator.
Direction = Literal["de-en", "en-de"]
#: The precisions for training, as documented in TrainingConfig.
Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16", "float64"]
#: The models that a run saves: the latest weights, the best on the validation split, and an average.
ModelKind = Literal["last", "best", "averaged"]

#: The largest beam: the memory for decoding a sentence is proportional to its size.
MAX_BEAM = 100

#: The length of the table of lesson 05's `PositionalEncoding`.
MAX_POSITIONS = 5000


class Section(BaseModel):
    """A section of the config. It rejects unknown keys, doesn't convert types and is immutable."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @field_validator("*")
    @classmethod
    def _fits_into_64_bits(cls, value: object) -> object:
        if isinstance(value, int) and value >= 2**63:
            raise ValueError("must be less than 2^63")
        return value


class DataConfig(Section):
    """The corpus and its tokenisation."""

    corpus: Literal["captions", "multi30k", "iwslt17", "wmt14", "folder"]
    """captions: built in, needs no files. multi30k (29,000 captions), iwslt17 (206,000 sentences of talks)
    and wmt14 (4.5 million sentences of news, parliament and web pages): read from a mirror folder or
    downloaded. folder: your own files."""
    direction: Direction = "de-en"
    """de-en: translate German into English. en-de: English into German, as in table 2 of the paper."""
    prepared: MayChange[LocalPath | None] = None
    """A folder written by `course prepare` with the same settings, to train from without preparing the corpus
    again; it may be a copy on each node's own disk. Default: the run prepares its data in its own folder."""
    folder: MayChange[LocalPath | None] = None
    """With corpus: folder, the folder of the files NAME.de and NAME.en, where NAME is train, validation and
    test; one sentence per line, plain or gzipped (.gz)."""
    mirror: MayChange[LocalPath | None] = None
    """A folder with the published files, either directly or in a subfolder named after the corpus. It is read
    instead of downloading to the user's cache folder. Default: the environment variable COURSE_DATA."""
    train_pairs: int | None = Field(default=None, ge=1)
    """Train only on the first pairs of the training split, up to this number. Default: all pairs."""
    vocab_size: int = Field(default=8000, ge=300, le=1_000_000)
    """Number of subwords in the vocabulary, which is learned from both languages of the training split."""
    max_length: int = Field(default=128, ge=3, le=4000)
    """Longest sentence in tokens, including the start and end tokens. See too_long for longer ones."""
    too_long: Literal["truncate", "drop"] = "truncate"
    """How to treat a training pair with a side longer than max_length. truncate: shorten that side, keeping
    the end token. drop: omit the pair. Validation and test sentences are always truncated, never dropped."""
    both_directions: bool = False
    """Train on each pair in both directions, with a token at the start of the source that names the target
    language. Helps on small corpora, at twice the updates per epoch. Only `direction` is scored."""

    @model_validator(mode="after")
    def _keys_fit_together(self) -> "DataConfig":
        if self.corpus == "folder" and self.folder is None:
            raise ValueError("folder: must be set if corpus is 'folder'")
        if self.corpus != "folder" and self.folder is not None:
            raise ValueError(
                f"folder: is only used if corpus is 'folder', but corpus is '{self.corpus}'; set "
                "data.folder=null"
            )
        return self


class ModelConfig(Section):
    """The architecture of the Transformer, with the paper's names."""

    layers: int = Field(default=6, ge=1)
    """Number of encoder layers, and of decoder layers."""
    d_model: int = Field(default=512, ge=1)
    """Features per position."""
    heads: int = Field(default=8, ge=1)
    """Attention heads. d_model must be divisible by this number."""
    d_ff: int = Field(default=2048, ge=1)
    """Features inside the feed-forward networks."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout probability (section 5.4 of the paper)."""
    inner_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout probability inside the sublayers: of attention weights, and between the two layers of a
    feed-forward network. Section 5.4 has neither, so 0 is the paper's value. Default: the value of
    dropout."""
    norm_first: bool = False
    """true: normalise before each sublayer. false: normalise after the residual sum, as in the paper."""
    tie_embeddings: bool = True
    """Share one matrix between both embedding tables and the generator."""
    attention: Literal["plain", "fused"] = "plain"
    """plain: the matrix products of lesson 01, fastest for short sentences on a CPU. fused: PyTorch's fused
    kernels, fastest on a GPU."""

    @model_validator(mode="after")
    def _heads_share_features(self) -> "ModelConfig":
        if self.d_model % self.heads:
            raise ValueError(f"d_model: must be divisible by heads ({self.heads}), but got {self.d_model}")
        return self


class TrainingConfig(Section):
    """The training settings."""

    epochs: MayChange[int | None] = Field(default=None, ge=1)
    """Passes over the training split. Training ends after these epochs or after `updates`, whichever comes
    first; at least one of them must be set."""
    updates: MayChange[int | None] = Field(default=None, ge=1)
    """Total number of weight updates."""
    tokens_per_batch: int = Field(default=4096, ge=3)
    """Largest batch: the number of its sentences times the length of the longest one, on either side."""
    batches_per_update: int = Field(default=1, ge=1)
    """Batches per weight update, over all processes together. A process with several of them accumulates
    their gradients, so the result does not depend on the number of processes. If there are more processes
    than batches, each update is divided into more and smaller batches, and a message reports this."""
    init_from: LocalPath | None = None
    """The folder of another run, or the name of a provided model such as multi30k, to start from: its trained
    weights and its vocabulary, regardless of the vocabulary settings in the data section. Default:
    random weights."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Label smoothing: the probability mass that is spread evenly over the whole vocabulary."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """adam, as in the paper, or adamw."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay, for adamw only."""
    schedule: Literal["paper", "inverse-sqrt", "linear", "cosine", "constant"] = "paper"
    """Learning rate schedule. paper: section 5.3, equation 3, times lr_factor. The others rise linearly to lr
    over warmup_steps; then inverse-sqrt decays with the inverse square root of the step, linear and cosine
    decay to zero at decay_steps, and constant stays at lr."""
    lr: float | None = Field(default=None, gt=0)
    """Highest learning rate, for every schedule but the paper's."""
    lr_factor: float = Field(default=1.0, gt=0)
    """Factor of the paper's learning rate, for schedule: paper."""
    warmup_steps: int = Field(default=4000, ge=1)
    """Updates over which the learning rate rises."""
    decay_steps: int | None = Field(default=None, ge=1)
    """The update at which a linear or cosine schedule reaches zero, counted from the first one."""
    max_grad_norm: float | None = Field(default=None, gt=0)
    """Clip the norm of the gradient, summed over all processes, to this value. Default: no clipping."""
    precision: Precision = "auto"
    """bfloat16 and float16: mixed precision; layers compute in 16 bits, weights and sums are in float32, and
    with float16 the loss is scaled. tf32: float32 with faster, less precise products on a GPU. float64: for
    exact comparisons. auto: bfloat16 if the hardware supports it, otherwise float16 on a GPU and float32
    on a CPU; the run's saved config records the choice."""
    device: MayChange[Literal["auto", "cpu", "cuda"]] = "auto"
    """auto: a GPU if there is one, otherwise the CPU."""
    threads: MayChange[int | None] = Field(default=None, ge=1, le=1024)
    """CPU threads per process. Default: the cores, divided evenly among the processes of a machine."""
    peer_timeout: MayChange[int] = Field(default=120, ge=1)
    """The run ends if another process sends no heartbeat for this many seconds."""
    compile: bool = False
    """Compile each layer and the loss with torch.compile. If that fails, training continues without it and
    reports the reason. Useful on a GPU; on a CPU, it saves no time."""
    log_every: MayChange[int] = Field(default=50, ge=1)
    """Updates between two rows of metrics.jsonl."""
    profile: MayChange[int] = Field(default=0, ge=0)
    """Number of updates to profile, soon after the start; 0 for none. The trace and a table of operations are
    written to `profile` in the run folder."""
    tensorboard: MayChange[bool] = False
    """Also write the metrics for TensorBoard, to `tensorboard` in the run folder. Needs the package
    tensorboard."""
    wandb: MayChange[str | None] = None
    """Project of Weights & Biases to which the metrics are also written. Needs the package wandb and
    `wandb login`, or WANDB_MODE=offline."""
    checkpoint_every: MayChange[int] = Field(default=500, ge=1)
    """Updates between two checkpoints. There is also one at the end of each epoch."""
    average_last: MayChange[int] = Field(default=0, ge=0)
    """Number of snapshots of the weights to average at the end (section 6.1); 0 for no averaging."""
    average_every: MayChange[int | None] = Field(default=None, ge=1)
    """Updates between snapshots for averaging. Default: one snapshot at the end of each epoch."""
    simcut_alpha: float = Field(default=0.0, ge=0)
    """Weight of SimCut's consistency loss between a batch and a copy with missing tokens (arXiv 2206.02368,
    which uses 3); 0 for none. It doubles the time of an update."""
    simcut_p: float = Field(default=0.05, gt=0, lt=1)
    """Probability that a token is missing from SimCut's copy."""

    @model_validator(mode="after")
    def _keys_fit_together(self) -> "TrainingConfig":
        if self.epochs is None and self.updates is None:
            raise ValueError("epochs: set epochs, updates or both, so that training ends")
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError("weight_decay: can only be set if optimizer is 'adamw'")
        if self.schedule == "paper" and self.lr is not None:
            raise ValueError(
                "lr: is not used if schedule is 'paper'; set lr_factor, or choose another schedule"
            )
        if self.schedule != "paper" and self.lr is None:
            raise ValueError(f"lr: must be set if schedule is '{self.schedule}'")
        if self.schedule != "paper" and self.lr_factor != 1:
            raise ValueError("lr_factor: is only used if schedule is 'paper'; set lr")
        decays = self.schedule in ("linear", "cosine")
        if decays != (self.decay_steps is not None):
            raise ValueError("decay_steps: must be set if schedule is 'linear' or 'cosine', and only then")
        if self.decay_steps is not None and self.decay_steps <= self.warmup_steps:
            raise ValueError(
                f"decay_steps: must be greater than warmup_steps ({self.warmup_steps}), "
                f"but got {self.decay_steps}"
            )
        return self


class EvaluationConfig(Section):
    """The settings for evaluation and decoding."""

    bleu_every: MayChange[int] = Field(default=1, ge=0)
    """Epochs between two BLEU scores on the validation split; 0 for none."""
    tokens_per_batch: MayChange[int] = Field(default=8192, ge=3)
    """Largest batch during evaluation."""
    weights: MayChange[ModelKind] = "last"
    """The weights for translating the test split. If this kind doesn't exist, the last weights are used."""
    beam_size: MayChange[int] = Field(default=5, ge=1, le=MAX_BEAM)
    """Hypotheses kept by beam search on the test split, at most 100; 1 is greedy decoding. Validation
    scores during training always use greedy decoding."""
    alpha: MayChange[float | Literal["auto"]] = "auto"
    """Exponent of the length penalty, 0 or greater. auto: the best value on the validation split."""
    length_factor: MayChange[float] = Field(default=1.2, gt=0, le=1000)
    """A translation has at most length_factor times the length of its source plus length_extra tokens."""
    length_extra: MayChange[int] = Field(default=10, ge=1)
    """Added to length_factor times the length of the source. Section 6.1 uses a factor of 1 and adds 50."""

    def max_target_length(self, source_length: int) -> int:
        """Return the maximum length of a translation, including the start token.

        `source_length` includes the start and end tokens.
        """
        return int(self.length_factor * source_length) + self.length_extra

    @field_validator("alpha", mode="plain")
    @classmethod
    def _auto_or_number(cls, value: object) -> object:
        if value == "auto":
            return value
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
            return float(value)
        raise ValueError(f'expected "auto" or a number greater than or equal to 0, got {yaml_value(value)}')


class CheckpointConfig(Section):
    """The settings for checkpoints and for stopping a run."""

    keep_last: MayChange[int] = Field(default=3, ge=1)
    """Number of checkpoints to keep. If the newest one is damaged, the run resumes from the one before."""
    stop_check_every: MayChange[int] = Field(default=10, ge=1)
    """With several processes, updates between two checks of whether any of them was asked to stop."""


class SelectionConfig(Section):
    """The selection of the best weights, and early stopping."""

    metric: Literal["loss", "bleu"] = "loss"
    """The metric on the validation split that decides which weights are the best."""
    patience: MayChange[int | None] = Field(default=None, ge=1)
    """Stop training after this many evaluations in a row without a new best. Default: never."""


class RunConfig(Section):
    """All settings of a run."""

    run_folder: MayChange[LocalPath]
    """The folder of the run: config, vocabulary, metrics, checkpoints and translations. It must be new or
    contain this run."""
    seed: int = Field(default=1, ge=0, le=2**63 - 1)
    """Seed of all randomness: initial weights, order of the batches, dropout."""
    data: DataConfig
    model: ModelConfig = ModelConfig()
    training: TrainingConfig
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    selection: SelectionConfig = SelectionConfig()

    @model_validator(mode="after")
    def _sections_fit_together(self) -> "RunConfig":
        max_length = self.data.max_length
        for name, budget in (
            ("training", self.training.tokens_per_batch),
            ("evaluation", self.evaluation.tokens_per_batch),
        ):
            if budget < max_length:
                raise ValueError(
                    f"{name}.tokens_per_batch: must be at least data.max_length ({max_length}), so that "
                    f"every sentence fits, but got {budget}"
                )
        longest = self.evaluation.max_target_length(max_length)
        if longest > MAX_POSITIONS:
            raise ValueError(
                f"evaluation.length_factor: with data.max_length={max_length}, a translation may have "
                f"{longest:,} tokens, but a model has only {MAX_POSITIONS:,} positions; set a smaller "
                "evaluation.length_factor, evaluation.length_extra or data.max_length"
            )
        if self.evaluation.weights == "averaged" and not self.training.average_last:
            raise ValueError(
                "evaluation.weights: averaged needs a training.average_last of at least 1, got 0"
            )
        if self.selection.metric == "bleu" and not self.evaluation.bleu_every:
            raise ValueError("selection.metric: bleu needs an evaluation.bleu_every of at least 1, got 0")
        return self


def yaml_value(value: object) -> str:
    """Format a plain value as YAML."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")
