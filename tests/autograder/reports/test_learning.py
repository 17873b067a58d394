"""The concept tests and the learning report: computation, counts, and the absence of names."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from autograder.nbgrader.course_folder import CourseFolder
from autograder.release.build import COURSE
from autograder.release.concept_test import CORRECT, TESTS, ConceptTest, load, write_tests
from autograder.reports.learning.__main__ import anonymous, main
from autograder.reports.learning.figures import figures, gain, spread
from autograder.reports.learning.page import learning_page
from autograder.reports.learning.records import LearningRecords, Run, read_learning
from autograder.submissions.reading import read_notebook
from course_lib import check_log
from course_lib.checks import CheckError, check
from course_lib.curriculum.course_file import CourseError
from course_lib.transformer import attention_scores
from tests.autograder.reports.graded_class import NOT_SCALED, RIGHT, empty_course, folder_of

LESSON = "01-attention"


@pytest.fixture(scope="module")
def test() -> ConceptTest:
    return load(COURSE)


def chosen(test: ConceptTest, right: int) -> dict[str, str]:
    """Return the answers of a student who answers the first `right` questions correctly, and no others."""
    return {
        question.name: CORRECT if number < right else "" for number, question in enumerate(test.questions)
    }


def test_every_option_is_what_its_misconception_leads_to(test: ConceptTest) -> None:
    assert [
        line for question in test.questions for name in TESTS for line in question.miscalculated(name)
    ] == []


def test_no_letter_is_a_good_guess_and_the_tests_differ(test: ConceptTest) -> None:
    letters = {
        name: [next(k for k, v in q.options(name).items() if v == CORRECT) for q in test.questions]
        for name in TESTS
    }
    assert all(max(Counter(found).values()) <= len(found) / 3 for found in letters.values())
    assert sum(pre == post for pre, post in zip(*letters.values(), strict=True)) <= 3
    assert all(question.pre.answer != question.post.answer for question in test.questions)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('answer = "5"', 'answer = "10"', "all of them different"),
        ("scaled_by_d = ", "forgotten = ", "forgotten: not misconceptions of attention_scores"),
        ('exercise = "LayerNorm"', 'exercise = "BatchNorm"', "has no exercise BatchNorm"),
        ('name = "heads"', 'name = "scaling"', "a Python identifier and that no other question has"),
        ('answer = "5"', "", "questions.0.pre.answer: Field required"),
        (
            '["not_scaled", "scaled_by_d"]',
            '["not_scaled", "scaled_by_two"]',
            "scaled_by_two: no exercise has",
        ),
        ('["root_forgotten"]', '["LayerNorm.root_forgotten"]', "misconceptions of at least two lessons"),
        ("({key})", "({lock})", "question scaling: values: lock is missing"),
        ("({key})", "({key})}", "question scaling: Single '}' encountered"),
        ("[[questions]]", "[questions]]", "solutions/concept_test.toml: "),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, old: str, new: str, problem: str) -> None:
    (tmp_path / "solutions").mkdir()
    text = (COURSE / "solutions/concept_test.toml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "solutions/concept_test.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CourseError) as error:
        load(tmp_path)
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"# caf\xe9\n", "solutions/concept_test.toml: 'utf-8' codec can't decode"),
        (b"questions = []\nideas = []\n", "questions: List should have at least 1 item"),
    ],
)
def test_a_file_without_questions_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions/concept_test.toml").write_bytes(content)
    with pytest.raises(CourseError, match=problem):
        load(tmp_path)


def test_a_wrong_key_stops_the_tests_from_being_written(test: ConceptTest, tmp_path: Path) -> None:
    first = test.questions[0]
    wrong = first.model_copy(update={"pre": first.pre.model_copy(update={"answer": "6"})})
    with pytest.raises(
        CourseError, match=r"question scaling, pre, correct: expected the computed value, 5.*, got 6"
    ):
        write_tests(test.model_copy(update={"questions": [wrong]}), tmp_path)
    broken = first.model_copy(update={"call": "attention_scores("})
    with pytest.raises(CourseError, match="pre, correct: cannot be computed: SyntaxError"):
        write_tests(test.model_copy(update={"questions": [broken]}), tmp_path)
    assert not any(tmp_path.iterdir())


def test_students_get_no_key(test: ConceptTest, tmp_path: Path) -> None:
    for path in write_tests(test, tmp_path):
        text = path.read_text(encoding="utf-8")
        assert [name for q in test.questions for name in q.pre.wrong if name in text] == []
        nbformat.validate(nbformat.read(path, as_version=4))


@pytest.mark.parametrize(
    ("written", "option"),
    [
        ('scaling = "{}"', CORRECT),
        ("scaling = '({})'  # I think", CORRECT),
        ("scaling = {}", CORRECT),
        ('scaling=" {} "', CORRECT),
        ('scaling = ""', ""),
        ('scaling = "{} or f"', ""),
        ('# scaling = "{}"', ""),
        ('scaling = "z"', ""),
    ],
)
def test_an_answer_is_one_letter_however_it_is_written(
    test: ConceptTest, tmp_path: Path, written: str, option: str
) -> None:
    path, _ = write_tests(test, tmp_path)
    letter = next(k for k, v in test.questions[0].options("pre").items() if v == CORRECT)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].source = written.format(letter.upper())
    answers = test.answers(read_notebook(nbformat.writes(notebook).encode()), "pre")
    assert answers["scaling"] == option
    assert set(answers.values()) == {option, ""}


def test_gains_and_counts(test: ConceptTest) -> None:
    """Twelve students with 3 correct answers before and 6 to 9 after, and one who took only the pre-test."""
    answers = {
        "pre": {f"s{n}": chosen(test, 3) for n in range(13)},
        "post": {f"s{n}": chosen(test, 6 + n % 4) for n in range(12)},
    }
    found = figures(test, LearningRecords(answers=answers))
    assert sorted(found.scores["change"]) == [3] * 3 + [4] * 3 + [5] * 3 + [6] * 3
    value, low, high = gain(found.scores, 12)
    assert value == pytest.approx(4.5 / 9)
    assert low < value < high
    assert high - low < 0.2
    rows = found.questions.set_index("question")
    first, seventh = rows.loc["scaling"], rows.loc[test.questions[6].name]
    assert list(first[["pre", "post", "learned", "lost"]]) == [12, 12, 0, 0]
    assert pd.isna(first["gain"])
    assert list(seventh[["pre", "post", "learned", "lost", "gain"]]) == [0, 9, 9, 0, 0.75]
    options = found.options.set_index(["question", "option"])
    assert list(options.loc[("scaling", "correct"), ["pre", "post"]]) == [13, 12]
    assert list(options.loc[("shares", "none"), ["pre", "post"]]) == [13, 12]


def test_small_classes_get_no_interval(test: ConceptTest) -> None:
    answers = {
        name: {f"s{n}": chosen(test, right) for n in range(3)} for name, right in (("pre", 4), ("post", 8))
    }
    records = LearningRecords(answers=answers)
    found = figures(test, records)
    assert gain(found.scores, 12) == (0.5,)
    assert found.questions["gain"].isna().all()
    page = learning_page(test, records, found, "a-course")
    assert "Normalised gain: 0.50</b>. An interval needs at least 10 students" in page
    assert ">None<" not in page
    assert gain(found.scores.assign(pre=12), 12) == ()


def test_ideas_that_come_back(test: ConceptTest) -> None:
    padding = test.questions[8]
    assert (padding.name, padding.exercise) == ("counting", "train_step")
    post = {
        "ann": chosen(test, 12) | {"counting": "padding_counted"},
        "ben": chosen(test, 12),
        "dee": chosen(test, 0),
    }
    graded = [
        Run("ann", "08-label-smoothing", "LabelSmoothingLoss", "wrong", ("padding_counted",)),
        Run("ben", "08-label-smoothing", "LabelSmoothingLoss", "wrong", ("padding_counted",)),
        Run("cem", "09-training", "train_step", "wrong", ("padding_counted",)),
        Run("dee", "09-training", "train_step", "right", ()),
    ]
    logged = [Run("ben", "09-training", "train_step", "wrong", ("mean_of_means",))]
    found = figures(test, LearningRecords({"pre": {}, "post": post}, logged, graded))
    rows = found.ideas.set_index("idea")
    counted = rows.loc["padding counts as tokens"]
    # cem handed in nothing later, so the idea had no chance to reappear.
    assert list(counted[["students", "could_again", "again"]]) == [3, 2, 1]
    assert counted["places"] == "08-label-smoothing: 2; 09-training: 1; concept-test-post: 1"
    # The post-test has no question about means of means.
    assert list(rows.loc["means of unequal parts are averaged or added"][["students", "could_again"]]) == [
        1,
        0,
    ]


def test_attempts_count_runs_up_to_the_first_that_passed(test: ConceptTest) -> None:
    def runs(student: str, *verdicts: str) -> Iterator[Run]:
        for verdict in verdicts:
            known = () if verdict in ("right", "wrong") else (verdict,)
            kind = "right" if verdict == "right" else "wrong"
            yield Run(student, LESSON, "attention_scores", kind, known)

    logged = [
        *runs("ann", "wrong", "not_scaled", "not_scaled", "scaled_by_d", "right", "not_scaled"),
        Run("ben", LESSON, "attention_scores", "unwritten", ()),
        *runs("ben", "right"),
        *runs("cem", "not_scaled", "wrong"),
    ]
    rows = figures(test, LearningRecords(logged=logged)).attempts.set_index("after")
    assert list(rows.loc["", ["students", "passed", "runs"]]) == [3, 2, "1, 5"]
    assert list(rows.loc["not_scaled", ["students", "passed", "runs"]]) == [2, 1, "3"]
    assert list(rows.loc["scaled_by_d", ["students", "passed", "runs"]]) == [1, 1, "1"]
    assert spread(range(1, 14)) == "median 7 (quartiles 4 and 10), at most 13"


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory, test: ConceptTest) -> Path:
    """A course with a graded lesson, both tests of two students, and a log filled by real checks."""
    graded = empty_course(tmp_path_factory)
    graded.release(LESSON)
    graded.hand_in("ben", LESSON, {"check_scores": 0.0}, {"scores": NOT_SCALED, "guess": RIGHT})
    root = folder_of(graded)
    (root / "solutions").symlink_to(COURSE / "solutions")
    (root / "autograder/nbgrader_config.py").write_text(
        "from pathlib import Path\nroot = Path(__file__).resolve().parents[1]\n"
        "c = get_config()\nc.CourseDirectory.root = str(root)\n"
        'c.CourseDirectory.submitted_directory = "autograder/submitted"\n'
        'c.CourseDirectory.autograded_directory = "autograder/autograded"\n'
        "c.CourseDirectory.db_url = f'sqlite:///{root}/gradebook.db'\n"
        'c.CourseDirectory.course_id = "a-course"\n'
    )
    submitted = root / "autograder/submitted"
    assert main(["--course", str(root), "write-tests"]) == 0
    for student, right in (("Ann Ås", 12), ("ben", 5)):
        for name, assignment in TESTS.items():
            path = root / f"autograder/concept_tests/{assignment}/{assignment}.ipynb"
            notebook = nbformat.read(path, as_version=4)
            for question, cell in zip(test.questions[:right], notebook.cells[2::2], strict=False):
                letter = next(k for k, v in question.options(name).items() if v == CORRECT)
                cell.source = f'{question.name} = "{letter}"'
            (submitted / student / assignment).mkdir(parents=True)
            # A student renamed the file.
            nbformat.write(notebook, submitted / student / assignment / "mine.ipynb")
    lesson = submitted / "ben" / LESSON
    shutil.copytree(COURSE / "lessons" / LESSON, lesson)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_LOG", str(root.parent / "log"))
        assert check_log.main(["on"]) == 0
        with pytest.raises(CheckError):
            check("attention_scores", {"attention_scores": lambda query, key: query @ key.mT})
        check("attention_scores", {"attention_scores": attention_scores})
        assert check_log.main(["hand-in", str(lesson)]) == 0
    return root


@pytest.fixture
def course(handed_in: Path, tmp_path: Path) -> Path:
    shutil.copytree(handed_in, tmp_path / "course", symlinks=True)
    return tmp_path / "course"


@pytest.mark.slow
def test_what_was_handed_in_is_read(course: Path, test: ConceptTest) -> None:
    records = read_learning(CourseFolder(course), test)
    assert records.notes == []
    assert records.answers["post"] == {"Ann Ås": chosen(test, 12), "ben": chosen(test, 5)}
    assert records.logged == [
        Run("ben", LESSON, "attention_scores", "wrong", ("not_scaled",)),
        Run("ben", LESSON, "attention_scores", "right", ()),
    ]
    # Students can write anything into their logs, even a mistake in code that was missing.
    log = course / "autograder/submitted/ben" / LESSON / check_log.LOG
    log.write_text(log.read_text().replace('"wrong"', '"missing"'))
    assert read_learning(CourseFolder(course), test).logged[0] == Run(
        "ben", LESSON, "attention_scores", "missing", ()
    )
    # The example's exercise is not in the course, so its misconception isn't recorded.
    assert Run("ben", LESSON, "scores", "wrong", ()) in records.graded


def other_questions(path: Path) -> None:
    path.write_text(
        path.read_text(encoding="utf-8").replace('"version": "', '"version": "x'), encoding="utf-8"
    )


def a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (other_questions, "its questions differ from those in solutions/concept_test.toml"),
        (a_link, "there is no notebook in it"),
        (lambda path: path.write_text("{"), "it is incomplete"),
    ],
)
def test_a_test_that_cannot_be_read_is_named_and_not_counted(
    course: Path, test: ConceptTest, spoil: Callable[[Path], object], reason: str
) -> None:
    spoil(course / "autograder/submitted/ben/concept-test-pre/mine.ipynb")
    records = read_learning(CourseFolder(course), test)
    assert list(records.answers["pre"]) == ["Ann Ås"]
    [note] = records.notes
    assert note.startswith("ben, concept-test-pre: not counted: ")
    assert reason in note


@pytest.mark.slow
def test_the_report_and_the_export_name_nobody(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other_questions(course / "autograder/submitted/Ann Ås/concept-test-pre/mine.ipynb")
    log = course / f"autograder/submitted/ben/{LESSON}/check_log.jsonl"
    forged = '{"time": "2026-11-23T10:00:00+00:00", "lesson": "01-attention", "check": "attention_scores", '
    forged += '"verdict": "wrong", "misconceptions": ["<b>I am ben</b>"], "attempt": 1, "code": "# ben"}\n'
    log.write_text(log.read_text() + forged + forged.replace('"wrong"', '"ben"'))
    shutil.copytree(log.parent, log.parents[1] / "ben-was-here")
    assert main(["--course", str(course), "report"]) == main(
        ["--course", str(course), "export", str(course / "out")]
    )
    files = [
        course / "autograder/learning.html",
        *course.glob("autograder/learning/*.csv"),
        *course.glob("out/*"),
    ]
    assert len(files) == 8
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert "ben" not in text
        assert "Ann" not in text
        assert "2026-" not in text
    attempts = pd.read_csv(course / "out/attempts.csv")
    assert list(attempts["attempt"]) == [1, 2, 3]
    assert list(attempts["misconceptions"].fillna("")) == ["not_scaled", "", ""]


@pytest.mark.slow
def test_identifiers_are_new_in_each_export_and_join_its_tables(course: Path, test: ConceptTest) -> None:
    records = read_learning(CourseFolder(course), test)
    first, second = anonymous(records), anonymous(records)
    known = set(first["answers"]["student"])
    assert len(known) == 2
    assert set(first["attempts"]["student"]) < known
    assert not known & set(second["answers"]["student"])
    assert first["answers"]["student"].is_monotonic_increasing
