"""Run torchrun, and return an exit code that describes the outcome of the run.

    python -m course_lib.translation.launch --nproc-per-node=2 --max-restarts=3 \\
        -m course_lib.translation.train CONFIG [section.key=value ...]

The arguments are torchrun's. torchrun starts the processes, restarts all of them if one dies, and forwards
signals, including SIGUSR1; but its own exit code is 1 for any failure. A script that distinguishes "should be
restarted" (75) from "the config is wrong" (2) needs the exit codes of the processes.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import torch.distributed as dist
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError

from course_lib.errors import BadInputError, ExitCode
from course_lib.translation.configs.loader import load_config
from course_lib.translation.distributed import is_port_in_use

#: The seconds that the processes have for saving a checkpoint after a signal. SLURM usually sends the signal
#: two minutes before the end of a job. By default, torchrun kills the processes after 30 seconds.
_SECONDS_TO_SAVE = 100
#: How long to wait for a listening program to answer as torchrun's store.
_SECONDS_TO_ANSWER = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run torchrun with the given arguments (default: those of the command line), and return an exit code.

    0: success. 75: stopped by a signal; should be restarted. 130: interrupted from the keyboard. 69: the
    rendezvous failed. 2 or another code: every process that ended by itself exited with this code. 1: any
    other failure.
    """
    traces = _configure_torchrun()
    started = time.time()
    options = run.parse_args(sys.argv[1:] if arguments is None else list(arguments))
    if options.standalone and options.local_addr is None:
        # By default, the processes would use the machine's name. On a laptop or in a container, it often
        # can't be resolved, and they would wait for minutes.
        options.local_addr = "127.0.0.1"
    if options.module and options.training_script == "course_lib.translation.train":
        try:
            _require_config(options.training_script_args)
        except BadInputError as error:
            _report(str(error))
            return ExitCode.BAD_INPUT
    if options.rdzv_backend == "c10d" and not options.standalone and _is_other_program(options.rdzv_endpoint):
        return _failed_rendezvous(
            f"port {options.rdzv_endpoint.rpartition(':')[2]} is in use. Choose another one."
        )
    try:
        run.run(options)
    except SignalException as stopped:
        return ExitCode.KEYBOARD if stopped.sigval == signal.SIGINT else ExitCode.RESTART
    except ChildFailedError as failed:
        _report_killed(failed)
        if any(path.stat().st_mtime >= started for path in traces.parent.glob(f"{traces.name}*")):
            _report(
                f"each process wrote the collectives that it waited for to {traces}N, where N is its rank. "
                f"To compare them: torchfrtrace --allow-incomplete-ranks --prefix {traces.name} "
                f"{traces.parent}"
            )
        # When a process ends with an error, torchrun sends SIGTERM to those that are still running.
        codes = {failure.exitcode for failure in failed.failures.values()} - {-signal.SIGTERM}
        return codes.pop() if len(codes) == 1 and min(codes) > 0 else ExitCode.FAILED
    except (dist.DistError, RendezvousError) as error:
        if not options.rdzv_endpoint and is_port_in_use(port := options.master_port):
            return _failed_rendezvous(
                f"port {port} is in use. Choose another one, or start with --standalone."
            )
        return _failed_rendezvous(str(error).splitlines()[0])
    except ValueError as error:  # One cause is --nproc-per-node=gpu on a machine without a GPU.
        _report(str(error))
        return ExitCode.BAD_INPUT
    return 0


#: Why each of these signals usually kills a process, for the message to the user.
_USUAL_CAUSES: dict[int, str] = {
    signal.SIGKILL: ", often because the machine ran out of memory",
    signal.SIGABRT: ", on a GPU often because NCCL lost another process",
}


def _require_config(arguments: Sequence[str]) -> None:
    """Raise BadInputError if the config of a training run is invalid.

    torchrun would restart the processes, as after any other failure.
    """
    from course_lib.translation.train.__main__ import parser  # Other programs don't need these imports.

    given = parser().parse_intermixed_args(arguments)
    load_config(given.config, given.overrides)


def _configure_torchrun() -> Path:
    """Set environment variables for torchrun and NCCL. Return the prefix of the files that NCCL may write."""
    # Use the environment, because torchrun has no options for these settings in torch 2.11. (That version
    # ignores the shutdown timeout, and kills the processes after 30 seconds.)
    signals = os.environ.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1")
    os.environ.setdefault("PET_SIGNALS_TO_HANDLE", signals)
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(_SECONDS_TO_SAVE))
    # Without this setting, restarted processes use torchrun's own store, which holds the addresses of the
    # dead ones.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    # Turn on NCCL's flight recorder: if a collective times out, each rank writes to a file what it waited
    # for.
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
    os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")
    return Path(os.environ.setdefault("TORCH_FR_DUMP_TEMP_FILE", os.path.abspath("nccl-trace-rank-")))


def _is_other_program(endpoint: str) -> bool:
    """Return whether a program accepts connections at the rendezvous endpoint but doesn't answer.

    torchrun would wait for the answer forever; here, the limit is 20 seconds. torchrun itself reports an
    invalid answer or a closed connection.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError):
        return False
    answered = threading.Event()

    def ask() -> None:
        with contextlib.suppress(RuntimeError):  # torchrun reports this error more clearly.
            dist.TCPStore(host, int(port), wait_for_workers=False).check(["anything"])  # type: ignore[attr-defined]
        answered.set()

    # Use a thread, because the store's timeouts don't end the wait if there is no answer.
    threading.Thread(target=ask, daemon=True).start()
    return not answered.wait(_SECONDS_TO_ANSWER)


def _report_killed(failed: ChildFailedError) -> None:
    """Print which processes were killed by a signal other than torchrun's own SIGTERM."""
    for rank, failure in failed.failures.items():
        if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM:
            cause = _USUAL_CAUSES.get(-failure.exitcode, "")
            _report(
                f"process {rank} ({socket.gethostname()}, process id {failure.pid}) was killed by "
                f"{failure.signal_name()}{cause}. Run the same command again to resume from the latest "
                "checkpoint; with --max-restarts=3, torchrun does that."
            )


def _failed_rendezvous(why: str) -> int:
    _report(f"the rendezvous of the processes failed: {why}")
    return ExitCode.RENDEZVOUS_FAILED


def _report(message: str) -> None:
    print(f"launch: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
