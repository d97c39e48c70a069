"""millrace.stream: a numpy array as a node of a cluster."""
import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import millrace
from conftest import SECONDS, wait_until


def zeros(shape):
    array = millrace.empty(shape)
    array[...] = 0
    return array


@pytest.fixture
def nodes(two_nodes):
    """nodes(a, b): members over two arrays that have joined; a begins the run."""
    members = []

    def join(*arrays, **options):
        for name, array in zip("ab", arrays):
            members.append(millrace.stream(array, topology=two_nodes, node=name, **options))
            members[-1].join(SECONDS)
        return members
    yield join
    members.clear()


def end_all(members):
    with ThreadPoolExecutor(len(members)) as pool:
        for result in [pool.submit(member.finish) for member in members]:
            result.result(SECONDS)


def test_empty_makes_arrays_that_stream_takes():
    for shape in (5, (3, 4), ()):
        array = millrace.empty(shape)
        assert array.shape == np.empty(shape).shape and array.dtype == np.float32
        assert array.ctypes.data % 64 == 0 and array.flags.c_contiguous and array.flags.writeable


def test_members_join_and_leave_by_a_registry(etcd, segments):
    arrays = [zeros(100) for _ in range(2)]
    arrays[0][:] = 3
    members = []
    for place, array in zip(("127.0.0.2", "127.0.0.3"), arrays):
        members.append(millrace.stream(array, topology=segments, nodes="1:4",
                                       rendezvous=f"etcd://{etcd}/run?lease=5&address={place}"))
        members[-1].join(SECONDS)
    assert arrays[1][7] == 3
    members[1].add(np.ones(100, np.float32))
    wait_until(lambda: arrays[0][7] == 4)
    members[1].leave()
    members[0].leave()
    with pytest.raises(millrace.Error, match="expected MIN:MAX"):
        millrace.stream(arrays[0], rendezvous=f"etcd://{etcd}/run", nodes="none")


def test_members_exchange_each_update_exactly_once(nodes):
    arrays = [zeros((100, 70)) for _ in range(2)]
    members = nodes(*arrays)

    def train(member, value):
        delta = np.full((100, 70), value, np.float32)
        for i in range(200):
            if i % 2:
                member.add(delta)
            else:
                with member.update() as own:
                    own += delta
        member.finish()
    # Small integers: their sums are exact in any order.
    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(train, *each) for each in zip(members, (1, 16))]:
            result.result(SECONDS)
    assert all(np.all(array == 200 * 17) for array in arrays)
    assert [member.iterations for member in members] == [400, 400]


def test_three_nodes_multiply_their_rate(three_nodes):
    members = []
    for name in "abc":
        members.append(millrace.stream(zeros(1000), topology=three_nodes, node=name,
                                       scaling="linear"))
        assert pytest.raises(millrace.Error, lambda: members[-1].rate_factor)
        members[-1].join(SECONDS)
    wait_until(lambda: all(each.nodes == 3 for each in members))
    factors = []

    def steps():
        for member in members:
            factors.append(member.rate_factor)
            member.add(np.full(1000, factors[-1], np.float32))
        return all(factor > 1 for factor in factors[-3:])
    wait_until(steps)
    assert all(1 <= factor <= 3.0001 for factor in factors)
    end_all(members)
    assert members[0].array[0] == pytest.approx(sum(factors) / 3, rel=0.05)


def test_a_late_node_takes_the_runs_values(nodes):
    first, second = zeros(1000), zeros(1000)
    first[5] = 3
    a, b = nodes(first, second, iteration=50)
    assert a.iterations == 50 and a.is_leader and not b.is_leader and b.nodes == 2
    assert second[5] == 3 and b.array is second
    with b.update() as own:
        own[5] += 4
    b.leave()
    assert first[5] == 7 and a.iterations == 51
    merged = a.merged()
    assert merged.shape == (1000,) and merged[5] == 7 and merged is not first
    wait_until(lambda: a.nodes == 1)
    a.finish()
    assert a.iterations == 51


def test_merge_trains_a_copy(nodes):
    first, second = zeros(300), zeros(300)
    a, b = nodes(first, second)
    own, base = zeros(300), zeros(300)
    own[:] = 0.1
    a.merge(own, base)
    assert np.all(first == np.float32(0.1)) and np.array_equal(own, base)
    wait_until(lambda: np.all(second == np.float32(0.1)))
    b.add(np.ones(300, np.float32))
    wait_until(lambda: np.all(first > 1))
    own += 2
    a.merge(own, base)
    np.testing.assert_allclose(own, 3.1, rtol=1e-6)
    assert np.array_equal(own, base) and np.array_equal(own, first)
    own[7] = np.inf
    with pytest.raises(millrace.Error, match="Merge: element 7 is inf"):
        a.merge(own, base)
    assert first[7] == base[7]


