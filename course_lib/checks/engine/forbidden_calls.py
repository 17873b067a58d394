"""Find out whether a student's code calls the built-in that is the whole exercise.

Watching the calls, not the text, also finds it behind `getattr`, another name, or `torch.ops`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode


class Watch(TorchFunctionMode):
    """Inside `with Watch(names) as watch:`, collect in `watch.seen` which of these functions are called.

    Names are full ones, such as `torch.nn.functional.scaled_dot_product_attention`; the operator of the same
    last name in `torch.ops` counts as well.
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._by_last_name = {name.rpartition(".")[2]: name for name in names}
        self.seen: list[str] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Note the function if it is one of them, and let it run."""
        # An overload of torch.ops is called "name.overload".
        last_name = getattr(func, "__name__", "").partition(".")[0]
        name = self._by_last_name.get(last_name)
        if name is not None and name not in self.seen:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))
