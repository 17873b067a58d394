"""Run a notebook for grading: the student's cells in a sandboxed kernel, the locked cells in this process."""

import asyncio
import contextlib
import json
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from nbclient.client import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from autograder.judge.cell_dependencies import cells_to_run
from autograder.judge.inherited_mistakes import (
    NOT_RUN,
    all_parts,
    answers_to_check_again,
    use_new_results,
    with_course_code,
)
from autograder.judge.job import Job, NotComputedError, Result
from autograder.judge.lesson_context import LessonContext
from autograder.judge.locked_cells import judge
from autograder.judge.static_checks import static_warnings
from autograder.sandbox.archive import pack_files
from autograder.sandbox.fork_server import ForkServer, ForkServerError
from autograder.sandbox.kernel import JUDGE
from autograder.sandbox.limits import Limits
from autograder.sandbox.provisioner import PROVISIONER, Launch
from course_lib.checks.engine.findings import Finding, VerdictName
from course_lib.checks.exercises.final_lab.hand_in import handed_in
from course_lib.checks.remote.client import student_objects
from course_lib.checks.remote.serialization import pack
from course_lib.checks.remote.transport import Channel

#: Memory addresses in the representations of objects. They differ between runs, so outputs mask them.
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]{6,}")

#: Timeouts in seconds for a kernel: to start, to answer its first request, and to finish after a check.
_START_TIMEOUT, _FIRST_ANSWER_TIMEOUT, _RETURN_TIMEOUT = 60.0, 8.0, 5.0

#: The number of kernels that may fail to answer the judge before the run is abandoned.
_MAX_SILENT_KERNELS = 1


class _KernelFailedError(Exception):
    """The error raised if the kernel can't be used any longer. The message says why."""


class _KernelNotStartedError(_KernelFailedError):
    """The error raised if a kernel ended, or ran out of time, before its first answer."""


def run(job: Job, context: Callable[[Collection[str]], LessonContext], fork_server: ForkServer) -> Result:
    """Run a job's notebook. Return a result even if its code fails or ends the kernel.

    Answers that may fail only because earlier ones fail are checked again with the course's code for those,
    within the same time limit. Called with the names of exercises, `context` returns the lesson's context in
    which the course's code for them is available. Time limits don't count time in which the student's code is
    ready to run but has no core.

    Raises NotComputedError if a check crashes or doesn't exist in this version of the course, if kernels
    don't start and the files next to the notebook aren't the cause, or if the notebook waits for a core for
    a minute longer than its time limit.
    """
    start = time.monotonic()
    lesson = context(())
    clock = _Clock(fork_server, job.limits.notebook_seconds + _START_TIMEOUT)
    deadline = clock.seconds() + job.limits.notebook_seconds
    result = asyncio.run(_Run(job, lesson, fork_server, clock, deadline).run())
    deadline = clock.seconds() + job.limits.notebook_seconds
    for parts, checks in answers_to_check_again(job, result).items():
        again = with_course_code(job, parts, checks)
        new = asyncio.run(_Run(again, context(all_parts(parts)), fork_server, clock, deadline).run())
        use_new_results(job, result, again, new, parts, checks)
    observed = {name for finding in result.findings.values() for name in finding["forbidden"]}
    result.warnings[:0] = static_warnings(job.cells, lesson.may_not_call, observed)
    result.mechanism = fork_server.confinement.name
    result.seconds = time.monotonic() - start
    return result


