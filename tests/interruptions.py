"""Sources in a cluster whose fits are disturbed at a given moment."""

from dataclasses import replace


class _Disturbed:
    """The engine of another source; in the k-th fold of a fit, blocks are summarised by a disturbing function."""

    def __init__(self, engine, disturb, fold, count=None):
        self._engine, self._disturb, self._fold, self._count = engine, disturb, fold, [] if count is None else count
        self.map = engine.map

    def keep(self, prepare):
        return _Disturbed(self._engine.keep(prepare), self._disturb, self._fold, self._count)

    def fold(self, summarise):
        self._count.append(1)
        if len(self._count) != self._fold:
            return self._engine.fold(summarise)
        disturb = self._disturb

        def disturbed(block):
            disturb()
            return summarise(block)

        return self._engine.fold(disturbed)


def disturbed(source, disturb, fold):
    """The same source, in whose ``fold``-th fold every worker calls ``disturb()`` before it summarises a block."""
    return replace(source, engine=_Disturbed(source.engine, disturb, fold))
