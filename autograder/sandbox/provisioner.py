"""A jupyter_client kernel provisioner whose kernels are forked inside the sandbox.

It is selected by its name, `course-sandbox`, in a kernelspec's metadata or JUPYTER_DEFAULT_PROVISIONER_NAME.
The kernel manager then uses the transport "ipc", because a sandbox has no network.
"""

import asyncio
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase

from autograder.sandbox.archive import neighbor_files, pack_files, whole_course
from autograder.sandbox.confinement import probe
from autograder.sandbox.fork_server import GONE, ForkServer
from autograder.sandbox.limits import Limits

#: The provisioner's name in the entry points of pyproject.toml.
PROVISIONER = "course-sandbox"


@dataclass
class Launch:
    """The arguments for launching a sandboxed kernel."""

    fork_server: ForkServer
    judge: socket.socket
    """The kernel's end of its connection to the judge."""
    archives: tuple[int, ...]
    """Descriptors of tar files: see `ForkServer.launch`."""
    limits: Limits = field(default_factory=Limits)
    imports: tuple[str, ...] = ()
    """Modules that the fork server imports, for this kernel and later ones."""


class SandboxProvisioner(KernelProvisionerBase):
    """A provisioner that uses the fork server in the `launch` argument of `start_kernel`, or starts its own.

    If it starts its own server, the kernel has access to all of `course_lib` and to the files next to its
    notebook.
    """

    _launch: Launch | None = None
    _owns_fork_server = False
    _running = False

    @property
    def has_process(self) -> bool:
        """Whether a kernel has been started and `wait` has not returned for it yet."""
        return self._running

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Start the fork server, and choose paths for the kernel's sockets in the sandbox's shared folder.

        Return the arguments for `launch_kernel`.
        """
        launch = kwargs.pop("launch", None) or self._launch
        if launch is None:
            fork_server = ForkServer(probe())
            fork_server.start()
            ours, theirs = socket.socketpair()
            ours.close()  # No judge will use this end.
            beside = neighbor_files(Path(kwargs.get("cwd") or os.getcwd()).resolve())
            files = whole_course() | {f"work/{path}": content for path, content in beside.items()}
            launch = Launch(fork_server, theirs, (pack_files(files),))
            self._owns_fork_server = True
        self._launch = launch
        launch.fork_server.start()
        manager = self.parent
        manager.transport = "ipc"
        manager.ip = str(launch.fork_server.sockets / "kernel")
        manager.write_connection_file()
        self.connection_info = manager.get_connection_info()
        for unused in ("extra_arguments", "transport_encryption", "cwd"):
            kwargs.pop(unused, None)
        return await super().pre_launch(cmd=["in the sandbox"], **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Fork the kernel, and return its connection info. The arguments are ignored: see `pre_launch`."""
        assert self._launch is not None
        connection = {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in self.connection_info.items()
        }
        launch = self._launch
        launch.fork_server.launch(connection, launch.judge, launch.archives, launch.limits, launch.imports)
        self._running = True
        return self.connection_info

    async def poll(self) -> int | None:
        """Return None while the kernel runs, otherwise its exit status.

        If no kernel has been started, or `wait` has returned for the last one, return -9, the exit status of
        a killed kernel.
        """
        if self._launch is None or not self._running:
            return GONE.ended
        return self._launch.fork_server.state().ended

    async def wait(self) -> int | None:
        """Wait until the kernel has ended, and return its exit status."""
        while (status := await self.poll()) is None:
            await asyncio.sleep(0.02)
        self._running = False
        return status

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel, if it is running."""
        if self._launch is not None and self._running:
            self._launch.fork_server.signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """End the kernel and all processes that it started."""
        if self._launch is not None:
            self._launch.fork_server.clear()

    async def terminate(self, restart: bool = False) -> None:
        """Kill the kernel immediately: untrusted code gets no chance to shut down."""
        await self.kill(restart)

    async def cleanup(self, restart: bool = False) -> None:
        """Release the kernel's resources, unless it is being restarted."""
        if self._launch is not None and not restart:
            self._launch.fork_server.clear()
            if self._owns_fork_server:
                self._owns_fork_server = False  # Jupyter calls this method twice.
                for archive in self._launch.archives:
                    os.close(archive)
                self._launch.judge.close()
                self._launch.fork_server.close()
