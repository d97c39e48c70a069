"""Data sources in Python."""
import gc
import threading

import numpy as np
import pytest

import caffe
import millrace
from test_parts import calls, lines_of, parts, run_script  # two of them are fixtures


def data_net(source, batch=2):
    return millrace.Net.from_text(f"""layer {{ name: 'd' type: 'Data' top: 'x' top: 'label'
        data_param {{ source: '{source}' batch_size: {batch} }} }}""")


def test_a_source_is_a_sequence_of_records(calls):
    net = data_net("squares:5", 4)
    net.forward()
    assert net.blobs["x"].shape == (4, 2, 1, 1)
    np.testing.assert_allclose(net.blobs["x"].data[:, :, 0, 0],
                               [[0, 0], [.01, .01], [.02, .04], [.03, .09]], rtol=1e-6)
    assert net.blobs["label"].data.tolist() == [0, 1, 2, 0]
    net.forward()
    assert net.blobs["label"].data.tolist() == [1, 0, 1, 2]


def test_records_are_arrays_or_datums():
    datum = caffe.proto.caffe_pb2.Datum(channels=2, height=1, width=3, label=4,
                                        data=bytes(range(6)))
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20
    records = {"bytes": [(image, 1), (image[:, ::-1], np.int64(2))],
               "plane": [(np.ones((3, 4)), 0)] * 2, "datum": [datum.SerializeToString()] * 2,
               "ints": [([1, 2, 3], 0)] * 2}
    millrace.register_source("records")(records.__getitem__)
    net = data_net("records:bytes")
    net.forward()
    np.testing.assert_array_equal(net.blobs["x"].data, [image, image[:, ::-1]])
    assert net.blobs["label"].data.tolist() == [1, 2]
    assert data_net("records:plane").blobs["x"].shape == (2, 1, 3, 4)
    assert data_net("records:ints").blobs["x"].shape == (2, 3, 1, 1)
    net = data_net("records:datum")
    net.forward()
    assert net.blobs["x"].data[0].ravel().tolist() == list(range(6))
    assert net.blobs["label"].data.tolist() == [4, 4]


@pytest.mark.parametrize("record, says", [
    (np.zeros((2, 2, 2, 2)), "an array of 4 axes"), (5, "a int given"), ("ab", "a str given"),
    (None, "a NoneType given"), (np.zeros((0, 2)), "expected 1 or more"),
])
def test_what_is_no_record_is_refused(record, says):
    given = (record, 1) if isinstance(record, np.ndarray) else record
    millrace.register_source("wrong_records")(lambda path: [given])
    with pytest.raises(millrace.Error, match=f"wrong_records:x: record 0.*{says}"):
        data_net("wrong_records:x", 1).forward()


@pytest.mark.parametrize("label, error", [("a", TypeError), (1.5, TypeError),
                                          (2 ** 40, millrace.Error), (2 ** 90, OverflowError)])
def test_what_is_no_label_is_refused(label, error):
    millrace.register_source("wrong_labels")(lambda path: [([1.0], label)])
    with pytest.raises(error):
        data_net("wrong_labels:x", 1).forward()


def test_an_exception_of_a_source_ends_the_pass():
    class Fails(list):
        def __getitem__(self, index):
            if index == 3:
                raise LookupError("no third")
            return super().__getitem__(index)

    def opens(path):
        if path == "missing":
            raise FileNotFoundError("it is missing")
        if path == "wrong":
            raise millrace.Error("expected another path")
        return Fails([([1.0], 0)] * 5)

    millrace.register_source("fails")(opens)
    with pytest.raises(FileNotFoundError, match="it is missing"):
        data_net("fails:missing")
    with pytest.raises(millrace.Error, match="layer 'd'.*expected another path"):
        data_net("fails:wrong")
    net = data_net("fails:x")
    with pytest.raises(LookupError, match="no third") as error:
        for _ in range(2):  # batches are read ahead
            net.forward()
    assert "__getitem__" in lines_of(error)


# A deleted net ends its threads, one of which may wait for the interpreter.
def test_a_net_ends_while_its_source_is_read():
    reading, reads = threading.Event(), []

    class Slow(list):
        def __getitem__(self, index):
            reads.append(index)
            if len(reads) > 40:
                reading.set()
                for _ in range(100000):
                    pass
            return super().__getitem__(index)

    millrace.register_source("slow")(lambda path: Slow([([1.0], 0)] * 500))
    for _ in range(5):
        net = data_net("slow:x", 50)
        net.forward()
        reading.wait(120)
        del net
        gc.collect()


# Threads that read a source when the interpreter ends.
def test_the_interpreter_ends_with_nets_that_are_being_read():
    run = run_script("""if True:
        import millrace
        millrace.register_source("slow")(lambda path: [([1.0], 0)] * 1000)
        net = millrace.Net.from_text('''layer { name: 'd' type: 'Data' top: 'x' top: 'l'
            data_param { source: 'slow:x' batch_size: 900 } }''')
        net.forward()
        print("end")""")
    assert run.returncode == 0 and run.stdout == "end\n" and run.stderr == ""
