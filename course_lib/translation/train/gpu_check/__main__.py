"""The command that tests and measures the lab on this machine's GPUs.

    python -m course_lib.translation.train.gpu_check [PART ...] [--minutes 12] [--output gpu-check.json]

It needs no corpus and no network. All parts together should take about eleven minutes on an H200. If they
take longer than `--minutes`, measurements are shortened and parts are left out. Each row is printed and
written to a JSON file as soon as it is measured, so a part that is killed keeps its rows. A part ends with a
table of its rows. Without a GPU, every part runs on the CPU at a small size, as a rehearsal.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from course_lib.atomic_files import atomic_write_text
from course_lib.errors import BadInputError, ExitCode
from course_lib.translation.model.devices import device_named
from course_lib.translation.model.precision import choose_kernels
from course_lib.translation.train.gpu_check import correctness, speed
from course_lib.translation.train.gpu_check.workload import GPU, REHEARSAL, Scale

#: The functions of the parts that measure something, by name.
MEASUREMENTS = {
    "training": speed.training_speed,
    "textbook": speed.against_the_textbook,
    "decoding": speed.decoding_speed,
    "memory": speed.memory_use,
}
#: All parts by name, with a rough estimate of the seconds on an H200, and a description.
PARTS = {
    "correctness": (330, "comparisons with the CPU and the reference, also compiled and over NCCL"),
    "training": (210, "target tokens per second and MFU, eager and compiled"),
    "textbook": (60, "training speed compared with the textbook method"),
    "decoding": (30, "sentences per second"),
    "memory": (15, "memory for training, estimated and measured"),
    "trace": (30, "a profiler's trace and the operations that take the most time"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return its exit code: 0 on success, 1 if a part failed, 2 on bad input."""
    parser = argparse.ArgumentParser(
        prog="course gpu-check",
        description="Test and measure the lab on this machine's GPUs, without a corpus or a network.",
        epilog="\n".join(f"  {name:<12} {help}" for name, (_, help) in PARTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", metavar="PART", nargs="*", help="the parts to run; default: all, listed below"
    )
    parser.add_argument("--output", type=Path, default=Path("gpu-check.json"), help="the JSON file to write")
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto", help="default: auto")
    parser.add_argument(
        "--minutes", type=float, default=12, help="the approximate limit for all parts; default: 12"
    )
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"unknown part {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    try:
        device = device_named(options.device)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        _read_report(options.output)
    except (BadInputError, OSError) as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    # In a file, the tables may be wider than rich's default of 80 columns.
    width = None if sys.stdout.isatty() else 200
    console = Console(highlight=False, soft_wrap=True, width=width)
    scale = REHEARSAL if device.type == "cpu" else GPU
    machine = describe_machine(device) | {"size": "rehearsal" if scale is REHEARSAL else "full"}
    console.print(", ".join(f"{key} {value}" for key, value in machine.items()))
    if scale is REHEARSAL:
        console.print("A rehearsal at a small size: it shows that every part runs. The figures mean nothing.")
    choose_kernels("auto", device)
    failed = False
    parts, left_out = options.parts or list(PARTS), []
    end = time.perf_counter() + 60 * options.minutes
    for index, part in enumerate(parts):
        started = time.perf_counter()
        if end - started < PARTS[part][0]:
            left_out.append(part)
            continue
        share = min(1.0, (end - started) / sum(PARTS[each][0] for each in parts[index:]))
        shortened = replace(scale, seconds=share * scale.seconds)
        rows: list[speed.Row] = []
        # Store the machine with each part, because a report may have parts from several machines.
        result: dict[str, object] = {"machine": machine, "complete": False, "rows": rows}
        for row in _rows(part, device, shortened, options.output.parent):
            rows.append(row)
            console.print(f"{part}: {', '.join(f'{key} {value}' for key, value in row.items())}")
            _write_report(options.output, part, result)
        seconds = round(time.perf_counter() - started, 1)
        _print(console, f"{part} ({seconds} s)", rows)
        _write_report(options.output, part, {**result, "complete": True, "seconds": seconds})
        failed = failed or any(row.get("result") == "FAILED" for row in rows)
    if left_out:
        row = {"result": "left out", "why": f"it may not fit into --minutes {options.minutes:g}"}
        _print(console, "left out", [{"part": part, **row} for part in left_out])
        for part in set(left_out) - set(_read_report(options.output)):
            _write_report(options.output, part, {"machine": machine, "complete": False, "rows": [row]})
        console.print(f"Left out for lack of time: {', '.join(left_out)}. Run them with a larger --minutes.")
    console.print(f"Report: {options.output}")
    return ExitCode.FAILED if failed or left_out else 0


def describe_machine(device: torch.device) -> dict[str, str]:
    """Return facts for the report, by name: the date, PyTorch's version, and the device's properties."""
    facts = {"date": str(date.today()), "torch": torch.__version__, "device": device.type}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {"card": properties.name, "cards": str(torch.cuda.device_count())}
        facts |= {"memory": f"{properties.total_memory / 2**30:.0f} GiB", "CUDA": str(torch.version.cuda)}
    else:
        facts |= {"processor": platform.machine(), "threads": str(torch.get_num_threads())}
    return facts


def _rows(part: str, device: torch.device, scale: Scale, folder: Path) -> Iterator[speed.Row]:
    if part == "correctness":
        yield from (_test(test, device) for test in correctness.TESTS)
        return
    try:
        yield from (
            speed.trace(device, scale, folder) if part == "trace" else MEASUREMENTS[part](device, scale)
        )
    except BadInputError as error:
        yield speed.left_out(error)
    except Exception as error:  # A part may fail in any way, and the others still have to run.
        why = next(iter(str(error).splitlines()), "")
        yield {"result": "FAILED", "why": f"{type(error).__name__}: {why}"[:500]}
    speed.free_memory(device)  # After a failure, the traceback refers to a trainer until this point.


def _test(test: Callable[[torch.device], str], device: torch.device) -> speed.Row:
    row: speed.Row = {"test": test.__name__.replace("_", " ")}
    try:
        found = test(device)
    except Exception as error:  # A test may fail in any way, and the others still have to run.
        return {**row, "result": "FAILED", "found": f"{type(error).__name__}: {error}"[:500]}
    return {**row, "result": "passed", "found": found}


def _read_report(path: Path) -> dict[str, object]:
    """Return the parts of a JSON report, or an empty dict if there is no file.

    Raises BadInputError if the file isn't such a report.
    """
    try:
        report = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except ValueError:
        report = None
    if not isinstance(report, dict):
        raise BadInputError(f"{path}: this file isn't a report of this command. Choose another --output.")
    return report


def _write_report(path: Path, part: str, result: object) -> None:
    """Add a part to the JSON report, or replace it, and keep the other parts. The write is atomic."""
    report = _read_report(path) | {part: result}
    atomic_write_text(path, json.dumps(report, indent=1) + "\n")


def _print(console: Console, title: str, rows: list[speed.Row]) -> None:
    table = Table(title=title, title_justify="left")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if row.get(column) is None else str(row[column]) for column in columns))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