def test_an_exception_in_an_update_adds_nothing(nodes):
    array = zeros(10)
    a, = nodes(array)
    with pytest.raises(KeyError):
        with a.update() as own:
            own += 1
            raise KeyError("x")
    with pytest.raises(millrace.Error, match="the block of another update has not ended"):
        with a.update(), a.update():
            pass
    assert np.all(array == 0) and a.iterations == 0
    a.leave()


@pytest.mark.parametrize("array, message", [
    ([1.0], "array: a list given, expected a numpy array"),
    (np.zeros(16), "array: values of type float64 given, expected float32"),
    (np.zeros(16, ">f4"), "array: values of type >f4 given, expected float32"),
    (zeros(32)[::2], "array: expected a contiguous array"),
    (zeros((16, 16)).T, "array: expected a contiguous array"),
    (zeros(17)[1:], r"multiple of 64 bytes, make the array by millrace.empty\(shape\)"),
    (zeros(0), "array: expected at least one value"),
])
def test_arrays_that_cannot_be_streamed(two_nodes, array, message):
    with pytest.raises(millrace.Error, match=message):
        millrace.stream(array, topology=two_nodes, node="a")


def test_other_bad_arguments(two_nodes, tmp_path):
    array = zeros(16)
    with pytest.raises(millrace.Error, match="nowhere"):
        millrace.stream(array, topology=tmp_path / "nowhere.prototxt", node="a")
    with pytest.raises(millrace.Error, match="x"):
        millrace.stream(array, topology=two_nodes, node="x")
    with pytest.raises(millrace.Error, match="iteration: -1 given"):
        millrace.stream(array, topology=two_nodes, node="a", iteration=-1)
    with pytest.raises(millrace.Error, match="scaling: 'square' given, expected 'none', 'linear'"):
        millrace.stream(array, topology=two_nodes, node="a", scaling="square")
    with pytest.raises(millrace.Error, match="warmup: -1 given"):
        millrace.stream(array, topology=two_nodes, node="a", scaling="root", warmup=-1)
    array.flags.writeable = False
    with pytest.raises(millrace.Error, match="expected an array that is writable"):
        millrace.stream(array, topology=two_nodes, node="a")


def test_bad_deltas(nodes):
    a, = nodes(zeros((4, 4)))
    for delta, message in [(np.zeros((4, 4)), "delta: values of type float64"),
                           (np.zeros(16, np.float32), r"shape \(16,\) given, expected \(4, 4\)"),
                           (np.zeros((4, 4), np.float32).T[:, ::-1], "contiguous"),
                           (None, "delta: a NoneType given")]:
        with pytest.raises(millrace.Error, match=message):
            a.add(delta)
    fixed = np.zeros((4, 4), np.float32)
    fixed.flags.writeable = False
    a.add(fixed)
    with pytest.raises(millrace.Error, match="own: expected an array that is writable"):
        a.merge(fixed, zeros((4, 4)))
    assert a.iterations == 1
    a.leave()


def test_other_layouts_are_refused(two_nodes):
    a = millrace.stream(zeros((8, 2)), topology=two_nodes, node="a")
    a.join(SECONDS)
    b = millrace.stream(zeros((2, 8)), topology=two_nodes, node="b")
    with pytest.raises(millrace.Error, match="has another net: as many parameters"):
        b.join(SECONDS)
    a.leave()


def test_the_array_lives_as_long_as_the_member(nodes):
    array = zeros(5000)
    a, = nodes(array)
    del array
    gc.collect()
    a.add(np.ones(5000, np.float32))
    assert np.all(a.array == 1)
    a.leave()


def test_memory_of_a_member_does_not_move(two_nodes):
    array = np.zeros(4096 * 16, np.float32)
    if array.ctypes.data % 64:
        # numpy gives memory at a multiple of 16 at least: make an array that owns aligned memory.
        others = [np.zeros(4096 * 16, np.float32) for _ in range(200)]
        array = next((each for each in others if each.ctypes.data % 64 == 0), None)
        if array is None:
            pytest.skip("numpy gives no memory that is aligned to 64 bytes")
        del others
    a = millrace.stream(array, topology=two_nodes, node="a")
    with pytest.raises(ValueError, match="cannot resize"):
        array.resize(1 << 22, refcheck=False)
    a.join(SECONDS)
    a.leave()


