"""Compare the speed of two checkouts, and of the new one with scikit-learn on small problems.

``python benchmarks/compare.py OLD NEW`` runs the quick cases (benchmarks/quick.py) on both checkouts. Each case has
one process per checkout; they take turns (old, new, old, new, ...), so that whatever else the machine does meets both
alike, and the best of seven rounds counts. It prints new / old for each case, the geometric mean of each benchmark,
and then, for both checkouts, the time of small problems (benchmarks/small.py) as ratios to scikit-learn's PCA in the
same process.

``--only missing streams`` compares some benchmarks, ``--only small`` the small problems alone. The processes use as
many BLAS threads as OMP_NUM_THREADS says, by default 2.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import quick

PAUSE = 0.05  # seconds: BLAS threads spin for a while after their work, and must not disturb the other process
SLOWER = 1.15  # a case that takes longer than this is marked


def environment(checkout):
    """The environment of a process that imports a checkout."""
    threads = os.environ.get("OMP_NUM_THREADS", "2")
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    return os.environ | limits | {"PYTHONPATH": str(Path(checkout).resolve() / "src")}


@contextmanager
def server(checkout, benchmark, name):
    """A process that has prepared one case; each call of the function that it yields times the case once."""
    command = [sys.executable, quick.__file__, "--serve", benchmark, name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(checkout), **pipes) as process:  # noqa: S603
        answer(process)

        def seconds():
            process.stdin.write("go\n")
            process.stdin.flush()
            return float(answer(process))

        yield seconds
        process.stdin.close()


def answer(process):
    line = process.stdout.readline()
    if not line:
        sys.exit("A benchmark process ended early; its error is printed above.")
    return line


def compare(checkouts, benchmark, name, rounds):
    """Best seconds of one case on each checkout, measured in turns."""
    best = [math.inf] * len(checkouts)
    with ExitStack() as stack:
        servers = [stack.enter_context(server(checkout, benchmark, name)) for checkout in checkouts]
        for _ in range(rounds):
            for k, seconds in enumerate(servers):
                time.sleep(PAUSE)
                best[k] = min(best[k], seconds())
    return best


def compare_benchmark(checkouts, benchmark, rounds):
    """Print new / old for each case and the geometric mean."""
    ratios = []
    for name in quick.BENCHMARKS[benchmark]:
        old, new = compare(checkouts, benchmark, name, rounds)
        ratios.append(new / old)
        mark = "  slower" if ratios[-1] > SLOWER else ""
        print(f"{benchmark:16}{name:46}{1e3 * old:10.2f} ms{1e3 * new:10.2f} ms{ratios[-1]:8.3f}{mark}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{benchmark:16}{'geometric mean of new / old':46}{'':26}{mean:8.3f}\n", flush=True)
    return mean


SMALL = str(Path(__file__).with_name("small.py"))
IMPORT = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"


def run(checkout, *arguments):
    """Run a fresh Python process and read the JSON that it prints."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment(checkout), capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def small_problems(checkout, rounds):
    """Seconds of ours and of scikit-learn on each small problem."""
    found = {}
    for _ in range(3):
        for name, (ours, peer) in run(checkout, SMALL, "--json").items():
            before = found.get(name, (math.inf, math.inf))
            found[name] = min(before[0], ours), min(before[1], peer)
    statements = ("import probpca", "from probpca import PPCA", "import sklearn.decomposition")
    best = dict.fromkeys(statements, math.inf)
    for _ in range(rounds):
        for statement in statements:
            best[statement] = min(best[statement], run(checkout, "-c", IMPORT.format(statement)))
    peer = best.pop("import sklearn.decomposition")
    return found | {statement: (seconds, peer) for statement, seconds in best.items()}


def compare_small_problems(checkouts, rounds):
    """Print the ratios to scikit-learn of both checkouts."""
    print("Small problems, two components: times as long as scikit-learn's PCA on complete rows (old, new)")
    old, new = (small_problems(checkout, rounds) for checkout in checkouts)
    for name, times in old.items():
        before, after = (ours / peer for ours, peer in (times, new[name]))
        absolute = f"{1e3 * times[0]:.3f} ms, {1e3 * new[name][0]:.3f} ms, scikit-learn {1e3 * new[name][1]:.3f} ms"
        print(f"  {name:30}{before:8.2f}{after:8.2f}     {absolute}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "checkouts", nargs=2, metavar=("OLD", "NEW"), type=Path, help="folders with src/probpca in them"
    )
    parser.add_argument("--only", nargs="+", choices=[*quick.BENCHMARKS, "small"], default=[*quick.BENCHMARKS, "small"])
    parser.add_argument("--rounds", type=int, default=quick.ROUNDS)
    parser.add_argument("--quick", action="store_true", help="two rounds: enough to see large differences")
    options = parser.parse_args()
    options.rounds = 2 if options.quick else options.rounds
    for checkout in options.checkouts:
        if not (checkout / "src" / "probpca").is_dir():
            parser.error(f"{checkout} is not a checkout: it has no folder src/probpca")
    means = {
        name: compare_benchmark(options.checkouts, name, options.rounds) for name in options.only if name != "small"
    }
    if "small" in options.only:
        compare_small_problems(options.checkouts, options.rounds)
    print("".join(f"\n{name}: {mean:.3f}" for name, mean in means.items()))


if __name__ == "__main__":
    main()
