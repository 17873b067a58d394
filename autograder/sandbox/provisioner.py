"""A jupyter_client kernel provisioner whose kernels are forked inside the sandbox.

Chosen by name, `course-sandbox`: in a kernelspec's metadata, or by JUPYTER_DEFAULT_PROVISIONER_NAME. It makes
the kernel manager use the transport "ipc": a sandbox has no network.
"""

import asyncio
import os
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase

from autograder.sandbox.archive import beside, pack_files, whole_course
from autograder.sandbox.fork_server import Nursery, State
from autograder.sandbox.limits import Limits

#: Its name among the provisioners: see the entry points in pyproject.toml.
PROVISIONER = "course-sandbox"


@dataclass
class Launch:
    """What a sandboxed kernel gets, and who asks it questions."""

    nursery: Nursery
    judge: socket.socket
    archives: tuple[int, ...]
    """Descriptors of tar files: see `Nursery.launch`."""
    limits: Limits = field(default_factory=Limits)
    imports: tuple[str, ...] = ()
    """Modules that other kernels of the nursery will import too."""


class SandboxProvisioner(KernelProvisionerBase):
    """Starts a kernel in a nursery: in that of `launch`, given to `start_kernel`, or in one of its own.

    In one of its own, a kernel sees the whole course and the files beside its notebook.
    """

    _launch: Launch | None = None
    _own = False
    _running = False

    @property
    def has_process(self) -> bool:
        """Whether a kernel was started and not yet waited for."""
        return self._running

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Choose the sockets, inside the one folder that the sandbox shares."""
        launch = kwargs.pop("launch", None) or self._launch
        if launch is None:
            nursery = Nursery()
            nursery.start()
            ours, theirs = socket.socketpair()
            ours.close()  # nobody judges
            files = whole_course() | beside(Path(kwargs.get("cwd") or os.getcwd()))
            launch = Launch(nursery, theirs, (pack_files(files),))
            self._own = True
        self._launch = launch
        launch.nursery.start()
        manager = self.parent
        manager.transport = "ipc"
        manager.ip = str(launch.nursery.sockets / "kernel")
        manager.write_connection_file()
        self.connection_info = manager.get_connection_info()
        for unused in ("extra_arguments", "transport_encryption", "cwd"):
            kwargs.pop(unused, None)
        return await super().pre_launch(cmd=["in the sandbox"], **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Fork it."""
        assert self._launch is not None
        connection = {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in self.connection_info.items()
        }
        launch = self._launch
        launch.nursery.launch(connection, launch.judge, launch.archives, launch.limits, launch.imports)
        self._running = True
        return self.connection_info

    async def poll(self) -> int | None:
        """Give None while it runs, else its exit status."""
        state = self._state()
        return None if state.running else (state.ended or 0)

    async def wait(self) -> int | None:
        """Wait until it has ended."""
        while (status := await self.poll()) is None:
            await asyncio.sleep(0.02)
        self._running = False
        return status

    async def send_signal(self, signum: int) -> None:
        """Send it a signal."""
        if self._launch is not None and self._running:
            self._launch.nursery.signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """End it, and all that it has started."""
        if self._launch is not None:
            self._launch.nursery.clear()

    async def terminate(self, restart: bool = False) -> None:
        """End it, and all that it has started: code that is not trusted is not asked."""
        await self.kill(restart)

    async def cleanup(self, restart: bool = False) -> None:
        """Leave nothing behind."""
        if self._launch is not None and not restart:
            self._launch.nursery.clear()
            if self._own:
                self._own = False  # this is called twice
                for archive in self._launch.archives:
                    os.close(archive)
                self._launch.judge.close()
                self._launch.nursery.close()

    def _state(self) -> State:
        if self._launch is None or not self._running:
            return State(False, -signal.SIGKILL, ())
        return self._launch.nursery.state()
