"""A grader's session with `course mark`, using only the keyboard."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from autograder.marking.server import MarkingServer
from tests.autograder.marked_class import MarkedClass, served
from tests.browser.screenshots import shoot

pytestmark = pytest.mark.browser

ANSWERS = {
    "anna": "The variances of independent terms add up, so the standard deviation grows with the root of d.",
    "bela": "The variances of independent terms add up, so the deviation grows with the root of d.",
    "cleo": "Because the softmax is saturated.",
}


def test_a_grader_needs_no_mouse(tmp_path: Path, page: Page) -> None:
    marked = MarkedClass.make(tmp_path / "course")
    marked.hand_in(ANSWERS)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    with served(MarkingServer(marked.answers(), marked.bank())) as address:
        page.goto(address)
        cards = page.locator(".card")
        expect(cards).to_have_count(3)
        expect(cards.nth(0)).to_be_focused()

        # The first of two similar answers: one criterion, a comment from the bank, and one for the bank.
        page.keyboard.press("2")
        expect(cards.nth(0).locator("[name=points]")).to_have_value("2")
        page.keyboard.press("b")
        page.keyboard.type("criterion 1")
        shoot(page, "marking-1-bank")
        page.keyboard.press("Enter")
        expect(cards.nth(0).locator("textarea")).to_be_focused()
        page.keyboard.press("Control+End")
        page.keyboard.type(" Say so: j, f and 0 are typed here.")
        page.keyboard.press("Escape")
        page.keyboard.press("a")
        page.keyboard.type("independence")
        page.keyboard.press("Enter")
        expect(cards.nth(0)).to_contain_text("The comment is in the bank.")
        page.keyboard.press("Enter")

        # The second gets the same, the third no points.
        expect(cards.nth(1)).to_be_focused()
        page.keyboard.press("g")
        shoot(page, "marking-2-criteria")
        page.keyboard.press("Enter")
        expect(cards.nth(2)).to_be_focused()
        page.keyboard.press("0")
        page.keyboard.press("Enter")
        expect(cards.nth(2)).to_contain_text("0 of 3 points")
        shoot(page, "marking-3-marked")
    comment = "the variances of *independent* terms. Say so: j, f and 0 are typed here."
    assert problems == []
    for student in ("anna", "bela"):
        assert marked.in_formgrader(student) == (2.0, None, False, comment)
    assert marked.in_formgrader("cleo") == (0.0, None, False, None)
    assert [one.text for one in marked.bank().comments(marked.question())][:1] == [comment]
