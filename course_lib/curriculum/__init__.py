"""The list of the course's lessons and exercises.

It is maintained by hand in `solutions/course.toml`, which only instructors have. `make lessons` writes the
part that students may see to `curriculum.json` in this folder, so that an installed `course_lib` has it.
"""

from course_lib.curriculum.lessons import (
    Curriculum,
    Exercise,
    Explanation,
    HandIn,
    Lesson,
    Prediction,
    public_curriculum,
)

__all__ = ["Curriculum", "Exercise", "Explanation", "HandIn", "Lesson", "Prediction", "public_curriculum"]
