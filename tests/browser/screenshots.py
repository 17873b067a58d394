"""Screenshots of the tested pages, for a person to look at."""

import os
from pathlib import Path

from playwright.sync_api import Page

_FOLDER = os.environ.get("COURSE_SCREENSHOTS")


def shoot(page: Page, name: str) -> None:
    """Save a screenshot of the page if COURSE_SCREENSHOTS names a folder."""
    if _FOLDER:
        page.screenshot(path=Path(_FOLDER) / f"{name}.png")
