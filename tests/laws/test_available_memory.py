import sys

import pytest

from probpca.available_memory import MODEST_BYTES, available_memory, require_memory
from probpca.errors import NotEnoughMemoryError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the files of Linux")

GB = 10**9
MEMINFO = "MemTotal:       9000000 kB\nMemAvailable:   4000000 kB\nSwapFree:       1000000 kB\n"


@pytest.fixture
def root(tmp_path):
    """A folder with the files in which Linux describes its memory, and a function that writes more of them."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    write(**{"proc/meminfo": MEMINFO})
    return write


def test_a_machine_without_limits_leaves_unused_memory_and_swap(root):
    assert available_memory(root()) == 5_000_000 * 1024


def test_the_innermost_group_that_leaves_least_decides(root):
    files = {
        "proc/self/cgroup": "0::/batch/job\n",
        "sys/fs/cgroup/batch/memory.max": f"{2 * GB}\n",
        "sys/fs/cgroup/batch/memory.current": f"{GB}\n",
        "sys/fs/cgroup/batch/memory.stat": "anon 5\ninactive_file 1000\n",
        "sys/fs/cgroup/batch/job/memory.max": "max\n",
        "sys/fs/cgroup/batch/job/memory.current": f"{GB}\n",
    }
    assert available_memory(root(**files)) == GB + 1000
    files["sys/fs/cgroup/batch/job/memory.max"] = f"{GB + 500}\n"
    assert available_memory(root(**files)) == 500


def test_groups_of_the_first_version_count_too(root):
    files = {
        "proc/self/cgroup": "3:cpu:/\n2:cpuset,memory:/elsewhere\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{3 * GB}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GB}\n",
        "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 7\n",
    }
    assert available_memory(root(**files)) == 2 * GB + 7


def test_a_group_that_uses_more_than_its_limit_leaves_nothing(root):
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "100\n",
        "sys/fs/cgroup/memory.current": "900\n",
    }
    assert available_memory(root(**files)) == 0


def test_the_limit_of_the_address_space_counts(root, monkeypatch):
    import resource  # noqa: PLC0415

    monkeypatch.setattr(resource, "getrlimit", lambda _: (3 * GB, 3 * GB))
    page = resource.getpagesize()
    assert available_memory(root(**{"proc/self/statm": "1000 1 1 1 0 1 0\n"})) == 3 * GB - 1000 * page


def test_this_machine_has_some_memory_and_not_all_of_it():
    assert 0 < available_memory() < 2**50


def test_modest_requests_are_never_refused_and_larger_ones_with_both_sizes(monkeypatch):
    monkeypatch.setattr("probpca.available_memory.available_memory", lambda: 10)
    require_memory("rows", MODEST_BYTES, "use fewer rows")
    with pytest.raises(NotEnoughMemoryError, match=r"rows need 2\.5 GB of memory; 0\.0 GB are available\.\nHint: use"):
        require_memory("rows", 2_500_000_000, "use fewer rows")


def test_a_result_that_must_leave_room_is_refused_from_its_share_on(monkeypatch):
    monkeypatch.setattr("probpca.available_memory.available_memory", lambda: 4 * GB)
    require_memory("draws", 2 * GB, "use fewer", share=0.5)
    with pytest.raises(NotEnoughMemoryError, match=r"2\.0 GB of memory, and room .* 4\.0 GB are available\.\nHint"):
        require_memory("draws", 2 * GB + 1, "use fewer", share=0.5)
