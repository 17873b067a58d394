"""torchrun, with an exit code that says what became of the run.

    python -m course_lib.translation.launch --nproc-per-node=2 --max-restarts=3 \\
        -m course_lib.translation.train CONFIG [section.key=value ...]

The arguments are torchrun's. It starts the processes, starts all of them again where one has died, and hands
signals on to them, SIGUSR1 included; but however they end, its own exit code is 1. A script that has to tell
"start me again" (75) from "your config is wrong" (2) needs theirs.
"""

import os
import re
import signal
import sys
from collections.abc import Sequence

import torch.distributed as dist
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError

from course_lib.translation.interruption import FROM_KEYBOARD, START_AGAIN

#: The port where the processes should meet is taken, or the machine that has it isn't there.
CANNOT_MEET = 69  # EX_UNAVAILABLE of sysexits.h
FAILED = 1
#: SLURM's usual warning comes two minutes before the end; torchrun kills after 30 seconds otherwise.
_SECONDS_TO_SAVE = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run torchrun and give the exit code of the processes.

    0 done; 75 told to stop, to be started again; 130 stopped from the keyboard; 2, or another code on
    which all that have failed agree; 69 the processes could not meet; 1 anything else.
    """
    # As variables, since torch 2.11 knows no such options.
    os.environ.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1")
    os.environ.setdefault("PET_SIGNALS_TO_HANDLE", os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"])
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(_SECONDS_TO_SAVE))
    # Else torchrun lends its own store, in which processes that start again find where the dead ones were.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    try:
        run.run(run.parse_args(sys.argv[1:] if arguments is None else list(arguments)))
    except SignalException as stopped:
        return FROM_KEYBOARD if stopped.sigval == signal.SIGINT else START_AGAIN
    except ChildFailedError as failed:
        # Where one dies, the others are stopped: only a code that all have was meant.
        codes = {failure.exitcode for failure in failed.failures.values()}
        return codes.pop() if len(codes) == 1 and min(codes) > 0 else FAILED
    except (dist.DistError, RendezvousError) as error:
        print(f"launch: the processes cannot meet: {_why(str(error))}", file=sys.stderr, flush=True)
        return CANNOT_MEET
    return 0


def _why(text: str) -> str:
    if "EADDRINUSE" in text:
        port = re.search(r"port: (\d+)", text)
        which = f"port {port[1]}" if port else "their port"
        return f"{which} is in use; choose another one, or start with --standalone, which finds one"
    return text.splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
