"""torchrun, with an exit code that says what became of the run.

    python -m course_lib.translation.launch --nproc-per-node=2 --max-restarts=3 \\
        -m course_lib.translation.train CONFIG [section.key=value ...]

The arguments are torchrun's. It starts the processes, starts all of them again where one has died, and hands
signals on to them, SIGUSR1 included; but however they end, its own exit code is 1. A script that has to tell
"start me again" (75) from "your config is wrong" (2) needs theirs.
"""

import contextlib
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Sequence

import torch.distributed as dist
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError

from course_lib.translation.training.interruption import FROM_KEYBOARD, START_AGAIN

#: The port where the processes should meet is taken, or the machine that has it isn't there.
CANNOT_MEET = 69  # EX_UNAVAILABLE of sysexits.h
FAILED = 1
#: SLURM's usual warning comes two minutes before the end; torchrun kills after 30 seconds otherwise.
_SECONDS_TO_SAVE = 100
#: So long, what listens at the port where all should meet may take to say that it is torchrun's.
_SECONDS_TO_ANSWER = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run torchrun and give the exit code of the processes.

    0 done; 75 told to stop, to be started again; 130 stopped from the keyboard; 2, or another code on
    which all that have failed agree; 69 the processes could not meet; 1 anything else.
    """
    # As variables, since torch 2.11 knows no such options. (It kills after 30 seconds all the same.)
    os.environ.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1")
    os.environ.setdefault("PET_SIGNALS_TO_HANDLE", os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"])
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(_SECONDS_TO_SAVE))
    # Else torchrun lends its own store, in which processes that start again find where the dead ones were.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    given = run.parse_args(sys.argv[1:] if arguments is None else list(arguments))
    if given.rdzv_backend == "c10d" and not given.standalone and _is_held_by_a_stranger(given.rdzv_endpoint):
        return _cannot_meet(f"port {given.rdzv_endpoint.rpartition(':')[2]} is in use; choose another one")
    try:
        run.run(given)
    except SignalException as stopped:
        return FROM_KEYBOARD if stopped.sigval == signal.SIGINT else START_AGAIN
    except ChildFailedError as failed:
        # Where one dies, the others are stopped: only a code that all have was meant.
        codes = {failure.exitcode for failure in failed.failures.values()}
        return codes.pop() if len(codes) == 1 and min(codes) > 0 else FAILED
    except (dist.DistError, RendezvousError) as error:
        return _cannot_meet(_why(str(error)))
    return 0


def _is_held_by_a_stranger(endpoint: str) -> bool:
    """Say whether another program listens where the processes should meet.

    torchrun would wait for its answer forever. Nobody there, or a torchrun that came earlier, is as it should
    be.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError):
        return False
    answered = threading.Event()

    def ask() -> None:
        with contextlib.suppress(RuntimeError):  # torchrun will say it better
            dist.TCPStore(host, int(port), wait_for_workers=False).check(["anything"])  # type: ignore[attr-defined]
        answered.set()

    # Where no answer comes, no time limit ends the wait either.
    threading.Thread(target=ask, daemon=True).start()
    return not answered.wait(_SECONDS_TO_ANSWER)


def _cannot_meet(why: str) -> int:
    print(f"launch: the processes cannot meet: {why}", file=sys.stderr, flush=True)
    return CANNOT_MEET


def _why(text: str) -> str:
    if "EADDRINUSE" in text:
        port = re.search(r"port: (\d+)", text)
        which = f"port {port[1]}" if port else "their port"
        return f"{which} is in use; choose another one, or start with --standalone, which finds one"
    return text.splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
