"""The documentation: every page and link exists, and so does everything that it quotes."""

import re
import runpy
from pathlib import Path

import pytest

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


def test_a_changed_chart_makes_the_pages_of_the_lessons_outdated(tmp_path: Path) -> None:
    digest_of = runpy.run_path(str(DOCS / "lessons.py"))["digest_of"]
    chart = tmp_path / "charts" / "masks.py"
    chart.parent.mkdir()
    chart.write_text("SIZE = 1\n", encoding="utf-8")
    before = digest_of(tmp_path)
    assert digest_of(tmp_path) == before
    chart.write_text("SIZE = 2\n", encoding="utf-8")
    assert digest_of(tmp_path) != before


def test_the_messages_that_the_faq_explains_exist() -> None:
    messages = re.findall(r"^\*\*`(.+)`\*\*$", (DOCS / "faq.md").read_text(encoding="utf-8"), re.MULTILINE)
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for name in ("course_lib", "autograder")
        for path in (ROOT / name).rglob("*.py")
    )
    assert len(messages) >= 5
    assert [message for message in messages if message not in code] == []


def test_the_reference_has_every_module() -> None:
    listed = re.findall(
        r"automodule:: course_lib\.transformer\.(\w+)", (DOCS / "reference.md").read_text("utf-8")
    )
    modules = [path.stem for path in (ROOT / "course_lib/transformer").glob("[!_]*.py")]
    assert sorted(listed) == sorted(modules)
