"""Several batches at a time, each in a thread of its own.

A step of the decoder is many small operations. Threads that share each of them wait for one another after
each; threads that have a batch each never do.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

#: On four cores, 1, 2 and 4 at a time gave 256, 452 and 494 translations a second, and with a beam of 5 121,
#: 211 and 315: Python's own share of a step is done by one thread at a time.
MOST_AT_A_TIME = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Do the work on every item, on up to four at a time, which share torch's threads evenly.

    The last are begun first: where items grow, no long one is left over at the end. What work raises is
    raised.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items), MOST_AT_A_TIME)
    if workers < 2:
        return [work(item) for item in items]
    try:
        with ThreadPoolExecutor(workers, "decoding", torch.set_num_threads, (threads // workers,)) as pool:
            return list(pool.map(work, reversed(items)))[::-1]
    finally:
        # The number is each thread's own, and that of threads to come.
        torch.set_num_threads(threads)
