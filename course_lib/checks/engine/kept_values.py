"""Calls of a student's code without the values that earlier calls have left.

With a cache, a counter, or an attribute that only the first call sets, a result depends on earlier calls. If
a failing test passes when each call starts without such values, they are the cause.
"""

import dis
import functools
import inspect
import operator
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from types import CodeType, FunctionType
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

#: The instructions that read and assign a global name. The code of a class's body uses LOAD_NAME.
_READ, _ASSIGN = ("LOAD_GLOBAL", "LOAD_NAME"), ("STORE_GLOBAL",)

_CONTAINERS = (dict, list, set)

#: The attributes that every module has, such as its parameters and hooks.
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def names_used(found: object) -> set[str]:
    """Return the global names in the code of a function, or of a class's methods.

    Decorators that keep the original function, such as `torch.no_grad()`, are ignored.
    """
    members = vars(found).values() if isinstance(found, type) else [found]
    functions = map(inspect.unwrap, filter(callable, members))
    codes = [function.__code__ for function in functions if isinstance(function, FunctionType)]
    return {name for code in codes for name in _names(code, _READ)}


def _names(code: CodeType, instructions: tuple[str, ...]) -> set[str]:
    # `co_names` would also contain the names of attributes.
    names = {each.argval for each in dis.get_instructions(code) if each.opname in instructions}
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return names.union(*(_names(part, instructions) for part in inner))


class KeptValues:
    """A way to call a function, or instances of a class, without the values of earlier calls.

    With `only`, the values of other variables and attributes are kept.
    """

    def __init__(self, only: Collection[str] = ()) -> None:
        self._only = only
        self._hooks: list[RemovableHandle] = []
        self.names: set[str] = set()
        """The variables and attributes in which calls have left values, such as "cache" and "self.norm"."""

    def forgetting(self, function: FunctionType) -> Callable[..., Any]:
        """Return a version of a function that starts each call without the values of earlier ones.

        Each call runs a copy for which the global containers that it uses, the global variables that it
        assigns, and its mutable default arguments are empty.
        """

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            fresh, scope, variables = self._fresh(function)
            result = fresh(*arguments, **keywords)
            parameters = inspect.signature(fresh).parameters.values()
            self.names |= {name for name, empty in variables.items() if not _same(scope[name], empty)}
            self.names |= {
                one.name for one in parameters if isinstance(one.default, _CONTAINERS) and one.default
            }
            return result

        return call

    def watch(self, module: nn.Module) -> None:
        """Reset a module after each call, even if other code calls it, until `stop_watching`."""
        resets: list[AbstractContextManager[None]] = []

        def begin(called: nn.Module, _: object) -> None:
            resets.append(self.reset(called))
            resets[-1].__enter__()

        def end(*_: object) -> None:
            resets.pop().__exit__(None, None, None)

        # A student's class can override these methods.
        self._hooks.append(nn.Module.register_forward_pre_hook(module, begin))
        self._hooks.append(nn.Module.register_forward_hook(module, end, always_call=True))

    def stop_watching(self) -> None:
        """Remove the hooks from all modules."""
        for hook in self._hooks:
            hook.remove()

    @contextmanager
    def reset(self, instance: object) -> Iterator[None]:
        """After the block, restore the attributes that an instance and its modules had before it."""
        before = _attributes(instance)
        yield
        after = _attributes(instance).items()
        changed = [name for name, value in after if not _same(before.get(name, self), value)]
        self.names |= {f"self.{name}" for name in changed}
        for path, own in _namespaces(instance):
            for name in own.keys() & {name.removeprefix(path) for name in changed}:
                full = path + name
                if not self._forgets(f"self.{full}"):
                    continue
                if full in before:
                    own[name] = _copied(before[full])
                else:
                    del own[name]

    def _forgets(self, name: str) -> bool:
        return not self._only or name in self._only

    def _fresh(self, function: FunctionType) -> tuple[FunctionType, dict[str, Any], dict[str, Any]]:
        """Return a copy of a function, its global namespace, and the emptied variables in that namespace.

        The namespace contains copies of all functions of the notebook.
        """
        old = function.__globals__
        own = {
            name: value
            for name, value in old.items()
            if isinstance(value, FunctionType) and value.__globals__ is old
        }
        variables: dict[str, Any] = {}
        for each in (function, *own.values()):
            used = {name for name in _names(each.__code__, _READ) if isinstance(old.get(name), _CONTAINERS)}
            variables |= {
                name: _before_the_first_call(old.get(name))
                for name in used | _names(each.__code__, _ASSIGN)
                if self._forgets(name)
            }
        scope = old | {name: _copied(value) for name, value in variables.items()}
        scope |= {name: self._copy_in(scope, each) for name, each in own.items()}
        return self._copy_in(scope, function), scope, variables

    def _copy_in(self, scope: dict[str, Any], function: FunctionType) -> FunctionType:
        """Return a copy of a function with this global namespace, whose mutable defaults are empty."""
        code = function.__code__
        given = function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
        defaults = tuple(map(self._emptied, names, given))
        copied = FunctionType(code, scope, function.__name__, defaults, function.__closure__)
        keywords = function.__kwdefaults__ or {}
        copied.__kwdefaults__ = {name: self._emptied(name, value) for name, value in keywords.items()}
        return copied

    def _emptied(self, name: str, value: object) -> object:
        return _without_items(value) if self._forgets(name) else value


def _without_items(value: object) -> object:
    copied = _copied(value)
    if isinstance(copied, _CONTAINERS):
        copied.clear()
    return copied


def _before_the_first_call(value: object) -> object:
    """Return the value that a global variable probably had before the first call: empty, 0 or None."""
    if isinstance(value, int | float):
        return type(value)()
    return _without_items(value) if isinstance(value, _CONTAINERS) else None


def _attributes(instance: object) -> dict[str, Any]:
    """Return the attributes of an instance and of its modules, except those that every module has."""
    return {
        path + name: _copied(value)
        for path, own in _namespaces(instance)
        for name, value in own.items()
        if name not in _OF_EVERY_MODULE
    }


def _namespaces(instance: object) -> Iterator[tuple[str, dict[str, Any]]]:
    modules = instance.named_modules() if isinstance(instance, nn.Module) else [("", instance)]
    for path, module in modules:
        yield f"{path}." if path else "", getattr(module, "__dict__", {})


def _copied(value: object) -> object:
    return copy(value) if isinstance(value, _CONTAINERS) else value


def _same(one: object, other: object) -> bool:
    """Return whether two values are the same object, or containers of the same objects."""
    if isinstance(one, _CONTAINERS) and type(one) is type(other):
        first, second = ([*each.values()] if isinstance(each, dict) else [*each] for each in (one, other))
        return len(first) == len(second) and all(map(operator.is_, first, second))
    return one is other
