"""Attributes that are computed when they are first read, without a lock.

In Python 3.11 ``functools.cached_property`` holds one lock for all objects of a class while it computes a value.
Threads that work on different objects then wait for each other, and a process that is forked meanwhile waits forever,
because the thread that would release the lock does not exist in it. Python 3.12 removed the lock. Without it, two
threads may compute the same value twice, which costs time and changes nothing.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 12):
    from functools import cached_property
else:
    import functools
    from typing import Any, Self, TypeVar, cast, overload

    T = TypeVar("T")

    class cached_property(functools.cached_property[T]):  # noqa: N801
        """``functools.cached_property`` of Python 3.12."""

        @overload
        def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

        @overload
        def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

        def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
            """Return the stored value of the object, or compute and store it."""
            if instance is None:
                return self
            name, values = cast("str", self.attrname), instance.__dict__
            if name not in values:
                values[name] = self.func(instance)
            return values[name]


__all__ = ["cached_property"]