class _Clock:
    """A clock that stops while a kernel waits for a core, for at most `max_waiting` seconds in total."""

    def __init__(self, fork_server: ForkServer, max_waiting: float) -> None:
        self._fork_server, self._max_waiting = fork_server, max_waiting
        self._of_earlier_kernels = self._of_this_kernel = 0.0

    def seconds(self) -> float:
        """Return the time in seconds. Only differences between two times are meaningful."""
        return time.monotonic() - self.seconds_without_core()

    def seconds_without_core(self) -> float:
        """Return how many seconds the kernels have waited for a core in total, up to the maximum."""
        with contextlib.suppress(ForkServerError):
            # Keep the largest value, because a kernel that has ended reports 0.
            self._of_this_kernel = max(self._of_this_kernel, self._fork_server.state().seconds_without_core)
        return min(self._of_earlier_kernels + self._of_this_kernel, self._max_waiting)

    def kernel_ended(self) -> None:
        """Add the waiting time of the kernel that has ended to the total. The next kernel starts at 0."""
        self._of_earlier_kernels += self._of_this_kernel
        self._of_this_kernel = 0.0

    def require_core(self) -> None:
        """Raise NotComputedError if the kernels have waited for the maximum time."""
        if self._of_earlier_kernels + self._of_this_kernel >= self._max_waiting:
            raise NotComputedError(
                f"the machine was too busy: this notebook waited {self._max_waiting:g} seconds for a "
                "processor. Run this command again when the machine is less busy, or with fewer workers"
            )

    async def limit(self, awaitable: Awaitable[Any], seconds: float) -> None:
        """Wait for an awaitable, whose result is discarded, and raise its error if it fails.

        If it takes longer than `seconds` on this clock, cancel it and raise TimeoutError.
        """
        task, end = asyncio.ensure_future(awaitable), self.seconds() + seconds
        while not task.done():
            left = end - self.seconds()
            if left <= 0:
                task.cancel()
                raise TimeoutError
            await asyncio.wait({task}, timeout=left)
        task.result()


