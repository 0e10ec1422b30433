"""A file appears once it is complete, is as private as the file it replaces, and leaves nothing behind."""

import errno
import os
import pty
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from probpca import PPCA, atomic_write, report
from probpca.atomic_write import appearing, require_writable
from probpca.errors import SourceError

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs the rights of root")


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def write(place, content=b"new"):
    with appearing(place) as part:
        part.write_bytes(content)


def fail(place):
    with appearing(place) as part:
        part.write_bytes(b"half")
        raise KeyboardInterrupt


def read_later(place, got):
    """Read a pipe in another thread, which ends with the tests even if nobody writes."""
    reader = threading.Thread(target=lambda: got.append(place.read_bytes()), daemon=True)
    reader.start()
    return reader


def parts(folder):
    return sorted(folder.glob("*.part"))


@pytest.fixture
def goal(tmp_path):
    """A file that is there already."""
    (tmp_path / "model.npz").write_bytes(b"old")
    return tmp_path / "model.npz"


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


# Permissions


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o660, 0o666])
@pytest.mark.usefixtures("umask")
def test_a_file_keeps_its_permissions_from_the_first_byte_on(goal, mode):
    goal.chmod(mode)
    with appearing(goal) as part:
        assert part.stat().st_size == 0
        assert mode_of(part) == mode
        part.write_bytes(b"new")
    assert mode_of(goal) == mode
    assert goal.read_bytes() == b"new"


def test_a_new_file_follows_the_umask(tmp_path, umask):
    write(tmp_path / "new.npz")
    assert mode_of(tmp_path / "new.npz") == 0o666 & ~umask


def test_the_target_of_a_link_keeps_its_permissions_and_the_link_is_a_link(goal, tmp_path):
    goal.chmod(0o600)
    link = tmp_path / "link.npz"
    link.symlink_to(goal)
    write(link)
    assert link.is_symlink()
    assert (mode_of(goal), goal.read_bytes()) == (0o600, b"new")


@AS_ROOT
def test_a_file_keeps_its_owner_and_group(goal):
    os.chown(goal, 12345, 23456)
    write(goal)
    assert (goal.stat().st_uid, goal.stat().st_gid) == (12345, 23456)


@AS_ROOT
def test_a_group_that_cannot_be_kept_gives_no_rights_to_another_group(goal, monkeypatch):
    os.chown(goal, -1, 23456)
    goal.chmod(0o664)

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    write(goal)
    assert goal.stat().st_gid != 23456
    assert mode_of(goal) == 0o644


def test_a_file_keeps_its_access_list(goal):
    entries = [(1, 6, -1), (2, 6, 1234), (4, 0, -1), (16, 6, -1), (32, 0, -1)]  # user 1234 may write, the group may not
    allowed = struct.pack("<i", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(goal, "system.posix_acl_access", allowed)
    except (AttributeError, OSError):
        pytest.skip("there are no access lists here")
    write(goal)
    assert os.getxattr(goal, "system.posix_acl_access") == allowed


@pytest.mark.parametrize("kind", ["npz", "csv", "npy", "parquet", "html"])
def test_every_kind_of_file_keeps_its_permissions(tmp_path, rng, kind):
    x = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 4)) + 0.1 * rng.standard_normal((20, 4))
    ppca, place = PPCA(1).fit(x), tmp_path / f"file.{kind}"
    make = {"npz": lambda: ppca.to_file(place), "html": lambda: report(ppca, x, place)}
    make = make.get(kind, lambda: ppca.impute(x, out=place))
    place.touch(0o600)
    place.chmod(0o600)
    make()
    assert mode_of(place) == 0o600
    assert place.stat().st_size > 0
    place.chmod(0o440)
    before = place.read_bytes()
    with pytest.raises(SourceError, match="it is read-only"):
        make()
    assert (mode_of(place), place.read_bytes()) == (0o440, before)
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("mode", [0o440, 0o400, 0o000, 0o555])
@pytest.mark.parametrize("ask", [require_writable, write])
def test_a_read_only_file_is_not_replaced(goal, ask, mode):
    goal.chmod(mode)
    with pytest.raises(
        SourceError, match=r"model.npz cannot be written: it is read-only\.\nHint: choose .* chmod u\+w"
    ):
        ask(goal)
    goal.chmod(0o600)
    assert goal.read_bytes() == b"old"
    assert parts(goal.parent) == []


# What is not a file


def fifo_of(folder):
    place = folder / "pipe.npz"
    os.mkfifo(place)
    return place


