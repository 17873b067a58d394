"""Late submissions: the penalty is computed from the final points."""

import pytest
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory

from tests.autograder.nbgrader.classroom import Classroom, configuration, solved
from tests.autograder.small_course import LESSON

pytestmark = pytest.mark.slow

HALF = """
from nbgrader.plugins import LateSubmissionPlugin
class Half(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return score / 2
c.AssignLatePenalties.plugin_class = Half
"""


def graded_late(classroom: Classroom) -> str:
    """Grade a late submission by anna, which costs half of the points. Return the gradebook's URL."""
    path = classroom.course / "autograder/nbgrader_config.py"
    path.write_text(path.read_text(encoding="utf-8") + HALF, encoding="utf-8")
    url = f"sqlite:///{classroom.course}/autograder/gradebook.db"
    with Gradebook(url) as gradebook:
        gradebook.update_or_create_assignment(LESSON, duedate="2025-01-30 12:00:00 UTC")
    classroom.hand_in("anna", solved(classroom.released), at="2025-02-01 12:00:00 UTC")
    classroom.autograde()
    return url


def test_points_given_by_hand_change_the_penalty(classroom: Classroom) -> None:
    url = graded_late(classroom)
    with Gradebook(url) as gradebook:
        submission = gradebook.find_submission(LESSON, "anna")
        automatic = submission.score
        assert submission.late_submission_penalty == pytest.approx(automatic / 2)
        grade = gradebook.find_grade("explain_root", LESSON, LESSON, "anna")
        grade.manual_score, grade.needs_manual_grade = 2.0, False
        gradebook.db.commit()

    config = configuration(classroom.course)
    directory = CourseDirectory(config=config, assignment_id=LESSON)
    GenerateFeedback(coursedir=directory, config=config).start()
    with Gradebook(url) as gradebook:
        submission = gradebook.find_submission(LESSON, "anna")
        assert submission.score == pytest.approx(automatic + 2)
        assert submission.late_submission_penalty == pytest.approx((automatic + 2) / 2)


def test_a_time_that_was_removed_counts_no_longer(classroom: Classroom) -> None:
    url = graded_late(classroom)
    (classroom.course / f"autograder/submitted/anna/{LESSON}/timestamp.txt").unlink()
    classroom.autograde()
    with Gradebook(url) as gradebook:
        submission = gradebook.find_submission(LESSON, "anna")
        assert submission.timestamp is None
        assert submission.late_submission_penalty == 0
