"""Run one notebook for a grade: the student's cells in a sandboxed kernel, the locked ones here."""

import asyncio
import contextlib
import json
import math
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

import zmq.asyncio
from jupyter_client.manager import AsyncKernelManager
from nbclient.client import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from autograder.judge.cell_dependencies import needed
from autograder.judge.job import Job, Result
from autograder.judge.locked_cells import judge
from autograder.judge.static_checks import suspicions
from autograder.sandbox.archive import pack_files
from autograder.sandbox.fork_server import Nursery
from autograder.sandbox.kernel import JUDGE
from autograder.sandbox.limits import Limits
from autograder.sandbox.provisioner import PROVISIONER, Launch
from course_lib.checks.engine.findings import Finding
from course_lib.checks.exercises.final_lab.hand_in import handed_in
from course_lib.checks.remote.client import Channel, student_objects
from course_lib.checks.remote.serialization import pack

#: Where Python says that an object lies: another place in each run, so it is left out of what is kept.
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,}")

#: How long a kernel may take to start, to begin to answer the judge, and to be done with it. In seconds.
_STARTING, _FIRST_WORD, _LAST_WORD = 60.0, 8.0, 5.0

#: How many kernels may leave the judge without an answer before no more are started.
_MOST_SILENT = 1


@dataclass(frozen=True)
class LessonSide:
    """What the judge knows of a lesson."""

    archive: int
    """What its kernels can import, as `autograder.sandbox.archive.pack_files` gives it."""
    trusted: Mapping[str, Any]
    """What its locked cells may use besides the student's names."""
    may_not_call: Mapping[str, Sequence[str]]
    """By exercise."""
    imports: tuple[str, ...] = ()
    """The modules that its cells import."""


class _EndedError(Exception):
    """The kernel is of no more use. The message says why, as a sentence without its subject."""


def run(job: Job, lesson: LessonSide, nursery: Nursery) -> Result:
    """Run a notebook. Whatever its code does, there is a result."""
    start = time.monotonic()
    result = asyncio.run(_Run(job, lesson, nursery).to_the_end())
    seen = {name for finding in result.findings.values() for name in finding["forbidden"]}
    result.suspicions = suspicions(job.cells, lesson.may_not_call, seen)
    result.suspicions += [told for finding in result.findings.values() if (told := finding["look_at"])]
    result.mechanism = nursery.confinement.name
    result.seconds = time.monotonic() - start
    return result


