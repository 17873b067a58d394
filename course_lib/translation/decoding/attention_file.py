"""Attention weights in a file, for pictures made elsewhere."""

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from course_lib.atomic_files import atomic_write
from course_lib.errors import BadInputError
from course_lib.translation.decoding.translator import AttentionMaps

SUFFIXES = (".npz", ".json")


def write_attention(path: Path, sentences: Sequence[AttentionMaps]) -> None:
    """Write the weights and tokens of some sentences, whole or not at all.

    As .npz, an array for each field of `AttentionMaps`, named by the sentence's number from zero and the
    field: "0.cross". As .json, a list of objects with those fields. Raises BadInputError for other suffixes.
    """
    if path.suffix not in SUFFIXES:
        raise BadInputError(f"{path}: expected a name that ends on {' or '.join(SUFFIXES)}")
    with atomic_write(path) as file:
        if path.suffix == ".npz":
            arrays = {
                f"{number}.{name}": np.asarray(value)
                for number, maps in enumerate(sentences)
                for name, value in _fields(maps).items()
            }
            save: Any = np.savez_compressed  # Its stub takes any name for that of an option.
            save(file, **arrays)
        else:
            objects = [{name: _rounded(value) for name, value in _fields(maps).items()} for maps in sentences]
            file.write(json.dumps(objects, ensure_ascii=False).encode("utf-8"))


def _fields(maps: AttentionMaps) -> dict[str, Any]:
    return {field.name: getattr(maps, field.name) for field in fields(maps)}


def _rounded(value: Tensor | list[str]) -> Any:
    return value.double().round(decimals=6).tolist() if isinstance(value, Tensor) else value
