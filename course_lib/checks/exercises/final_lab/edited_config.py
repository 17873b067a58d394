"""Find out whether a run's `config.yaml` repeats a provided configuration."""

from course_lib.errors import BadInputError


class ConfigError(ValueError):
    """A file is no configuration. The message says why."""


#: Settings that say where or how fast a run computes, not what it learns.
_NO_EDIT = {"seed", "training.precision", "training.compile"}
#: Settings that may change between two starts of a run, but that do change what it learns.
_EDIT = {"training.epochs", "training.updates"}


def repeated_config(content: bytes) -> str | None:
    """Return the name of the provided configuration that a run has used unchanged, or None.

    Only settings that affect the trained model count: the data, the sizes, the training. Raises ConfigError
    if the file is no configuration.
    """
    # These take a while to import, and the checks of all lessons import this file.
    import yaml
    from pydantic import ValidationError

    from course_lib.translation.configs.loader import provided_configs
    from course_lib.translation.configs.schema import RunConfig

    try:
        config = RunConfig.model_validate(yaml.safe_load(content))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"expected YAML, but it can't be read: {str(error).splitlines()[0]}") from None
    except (ValidationError, BadInputError) as error:
        raise ConfigError(f"not the configuration of a run: {str(error).splitlines()[0]}") from None
    own = _settings(config)
    for name, text in provided_configs().items():
        if _settings(RunConfig.model_validate(yaml.safe_load(text))) == own:
            return name
    return None


def _settings(config: object) -> dict[str, object]:
    """Return the settings that decide what a run learns, by their names."""
    from course_lib.translation.configs.schema import MayChangeMarker, Section

    found: dict[str, object] = {}
    for section in ("data", "model", "training"):
        values = getattr(config, section)
        assert isinstance(values, Section)
        for key, field in type(values).model_fields.items():
            name = f"{section}.{key}"
            marked = MayChangeMarker in field.metadata
            if name in _EDIT or not (marked or name in _NO_EDIT):
                found[name] = getattr(values, key)
    return found
