"""Whatever a file contains, the interpreter goes on: damaged files are loaded or refused."""
import random

import pytest

import millrace


def damaged(content, generator):
    """`content` with a few bytes changed, or a part missing or doubled."""
    content = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(content))
        kind = generator.randrange(4)
        if kind == 0:
            content[at] = generator.randrange(256)
        elif kind == 1:
            del content[at:at + generator.randint(1, 40)]
        elif kind == 2:
            content[at:at] = content[at:at + generator.randint(1, 40)]
        else:
            content[at:at + 1] = generator.randbytes(3)
        if not content:
            break
    return bytes(content)


def attempts(path, copy, call, count):
    """Calls call() with `count` damaged copies of `path`; returns how many were refused."""
    content, generator = path.read_bytes(), random.Random(7)
    refused = 0
    for _ in range(count):
        copy.write_bytes(damaged(content, generator))
        try:
            call()
        except millrace.Error as error:
            refused += 1
            assert "\n" not in str(error)
    return refused


def test_damaged_models(caffe_fixture, tmp_path):
    net = millrace.Net(caffe_fixture / "net.prototxt")
    copy = tmp_path / "copy.caffemodel"
    source = caffe_fixture / "caffe_iter_60.caffemodel"
    assert attempts(source, copy, lambda: net.load(copy), 300) > 30
    net.load(source)
    assert 0 < net.forward() < 10
    hdf5, copy = tmp_path / "good.h5", tmp_path / "copy.h5"
    net.save(hdf5)
    assert attempts(hdf5, copy, lambda: net.load(copy), 100) > 1


def test_damaged_net_files(caffe_fixture):
    copy = caffe_fixture / "copy.prototxt"
    refused = attempts(caffe_fixture / "net.prototxt", copy, lambda: millrace.Net(copy), 150)
    assert refused > 50


def test_damaged_solver_files_and_states(caffe_fixture):
    copy = caffe_fixture / "copy.prototxt"
    refused = attempts(caffe_fixture / "solver.prototxt", copy, lambda: millrace.Session(copy), 60)
    assert refused > 20
    session = millrace.Session(caffe_fixture / "solver.prototxt")
    copy = caffe_fixture / "copy.solverstate"
    state = caffe_fixture / "caffe_iter_38.solverstate"
    refused = attempts(state, copy, lambda: session.restore(copy), 150)
    assert refused > 10
    assert session.step() is None or session.iteration > 0


def test_truncated_databases(caffe_fixture):
    path = caffe_fixture / "test_lmdb" / "data.mdb"
    content = path.read_bytes()
    for size in (0, 100, 4096, 8192, len(content) - 4096):
        path.write_bytes(content[:size])
        with pytest.raises(millrace.Error, match="test_lmdb"):
            millrace.Net(caffe_fixture / "net.prototxt").forward()
    path.write_bytes(content)
    millrace.Net(caffe_fixture / "net.prototxt").forward()
