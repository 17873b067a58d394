"""An executor that runs notebooks on the machines of a Dask cluster, each of which has warm sandboxes.

Dask's messages are pickles: anyone who can reach the scheduler can run code as the grader. So a cluster of
several machines must use TLS.
"""

import asyncio
import ipaddress
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from distributed import Client, Reschedule, Worker, WorkerPlugin, get_worker

from autograder.results.local_executor import LocalExecutor, WorkerExecutor
from autograder.results.version import installed_version
from autograder.results.worker import start_workers
from course_lib.curriculum.course_file import CourseError

P = ParamSpec("P")
T = TypeVar("T")

#: Timeouts in seconds for the scheduler, and for the first worker, which may wait in a queue.
_CONNECT_TIMEOUT, _WORKER_TIMEOUT = 30, 600

#: Seconds before a refused worker leaves, because it can leave only after it has joined.
_CLOSE_DELAY = 1.0


class SandboxPlugin(WorkerPlugin):
    """A plugin that starts one sandbox per thread of a Dask worker. The sandboxes stay warm until it ends.

    A worker leaves the cluster if it has a different version of the course, or if it can't confine code and
    `allow_unconfined` is false.
    """

    # Several graders share the sandboxes, so registering the plugin again must have no effect.
    idempotent = True

    def __init__(self, version: str, allow_unconfined: bool) -> None:
        self.name = f"course-sandbox-{version[:16]}"
        """The plugin's name, and the topic under which the scheduler records the refused workers."""
        self._version, self._allow_unconfined = version, allow_unconfined
        self.executor: LocalExecutor | None = None
        """The sandboxes of this worker; None if they have not started, or if the worker was refused."""

    async def setup(self, worker: Worker) -> None:
        """Start a worker's sandboxes before it receives its first call. If that fails, refuse the worker."""
        try:
            self.executor = await asyncio.to_thread(self._create_executor, worker.state.nthreads)
        except Exception as error:
            worker.log_event(self.name, {"worker": worker.address, "problem": str(error)})
            worker.loop.call_later(_CLOSE_DELAY, worker.close, reason=str(error))

    async def teardown(self, worker: Worker) -> None:
        """Stop the sandboxes of a worker."""
        if self.executor is not None:
            await asyncio.to_thread(self.executor.shutdown, cancel_futures=True)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that is sent to workers, without the executor, which can't be pickled."""
        return {**vars(self), "executor": None}

    def _create_executor(self, count: int) -> LocalExecutor:
        if installed_version() != self._version:
            raise CourseError(
                "its version of the course, of Python or of a package differs from the grader's"
            )
        executor = start_workers(count, self._allow_unconfined)
        try:
            executor.submit(os.getpid).result()
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
        return executor


class ClusterExecutor(WorkerExecutor):
    """An executor that runs calls in the sandboxes of a cluster's workers.

    If a worker dies, Dask runs its calls on another worker.
    """

    def __init__(self, client: Client, plugin: SandboxPlugin, workers: int) -> None:
        self.workers = workers
        """The number of sandboxes that were ready at the start. More may join later."""
        self._client, self._plugin = client, plugin
        self._executor = client.get_executor(pure=False)

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Schedule a call in the next free sandbox, and return its future."""
        future: Future[T] = self._executor.submit(_run, self._plugin.name, function, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect from the cluster. Its workers keep their sandboxes for the next run.

        With `wait` and without `cancel_futures`, wait for the submitted calls to finish first. Otherwise,
        cancel them.
        """
        self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close()


