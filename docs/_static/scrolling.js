// Let the keyboard reach code, tables and formulas that are wider than the page, so that arrow keys can scroll them.
const SCROLLING = "pre, .table-wrapper, .formula, .cell_output, .output, div.highlight";

function markScrolling() {
  for (const part of document.querySelectorAll(SCROLLING)) {
    const scrolls = /auto|scroll/.test(getComputedStyle(part).overflowX) && part.scrollWidth > part.clientWidth;
    if (scrolls) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}

addEventListener("load", markScrolling);
addEventListener("resize", markScrolling);