class _Run:
    """One run of a notebook. If a kernel ends, a new one is started, up to the limit on restarts."""

    def __init__(
        self, job: Job, lesson: LessonContext, fork_server: ForkServer, clock: _Clock, deadline: float
    ) -> None:
        self.job, self.lesson, self.fork_server = job, lesson, fork_server
        self.clock, self.deadline = clock, deadline
        self.result = Result([[] for _ in job.cells])
        self.failed: set[int] = set()
        """The indices of cells that ended a kernel. They are not run again."""
        self.reached = 0
        """The index of the first cell that hasn't been started."""
        self.silent_kernels = 0
        """The number of kernels that never answered the judge."""
        self.has_started = False
        """Whether a kernel has started with the files next to the notebook."""

    async def run(self) -> Result:
        """Run all cells, and return the result.

        If a cell ends its kernel, a new kernel repeats the student's earlier cells, except those that ended a
        kernel, and continues with the next cell. Raises NotComputedError under the same conditions as `run`.
        """
        cells = [new_code_cell(cell.source, id=cell.id) for cell in self.job.cells]
        judged = {cell.id for cell in self.job.cells if cell.judged}
        optional = {cell.id for cell in self.job.cells if cell.optional}
        runs = cells_to_run(cells, optional, judged, self.lesson.may_not_call)
        reason, failed = f"the kernel ended {self.job.limits.restarts + 1} times", None
        verdict: VerdictName = "kernel-died"
        for _ in range(self.job.limits.restarts + 1):
            try:
                async with self._kernel(self.job.files) as kernel:
                    self.has_started = True
                    for index, cell in enumerate(cells):
                        again = index < self.reached
                        self.reached = max(self.reached, index + 1)
                        if cell.id in judged and not again:
                            await self._judge_cell(kernel, index)
                        elif runs[index] and index not in self.failed:
                            await self._run_cell(
                                kernel, cell, index, self.deadline - self.clock.seconds(), again
                            )
                failed = None
                break
            except _KernelFailedError as ended:
                self.clock.require_core()
                failed = ended
                self._note(str(ended))
                if self.silent_kernels > _MAX_SILENT_KERNELS:
                    reason = "the kernel stopped responding to the checks"
                    break
                if self.clock.seconds() > self.deadline:
                    reason = f"the notebook took longer than {self.job.limits.notebook_seconds:g} seconds"
                    verdict = "out-of-time"
                    break
            finally:
                self.clock.kernel_ended()
                for violation in self.fork_server.clear().violations:
                    self._note(violation)
        if isinstance(failed, _KernelNotStartedError):
            await self._require_files_at_fault()
            reason = "no kernel starts with the files next to the notebook, but one starts without them"
        if failed is not None:
            self._give_up(reason, verdict)
        for number, outputs in enumerate(self.result.outputs, start=1):
            for output in outputs:
                if output.output_type == "execute_result":
                    output.execution_count = number
        return self.result

    async def _require_files_at_fault(self) -> None:
        """Raise NotComputedError unless only the files next to the notebook prevent kernels from starting."""
        if not self.has_started:
            try:
                async with self._kernel(()):
                    return
            except _KernelNotStartedError:
                pass
            finally:
                self.fork_server.clear()
        raise NotComputedError(
            "the kernel didn't start, and the files that were handed in are not the cause. Check whether "
            "this machine is overloaded or out of memory, and test the sandbox with `course doctor`"
        )

    @asynccontextmanager
    async def _kernel(self, files: Iterable[tuple[str, bytes]]) -> AsyncIterator["_Kernel"]:
        """Start a kernel with these files in its working folder, and yield it. The caller must kill it.

        Raises _KernelNotStartedError if the kernel doesn't start.
        """
        ours, theirs = socket.socketpair()
        manager = AsyncKernelManager(kernel_name="python3")
        assert manager.kernel_spec is not None
        manager.kernel_spec.metadata["kernel_provisioner"] = {"provisioner_name": PROVISIONER}
        manager.context = zmq.asyncio.Context()
        # A larger message closes the connection, which ends the cell.
        manager.context.setsockopt(zmq.MAXMSGSIZE, 4 * self.job.limits.output_bytes + 2**20)
        client = None
        try:
            work = pack_files({f"work/{path}": content for path, content in files})
            archives = (self.lesson.archive, work)
            launch = Launch(self.fork_server, theirs, archives, self.job.limits, self.lesson.imports)
            try:
                await manager.start_kernel(launch=launch)
            finally:
                os.close(work)
            theirs.close()
            client = manager.client()
            # Don't start the heartbeat: its thread can hang after a kernel has been killed, and the fork
            # server knows whether the kernel is running.
            client.start_channels(stdin=False, hb=False)
            await _wait_until_ready(client, self.fork_server)
            channel = Channel(ours, self.job.limits.reply_bytes, self.clock.seconds_without_core)
            yield _Kernel(manager, client, channel)
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
        runner = _CellRunner(new_notebook(cells=[cell]), self.job.limits, left, self.clock)
        runner.km, runner.kc = kernel.manager, kernel.client
        cell.outputs = []
        try:
            if left <= 0:
                raise CellTimeoutError
            await runner.async_execute_cell(cell, 0)
        except (CellTimeoutError, DeadKernelError):
            if left <= 0 or runner.timed_out:
                message = (
                    f"the notebook took longer than {self.job.limits.notebook_seconds:g} seconds"
                    if left < self.job.limits.cell_seconds
                    else f"stopped after {self.job.limits.cell_seconds:g} seconds"
                )
                self._cell_failed(index, cell, "OutOfTime", message)
            state = self.fork_server.state()
            message = "; ".join(state.violations) or f"the kernel ended with exit status {state.ended}"
            self._cell_failed(index, cell, "KernelDied", message)
        except Exception as error:  # The student controls the kernel, which can send anything.
            message = f"the kernel sent an invalid message ({type(error).__name__})"
            self._cell_failed(index, cell, "KernelDied", message)
        if again:
            return
        self.result.outputs[index] = [*map(_normalize, cell.outputs)]
        if runner.truncated:
            text = f"\n[Only the first {self.job.limits.output_bytes:,} bytes of the output are kept.]\n"
            self.result.outputs[index].append(new_output("stream", name="stdout", text=text))

    def _cell_failed(self, index: int, cell: NotebookNode, error: str, message: str) -> NoReturn:
        self.failed.add(index)
        self.result.outputs[index] = [*map(_normalize, cell.outputs), _error(error, message)]
        raise _KernelFailedError(f"cell {self.job.cells[index].id}: {message}")

    async def _judge_cell(self, kernel: "_Kernel", index: int) -> None:
        cell = self.job.cells[index]
        request = kernel.client.execute(JUDGE, silent=True, store_history=False)
        channel = kernel.judge
        names = student_objects(channel, self.lesson.may_not_call, first_timeout=_FIRST_ANSWER_TIMEOUT)
        if channel.dead:
            self.silent_kernels += 1
            message = f"the kernel stopped responding to the check: {channel.dead}"
            self._not_judged(index, "KernelDied", message)
            raise _KernelFailedError(f"{cell.id}: {message}")
        with handed_in(dict(self.job.files)):
            judged = judge(cell.source, names, self.lesson.trusted)
        self.clock.require_core()
        self.result.outputs[index] = judged.outputs
        for finding in judged.findings:
            self.result.findings[cell.id] = asdict(finding)
            self.result.warnings += filter(None, [finding.review])
        if not channel.dead:
            with contextlib.suppress(Exception):
                channel.send(pack({"do": "done"}), _RETURN_TIMEOUT)
                await self.clock.limit(_wait_for_reply(kernel.client, request), _RETURN_TIMEOUT)
                return
        raise _KernelFailedError(f"{cell.id}: {channel.dead or 'the kernel is stuck after the check'}")

    def _give_up(self, reason: str, verdict: VerdictName) -> None:
        """Record why the run was abandoned, and that the remaining locked cells were not run."""
        self._note(reason)
        for index in range(self.reached, len(self.job.cells)):
            if self.job.cells[index].judged:
                self._not_judged(index, NOT_RUN, reason, verdict)

    def _not_judged(self, index: int, error: str, message: str, verdict: VerdictName = "kernel-died") -> None:
        name = self.job.cells[index].id
        self.result.outputs[index] = [_error(error, message)]
        finding = Finding(name.removeprefix("check_"), verdict)
        self.result.findings[name] = asdict(finding)

    def _note(self, violation: str) -> None:
        if violation not in self.result.violations:
            self.result.violations.append(violation)


