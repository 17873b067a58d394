"""Show that the attacks are real: grade each with plain nbgrader, and describe the harm that it does there.

`python -m tests.autograder.hostile.unprotected [NAME ...]`. Run this on a machine where nothing can be lost:
the attacks are bounded, but nothing contains them. An attack that does no harm here proves nothing about the
grading that stops it.
"""

import sys
import tempfile
from pathlib import Path

from tests.autograder.hostile.aftermath import HONEST, Aftermath, harm_by, play
from tests.autograder.hostile.threat import Threat
from tests.autograder.hostile.threats import THREATS
from tests.benchmarks.grading import PLAIN

#: nbgrader's own converter, with shorter limits than for a real class.
CONFIG = f"{PLAIN}c.Execute.timeout = 6\nc.Execute.interrupt_on_timeout = True\n"

#: The beginnings of sentences about the judge's report, which plain nbgrader doesn't have.
_REPORT = ("the report ", "no note matches ")


#: Threats that end or block the whole run, so each gets a run of its own.
ALONE = ("kills-its-parent", "fork-storm", "comes-back-again")


def main(names: list[str]) -> int:
    """Print the harm that each attack does, and return the number of attacks that do none."""
    chosen = [threat for threat in THREATS if not names or threat.name in names]
    together = [threat for threat in chosen if threat.name not in ALONE]
    silent: list[Threat] = []
    if len(together) > 1:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found = play(Path(folder), together, config=CONFIG)
            print(f"Together (code {found.code}):", *found.other_harm, sep="\n        ", flush=True)
            for threat in together:
                harm = _harm(threat, found)
                if harm:
                    _tell(threat, harm)
                else:
                    silent.append(threat)
    else:
        silent = together
    harmless = 0
    for threat in (*silent, *(threat for threat in chosen if threat.name in ALONE)):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found = play(Path(folder), [threat], config=CONFIG, seconds=120)
            harm = [*_harm(threat, found), *found.other_harm]
            harm += [f"grading ended with code {found.code}"] if found.code else []
            for name in found.neighbours(found.student(threat.name)):
                if found.scores[name] != HONEST.scores:
                    harm.append(f"an honest student was given {found.scores[name]}")
            _tell(threat, harm)
            harmless += not harm
    return harmless


def _harm(threat: Threat, found: Aftermath) -> list[str]:
    harm = harm_by(threat, found.student(threat.name), found)
    return [line for line in harm if not line.startswith(_REPORT)]


def _tell(threat: Threat, harm: list[str]) -> None:
    print(f"{'HARM' if harm else 'none'}  {threat.name}: {threat.does}", flush=True)
    for line in harm[:8]:
        print(f"        {line[:300]}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
