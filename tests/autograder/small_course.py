"""A complete course with one small lesson, for tests that break one thing in it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.release.build import COURSE

LESSON = "01-scores"

MANIFEST = """\
files = ["AGENTS.md"]

[[lessons]]
name = "01-scores"
title = "Scores"
minutes = 10
seed = 5
files = ["data/words.txt"]

[[lessons.predictions]]
name = "predict_spread"
points = 1

[[lessons.exercises]]
name = "attention_scores"
points = 4
hints = ["Look at the last axis.", "It is a product of matrices.", "Divide by the root."]
deductions = { not_scaled = 2.5 }
may_not_call = ["torch.nn.functional.scaled_dot_product_attention"]

[[lessons.explanations]]
name = "explain_root"
points = 2
"""

SOURCE = """\
# %% [markdown]
# # A small lesson

# %% given="setup"
import math

import torch
from jaxtyping import Float
from torch import Tensor

from course_lib.checks import check

# %% predict="predict_spread"
# How far do the dot products of two vectors of 64 numbers spread?

# %% check="predict_spread"

# %% build="attention_scores"
### BEGIN SOLUTION course_lib.transformer.attention:attention_scores

# %% [markdown] hints="attention_scores"

# %% check="attention_scores"

# %% tags=["see"]
attention_scores(torch.zeros(2, 4), torch.ones(3, 4)).shape

# %%
# A cell to play with.
print(open("data/words.txt").read())

# %% [markdown]
# Why the root?

# %% [markdown] explain="explain_root"
# The variances of independent products add up.
#
# ### BEGIN MARK SCHEME
# - 2 points: says that variances add up.
# ### END MARK SCHEME
"""


@dataclass(frozen=True)
class SmallCourse:
    """A small course in a folder, and methods that change it."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> "SmallCourse":
        """Write a valid course, without building it."""
        course = cls(root)
        course.write("solutions/course.toml", MANIFEST)
        course.write(f"solutions/{LESSON}/{LESSON}.py", SOURCE)
        course.write(f"solutions/{LESSON}/data/words.txt", "ein Hund\n")
        course.write("solutions/AGENTS.md", "Explain, and leave the writing to the student.\n")
        (root / "autograder").mkdir()
        shutil.copyfile(COURSE / "autograder/nbgrader_config.py", root / "autograder/nbgrader_config.py")
        return course

    def write(self, name: str, text: str) -> None:
        """Write a file, by its path inside the course."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def change(self, name: str, old: str, new: str) -> None:
        """Replace a text that occurs exactly once in a file."""
        text = (self.root / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {name}"
        self.write(name, text.replace(old, new))

    def change_manifest(self, old: str, new: str) -> None:
        """Replace a text in course.toml."""
        self.change("solutions/course.toml", old, new)

    def change_source(self, old: str, new: str) -> None:
        """Replace a text in the lesson's source."""
        self.change(f"solutions/{LESSON}/{LESSON}.py", old, new)

    def add_copy(self, name: str) -> None:
        """Add a copy of the lesson with another name."""
        manifest = (self.root / "solutions/course.toml").read_text(encoding="utf-8")
        lesson = manifest[manifest.index("[[lessons]]") :]
        self.write("solutions/course.toml", f"{manifest}\n{lesson.replace(LESSON, name)}")
        folder = self.root / "solutions" / name
        shutil.copytree(self.root / "solutions" / LESSON, folder)
        (folder / f"{LESSON}.py").rename(folder / f"{name}.py")

    def released(self) -> NotebookNode:
        """Read the released lesson."""
        return nbformat.read(self.root / "lessons" / LESSON / f"{LESSON}.ipynb", as_version=4)

    def solution(self) -> NotebookNode:
        """Read the lesson's solution notebook."""
        return nbformat.read(self.root / "solutions" / LESSON / f"{LESSON}.ipynb", as_version=4)


def cell_of(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return the cell with this id."""
    return next(cell for cell in notebook.cells if cell.id == name)
