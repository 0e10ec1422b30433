"""A command that is asked to end deletes what it has not finished, says one line, and ends with the code of shells."""

import signal
import subprocess
import sys
import threading

import pytest

from probpca.cli import main as program

CHILD = """
import signal, sys
from probpca.atomic_write import appearing
from probpca.cli import main, run

def stuck(place, batches, *, safe_cells):
    next(batches)
    with appearing(place) as part:
        part.write_bytes(b"half")
        print("ready", flush=True)
        while True:
            signal.pause()

run.write_batches = stuck
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("sent", "code", "said"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_a_signal_leaves_nothing_half_written(folder, sent, code, said):
    before = sorted(path.name for path in folder.iterdir())
    command = [sys.executable, "-c", CHILD, "impute", "model.npz", "table.csv", "--out", "full.csv"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:  # noqa: S603
        assert process.stdout.readline() == "ready\n"
        assert len(list(folder.glob("*.part"))) == 1
        process.send_signal(sent)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (code, "", f"probpca: {said}; no file was left half written.\n")
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_a_second_signal_does_not_disturb_the_cleaning_up(run, monkeypatch):
    handlers = []

    def work(_):
        try:
            signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
        finally:
            handlers.append(signal.getsignal(signal.SIGTERM))

    monkeypatch.setattr(program, "run_command", work)
    assert run("fit", "table.csv").code == 143
    assert handlers == [signal.SIG_IGN]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "handled"])
def test_a_program_that_handles_the_signal_itself_is_left_alone(run, monkeypatch, own):
    seen = []
    monkeypatch.setattr(program, "run_command", lambda _: seen.append(signal.getsignal(signal.SIGTERM)))
    before = signal.signal(signal.SIGTERM, own)
    try:
        assert run("fit", "table.csv").code == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [own]


@pytest.mark.usefixtures("folder")
def test_a_command_works_in_a_thread_that_may_not_handle_signals():
    codes = []
    thread = threading.Thread(target=lambda: codes.append(program.main(["fit", "table.csv", "--components", "1"])))
    thread.start()
    thread.join()
    assert codes == [0]
