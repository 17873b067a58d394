"""The documentation: its links work, and the messages and modules that it names exist."""

import ast
import re
import runpy
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from traitlets.config import Config

from course_lib.curriculum.course_file import load_curriculum
from tests.site import built_site

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.mark.slow
def test_the_site_builds_without_warnings_or_broken_links(tmp_path_factory: pytest.TempPathFactory) -> None:
    site = built_site(tmp_path_factory)
    assert site.built, site.warnings
    lesson = (site.folder / "lessons/01-attention.html").read_text(encoding="utf-8")
    reference = (site.folder / "reference.html").read_text(encoding="utf-8")
    assert 'id="course_lib.transformer.attention.attention_scores"' in reference
    assert "py:function::" not in reference
    assert "<math" in lesson
    assert "is yours to write" in lesson
    assert "MARK SCHEME" not in lesson
    asked_for = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?))"', lesson)
    assert asked_for == [], "the site must work without the internet"


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in DOCS.glob("*.md"))]
)
def test_links_to_files_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_the_plan_for_the_term_has_the_minutes_and_points_of_the_lessons() -> None:
    guide = (DOCS / "instructor-guide.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\d-[\w-]+) \| (\d+) \| (\d+) \| (\d+) \|", guide, re.MULTILINE)
    expected = []
    for lesson in load_curriculum(ROOT).lessons:
        explanations = sum(one.points for one in lesson.explanations)
        others = (*lesson.exercises, *lesson.predictions, *lesson.hand_ins)
        expected.append((lesson.name, lesson.minutes, sum(one.points for one in others), explanations))
    assert [(name, *map(int, numbers)) for name, *numbers in rows] == expected
    automatic, by_hand = (sum(row[column] for row in expected) for column in (2, 3))
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"give {automatic + by_hand} points, {automatic} of them from automatic checks" in readme


def test_a_changed_chart_makes_the_pages_of_the_lessons_outdated(tmp_path: Path) -> None:
    digest_of = runpy.run_path(str(DOCS / "lessons.py"))["digest_of"]
    chart = tmp_path / "charts" / "masks.py"
    chart.parent.mkdir()
    chart.write_text("SIZE = 1\n", encoding="utf-8")
    before = digest_of(tmp_path)
    assert digest_of(tmp_path) == before
    chart.write_text("SIZE = 2\n", encoding="utf-8")
    assert digest_of(tmp_path) != before


def test_only_the_error_of_an_invalid_course_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(DOCS / "lessons.py"))["main"]
    monkeypatch.setitem(main.__globals__, "COURSE", tmp_path)
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions/course.toml").write_text("lessons = 1\n", encoding="utf-8")
    assert main(["01-attention", "--into", str(tmp_path / "pages")]) == 1
    assert "course.toml" in (told := capsys.readouterr().err)
    assert "there is no lesson called" not in told


def test_the_messages_that_the_faq_and_the_lab_guide_explain_exist() -> None:
    faq = re.findall(r"^\*\*`(.+)`\*\*$", (DOCS / "faq.md").read_text(encoding="utf-8"), re.MULTILINE)
    guide = (DOCS / "lab-guide.md").read_text(encoding="utf-8")
    [table] = re.findall(r"^\| Message \| Meaning \|\n\|---\|---\|\n((?:\|.+\n)+)", guide, re.MULTILINE)
    rows = table.splitlines()
    in_guide = [message for row in rows for message in re.findall("`(.+?)`", row.split("|")[1])]
    code = [text for name in ("course_lib", "autograder") for text in _strings(ROOT / name)]
    assert len(faq) >= 5
    assert len(in_guide) >= 8
    missing = [
        message
        for message in faq + in_guide
        if not any(re.search(_any_values(message), text, re.DOTALL) for text in code)
    ]
    assert missing == []


def _strings(folder: Path) -> Iterator[str]:
    """Yield every string in the code of a folder, with `{}` for each formatted value."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _any_values(message: str) -> str:
    """Return a pattern for a message in which `...`, numbers and signal names match any text."""
    return ".*".join(map(re.escape, re.split(r"\.\.\.|\d[\d.]*|SIG[A-Z]+", message)))


def test_the_late_penalty_in_the_guide_is_ten_percent_for_each_day_begun() -> None:
    [code] = re.findall(
        r"^  ```python\n(.+?)^  ```$", (DOCS / "instructor-guide.md").read_text("utf-8"), re.M | re.S
    )
    c = Config()
    exec(textwrap.dedent(code), {"c": c})
    penalty = c.AssignLatePenalties.plugin_class().late_submission_penalty
    hours = [1, 24, 25, 1000]
    assert [penalty("anna", 10.0, 3600.0 * each) for each in hours] == pytest.approx([1, 1, 2, 10])


def test_the_reference_has_every_module() -> None:
    listed = re.findall(
        r"automodule:: course_lib\.transformer\.(\w+)", (DOCS / "reference.md").read_text("utf-8")
    )
    modules = [path.stem for path in (ROOT / "course_lib/transformer").glob("[!_]*.py")]
    assert sorted(listed) == sorted(modules)