def test_calls_out_of_order(two_nodes):
    array = zeros(16)
    delta = np.ones(16, np.float32)
    a = millrace.stream(array, topology=two_nodes, node="a")
    for call in (lambda: a.add(delta), a.finish, a.leave, lambda: a.fail("x")):
        with pytest.raises(millrace.Error, match="has not joined, expected a call of Join before"):
            call()
    a.join(SECONDS)
    a.join(SECONDS)
    a.add(delta)
    a.finish()
    for call in (lambda: a.add(delta), lambda: a.merge(delta, delta.copy()), a.finish, a.leave,
                 a.join, lambda: a.fail("x"), a.merged, lambda: a.nodes, lambda: a.is_leader):
        with pytest.raises(millrace.Error, match="the member has left the cluster"):
            call()
    assert a.iterations == 1


def test_a_second_thread_is_refused_and_ctrl_c_ends_finish(nodes):
    a, b = nodes(zeros(16), zeros(16))
    refused = []

    def interrupt():
        wait_until(lambda: finishing.is_set())
        # Once finish has begun, calls are refused until it has ended.
        while not refused:
            try:
                a.nodes
            except millrace.Error as error:
                refused.append(str(error))
            time.sleep(0.001)
        assert a.iterations == 0  # any thread
        os.kill(os.getpid(), signal.SIGINT)

    finishing = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    finishing.set()
    with pytest.raises(KeyboardInterrupt):
        while True:  # the other thread may be in a call of its own
            try:
                a.finish()
            except millrace.Error as error:
                assert "in use by another call" in str(error)
    thread.join(SECONDS)
    assert refused == ["the member is in use by another call, expected one call at a time"]
    with pytest.raises(millrace.Error, match="this node ends its run, expected Finish, Leave or"):
        a.add(np.ones(16, np.float32))
    end_all([a, b])


def test_ctrl_c_ends_join(write):
    # A node of the lower segment does not begin a run alone.
    topology = write("tree.prototxt", """name: 'tree'
        node { name: 'a' address: '127.0.0.1' } node { name: 'b' address: '127.0.0.2' }
        node { name: 'c' address: '127.0.0.3' }
        segment { name: 'low' transport: 'udp' port: 29533 node: 'a' node: 'b' }
        segment { name: 'up' transport: 'udp' port: 29534 node: 'b' node: 'c' }""")
    a = millrace.stream(zeros(16), topology=topology, node="a")
    thread = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        a.join(SECONDS)
    thread.join()
    with pytest.raises(millrace.Error, match="has not received the run's weights within 0.1 s"):
        a.join(0.1)


def test_other_threads_run_while_a_member_computes(nodes, others_run_during):
    a, = nodes(zeros(1 << 20))
    delta = np.zeros(1 << 20, np.float32)
    assert others_run_during(lambda: a.add(delta))
    a.leave()


def in_child(work):
    """Exit status of a fork that calls work()."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_does_not_use_the_member(nodes):
    a, = nodes(zeros(16))

    def use():
        nonlocal a
        for call in (lambda: a.add(np.ones(16, np.float32)), a.finish, lambda: a.iterations):
            with pytest.raises(millrace.Error, match="of which this one is a fork"):
                call()
        a = None  # its end does not wait for threads that the fork does not have
        gc.collect()
        return 7
    # The fixture keeps the member.
    assert in_child(use) == 7
    a.add(np.ones(16, np.float32))
    assert np.all(a.array == 1)
    a.leave()


def test_a_fork_streams_an_array_of_its_own(two_nodes):
    def use():
        member = millrace.stream(zeros(16), topology=two_nodes, node="a")
        member.join(SECONDS)
        member.add(np.ones(16, np.float32))
        member.finish()
        return 7 if np.all(member.array == 1) else 1
    assert in_child(use) == 7


def test_a_block_that_raises_tells_the_others(nodes, capfd):
    a, b = nodes(zeros(16), zeros(16))
    with pytest.raises(ValueError, match="no more data"):
        with b:
            raise ValueError("no more data")
    seen = []
    wait_until(lambda: seen.append(capfd.readouterr().err) or
               "node b has failed: ValueError: no more data" in "".join(seen))
    with a:
        pass
    with pytest.raises(millrace.Error, match="has left"):
        a.finish()


def test_a_value_that_is_not_finite_ends_both(nodes):
    a, b = nodes(zeros(16), zeros(16))
    delta = np.zeros(16, np.float32)
    delta[3] = np.nan
    with pytest.raises(millrace.Error, match="Add: element 3 is -?nan, expected a finite number"):
        with b:
            b.add(delta)
    assert np.all(b.array == 0)
    with pytest.raises(millrace.Error, match="node b ended with a loss that is not finite"):
        a.finish()


def test_ctrl_c_in_a_block_leaves(nodes):
    a, b = nodes(zeros(16), zeros(16))
    with pytest.raises(KeyboardInterrupt):
        with b:
            b.add(np.ones(16, np.float32))
            raise KeyboardInterrupt
    assert np.all(a.array == 1)
    wait_until(lambda: a.nodes == 1)
    a.finish()
