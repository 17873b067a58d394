"""Pictures of what the tests see, for a person to look at."""

import os
from pathlib import Path

from playwright.sync_api import Page

_FOLDER = os.environ.get("COURSE_SCREENSHOTS")


def shoot(page: Page, name: str) -> None:
    """Keep a picture of the page, where COURSE_SCREENSHOTS names a folder."""
    if _FOLDER:
        page.screenshot(path=Path(_FOLDER) / f"{name}.png")