class _Run:
    """One pass over a notebook, with as many kernels as it takes."""

    def __init__(self, job: Job, lesson: LessonSide, nursery: Nursery) -> None:
        self.job, self.lesson, self.nursery = job, lesson, nursery
        size = len(job.cells)
        self.result = Result([[] for _ in range(size)], [None] * size)
        self.useless: set[int] = set()
        """Cells that ended a kernel: they are not run again."""
        self.reached = 0
        """The first cell that was not begun."""
        self.silent = 0
        """How many kernels did not answer the judge at all."""

    async def to_the_end(self) -> Result:
        """Run all cells; after one that ended the kernel, go on behind it with a fresh kernel."""
        cells = [new_code_cell(cell.source, id=cell.id) for cell in self.job.cells]
        judged = {cell.id for cell in self.job.cells if cell.judged}
        optional = {cell.id for cell in self.job.cells if cell.optional and not self.job.everything}
        runs = needed(cells, optional, judged, self.lesson.may_not_call)
        deadline = time.monotonic() + self.job.limits.notebook_seconds
        for _ in range(self.job.limits.restarts + 1):
            try:
                async with self._kernel() as kernel:
                    for index, cell in enumerate(cells):
                        again = index < self.reached
                        self.reached = max(self.reached, index + 1)
                        if cell.id in judged and not again:
                            await self._judge(kernel, index)
                        elif runs[index] and index not in self.useless:
                            await self._run_cell(kernel, cell, index, deadline - time.monotonic(), again)
                break
            except _EndedError as ended:
                self._note(str(ended))
                if self.silent > _MOST_SILENT:
                    self._give_up("the kernels did not answer the judge before")
                    break
                if time.monotonic() > deadline:
                    self._give_up(
                        f"the notebook took longer than {self.job.limits.notebook_seconds:g} seconds"
                    )
                    break
            finally:
                for violation in self.nursery.clear().violations:
                    self._note(violation)
        else:
            self._give_up(f"the kernel had ended {self.job.limits.restarts + 1} times before")
        return self._numbered()

    @asynccontextmanager
    async def _kernel(self) -> AsyncIterator["_Kernel"]:
        ours, theirs = socket.socketpair()
        manager = AsyncKernelManager(kernel_name="python3")
        assert manager.kernel_spec is not None
        manager.kernel_spec.metadata["kernel_provisioner"] = {"provisioner_name": PROVISIONER}
        manager.context = zmq.asyncio.Context()
        # What is larger ends the connection, and with it the cell.
        manager.context.setsockopt(zmq.MAXMSGSIZE, 4 * self.job.limits.output_bytes + 2**20)
        client = None
        try:
            work = pack_files({f"work/{path}": content for path, content in self.job.files})
            try:
                await manager.start_kernel(
                    launch=Launch(
                        self.nursery,
                        theirs,
                        (self.lesson.archive, work),
                        self.job.limits,
                        self.lesson.imports,
                    )
                )
            finally:
                os.close(work)
            theirs.close()
            client = manager.client()
            # No heartbeat: its thread can wait for ever for a kernel that was killed. The sandbox is asked.
            client.start_channels(stdin=False, hb=False)
            await _ready(client, self.nursery)
            yield _Kernel(manager, client, Channel(ours, self.job.limits.reply_bytes))
        finally:
            ours.close()
            theirs.close()
            if client is not None:
                client.stop_channels()
            manager.cleanup_connection_file()
            manager.context.destroy(linger=0)

    async def _run_cell(
        self, kernel: "_Kernel", cell: NotebookNode, index: int, left: float, again: bool
    ) -> None:
        runner = _Cells(new_notebook(cells=[cell]), self.job.limits, left)
        runner.km, runner.kc = kernel.manager, kernel.client
        cell.outputs = []
        try:
            if left <= 0:
                raise CellTimeoutError
            await runner.async_execute_cell(cell, 0)
        except CellTimeoutError:
            whole = left < self.job.limits.cell_seconds
            says = (
                f"the notebook may take {self.job.limits.notebook_seconds:g} seconds, and they were over"
                if whole
                else f"it was stopped after {self.job.limits.cell_seconds:g} seconds"
            )
            self._stopped(index, runner, cell, "OutOfTime", says)
        except DeadKernelError:
            state = self.nursery.state()
            says = "; ".join(state.violations) or f"it ended the kernel, with exit status {state.ended}"
            self._stopped(index, runner, cell, "KernelDied", says)
        except Exception as error:  # the kernel is the student's: it can send anything
            says = f"its kernel sent what is no message of a kernel ({type(error).__name__})"
            self._stopped(index, runner, cell, "KernelDied", says)
        if again:
            return
        self.result.outputs[index] = [_plain(output) for output in cell.outputs]
        if runner.cut:
            most = self.job.limits.output_bytes
            self.result.outputs[index].append(
                new_output(
                    "stream",
                    name="stdout",
                    text=f"\n[Only the first {most:,} bytes of the output are kept.]\n",
                )
            )

    def _stopped(self, index: int, runner: "_Cells", cell: NotebookNode, kind: str, says: str) -> None:
        self.useless.add(index)
        told = new_output("error", ename=kind, evalue=says, traceback=[f"{kind}: {says}"])
        self.result.outputs[index] = [*(_plain(output) for output in cell.outputs), told]
        raise _EndedError(f"cell {self.job.cells[index].id}: {says}")

    async def _judge(self, kernel: "_Kernel", index: int) -> None:
        cell = self.job.cells[index]
        asked = kernel.client.execute(JUDGE, silent=True, store_history=False)
        channel = kernel.judge
        names = student_objects(channel, self.lesson.may_not_call, _FIRST_WORD)
        if channel.dead:
            self.silent += 1
            says = f"the kernel did not answer the judge: {channel.dead}"
            self._not_judged(index, "KernelDied", says)
            raise _EndedError(f"{cell.id}: {says}")
        with handed_in(dict(self.job.files)):
            judged = judge(cell.source, names, self.lesson.trusted)
        self.result.outputs[index] = judged.outputs
        for finding in judged.findings:
            self.result.findings[cell.id] = asdict(finding)
        if not channel.dead:
            with contextlib.suppress(Exception):
                channel.send(pack({"do": "done"}), _LAST_WORD)
                await asyncio.wait_for(_reply(kernel.client, asked), _LAST_WORD)
                return
        raise _EndedError(f"{cell.id}: {channel.dead or 'the kernel did not go on after the check'}")

    def _give_up(self, says: str) -> None:
        """Say of the cells that were not reached that they weren't."""
        self._note(says)
        for index in range(self.reached, len(self.job.cells)):
            if self.job.cells[index].judged:
                self._not_judged(index, "NotRun", says)

    def _not_judged(self, index: int, kind: str, says: str) -> None:
        name = self.job.cells[index].id
        told = new_output("error", ename=kind, evalue=says, traceback=[f"{kind}: {says}"])
        self.result.outputs[index] = [told]
        finding = Finding(name.removeprefix("check_"), "kernel-died", points=0.0)
        self.result.findings[name] = asdict(finding)

    def _note(self, violation: str) -> None:
        if violation not in self.result.violations:
            self.result.violations.append(violation)

    def _numbered(self) -> Result:
        for index, outputs in enumerate(self.result.outputs):
            count = index + 1
            self.result.counts[index] = count
            for output in outputs:
                if output.output_type == "execute_result":
                    output.execution_count = count
        return self.result


