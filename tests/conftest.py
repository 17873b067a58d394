"""For all tests: shapes in annotations are executed, and hypothesis tries the same examples in every run."""

import sys

from hypothesis import settings
from jaxtyping import install_import_hook

CHECKED_PACKAGES = ("course_lib.transformer", "course_lib.translation")

# pytest reads this file before any test, in each worker of pytest-xdist too.
if early := [name for name in CHECKED_PACKAGES if name in sys.modules]:
    raise RuntimeError(
        f"{', '.join(early)} was imported before tests/conftest.py, so its shapes would not be checked; "
        "import it in the tests, not in a pytest plugin"
    )
install_import_hook(CHECKED_PACKAGES, "beartype.beartype")

settings.register_profile("course", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("course")
