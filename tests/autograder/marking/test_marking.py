"""Marking by question: answers are grouped, no mark is lost, and nothing in a submission runs."""

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from re import findall

import pytest

from autograder.example_class import example_lesson
from autograder.marking.__main__ import main
from autograder.marking.answers import Answer, ChangedError, LessonAnswers, Mark, WrittenCell
from autograder.marking.comment_bank import FILE, CommentBank, CommentError
from autograder.marking.grouping import differing_words, grouped
from autograder.marking.server import PAGE, POLICY, MarkingServer, _state
from autograder.release.build import COURSE
from autograder.release.mark_scheme import Criterion, mark_schemes
from course_lib.curriculum import public_curriculum
from tests.autograder.marking.marked_class import LESSON, NAME, Browser, MarkedClass, served
from tests.autograder.nbgrader.unix_accounts import accounts, why_unavailable

pytestmark = pytest.mark.slow

LONG = "The variances of independent terms add up, so the standard deviation grows with the root of d."


@pytest.fixture
def marked(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> MarkedClass:
    return MarkedClass.make(tmp_path / "course", tmp_path_factory)


@pytest.fixture
def browser(marked: MarkedClass) -> Iterator[Browser]:
    with served(MarkingServer(marked.answers(), marked.bank())) as address:
        yield Browser(address)


def answer(id: str, text: str, **more: object) -> Answer:
    mark = Mark(points=None, comment="", automatic=None, extra=None, waiting=True)
    return Answer(id, f"student {id}", id, id, WrittenCell(text, **more), mark)


# --- Grouping ---


def test_identical_and_nearly_identical_answers_are_grouped() -> None:
    nearly = LONG.replace("independent terms", "independent, equal terms")
    groups = grouped(
        [
            answer("1", "Something else entirely, about the softmax and its gradient."),
            answer("2", nearly),
            answer("3", LONG),
            answer("4", f"  {LONG.replace(' ', chr(10), 1)} "),
            answer("5", LONG.upper()),
        ]
    )
    ids = [[[one.id for one in card.answers] for card in group.cards] for group in groups]
    assert ids == [[["3", "4"], ["2"], ["5"]], [["1"]]]
    assert [group.size for group in groups] == [4, 1]
    found = [(piece.of, piece.parts) for piece in differing_words(answer("3", LONG), answer("2", nearly))]
    assert ("first", ["independent"]) in found
    assert ("second", ["independent,", "equal"]) in found


def test_equal_answers_with_unequal_marks_are_marked_one_by_one() -> None:
    two = [answer("1", LONG), answer("2", LONG)]
    marked = Answer("3", "c", "c", "3", WrittenCell(LONG), Mark(2.0, "", None, None, False))
    assert [len(card.answers) for card in grouped([*two, marked])[0].cards] == [2, 1]


def test_answers_with_other_pictures_and_empty_ones_are_not_alike() -> None:
    picture = {"a.png": {"image/png": "AAAA"}}
    groups = grouped(
        [answer("1", LONG), answer("2", LONG, attachments=picture), *map(answer, "34", ["", ""])]
    )
    assert sorted(group.size for group in groups) == [1, 1, 2]


# --- Mark schemes ---


def test_a_mark_scheme_has_a_question_a_model_answer_and_criteria(marked: MarkedClass) -> None:
    scheme = mark_schemes(marked.root / "solutions" / LESSON / f"{LESSON}.ipynb")[NAME]
    assert (scheme.question.strip(), scheme.model_answer) == ("Why **the root**?", "They add up.")
    assert scheme.criteria == (
        Criterion(1.0, "the variances of *independent* terms."),
        Criterion(2.0, "they add up, so the root grows."),
    )


# --- Saving ---


def test_formgrader_sees_the_mark_and_extra_credit_stays(marked: MarkedClass) -> None:
    marked.hand_in({"anna": LONG, "bela": LONG})
    marked.mark_in_formgrader("anna", 1, "by Formgrader")
    answers, question = marked.answers(), marked.question()
    versions = {one.id: one.version for one in answers.answers(question)}
    answers.save(question, versions, 2.5, " Good. ")
    assert marked.in_formgrader("anna") == (2.5, 0.5, False, "Good.")
    assert marked.in_formgrader("bela") == (2.5, None, False, "Good.")
    versions = {one.id: one.version for one in answers.answers(question)}
    answers.save(question, versions, None, "")
    assert marked.in_formgrader("bela") == (None, None, True, None)


@pytest.mark.parametrize("points", [-0.5, 3.5, float("nan"), float("inf")])
def test_impossible_points_are_refused(marked: MarkedClass, points: float) -> None:
    marked.hand_in({"anna": LONG})
    answers, question = marked.answers(), marked.question()
    [one] = answers.answers(question)
    with pytest.raises(ValueError, match="expected a number from 0 to 3"):
        answers.save(question, {one.id: one.version}, points, "")
    with pytest.raises(ValueError, match="no longer in the gradebook"):
        answers.save(question, {"another": one.version}, 1, "")
    assert marked.in_formgrader("anna") == (None, None, True, None)


def test_a_mark_never_replaces_one_that_the_grader_has_not_seen(marked: MarkedClass) -> None:
    marked.hand_in({"anna": LONG, "bela": LONG})
    answers, question = marked.answers(), marked.question()
    seen = {one.id: one.version for one in answers.answers(question)}
    marked.mark_in_formgrader("anna", 1, "by Formgrader")
    with pytest.raises(ChangedError) as refused:
        answers.save(question, seen, 3, "all of them")
    [changed] = refused.value.changed
    assert (changed.student, changed.mark.points, changed.mark.comment) == ("anna", 1, "by Formgrader")
    assert marked.in_formgrader("bela") == (None, None, True, None), "nothing may be saved"
    answers.save(question, seen | {changed.id: changed.version}, 3, "all of them")
    assert marked.in_formgrader("anna") == (3, 0.5, False, "all of them")


def test_a_mark_is_not_given_to_an_answer_that_has_changed(marked: MarkedClass) -> None:
    marked.hand_in({"anna": LONG})
    answers, question = marked.answers(), marked.question()
    [one] = answers.answers(question)
    marked.hand_in({"anna": "Another answer."})
    with pytest.raises(ChangedError):
        answers.save(question, {one.id: one.version}, 3, "")
    assert marked.in_formgrader("anna")[0] is None


def test_of_graders_who_save_at_the_same_moment_one_wins(marked: MarkedClass) -> None:
    marked.hand_in({"anna": LONG})
    question = marked.question()
    graders = [marked.answers() for _ in range(4)]
    seen = [{one.id: one.version for one in each.answers(question)} for each in graders]
    together = threading.Barrier(len(graders))
    outcomes: list[float | str] = []

    def save(grader: int) -> None:
        together.wait()
        try:
            graders[grader].save(question, seen[grader], grader / 2, f"grader {grader}")
            outcomes.append(grader / 2)
        except ChangedError:
            outcomes.append("told")

    threads = [threading.Thread(target=save, args=(grader,)) for grader in range(len(graders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("told") == len(graders) - 1
    [won] = [points for points in outcomes if points != "told"]
    assert marked.in_formgrader("anna")[0] == won


@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_two_unix_accounts_mark_and_share_comments(marked: MarkedClass) -> None:
    marked.hand_in({"anna": LONG, "bela": "Because it does."})
    question = marked.question()
    first, second = (
        [one for one in marked.answers().answers(question) if one.student == name]
        for name in ("anna", "bela")
    )
    for folder in marked.root.parents:
        if folder.stat().st_mode & 0o077 == 0:
            folder.chmod(0o711)  # pytest's folders are private
    with accounts("instructor", "assistant") as (instructor, assistant):
        for path in (marked.root, *marked.root.rglob("*")):
            shutil.chown(path, instructor.uid, instructor.group)
            path.chmod(path.stat().st_mode | 0o060)
        for account, own, key in ((instructor, first, "one"), (assistant, second, "two")):

            def mark(own: list[Answer] = own, key: str = key) -> None:
                answers = LessonAnswers(marked.answers()._course, LESSON)
                answers.save(question, {one.id: one.version for one in own}, 2, f"comment {key}")
                marked.bank().save(question, key, f"comment {key}")
                try:
                    answers.save(question, {one.id: one.version for one in own}, 1, "")
                except ChangedError:
                    return
                raise AssertionError("an outdated version was accepted")

            assert account.call(mark) == (0, "")
    assert [marked.in_formgrader(name)[3] for name in ("anna", "bela")] == ["comment one", "comment two"]
    saved = json.loads((marked.root / "autograder" / FILE).read_text())
    assert saved == {f"{LESSON}/{NAME}": {"one": "comment one", "two": "comment two"}}


# --- Comments ---


def test_the_bank_has_saved_comments_criteria_and_misconceptions(marked: MarkedClass) -> None:
    lesson = example_lesson(public_curriculum())
    bank = CommentBank(marked.root, COURSE, lesson.name)
    question = marked.question()
    bank.save(question, "no  root", "Say where the root comes from.")
    found = {(one.origin, one.key): one.text for one in bank.comments(question)}
    assert found["saved", "no root"] == "Say where the root comes from."
    assert found["mark scheme", "criterion 2"] == "they add up, so the root grows."
    text = found["attention_scores", "not_scaled"]
    assert text.startswith("The dot products are not divided by the square root of d. ")
    assert found["predict_spread", "variance (1024)"].startswith("That is the variance.")


def test_a_comment_is_never_replaced_and_a_damaged_file_stays(marked: MarkedClass) -> None:
    bank, question = marked.bank(), marked.question()
    bank.save(question, "root", "One text.")
    for key, text in (("root", "Another text."), ("", "Text."), ("x" * 61, "Text."), ("empty", " \n")):
        with pytest.raises(CommentError):
            bank.save(question, key, text)
    path = marked.root / "autograder" / FILE
    assert json.loads(path.read_text()) == {f"{LESSON}/{NAME}": {"root": "One text."}}
    path.write_text('{"a": ')
    with pytest.raises(CommentError, match="is not valid"):
        bank.save(question, "more", "Text.")
    assert path.read_text() == '{"a": '


def test_an_unreadable_file_of_comments_does_not_stop_the_page(marked: MarkedClass, browser: Browser) -> None:
    marked.hand_in({"anna": LONG})
    path = marked.root / "autograder" / FILE
    path.mkdir()  # even root can't read a folder as a file
    page = browser.load()
    assert f"{path} cannot be read, so no saved comments are shown or added: Is a directory." in page
    assert "<b>criterion 1</b>" in page, "the mark scheme's criteria can still be inserted"
    code, reply = browser.post("comments", key="root", text="Text.")
    assert (code, reply["message"].split(",")[0]) == (400, f"{path} cannot be read")


# --- The page ---

HOSTILE = (
    '<script>fetch("/x")</script> <img src=x onerror=alert(1)> <svg onload=alert(2)> '
    '<a href="javascript:alert(3)">link</a> <style>body { display: none }</style> '
    '</div></article></main><form action="https://example.org"><button class="save">Save</button></form> '
    '<p data-mark="[]" class="card" id="bank">text</p>\n\n'
    "![p](https://example.org/p.png) ![q](attachment:q.png)"
)


def test_nothing_in_an_answer_can_run(marked: MarkedClass, browser: Browser) -> None:
    picture = {"q.png": {"image/png": "iVBORw0KGgo=", "text/html": "<script>alert(4)</script>"}}
    marked.hand_in({"mallory": HOSTILE}, picture)
    page = browser.load()
    assert browser.policy == POLICY
    assert "script-src 'self';" in POLICY
    assert len(findall("<script", page)) == 1  # the page's own script
    assert not findall(r"<[^>]*(onerror|onload|javascript:|https://example)", page)
    assert len(findall(r'<article class="card"', page)) == len(findall("<form", page)) - 1 == 1
    assert len(findall('id="bank"', page)) == 1
    assert page.index("text</p>") < page.index("</article>"), "the answer cannot leave its card"
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in page
    assert "Mallory" not in page
    assert "Mallory Doe" in browser.load("?show=all&names=1")


def test_only_the_holder_of_the_address_can_read_and_write(marked: MarkedClass, browser: Browser) -> None:
    marked.hand_in({"anna": LONG})
    [one] = marked.answers().answers(marked.question())
    mark = {"versions": {one.id: one.version}, "points": 3.0, "comment": ""}
    assert browser.post("marks", **mark)[0] == 403, "no XSRF token"
    browser.load()
    assert browser.get(Host="evil.example:80")[0] == 403
    stranger = Browser(browser.address.replace(browser.address.split("/")[3], "x" * 43))
    stranger.xsrf = browser.xsrf
    assert stranger.get()[0] == 403
    assert stranger.post("marks", **mark)[0] == 403
    assert marked.in_formgrader("anna")[0] is None
    assert browser.post("marks", **mark | {"points": True})[0] == 400
    assert browser.post("marks", **mark | {"comment": "x" * 20_001})[0] == 400
    assert browser.get("questions/x/y")[0] == 404
    assert browser.post("marks", **mark) == (
        200,
        {
            "answers": [
                {
                    "id": one.id,
                    "version": marked.answers().answers(marked.question())[0].version,
                    "points": 3.0,
                    "comment": "",
                    "waiting": False,
                    "state": "3 of 3 points",
                }
            ]
        },
    )
    code, reply = browser.post("marks", **mark)
    assert (code, reply["answers"][0]["state"]) == (409, "3 of 3 points")


def test_a_class_of_200_is_shown_a_page_at_a_time(marked: MarkedClass, browser: Browser) -> None:
    texts = (
        LONG,
        "It {} {} {} because.",
        "They add up.",
        "",
        "Look: {} or {}, and {}.",
        "No.",
        "Yes.",
        "Root.",
    )
    words = [
        "abandon",
        "bird",
        "cloud",
        "dry",
        "eagle",
        "fright",
        "glue",
        "hollow",
        "icy",
        "jolly",
        "keen",
        "lemon",
        "moody",
        "night",
    ]
    marked.hand_in(
        {
            f"s{index:03d}": texts[index % 8].format(*(words[index // step % 14] * 5 for step in (1, 4, 9)))
            for index in range(200)
        }
    )
    seen: set[str] = set()
    after, pages = "", 0
    while True:
        page = browser.load(f"?{after}")
        cards = [json.loads(unescape(text)) for text in findall(r'data-mark="([^"]*)"', page)]
        assert len(cards) <= PAGE
        ids = {one["id"] for card in cards for one in card}
        assert not ids & seen
        seen |= ids
        pages += 1
        if pages == 1:
            assert len(cards[0]) == 25, "the largest group is the first"
            # Marked answers leave the list, but the next page still continues after them.
            versions = {one["id"]: one["version"] for one in cards[0]}
            assert browser.post("marks", versions=versions, points=1, comment="")[0] == 200
        found = findall(r"after=(\w+)", page)
        if not found:
            break
        after = f"after={found[-1]}"
    assert pages > 2
    assert len(seen) == 175, "unchanged cells need no manual grading"
    assert len(findall(r'class="card"', browser.load())) == PAGE


def test_points_are_singular_or_plural(marked: MarkedClass) -> None:
    question = marked.question()

    def state(max_points: float, *mark: object) -> object:
        given = Answer("1", "s", "s", "1", WrittenCell(LONG), Mark(*mark))
        return _state(given, replace(question, max_points=max_points))["state"]

    assert state(3, 1.0, "", None, None, True) == "earlier mark: 1 point; mark it again"
    assert state(3, 1.5, "", None, None, True) == "earlier mark: 1.5 points; mark it again"
    assert state(1, 1.0, "", None, None, False) == "1 of 1 point"
    assert state(3, None, "", 1.0, None, False) == "no answer: 1 point"
    assert state(3, None, "", 0.0, None, False) == "no answer: 0 points"


def test_the_page_says_which_cards_it_shows(
    marked: MarkedClass, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.marking.server.PAGE", 2)
    marked.hand_in({"anna": LONG, "bela": "Because it does.", "cleo": "The softmax is saturated."})
    page = browser.load("?show=unmarked")
    assert "Cards 1 to 2 of 3. " in page
    [after] = findall(r"after=(\w+)", page)
    page = browser.load(f"?show=unmarked&after={after}")
    assert "Card 3 of 3. " in page
    [[last]] = (json.loads(unescape(text)) for text in findall(r'data-mark="([^"]*)"', page))
    assert browser.post("marks", versions={last["id"]: last["version"]}, points=1, comment="")[0] == 200
    assert "There are no more cards. " in browser.load(f"?show=unmarked&after={after}")


def test_a_damaged_notebook_is_reported_in_its_place(marked: MarkedClass, browser: Browser) -> None:
    marked.hand_in({"anna": LONG, "bela": "x" * 150_000})
    (marked.root / "autograder/autograded/anna" / LESSON / f"{LESSON}.ipynb").write_text("{")
    page = browser.load()
    assert "The graded notebook cannot be read (JSONDecodeError)." in page
    assert "The answer has 150,000 characters; the first 100,000 are shown." in page


def test_the_command_says_what_is_missing(
    marked: MarkedClass, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["02-products", "--course", str(marked.root)]) == 1
    assert f"the gradebook has no lesson '02-products'; it has: {LESSON}" in capsys.readouterr().err


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_an_impossible_port_is_refused(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([LESSON, "--port", str(port)])
    assert f"--port: expected a number from 0 to 65535, got {port}" in capsys.readouterr().err


def test_the_command_creates_no_gradebook(marked: MarkedClass, capsys: pytest.CaptureFixture[str]) -> None:
    gradebook = marked.root / "gradebook.db"
    gradebook.unlink()
    assert main([LESSON, "--course", str(marked.root)]) == 1
    assert f"there is no gradebook yet at {gradebook}" in capsys.readouterr().err
    assert not gradebook.exists()
