"""Record direct and indirect calls to functions that would solve a whole exercise."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pkgutil import resolve_name
from types import CodeType, FrameType
from typing import Any, TypeAlias

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Function: TypeAlias = Callable[..., Any]

#: The kernels behind some functions, as prefixes of their operators' names in `torch.ops.aten`.
_KERNELS = {
    "scaled_dot_product_attention": (
        "_scaled_dot_product",
        "_flash_attention",
        "_efficient_attention",
        "_fused_sdp",
    ),
    "multi_head_attention_forward": ("_native_multi_head_attention", "_transformer_encoder_layer"),
    "layer_norm": ("native_layer_norm", "_fused_layer_norm"),
    "group_norm": ("native_group_norm",),
    "batch_norm": ("native_batch_norm", "_native_batch_norm", "_batch_norm"),
    "cross_entropy": ("cross_entropy_loss",),
}


class CallRecorder:
    """A recorder of calls to given functions, such as built-ins that would solve a whole exercise.

    Names are fully qualified, such as `torch.nn.functional.scaled_dot_product_attention`. `seen` lists the
    names of the functions that were called. Calls are detected at three levels: torch functions, including
    those called through `getattr` or an alias; dispatched operators, which compiled code reaches without
    calling a torch function; and functions of torch that are written in Python.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._by_last_part = {name.rpartition(".")[2]: name for name in names}
        self._by_kernel = {
            kernel: name
            for last, name in self._by_last_part.items()
            for kernel in (*_KERNELS.get(last, ()), last)
        }
        # Only the functions of torch that are written in Python have a code object.
        codes = {name: getattr(resolve_name(name), "__code__", None) for name in names}
        self._by_code: dict[CodeType, str] = {code: name for name, code in codes.items() if code is not None}
        self.seen: list[str] = []
        self.calls = 0
        """The number of calls to torch functions, not counting attribute access."""

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record calls to the given functions, and count all calls to torch functions, during the block."""
        profiled = sys.getprofile()
        with FunctionCalls(self._function):
            if not self._by_last_part:
                yield
                return
            with _Operators(self._operator):
                if self._by_code:
                    sys.setprofile(self._python_call)
                try:
                    yield
                finally:
                    if self._by_code:
                        sys.setprofile(profiled)

    def _function(self, func: Function, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        # Don't count reads of attributes: runtime checks of shape annotations read some, so the count would
        # depend on whether these checks are enabled.
        self.calls += name != "__get__"
        # An overload in torch.ops is called "name.overload".
        last = name.partition(".")[0]
        if last in self._by_last_part:
            self._add(self._by_last_part[last])
        elif self._by_kernel:
            self._operator(last)
        return func(*args, **keywords)

    def _operator(self, name: str) -> None:
        for kernel, whole in self._by_kernel.items():
            if name.startswith(kernel):
                self._add(whole)

    def _python_call(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code in self._by_code:
            self._add(self._by_code[frame.f_code])

    def _add(self, name: str) -> None:
        if name not in self.seen:
            self.seen.append(name)


class FunctionCalls(TorchFunctionMode):
    """A torch function mode that intercepts calls to torch functions and delegates them to `call`."""

    def __init__(self, call: Callable[[Function, tuple[Any, ...], Mapping[str, Any]], Any]) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(
        self,
        func: Function,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self._call(func, args, kwargs or {})


class _Operators(TorchDispatchMode):
    """A dispatch mode that calls `tell` with the name of every dispatched operator, without its overload."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # With True, the first call would import the whole compiler, which takes seconds.

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tell = tell

    def __torch_dispatch__(
        self,
        func: Function,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self._tell(getattr(func, "__name__", "").partition(".")[0])
        return func(*args, **(kwargs or {}))
