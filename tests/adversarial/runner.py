"""Runs cases in two processes, each case with its own random numbers; a crash or a hang is a wrong answer too."""

import importlib
import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import NamedTuple

import numpy as np

from adversarial.judgement import Verdict

PROCESSES = 2
CONTEXT = multiprocessing.get_context("spawn")
LONGEST = 300.0
"""Seconds after which a case counts as one that hangs."""


class Part(NamedTuple):
    """One kind of case."""

    name: str
    title: str
    judge: str  # module and function that judge one case, given its random numbers
    count: int  # cases of a run with fixed seeds
    share: float  # of the time of a run with a budget


class Case(NamedTuple):
    """One case: the same name always means the same input."""

    part: str
    seed: int
    number: int

    def __str__(self):
        return f"{self.part}:{self.seed}:{self.number}"

    @classmethod
    def parse(cls, text):
        part, seed, number = text.split(":")
        return cls(part, int(seed), int(number))


@dataclass
class Tally:
    """What came of the cases of one part."""

    part: Part
    kinds: Counter = field(default_factory=Counter)
    wrong: list = field(default_factory=list)  # (case, words)
    seconds: float = 0.0

    def add(self, case, verdict):
        self.kinds[verdict.kind] += 1
        if verdict.kind == "wrong":
            self.wrong.append((case, verdict.words))

    @property
    def row(self):
        """Numbers of the table; cases that nobody can judge do not count."""
        numbers = [self.kinds[kind] for kind in ("right", "named error", "wrong")]
        return self.part.title, sum(numbers), *numbers


def judge(part, case):
    """Judge one case in this process."""
    module, function = part.judge.split(":")
    rng = np.random.default_rng([case.seed, case.number])
    return getattr(importlib.import_module(module), function)(rng)


def _work(line):
    while (order := line.recv()) is not None:
        part, case = order
        try:
            verdict = judge(part, case)
        except Exception as error:  # noqa: BLE001  a mistake of the campaign itself must show, too
            verdict = Verdict("wrong", (f"the campaign failed: {type(error).__name__}: {error}",))
        line.send(verdict)


class Worker:
    """A process that judges one case after the other, and is replaced if it dies or hangs."""

    def __init__(self):
        self.line, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_work, args=(theirs,))
        self.process.start()
        theirs.close()
        self.case, self.began = None, 0.0

    def begin(self, part, case):
        self.case, self.began = case, time.monotonic()
        self.line.send((part, case))

    def end(self):
        """The verdict on the case, whether it was sent or the process died."""
        try:
            return self.line.recv()
        except (EOFError, OSError):
            self.process.join()
            return Verdict("wrong", (f"the process died with code {self.process.exitcode}",))

    @property
    def hangs(self):
        return self.case is not None and time.monotonic() - self.began > LONGEST

    def stop(self):
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def run(part, seed, seconds=None):
    """Run a part: so many cases, or as many as fit into some seconds."""
    tally, began = Tally(part), time.monotonic()
    workers, number = [Worker() for _ in range(PROCESSES)], 0
    try:
        while True:
            over = number >= part.count if seconds is None else time.monotonic() - began > seconds
            for worker in workers:
                if worker.case is None and not over:
                    worker.begin(part, Case(part.name, seed, number))
                    number += 1
                    over = over or (seconds is None and number >= part.count)
            busy = [worker for worker in workers if worker.case is not None]
            if not busy:
                break
            _gather(tally, workers, busy)
    finally:
        for worker in workers:
            worker.stop()
    tally.seconds = time.monotonic() - began
    return tally


def _gather(tally, workers, busy):
    ready = connection.wait([worker.line for worker in busy], timeout=1.0)
    for worker in busy:
        if worker.line in ready:
            tally.add(worker.case, worker.end())
            worker.case = None
        elif worker.hangs:
            tally.add(worker.case, Verdict("wrong", (f"no answer after {LONGEST:g} s",)))
            worker.stop()
        if not worker.process.is_alive():
            worker.stop()
            workers[workers.index(worker)] = Worker()
