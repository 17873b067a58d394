"""The names and modules that the judge takes from a released lesson."""

from autograder.judge.lesson_context import imports_of, modules_of


def test_imports_of_the_released_lesson_are_known() -> None:
    sources = [
        "import math\nfrom collections import Counter\nside = print('effect')",
        "import nothing_of_this_name\nnot python at all (",
    ]
    assert imports_of(sources).keys() == {"math", "Counter"}


def test_the_modules_of_cells_are_those_imported_and_those_named() -> None:
    cells = ["from math import pi\nimport os.path, course_lib.checks", "torch.optim.Adam([])", "not python"]
    assert modules_of(cells) == ("math", "os.path", "torch.optim")