@dataclass
class _Kernel:
    manager: AsyncKernelManager
    client: AsyncKernelClient
    judge: Channel


class _CellRunner(NotebookClient):
    """A NotebookClient that runs one cell of untrusted code, and limits its output and its time."""

    def __init__(self, notebook: NotebookNode, limits: Limits, left: float, clock: _Clock) -> None:
        super().__init__(
            notebook,
            timeout=None,  # `_async_poll_kernel_alive` ends the cell instead.
            allow_errors=True,
            interrupt_on_timeout=False,
            record_timing=False,
            store_widget_state=False,
            iopub_timeout=2,
            raise_on_iopub_timeout=False,
            skip_cells_with_tag="",
        )
        self.remaining = limits.output_bytes
        self.truncated = False
        self.timed_out = False
        """Whether the cell has exceeded its own time limit or the notebook's."""
        self._clock = clock
        self._end = clock.seconds() + min(limits.cell_seconds, left)

    def output(self, outs: list[NotebookNode], msg: dict[str, Any], display_id: str, cell_index: int) -> Any:
        """Add an output to the cell, within the limit on the size of all its outputs.

        Printed text that exceeds the limit is truncated. Any other output that exceeds it is dropped.
        """
        content = msg["content"]
        if msg["msg_type"] == "stream" and len(content["text"]) > self.remaining:
            self.truncated, content["text"] = True, content["text"][: self.remaining]
        size = len(json.dumps(content))
        if size > self.remaining and msg["msg_type"] != "stream":
            self.truncated = True
            return None
        self.remaining = max(0, self.remaining - size)
        return super().output(outs, msg, display_id, cell_index)

    def handle_comm_msg(self, *arguments: Any) -> None:
        """Ignore widgets, which don't affect a grade."""

    async def _async_poll_kernel_alive(self) -> None:
        while await self.km.is_alive() and not self.timed_out:
            await asyncio.sleep(0.1)
            # Reading this clock sends a request to the fork server, so read it only once the time may be up.
            self.timed_out = time.monotonic() > self._end and self._clock.seconds() > self._end
        if self.task_poll_for_reply is not None:
            self.task_poll_for_reply.cancel()


async def _wait_until_ready(client: AsyncKernelClient, fork_server: ForkServer) -> None:
    """Wait until the kernel answers requests and its output arrives, or raise _KernelNotStartedError."""
    deadline = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < deadline and fork_server.state().ended is None:
        client.kernel_info()
        with contextlib.suppress(Exception):
            await client.get_iopub_msg(timeout=0.1)
            await client.get_shell_msg(timeout=5)
            return
    raise _KernelNotStartedError("the kernel didn't start")


async def _wait_for_reply(client: AsyncKernelClient, request: str) -> None:
    while (await client.get_shell_msg())["parent_header"].get("msg_id") != request:
        pass


def _error(error: str, message: str) -> NotebookNode:
    return new_output("error", ename=error, evalue=message, traceback=[f"{error}: {message}"])


def _normalize(output: NotebookNode) -> NotebookNode:
    """Replace memory addresses in an output with "0x…", clear its metadata, and return it."""
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
