"""A kernel borrows its working memory, and shares it with nobody while it runs."""

import threading

import numpy as np

from probpca.scratch import KEPT_BYTES, workspace


def borrowed(name="test", shape=(4, 3)):
    with workspace() as work:
        return work.array(name, shape)


def test_a_thread_uses_its_memory_again_and_no_other_thread_does():
    mine = borrowed()
    assert np.shares_memory(borrowed(shape=(2, 2)), mine)
    theirs = []
    worker = threading.Thread(target=lambda: theirs.append(borrowed()))
    worker.start()
    worker.join()
    assert not np.shares_memory(theirs[0], mine)


def test_names_are_different_buffers_and_types_the_same():
    with workspace() as work:
        one = work.array("one", (4, 3))
        assert not np.shares_memory(work.array("other", (4, 3)), one)
        assert np.shares_memory(work.array("one", (5,), np.float32), one)


def test_a_kernel_within_a_kernel_has_memory_of_its_own():
    with workspace() as outer:
        mine = outer.array("test", (4, 3))
        assert not np.shares_memory(borrowed(), mine)


def test_large_buffers_are_given_back():
    shape = (KEPT_BYTES // 8 + 1,)
    large = borrowed("large", shape)
    assert not np.shares_memory(borrowed("large", shape), large)
