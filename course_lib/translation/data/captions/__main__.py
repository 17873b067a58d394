"""Prints sentence pairs of the built-in corpus, to read them or to find an example.

python -m course_lib.translation.data.captions --split test --show object-relative --count 5
"""

import argparse
import sys
from typing import get_args

from course_lib.translation.data.captions import Phenomenon, Split, of_phenomenon, splits


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and gives its exit status."""
    parser = argparse.ArgumentParser(prog="captions", description="Print pairs of the built-in corpus.")
    parser.add_argument("--seed", type=int, default=0, help="draws another corpus of the same grammar")
    parser.add_argument("--split", choices=get_args(Split), default="train")
    parser.add_argument("--count", type=int, default=10, help="how many pairs to print")
    parser.add_argument(
        "--show", metavar="PHENOMENON", help="only pairs that show it: " + ", ".join(Phenomenon)
    )
    options = parser.parse_args(arguments)
    pairs = splits(options.seed)[options.split]
    if options.show:
        try:
            pairs = of_phenomenon(pairs, options.show)
        except ValueError as error:
            parser.error(str(error))
    for pair in pairs[: options.count]:
        print(f"{pair.german}\n{pair.english}\n    {', '.join(sorted(pair.phenomena))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