@dataclass
class _Kernel:
    manager: AsyncKernelManager
    client: Any
    judge: Channel


class _Cells(NotebookClient):
    """nbclient, for one cell of code that is not trusted."""

    def __init__(self, notebook: NotebookNode, limits: Limits, left: float) -> None:
        super().__init__(
            notebook,
            timeout=math.ceil(min(limits.cell_seconds, left)),
            allow_errors=True,
            interrupt_on_timeout=False,
            record_timing=False,
            store_widget_state=False,
            iopub_timeout=2,
            raise_on_iopub_timeout=False,
            skip_cells_with_tag="",
        )
        self.left = limits.output_bytes
        self.cut = False

    def output(self, outs: list[NotebookNode], msg: dict[str, Any], display_id: str, cell_index: int) -> Any:
        """Keep an output while there is room."""
        content = msg["content"]
        if msg["msg_type"] == "stream" and len(content["text"]) > self.left:
            self.cut, content["text"] = True, content["text"][: self.left]
        size = len(json.dumps(content))
        if size > self.left and msg["msg_type"] != "stream":
            self.cut = True
            return None
        self.left = max(0, self.left - size)
        return super().output(outs, msg, display_id, cell_index)

    def handle_comm_msg(self, *arguments: Any) -> None:
        """Keep nothing of widgets: a grade needs none."""

    async def _async_poll_kernel_alive(self) -> None:
        while await self.km.is_alive():
            await asyncio.sleep(0.1)
        if self.task_poll_for_reply is not None:
            self.task_poll_for_reply.cancel()


async def _ready(client: Any, nursery: Nursery) -> None:
    """Wait until the kernel answers, and what it shows arrives here."""
    deadline = time.monotonic() + _STARTING
    while time.monotonic() < deadline and nursery.state().ended is None:
        client.kernel_info()
        with contextlib.suppress(Exception):
            await client.get_iopub_msg(timeout=0.1)
            await client.get_shell_msg(timeout=5)
            return
    raise _EndedError("the kernel did not start")


async def _reply(client: Any, asked: str) -> None:
    while (await client.get_shell_msg())["parent_header"].get("msg_id") != asked:
        pass


def _plain(output: NotebookNode) -> NotebookNode:
    """Keep nothing of where objects lay in memory, or of what the notebook says about itself."""
    if "metadata" in output:
        output.metadata = NotebookNode()
    if output.output_type == "stream":
        output.text = _ADDRESS.sub("0x…", output.text)
    for kind, value in output.get("data", {}).items():
        if isinstance(value, str) and kind.startswith("text/"):
            output.data[kind] = _ADDRESS.sub("0x…", value)
    if output.output_type == "error":
        output.evalue = _ADDRESS.sub("0x…", output.evalue)
        output.traceback = [_ADDRESS.sub("0x…", line) for line in output.traceback]
    return output
