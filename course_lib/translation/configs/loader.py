"""Read configs from YAML, with overrides from the command line, and write them with documentation.

The error for an invalid config is one line that names the unknown keys and the invalid values.
"""

import difflib
import inspect
import re
import textwrap
from collections.abc import Hashable, Iterator, Sequence
from importlib import resources
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from course_lib.errors import BadInputError
from course_lib.translation.configs.schema import MayChangeMarker, RunConfig, Section, yaml_value

#: The maximum number of errors that a message describes.
_MAX_ERRORS = 10

#: Keys of version 0.1.0 that have been renamed, with their new names.
RENAMED = {
    "data.vocabulary_size": "data.vocab_size",
    "model.tied": "model.tie_embeddings",
    "training.clip_norm": "training.max_grad_norm",
    "training.factor": "training.lr_factor",
    "training.peak_rate": "training.lr",
    "training.schedule_updates": "training.decay_steps",
    "training.start_from": "training.init_from",
    "training.warmup": "training.warmup_steps",
    "evaluation.beam": "evaluation.beam_size",
    "evaluation.use": "evaluation.weights",
    "checkpoints.listen_every": "checkpoints.stop_check_every",
    "selection.measure": "selection.metric",
}


def load_config(name: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Load a config: a YAML file by its path, or a provided config by its name.

    The name of a provided config takes precedence over a file of that name. Each override is
    `section.key=value`, with the value in YAML. Raises BadInputError if the file cannot be read or is not
    YAML, or if a key, a value or an override is invalid.
    """
    values = _parse(name, _read(name))
    for override in overrides:
        _apply(override, values)
    return _validated(name, values)


def parse_config(origin: str, text: str) -> RunConfig:
    """Read a config from YAML. Raises BadInputError, whose message begins with `origin`, if it is invalid."""
    return _validated(origin, _parse(origin, text))


def provided_configs() -> dict[str, str]:
    """Return the YAML text of every config in the package, by name."""
    files = sorted(resources.files("course_lib.translation.configs").iterdir(), key=lambda file: file.name)
    return {file.name[:-5]: file.read_text("utf-8") for file in files if file.name.endswith(".yaml")}


def documented_yaml(config: RunConfig) -> str:
    """Return a config as YAML, with every key and its documentation. `load_config` reads it back."""
    lines: list[str] = []
    for key, field in RunConfig.model_fields.items():
        value = getattr(config, key)
        if not isinstance(value, Section):
            lines += [*_wrap(field.description, "# "), f"{key}: {yaml_value(value)}"]
            continue
        lines += ["", *_wrap(type(value).__doc__, "# "), f"{key}:"]
        for name, inner in type(value).model_fields.items():
            lines += [*_wrap(inner.description, "  # "), f"  {name}: {yaml_value(getattr(value, name))}"]
    return "\n".join(lines) + "\n"


def describe_keys() -> str:
    """Return the documentation of every key, with its default, for `--help`."""
    lines: list[str] = []
    for path, field in _fields(RunConfig):
        default = "" if field.is_required() else f" [{yaml_value(field.default)}]"
        lines += [f"  {path}{default}", *_wrap(field.description, "      ")]
    return "\n".join(lines)


def changed_values(before: RunConfig, now: RunConfig) -> dict[str, tuple[str, str]]:
    """Return the old and new value, as YAML, of each changed key that influences the weights."""
    was, is_now = yaml_values(before), yaml_values(now)
    return {
        path: (was[path], is_now[path])
        for path, field in _fields(RunConfig)
        if MayChangeMarker not in field.metadata and was[path] != is_now[path]
    }


def yaml_values(config: RunConfig) -> dict[str, str]:
    """Return the values of all keys as YAML, by `section.key`, or by `key` if it is in no section."""
    return {path: yaml_value(attrgetter(path)(config)) for path, _ in _fields(RunConfig)}


def _read(name: str) -> str:
    provided = provided_configs()
    if name in provided:
        return provided[name]
    try:
        return Path(name).read_text("utf-8")
    except OSError as error:
        files = {path.name: str(path) for path in Path(name).parent.glob("*.y*ml")}
        names = dict(zip(provided, provided, strict=True)) | files
        near = difflib.get_close_matches(Path(name).name, names, n=1)
        suggestion = f' Did you mean "{names[near[0]]}"?' if near else ""
        raise BadInputError(
            f"{name}: cannot be read ({error.strerror}). Pass a YAML file or one of {', '.join(provided)}."
            f"{suggestion}"
        ) from None
    except UnicodeDecodeError:
        raise BadInputError(f"{name}: not valid UTF-8. Convert the file to UTF-8.") from None


class _Loader(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys and aliases, and parses 1e-9 as a number, as in YAML 1.2.

    With aliases, a few hundred bytes can expand to more values than fit into memory.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # PyYAML itself rejects such a key.
            if key in seen:
                message = f'the key "{key}" is given twice'
                raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
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
    except RecursionError:
        raise BadInputError(f"{origin}: not valid YAML: nested too deeply") from None
    # PyYAML's constructors raise many kinds of exceptions, for example for an impossible date.
    except Exception as error:
        raise BadInputError(f"{origin}: not valid YAML: {str(error)[:100]}") from None
    if values is None:
        raise BadInputError(f"{origin}: the file is empty. Write keys with values into it.")
    if not isinstance(values, dict):
        raise BadInputError(f"{origin}: expected keys with values, got {_shown(values)}")
    return values


def _validated(origin: str, values: dict[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        errors = error.errors()
        more = f"; and {len(errors) - _MAX_ERRORS} more errors" if len(errors) > _MAX_ERRORS else ""
        problems = "; ".join(map(_message, errors[:_MAX_ERRORS]))
        raise BadInputError(f"{origin}: {problems}{more}") from None


def _apply(override: str, values: dict[str, Any]) -> None:
    path, equals, text = override.partition("=")
    *sections, key = path.split(".")
    if not equals or not all([*sections, key]):
        raise BadInputError(
            f'"{override}": expected an override of the form section.key=value, for example training.epochs=3'
        )
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise BadInputError(f'"{override}": "{section}" is a value, not a section')
    values[key] = _parse(f'"{override}"', f"value: {text}")["value"]


def _fields(section: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for key, field in section.model_fields.items():
        if inspect.isclass(field.annotation) and issubclass(field.annotation, Section):
            yield from _fields(field.annotation, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", field


def _wrap(text: str | None, indent: str) -> list[str]:
    words = " ".join((text or "").split())
    return textwrap.wrap(words, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _message(error: ErrorDetails) -> str:
    path = ".".join(str(part) for part in error["loc"])
    got = _shown(error["input"])
    match error["type"]:
        case "extra_forbidden":
            return f'there is no key "{path}"{_suggestion(path)}'
        case "missing":
            return f'the key "{path}" is missing'
        case "string_too_short":
            return f"{path}: must not be empty"
        case "model_type":
            return f'"{path}" is a section: expected keys with values, got {got}'
        case "value_error":
            # The messages of a section's validators begin with the key, without the name of the section.
            is_section = path in RunConfig.model_fields and path not in dict(_fields(RunConfig))
            mark = "." if is_section else ": " if path else ""
            return f"{path}{mark}{error['ctx']['error']}"
    expected = error["msg"].removeprefix("Input should be ").replace("'", '"').replace("a valid ", "a ")
    expected = re.sub("^(greater|less)", r"a number \1", expected).replace("a integer", "an integer")
    return f"{path}: expected {expected}, got {got}"


def _shown(value: object) -> str:
    try:
        return textwrap.shorten(yaml_value(value), 100, placeholder=" …")
    except ValueError:
        return "a number with thousands of digits"


def _suggestion(path: str) -> str:
    if path in RENAMED:
        return f'; it is now "{RENAMED[path]}"'
    known = list(dict.fromkeys([*(path for path, _ in _fields(RunConfig)), *RunConfig.model_fields]))
    section, _, key = path.rpartition(".")
    siblings = [name for name in known if name.rpartition(".")[0] == section]
    for paths, cutoff in ((siblings, 0.6), (known, 0.8)):
        path_of = {path.rpartition(".")[2]: path for path in paths}
        if near := difflib.get_close_matches(key, path_of, n=1, cutoff=cutoff):
            return f'; did you mean "{path_of[near[0]]}"?'
    names = ", ".join(name.rpartition(".")[2] for name in siblings)
    return f"; the keys there are {names}" if names else ""
