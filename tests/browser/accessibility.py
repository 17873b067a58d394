"""Accessibility checks of a page: axe-core with the rules of WCAG 2.1, levels A and AA, and overflow."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


def violations(page: Page, within: str = "html") -> str:
    """Return the elements in a part of the page that break a rule, one paragraph each."""
    options = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
    found = Axe().run(page, within, options).response["violations"]
    return "\n".join(
        f"{rule['id']}: {node['target']} {node['html'][:120]} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    )


def overflow(page: Page) -> int:
    """Return how many pixels wider the page is than the window."""
    wider: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wider
