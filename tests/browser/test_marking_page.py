"""Graders' sessions with `course mark`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, Route, expect

from autograder.marking.comment_bank import FILE
from autograder.marking.server import MarkingServer
from tests.autograder.marking.marked_class import MarkedClass, served
from tests.browser.accessibility import overflow, violations
from tests.browser.screenshots import shoot

pytestmark = pytest.mark.browser

ANSWERS = {
    "anna": "The variances of independent terms add up, so the standard deviation grows with the root of d.",
    "bela": "The variances of independent terms add up, so the deviation grows with the root of d.",
    "cleo": "Because the softmax is saturated.",
}


@pytest.fixture
def marked(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> MarkedClass:
    """A class of three students."""
    made = MarkedClass.make(tmp_path / "course", tmp_path_factory)
    made.hand_in(ANSWERS)
    return made


def test_a_grader_needs_no_mouse(marked: MarkedClass, page: Page) -> None:
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    with served(MarkingServer(marked.answers(), marked.bank())) as address:
        page.goto(address)
        cards = page.locator(".card")
        expect(cards).to_have_count(3)
        expect(cards.nth(0)).to_be_focused()

        # The first of two similar answers gets points, and a comment from the bank, which is extended and
        # saved in the bank.
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

        # The second answer gets the same mark, and the third gets no points.
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


@contextmanager
def opened(marked: MarkedClass, page: Page) -> Iterator[list[Route]]:
    """Open the page, and yield a list of its save requests. Each waits until the test continues it."""
    requests: list[Route] = []
    for path in ("marks", "comments"):
        page.route(f"**/{path}", lambda route: requests.append(route))
    with served(MarkingServer(marked.answers(), marked.bank())) as address:
        page.goto(address)
        expect(page.locator(".card").nth(0)).to_be_focused()
        yield requests


def sent(requests: list[Route], number: int, page: Page) -> Route:
    """Wait for a save request, which the browser may send a little after it shows "Saving…"."""
    for _ in range(500):
        if len(requests) > number:
            return requests[number]
        page.wait_for_timeout(10)
    raise AssertionError(f"expected {number + 1} save requests, got {len(requests)}")


def test_a_key_that_is_held_down_saves_one_answer_once(marked: MarkedClass, page: Page) -> None:
    with opened(marked, page) as requests:
        first, second = page.locator(".card").nth(0), page.locator(".card").nth(1)
        page.keyboard.press("f")
        for _ in range(3):
            page.keyboard.down("Enter")  # after the first, these are repeats of a held key
        expect(first).to_contain_text("Saving…")
        sent(requests, 0, page).continue_()
        expect(second).to_be_focused()
        for _ in range(3):
            page.keyboard.down("Enter")
        page.keyboard.up("Enter")
        expect(first).to_contain_text("3 of 3 points")
        expect(second.locator(".said")).to_have_text("")
        assert len(requests) == 1


def test_a_double_click_saves_once(marked: MarkedClass, page: Page) -> None:
    with opened(marked, page) as requests:
        first, second = page.locator(".card").nth(0), page.locator(".card").nth(1)
        page.keyboard.press("f")
        first.locator(".save").dblclick()
        expect(first).to_contain_text("Saving…")
        sent(requests, 0, page)
        for request in requests:
            request.continue_()
        expect(second).to_be_focused()
        expect(first.locator(".conflict")).to_be_empty()
        assert len(requests) == 1


def test_a_comment_is_added_to_the_bank_once(marked: MarkedClass, page: Page) -> None:
    with opened(marked, page) as requests:
        first = page.locator(".card").nth(0)
        first.locator("textarea").fill("Why?")
        first.press("a")
        page.keyboard.type("why")
        for _ in range(3):
            page.keyboard.down("Enter")
        page.wait_for_timeout(200)
        sent(requests, 0, page)
        for request in requests:
            request.continue_()
        expect(first).to_contain_text("The comment is in the bank.")
        assert len(requests) == 1


def test_what_is_typed_while_a_mark_is_saved_is_not_lost(marked: MarkedClass, page: Page) -> None:
    with opened(marked, page) as requests:
        first = page.locator(".card").nth(0)
        page.keyboard.press("f")
        page.keyboard.press("c")
        page.keyboard.type("Good.")
        page.keyboard.press("Control+Enter")
        expect(first).to_contain_text("Saving…")
        page.keyboard.type(" Very")
        sent(requests, 0, page).continue_()
        expect(first).to_contain_text("Saved, without your latest changes.")
        with page.expect_event("dialog") as asked:
            page.evaluate("() => { setTimeout(() => location.reload()) }")
        assert asked.value.type == "beforeunload"
        asked.value.dismiss()
        page.keyboard.type(" good.")
        expect(first.locator("textarea")).to_have_value("Good. Very good.")
        page.keyboard.press("Control+Enter")
        expect(first).to_contain_text("Saving…")
        sent(requests, 1, page).continue_()
        expect(page.locator(".card").nth(1)).to_be_focused()
        questions: list[Dialog] = []
        page.on("dialog", lambda dialog: (questions.append(dialog), dialog.accept()))
        page.reload()
        assert not questions, "everything is saved"


@pytest.mark.parametrize("hidden_because", ["it is marked", "it is on another page"])
def test_the_mark_of_a_hidden_first_answer_can_be_copied(
    hidden_because: str, marked: MarkedClass, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(MarkingServer(marked.answers(), marked.bank())) as address:
        page.goto(address)
        expect(page.locator(".card").nth(0)).to_be_focused()
        words = page.locator(".answer").nth(0).inner_text()
        page.keyboard.press("2")
        page.keyboard.press("c")
        page.keyboard.type("Why <b>independent</b>?")
        page.keyboard.press("Control+Enter")
        expect(page.locator(".card").nth(1)).to_be_focused()
        if hidden_because == "it is marked":
            page.reload()
        else:
            monkeypatch.setattr("autograder.marking.server.PAGE", 1)
            page.get_by_role("link", name="Show all answers").click()
            page.get_by_role("link", name="Next cards").click()
        page.locator(".first summary").click()
        expect(page.locator(".first")).to_contain_text("First answer of the group: 2 of 3 points")
        expect(page.locator(".first")).to_contain_text(words)
        expect(page.locator(".first")).to_contain_text("Why <b>independent</b>?")
        assert violations(page) == ""
        shoot(page, f"marking-hidden-{hidden_because.split()[-1]}")
        second = page.locator(".card").nth(0)
        expect(second).to_contain_text("Differences from the first answer of the group")
        second.press("g")
        expect(second).to_contain_text("Copied, not saved yet.")
        second.press("Enter")
        expect(second).to_contain_text("2 of 3 points")
    assert marked.in_formgrader("bela") == marked.in_formgrader("anna")
    assert marked.in_formgrader("bela") == (2.0, None, False, "Why <b>independent</b>?")


def test_long_paths_and_formulas_fit_on_a_phone(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, page: Page
) -> None:
    root = tmp_path / "a_course_with_a_long_name_that_is_not_easy_to_break"
    marked = MarkedClass.make(root, tmp_path_factory)
    marked.hand_in({"anna": f"$$a = {' + '.join('bcdefghijklmnopqrstuvwxyz')}$$"})
    (marked.root / "autograder" / FILE).mkdir()
    page.set_viewport_size({"width": 400, "height": 900})
    with served(MarkingServer(marked.answers(), marked.bank())) as address:
        page.goto(address)
        expect(page.locator("header .note")).to_contain_text(f"{FILE} cannot be read")
        assert overflow(page) == 0
        expect(page.locator(".answer")).to_have_attribute(
            "tabindex", "0"
        )  # arrow keys can scroll the formula