def test_a_pipe_is_written_into(tmp_path):
    place, content, got = fifo_of(tmp_path), os.urandom(300_000), []
    require_writable(place)  # does not wait for a reader
    reader = read_later(place, got)
    write(place, content)
    reader.join(10)
    assert got == [content]
    assert stat.S_ISFIFO(place.stat().st_mode)
    assert list(tmp_path.iterdir()) == [place]


def test_a_table_and_a_model_go_through_a_pipe(tmp_path, rng):
    x = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 4)) + 0.1 * rng.standard_normal((20, 4))
    ppca = PPCA(1).fit(x)
    for name, make in (("pipe.npz", ppca.to_file), ("pipe.npy", lambda place: ppca.impute(x, out=place))):
        place, got = tmp_path / name, []
        os.mkfifo(place)
        reader = read_later(place, got)
        make(place)
        reader.join(10)
        (tmp_path / f"copy-{name}").write_bytes(got[0])
    assert PPCA.from_file(tmp_path / "copy-pipe.npz").log_likelihood_ == ppca.log_likelihood_
    assert (np.load(tmp_path / "copy-pipe.npy") == x).all()


def test_nothing_goes_into_a_pipe_if_the_work_fails(tmp_path):
    place = fifo_of(tmp_path)
    held = os.open(place, os.O_RDWR | os.O_NONBLOCK)
    with pytest.raises(KeyboardInterrupt):
        fail(place)
    with pytest.raises(BlockingIOError):
        os.read(held, 1)
    os.close(held)
    assert list(tmp_path.iterdir()) == [place]


def test_a_terminal_is_written_into(tmp_path):
    ours, theirs = pty.openpty()
    (tmp_path / "terminal").symlink_to(os.ttyname(theirs))
    require_writable(tmp_path / "terminal")
    write(tmp_path / "terminal", b"hello")
    assert os.read(ours, 100) == b"hello"
    os.close(theirs)
    os.close(ours)


def device(place, kind, numbers):
    try:
        os.mknod(place, 0o666 | kind, os.makedev(*numbers))
        if kind == stat.S_IFCHR:
            place.read_bytes() if numbers == (1, 3) else place.open("rb").close()
    except PermissionError:
        pytest.skip("devices cannot be made or used here")
    return place


def test_a_character_device_is_written_into(tmp_path):
    null = device(tmp_path / "null.npz", stat.S_IFCHR, (1, 3))
    write(null)
    require_writable(null)
    assert stat.S_ISCHR(null.stat().st_mode)
    assert list(tmp_path.iterdir()) == [null]


def test_a_full_device_is_named(tmp_path):
    full = device(tmp_path / "full.npz", stat.S_IFCHR, (1, 7))
    with pytest.raises(OSError, match=r"No space left on device: '.*full\.npz'"):
        write(full)
    assert stat.S_ISCHR(full.stat().st_mode)


@pytest.mark.parametrize("ask", [require_writable, write])
def test_a_socket_a_block_device_and_a_folder_are_refused(tmp_path, monkeypatch, ask):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        with pytest.raises(SourceError, match=r"socket cannot be written: it is a socket.\nHint"):
            ask(Path("socket"))
    with pytest.raises(SourceError, match=r"cannot be written: it is a folder.\nHint"):
        ask(tmp_path)
    assert stat.S_ISSOCK(Path("socket").stat().st_mode)
    disk = device(tmp_path / "disk", stat.S_IFBLK, (7, 200))
    with pytest.raises(SourceError, match=r"disk cannot be written: it is a block device.\nHint"):
        ask(disk)
    assert stat.S_ISBLK(disk.stat().st_mode)


def test_an_open_descriptor_is_written_into_where_it_stands(tmp_path):
    with (tmp_path / "log.txt").open("w") as file:
        file.write("before\n")
        file.flush()
        place = Path(f"/dev/fd/{file.fileno()}")
        require_writable(place)
        write(place, b"table\n")
        file.write("after\n")
    assert (tmp_path / "log.txt").read_text() == "before\ntable\nafter\n"


def test_names_of_descriptors_are_recognised_through_links(tmp_path):
    (tmp_path / "screen").symlink_to("/dev/stdout")
    assert atomic_write.descriptor(tmp_path / "screen") == 1
    assert atomic_write.descriptor(Path("/proc/self/fd/2")) == 2
    (tmp_path / "1").touch()
    (tmp_path / "link").symlink_to("1")
    for place in (tmp_path / "1", tmp_path / "link", tmp_path / "none", Path("x" * 300), Path("a\0b")):
        assert atomic_write.descriptor(place) is None
        assert not atomic_write.is_stream(place)


