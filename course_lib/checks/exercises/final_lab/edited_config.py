"""Check whether a run's `config.yaml` repeats a provided configuration."""

from course_lib.errors import BadInputError


class ConfigError(ValueError):
    """An error for a file that isn't a valid configuration. The message gives the reason."""


#: Settings that don't count as an edit: another seed, or another way to compute the same model.
_NO_EDIT = {"seed", "training.precision", "training.compile"}
#: Settings that count as an edit, although they may also change when a run is resumed.
_EDIT = {"training.epochs", "training.updates"}


def repeated_config(content: bytes) -> str | None:
    """Return the name of the provided configuration that a run has used unchanged, or None.

    Only settings that affect what the model learns are compared: those of the data, the model and the
    training. Raises ConfigError if the file isn't a valid configuration.
    """
    # These imports are slow, and the checks of all lessons import this module.
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
    """Return the settings whose change counts as an edit, by name."""
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
