"""Settings for the tests of the reference: fixed random numbers, and warnings as errors."""

from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("error"))


@pytest.fixture(autouse=True)
def _fixed_random_numbers() -> None:
    torch.manual_seed(20170612)


@pytest.fixture(params=["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def device(request: pytest.FixtureRequest) -> str:
    """The device to test on: the CPU and, if there is one, a GPU."""
    return request.param
