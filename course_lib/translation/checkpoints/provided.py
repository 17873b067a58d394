"""Trained models that are included in the course, for translating and drawing charts without training.

A provided model is a folder in `provided/` with the config, the vocabulary and the search settings of its
run, a model card (README.md), and the weights in float16 as one safetensors file with a checksum. That file
is split into parts, because a repository stores small files better than a large one.

To write such a folder from a run:

    python -m course_lib.translation.checkpoints.provided RUN_FOLDER FOLDER

The model card is written by hand.
"""

import argparse
import difflib
import hashlib
import json
import shutil
from pathlib import Path

import safetensors.torch
import torch
import yaml

from course_lib.errors import BadInputError
from course_lib.translation.checkpoints.run_folder import RunFolder
from course_lib.translation.checkpoints.trained_model import TrainedModel, TrainedRun, load_trained_run
from course_lib.translation.configs.loader import load_config
from course_lib.translation.data.vocabulary import Vocabulary

_FOLDER = Path(__file__).with_name("provided")
_PIECE_BYTES = 450_000
#: The file with the SHA-256 of the whole safetensors file, before it is split into parts.
_CHECKSUM = "model.sha256"
#: The names of the weights that share one matrix if `model.tie_embeddings` is set. Only the first is stored.
_FIRST, *_TIED = ("source_embedding.table.weight", "target_embedding.table.weight", "generator.weight")


def provided_models() -> list[str]:
    """List the names of the provided models."""
    return sorted(path.name for path in _FOLDER.iterdir() if path.is_dir())


def find_run(name: str | Path) -> tuple[RunFolder, bool]:
    """Return the folder of a run or of a provided model, and whether it is a provided model.

    `name` is the path of a run or the name of a provided model. An existing path takes precedence over a
    provided model of the same name. If there is neither, the returned folder doesn't exist.
    """
    path = Path(name).expanduser()
    is_provided = not path.exists() and str(name) in provided_models()
    return RunFolder(_FOLDER / path if is_provided else path), is_provided


def load_run(name: str | Path, checkpoint: str | None = None) -> TrainedRun:
    """Load the trained model of a run, or a provided model.

    `name` has the same meaning as in `find_run`, and `checkpoint` as in `load_trained_run`. Raises
    BadInputError if the model cannot be loaded or is damaged, or if `checkpoint` is set for a provided model,
    which has only one.
    """
    folder, is_provided = find_run(name)
    if not is_provided:
        if not folder.path.is_dir():
            raise BadInputError(_no_run(folder.path))
        return load_trained_run(folder, checkpoint)
    if checkpoint is not None:
        raise BadInputError(
            f"--checkpoint: the provided model {name} has only one checkpoint. Leave out this option."
        )
    return load_provided(folder)


def _no_run(path: Path) -> str:
    if path.exists():
        return f"{path}: this is a file. Pass the folder of a run."
    known = provided_models()
    near = difflib.get_close_matches(str(path), known, n=1)
    suggestion = f' Did you mean "{near[0]}"?' if near else ""
    return (
        f"{path}: there is no such folder. Pass the folder of a run or a provided model "
        f"({', '.join(known)}).{suggestion}"
    )


def load_provided(folder: RunFolder) -> TrainedRun:
    """Load the provided model in a folder, with weights in float32. Raises BadInputError if it is damaged."""
    config = load_config(str(folder.config))
    vocabulary = Vocabulary.load(folder.vocabulary, config.data.direction)
    pieces = sorted(folder.path.glob("model.safetensors.*"), key=lambda path: int(path.suffix[1:]))
    data = b"".join(path.read_bytes() for path in pieces)
    checksum = folder.path / _CHECKSUM
    expected = checksum.read_text("utf-8").strip() if checksum.is_file() else ""
    if hashlib.sha256(data).hexdigest() != expected:
        raise BadInputError(
            f"{folder.path}: the provided model is damaged (its checksum is wrong). Install the course again."
        )
    weights = safetensors.torch.load(data)
    facts = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    if facts["vocabulary"] != vocabulary.fingerprint:
        raise BadInputError(
            f"{folder.vocabulary}: the vocabulary of the provided model is damaged. Install the course again."
        )
    weights = {name: weight.float() for name, weight in weights.items()}
    if config.model.tie_embeddings:
        weights |= dict.fromkeys(_TIED, weights[_FIRST])
    model = TrainedModel(config, facts["vocabulary"], weights, int(facts["step"]))
    return TrainedRun(folder, model, vocabulary)


def provide(run: RunFolder, folder: Path) -> None:
    """Write the model that a run's config selects into `folder`, in the format of a provided model.

    No model card is written. Raises BadInputError for the same reasons as `load_trained_run`.
    """
    model = load_trained_run(run).model
    tied = _TIED if model.config.model.tie_embeddings else []
    kept = {
        name: weight.to(torch.float16).contiguous()
        for name, weight in model.weights.items()
        if name not in tied
    }
    data = safetensors.torch.save(kept, {"vocabulary": model.vocabulary, "step": str(model.step)})
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model.safetensors.*"):
        old.unlink()
    (folder / _CHECKSUM).write_text(f"{hashlib.sha256(data).hexdigest()}\n", "utf-8")
    for number, start in enumerate(range(0, len(data), _PIECE_BYTES)):
        (folder / f"model.safetensors.{number:02}").write_bytes(data[start : start + _PIECE_BYTES])
    settings = yaml.safe_dump(model.config.model_dump(exclude_defaults=True), sort_keys=False)
    (folder / run.config.name).write_text(settings, "utf-8")
    if run.search.exists():
        shutil.copyfile(run.search, folder / run.search.name)
    vocabulary = json.loads(run.vocabulary.read_text("utf-8"))
    (folder / run.vocabulary.name).write_text(json.dumps(vocabulary, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a run's model in the format of a provided model.")
    parser.add_argument("run", type=Path, metavar="RUN_FOLDER")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    provide(RunFolder(options.run), options.folder)