# Names


@pytest.mark.parametrize("letter", ["x", "\N{LATIN SMALL LETTER E WITH ACUTE}", "\N{CJK UNIFIED IDEOGRAPH-6587}"])
def test_every_legal_name_can_be_written(tmp_path, letter):
    size = len(letter.encode())
    place = tmp_path / (letter * ((255 - 4) // size) + ".npz")
    require_writable(place)
    write(place)
    write(place)
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


@pytest.mark.parametrize("ask", [require_writable, write])
def test_a_name_that_is_too_long_is_an_error_with_a_hint(tmp_path, ask):
    with pytest.raises(
        SourceError, match=r"cannot be written: File name too long.\nHint: choose a shorter name"
    ) as told:
        ask(tmp_path / ("x" * 256))
    assert ".part" not in str(told.value)


@pytest.mark.parametrize("ask", [require_writable, write])
def test_a_loop_of_links_is_an_error_with_a_hint(tmp_path, ask):
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(SourceError, match=r"one cannot be written: .*\nHint: it is a link that leads back to itself"):
        ask(tmp_path / "one")
    assert atomic_write.descriptor(tmp_path / "one") is None


def test_a_link_to_a_folder_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "model.npz")
    with pytest.raises(SourceError, match=r"there is no folder .*nowhere"):
        require_writable(tmp_path / "link")


# What killed processes leave behind

WRITER = """
import sys
from pathlib import Path
from probpca.atomic_write import appearing
with appearing(Path(sys.argv[1])) as part:
    part.write_bytes(b"half")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def start_writer(goal):
    """A process that has written half of its file."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(goal)], **pipes)  # noqa: S603
    assert process.stdout.readline() == "ready\n"
    return process


def test_the_next_writer_deletes_what_dead_processes_left_and_nothing_of_the_living(goal):
    with start_writer(goal) as killed, start_writer(goal) as terminated, start_writer(goal) as living:
        killed.kill()
        terminated.terminate()
        assert (killed.wait(), terminated.wait()) == (-signal.SIGKILL, -signal.SIGTERM)
        assert len(parts(goal.parent)) == 3
        write(goal)
        assert goal.read_bytes() == b"new"
        assert len(parts(goal.parent)) == 1
        living.communicate("go on\n")
        assert living.returncode == 0
    assert goal.read_bytes() == b"half"
    assert list(goal.parent.iterdir()) == [goal]


def test_unfinished_files_of_other_names_are_left_alone(goal):
    with appearing(goal) as part:
        left = part.name
    others = [
        f"{left[:-6]}.part",
        f"x{left}",
        left.replace("model.npz", "model.npz2"),
        f"{left}.part",
        "model.npz.part",
    ]
    for name in others:
        (goal.parent / name).touch()
    write(goal)
    assert sorted(path.name for path in goal.parent.iterdir()) == sorted([goal.name, *others])
    (goal.parent / left).touch()
    write(goal)
    assert not (goal.parent / left).exists()


def test_without_locks_only_old_files_count_as_abandoned(goal, monkeypatch):
    monkeypatch.setattr(atomic_write, "_lock", lambda *_, **__: False)
    with appearing(goal) as part:
        pass
    part.touch()
    write(goal)
    assert part.exists()
    os.utime(part, (0, 0))
    write(goal)
    assert not part.exists()


def test_a_temporary_file_is_as_old_as_its_own_beginning(goal):
    os.utime(goal, (0, 0))
    with appearing(goal) as part:
        assert part.stat().st_mtime > 1e9


def test_a_file_that_is_taken_for_abandoned_before_it_is_locked_is_made_again(goal, monkeypatch):
    lock, lost = atomic_write._lock, []

    def late(file, *, wait):
        if wait and not lost:
            lost.extend(parts(goal.parent))
            lost[0].unlink()
        return lock(file, wait=wait)

    monkeypatch.setattr(atomic_write, "_lock", late)
    write(goal)
    assert lost
    assert goal.read_bytes() == b"new"
    assert list(goal.parent.iterdir()) == [goal]


def test_no_descriptor_is_left_open(goal):
    before = len(list(Path("/dev/fd").iterdir()))
    write(goal)
    with pytest.raises(KeyboardInterrupt):
        fail(goal)
    require_writable(goal)
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_the_library_leaves_signal_handlers_alone(goal):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with appearing(goal):
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
