"""The lock file, which the Makefile and conda install and which must satisfy pyproject.toml."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lock() -> dict[str, list[Requirement]]:
    """Return the pins by name. A package may have several, for different platforms or Python versions."""
    pins: dict[str, list[Requirement]] = {}
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            pins.setdefault(requirement.name.lower(), []).append(requirement)
    return pins


def wanted() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    return [requirement for requirement in map(Requirement, lines) if requirement.name != PROJECT["name"]]


def test_every_pin_is_exact() -> None:
    for pins in lock().values():
        for pin in pins:
            assert re.fullmatch(r"==[^,*]+", str(pin.specifier)), pin


def test_the_lock_holds_all_that_the_project_wants() -> None:
    pins = lock()
    for requirement in wanted():
        name = requirement.name.lower()
        assert name in pins, f"{name} is not locked: run `make lock`"
        for pin in pins[name]:
            (locked,) = [specifier.version for specifier in pin.specifier]
            assert requirement.specifier.contains(locked), f"{pin} is not {requirement}: run `make lock`"


def test_torch_is_the_tested_one_and_cuda_is_left_to_it() -> None:
    assert [str(pin) for pin in lock()["torch"]] == ["torch==2.13.0"]
    assert not [name for name in lock() if name.startswith(("nvidia", "cuda", "triton"))]


def test_conda_and_make_install_this_lock() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, of_pip = environment["dependencies"]
    assert of_pip == {"pip": ["-r requirements.lock", "-e ."]}
    assert pip == "pip"
    assert SpecifierSet(PROJECT["requires-python"]).contains(python.removeprefix("python="))
    assert "install --quiet --disable-pip-version-check --no-compile --requirement requirements.lock" in (
        ROOT / "Makefile"
    ).read_text(encoding="utf-8")


def test_what_is_installed_is_what_is_locked() -> None:
    """The tests must run with the locked versions."""
    for name, pins in lock().items():
        (here,) = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()] or [None]
        if here is not None:
            (locked,) = [specifier.version for specifier in here.specifier]
            assert Version(version(name)).public == Version(locked).public, name


def test_a_cluster_node_needs_no_notebooks() -> None:
    cluster = [Requirement(line).name for line in PROJECT["optional-dependencies"]["cluster"]]
    assert not {"jupyterlab", "nbgrader", "altair", "spacy", "pandas"} & set(cluster)