def connect(
    address: str, allow_unconfined: bool, allow_plain_tcp: bool, log: logging.Logger
) -> ClusterExecutor:
    """Connect to a Dask scheduler, wait for a worker with a sandbox, and return an executor.

    Raises CourseError if the address is unsafe or can't be reached, if every worker is refused, or if no
    worker has joined after ten minutes. An address without TLS is unsafe unless it is a loopback address or
    `allow_plain_tcp` is true. Workers that can't confine code are refused unless `allow_unconfined` is true.
    """
    _require_safe(address, allow_plain_tcp)
    try:
        client = Client(address, timeout=_CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise CourseError(
            f"COURSE_CLUSTER={address}: no Dask scheduler answers at this address: {error}"
        ) from None
    try:
        plugin = SandboxPlugin(installed_version(), allow_unconfined)
        refused_before = len(client.get_events(plugin.name))
        client.register_plugin(plugin)
        return ClusterExecutor(client, plugin, _wait_for_sandboxes(client, plugin, refused_before, log))
    except BaseException:
        client.close()
        raise


def _wait_for_sandboxes(
    client: Client, plugin: SandboxPlugin, refused_before: int, log: logging.Logger
) -> int:
    """Wait for the first worker with a sandbox, log refused workers, and return the number of sandboxes.

    Raises CourseError if every worker is refused, or if no worker has joined after ten minutes.
    """
    deadline = time.monotonic() + _WORKER_TIMEOUT
    has_waited = False
    logged = refused_before
    while True:
        ready: Mapping[str, int] = client.run(_sandboxes, plugin.name, on_error="ignore")
        refused = [event for _, event in client.get_events(plugin.name)]
        for event in refused[logged:]:
            log.warning("The worker %s was refused: %s", event["worker"], event["problem"])
        logged = len(refused)
        if sandboxes := sum(ready.values()):
            return sandboxes
        reasons = "\n".join(f"{event['worker']}: {event['problem']}" for event in refused)
        if len(refused) > refused_before and not ready:
            raise CourseError(f"No worker of the cluster can run students' code:\n{reasons}")
        if time.monotonic() > deadline:
            raise CourseError(
                f"No worker joined the cluster within {_WORKER_TIMEOUT // 60} minutes. If one is waiting in "
                f"a queue, run this command again once it has started.\n{reasons}"
            )
        if not has_waited:
            log.warning("Waiting for a worker of the cluster.")
            has_waited = True
        time.sleep(0.5)


def _sandboxes(name: str, dask_worker: Worker) -> int:
    """Return the number of sandboxes on a worker. This function runs in the worker."""
    plugin: SandboxPlugin | None = dask_worker.plugins.get(name)
    return plugin.executor.workers if plugin is not None and plugin.executor is not None else 0


def _run(name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a sandbox of the current worker's plugin called `name`, and return its result.

    Raises Reschedule if this worker was refused.
    """
    executor: LocalExecutor | None = get_worker().plugins[name].executor
    if executor is None:
        raise Reschedule
    return executor.submit(function, *args, **kwargs).result()


def _require_safe(address: str, allow_plain_tcp: bool) -> None:
    """Raise CourseError if the address is invalid, or if others could send code to the scheduler.

    With `allow_plain_tcp`, any valid address is accepted.
    """
    try:
        scheme, host = urlsplit(address).scheme, urlsplit(address).hostname or ""
    except ValueError:  # The address has a bracket that isn't closed.
        scheme = host = ""
    if scheme not in ("tcp", "tls") or not host:
        raise CourseError(
            f"COURSE_CLUSTER={address}: expected the address of a Dask scheduler, such as tls://grader:8786"
        )
    if scheme == "tls" or allow_plain_tcp:
        return
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
        local = all(ipaddress.ip_address(each).is_loopback for each in addresses)
    except (OSError, UnicodeError) as error:
        raise CourseError(f"COURSE_CLUSTER={address}: {host} is not known: {error}") from None
    if not local:
        raise CourseError(
            f"COURSE_CLUSTER={address}: without TLS, everyone who can reach the scheduler can run code "
            "as you. Use tls:// (see docs/clusters.md), or, if only graders can reach the network, set "
            "c.SandboxedExecute.allow_plain_tcp = True"
        )
