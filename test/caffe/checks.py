"""The checks of test/caffe/run: each a name and a function that says what it found."""
import os
import re
import shutil
import struct
import zlib
from dataclasses import dataclass
from typing import Callable

from layers import LAYER_STUDIES
from programs import OLD_FILES, Failed
from protobuf import blob_values, fields, state_history, with_other_last_bits
from studies import STUDIES
import zoo


@dataclass
class Found:
    good: bool
    text: str


@dataclass
class Check:
    name: str
    run: Callable


class Bench:
    """Both programs, the folder that they work in, and what has been run so far."""

    def __init__(self, caffe, millrace, folder, root):
        self.caffe, self.millrace, self.folder, self.root = caffe, millrace, folder, root
        self.done = {}

    def once(self, key, make):
        """make(), or what it gave the first time, or its failure again."""
        if key not in self.done:
            try:
                self.done[key] = make()
            except Failed as error:
                self.done[key] = error
        if isinstance(self.done[key], Failed):
            raise self.done[key]
        return self.done[key]

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    # Data: Millrace's converters make what both read.

    def convert(self, program):
        """NAME/grey and NAME/colour, by the converters of `program`."""
        def make():
            run = program.run if program is self.millrace else (
                lambda tool, *rest: program.run(*rest, tool=tool))
            grey, colour = f"{program.name}/grey", f"{program.name}/colour"
            for place in (grey, colour):
                os.makedirs(os.path.join(self.folder, place))
            for part in ("train", "test"):
                run("convert_mnist_data", f"idx/{part}-images.idx", f"idx/{part}-labels.idx",
                    f"{grey}/mnist_{part}_lmdb")
            run("convert_cifar_data", "cifar", colour, "lmdb")
            run("compute_image_mean", f"{colour}/cifar10_train_lmdb", f"{colour}/mean.binaryproto")
        self.once(("convert", program.name), make)

    def data(self):
        def make():
            self.convert(self.millrace)
            for place in ("grey", "colour"):
                os.symlink(f"millrace/{place}", os.path.join(self.folder, place))
        self.once("data", make)

    # Trainings of a study.

    def start(self, study):
        """Caffe's own first weights."""
        def make():
            self.data()
            study.write_net(self.folder, self.root)
            name = f"{study.name}_start"
            self.caffe.train(study.write_solver(self.folder, name, max_iter=0, snapshot=0,
                                                snapshot_after_train=True))
            return f"{name}_iter_0.caffemodel"
        return self.once(("start", study.name), make)

    def training(self, study, program):
        def make():
            weights = self.start(study)
            name = f"{study.name}_{program.name}"
            return program.train(study.write_solver(self.folder, name), f"--weights={weights}")
        return self.once(("training", study.name, program.name), make)

    def control_start(self, study, i):
        """The start weights with other last bits; a file's name."""
        def make():
            name = f"{study.name}_control{i}.caffemodel"
            weights = with_other_last_bits(self.read(self.start(study)), seed=i)
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(weights)
            return name
        return self.once(("control start", study.name, i), make)

    def controls(self, study):
        """Millrace's training, begun with other last bits of the weights."""
        def make():
            return [self.millrace.train(study.write_solver(self.folder, f"{study.name}_control{i}"),
                                        f"--weights={self.control_start(study, i)}")
                    for i in range(CONTROLS)]
        return self.once(("controls", study.name), make)

    def resumed(self, study, program, of):
        """`program` goes on from the snapshot that `of` took."""
        def make():
            self.training(study, of)
            name = f"{study.name}_{program.name}_after_{of.name}"
            state = f"{study.name}_{of.name}_iter_{study.snapshot}.solverstate"
            return program.train(study.write_solver(self.folder, name), f"--snapshot={state}")
        return self.once(("resumed", study.name, program.name, of.name), make)

    def scored(self, study, program, of):
        """What `program` thinks of the final weights that `of` saved."""
        def make():
            self.training(study, of)
            model = f"{study.name}_{of.name}_iter_{study.iterations}.caffemodel"
            return program.test(study.net, model, study.test_batches)
        return self.once(("scored", study.name, program.name, of.name), make)


def relative(a, b):
    if a == b:
        return 0.0
    difference = abs(a - b) / max(abs(a), abs(b))
    return difference if difference == difference else float("inf")


def farthest(a, b):
    """The largest relative difference between the values of two dictionaries of lists or
    numbers, which must have the same keys and lengths; None otherwise."""
    if not a or a.keys() != b.keys():
        return None
    worst = 0.0
    for key in a:
        first, second = (x if isinstance(x, list) else [x] for x in (a[key], b[key]))
        if len(first) != len(second):
            return None
        worst = max([worst, *(relative(x, y) for x, y in zip(first, second))])
    return worst


# ---- Trainings ---------------------------------------------------------------

# Sums are rounded differently from the first iteration on, and trainings amplify that:
# where a maximum or a sign is decided by a bit, they part. How far, controls say: Millrace
# beside itself, begun with other last bits of the weights.
CONTROLS = 5
EARLY, EARLY_TOLERANCE = 10, 1e-4
LATE_TOLERANCE, TIMES_CONTROL = 1e-3, 5
SCORE_TOLERANCE = 1e-4
ZOO_TOLERANCE = 1e-3  # up to 150 layers, each rounding differently
# Relative to the largest value of a parameter.
STEP_TOLERANCE = 1e-5
# A test during training: part of its images.
ACCURACY_TOLERANCE = 0.02


def curves_apart(one, other, first, last):
    """Relative differences of the losses of iterations [first, last)."""
    for log in (one, other):
        if not set(range(first, last)) <= log.losses.keys() & log.rates.keys():
            raise Failed(f"not every iteration of {first} to {last - 1} was displayed")
    return [relative(one.losses[i], other.losses[i]) for i in range(first, last)]


def compare_curves(bench, study, one, other, first):
    last = study.iterations
    apart = curves_apart(one, other, first, last)
    usual = bench.training(study, bench.millrace)
    control = max(max(curves_apart(usual, other, 0, last)) for other in bench.controls(study))
    rates = max(relative(one.rates[i], other.rates[i]) for i in range(first, last))
    early, late = max(apart[:EARLY]), max(apart)
    good = (early <= EARLY_TOLERANCE and rates <= 1e-5 and
            late <= max(LATE_TOLERANCE, TIMES_CONTROL * control))
    return Found(good, f"loss {one.losses[first]:.5g} to {one.losses[last - 1]:.5g}, apart by "
                       f"{early:.1e} in {EARLY} iterations, {late:.1e} in {last - first} "
                       f"(control {control:.1e}); learning rates by {rates:.1e}")


def first_step(study):
    def histories(bench, weights):
        found = []
        for program in (bench.caffe, bench.millrace):
            name = f"{study.name}_step_{program.name}"
            program.train(study.write_solver(bench.folder, name, max_iter=1, snapshot=0,
                                             test_interval=1000, test_initialization=False),
                          f"--weights={weights}")
            found.append(state_history(bench.read(f"{name}_iter_1.solverstate")))
        return found

    # An output that rounding alone puts on one side or the other of a ReLU's bend gives
    # other gradients; from weights of other last bits it is another output, if any.
    def run(bench):
        starts = [bench.start(study)]
        starts += [bench.control_start(study, i) for i in range(CONTROLS)]
        for tried, weights in enumerate(starts, 1):
            caffe, millrace = histories(bench, weights)
            if [len(h) for h in caffe] != [len(h) for h in millrace] or not caffe:
                raise Failed(f"momentum of {len(caffe)} and of {len(millrace)} parameters")
            apart = max(max(abs(x - y) for x, y in zip(a, b)) / (max(map(abs, a)) or 1)
                        for a, b in zip(caffe, millrace))
            if apart <= STEP_TOLERANCE:
                break
        return Found(apart <= STEP_TOLERANCE,
                     f"{len(caffe)} parameters, {sum(map(len, caffe))} values, apart by "
                     f"{apart:.1e} of a parameter's largest, from start weights {tried} of "
                     f"{len(starts)}")
    return Check(f"{study.name}: momentum after one iteration", run)


def curve(study):
    def run(bench):
        logs = [bench.training(study, program) for program in (bench.caffe, bench.millrace)]
        return compare_curves(bench, study, *logs, 0)
    return Check(f"{study.name}: loss curve from the same weights", run)


def tests(study):
    def run(bench):
        caffe, millrace = (bench.training(study, program).tests
                           for program in (bench.caffe, bench.millrace))
        if caffe.keys() != millrace.keys() or len(caffe) < 4:
            raise Failed(f"tested at {sorted(caffe)} and at {sorted(millrace)}")

        def apart(one, other, output, how):
            return max(how(x, y) for i in one
                       for x, y in zip(one[i][output], other[i][output], strict=True))

        def found_and_usual(outputs, how):
            return (max(apart(caffe, millrace, output, how) for output in outputs),
                    max(apart(millrace, other.tests, output, how)
                        for output in outputs for other in bench.controls(study)))
        losses = [output for output in caffe[0] if output.startswith("loss")]
        loss, usual_loss = found_and_usual(losses, relative)
        accuracy, usual = found_and_usual(["accuracy"], lambda x, y: abs(x - y))
        first = farthest(caffe[0], millrace[0])
        good = (first is not None and first <= SCORE_TOLERANCE and
                accuracy <= max(ACCURACY_TOLERANCE, TIMES_CONTROL * usual) and
                loss <= max(LATE_TOLERANCE, TIMES_CONTROL * usual_loss))
        return Found(good, f"{len(caffe)} tests, accuracy {caffe[max(caffe)]['accuracy'][0]:.4f} "
                           f"at last, apart by {accuracy:.4f} (control {usual:.4f}); loss by "
                           f"{loss:.1e} (control {usual_loss:.1e})")
    return Check(f"{study.name}: tests while training", run)


def score(study, of):
    def run(bench):
        writer = getattr(bench, of)
        caffe, millrace = (bench.scored(study, program, writer)
                           for program in (bench.caffe, bench.millrace))
        means, batches = (farthest(getattr(caffe, part), getattr(millrace, part))
                          for part in ("means", "batches"))
        if means is None or batches is None:
            raise Failed(f"outputs {sorted(caffe.means)} and {sorted(millrace.means)}")
        return Found(max(means, batches) <= SCORE_TOLERANCE,
                     ", ".join(f"{name} {values[0]:g}" for name, values in caffe.means.items()
                               if len(values) == 1) +
                     f"; {sum(map(len, caffe.means.values()))} values apart by {means:.1e}, "
                     f"in single batches by {batches:.1e}")
    return Check(f"{study.name}: scores of the model that {of} wrote", run)


def resume(study, of, by):
    def run(bench):
        writer, reader = getattr(bench, of), getattr(bench, by)
        whole, rest = bench.training(study, writer), bench.resumed(study, reader, writer)
        if min(rest.losses) != study.snapshot:
            raise Failed(f"{by} went on with iteration {min(rest.losses)}")
        # What is displayed is a mean that begins anew, in Caffe too.
        first = study.snapshot + study.solver.get("average_loss", 1) - 1
        return compare_curves(bench, study, whole, rest, first)
    return Check(f"{study.name}: {by} resumes from {of}'s snapshot", run)


# ---- Data --------------------------------------------------------------------

def digest_of_database(bench, path):
    """Of all its keys and values, in order; and how many there are."""
    script = ('set -o pipefail; mdb_dump "$1" | sed "1,/^HEADER=END$/d" | sha256sum && '
              'mdb_stat "$1"')
    printed = bench.caffe.run("-c", script, "bash", path, tool="bash")
    return printed.split()[0], int(re.search(r"Entries: (\d+)", printed)[1])


def databases(names):
    def run(bench):
        for program in (bench.caffe, bench.millrace):
            bench.convert(program)
        records, differ = 0, []
        for name in names:
            ours, theirs = (digest_of_database(bench, f"{program}/{name}")
                            for program in ("millrace", "caffe"))
            records += ours[1]
            if ours != theirs:
                differ.append(name)
        return Found(not differ and records > 0,
                     f"{records} records" + (f"; {', '.join(differ)} differ" if differ else
                                             ", keys and values the same byte for byte"))
    return run


def compare_means(bench, ours, theirs, what):
    a, b = (blob_values(bench.read(name)) for name in (ours, theirs))
    if len(a) != len(b) or not a:
        raise Failed(f"{what}: {len(a)} and {len(b)} values")
    worst = max(abs(x - y) for x, y in zip(a, b))
    same = sum(x == y for x, y in zip(a, b))
    return Found(worst <= 1e-3, f"{what}: {len(a)} values, {same} of them the same bit for bit, "
                                f"none more than {worst:.1g} apart")


def mean_image(bench):
    for program in (bench.caffe, bench.millrace):
        bench.convert(program)
    return compare_means(bench, "millrace/colour/mean.binaryproto",
                         "caffe/colour/mean.binaryproto", "mean image")


def write_png(path, width, height, rows):
    """An 8-bit RGB image; rows are bytes of 3 * width."""
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body +
                struct.pack(">I", zlib.crc32(kind + body)))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" +
                   chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) +
                   chunk(b"IEND", b""))


def encoded(kind):
    """Images that Caffe's tool encoded into a database: what both decode, by its mean."""
    def run(bench):
        folder = os.path.join(bench.folder, "pictures")
        if not os.path.exists(folder):
            os.makedirs(folder)
            records = bench.read("cifar/data_batch_1.bin")
            lines = []
            for i in range(200):
                pixels = records[i * 3073 + 1:(i + 1) * 3073]
                planes = [pixels[c * 1024:(c + 1) * 1024] for c in range(3)]
                rows = [bytes(planes[c][y * 32 + x] for x in range(32) for c in range(3))
                        for y in range(32)]
                write_png(f"{folder}/{i:04}.png", 32, 32, rows)
                lines.append(f"{i:04}.png {records[i * 3073]}\n")
            with open(f"{folder}/list", "w") as file:
                file.writelines(lines)
        base = f"encoded_{kind}"
        bench.caffe.run("--encoded", f"--encode_type={kind}", "pictures/", "pictures/list",
                        f"{base}_lmdb", tool="convert_imageset")
        bench.caffe.run(f"{base}_lmdb", f"{base}_caffe.binaryproto", tool="compute_image_mean")
        bench.millrace.run("compute_image_mean", f"{base}_lmdb", f"{base}_millrace.binaryproto")
        return compare_means(bench, f"{base}_millrace.binaryproto", f"{base}_caffe.binaryproto",
                             f"mean of 200 {kind} images")
    return Check(f"data: a database of {kind} images that Caffe's convert_imageset made", run)


def upgrade(name, tool):
    def run(bench):
        old = f"old_{name}.prototxt"
        shutil.copy(os.path.join(bench.root, f"test/caffe/fixture/upgrade/{name}.prototxt"),
                    os.path.join(bench.folder, old))
        bench.caffe.run(old, f"{old}.caffe", tool=tool)
        bench.millrace.run(tool, old, f"{old}.millrace")
        results = [bench.read(f"{old}.{program}") for program in ("caffe", "millrace")]
        same = results[0] == results[1]
        return Found(same, f"{len(results[0])} bytes, {'equal' if same else 'not equal'}")
    return Check(f"upgrade: {name}", run)


def edit(path, edits):
    """Replaces patterns in a file."""
    with open(path) as file:
        text = file.read()
    for pattern, to in edits.items():
        text = re.sub(pattern, to, text)
    with open(path, "w") as file:
        file.write(text)


def copy_fixture(bench, to):
    """The fixture in a folder of its own, whose net reads the data there."""
    folder = os.path.join(bench.folder, to)
    shutil.copytree(os.path.join(bench.root, "test/caffe/fixture"), folder)
    edit(f"{folder}/net.prototxt", {'"(\\w+_lmdb|mean.binaryproto)"': rf'"{to}/\1"'})
    return folder


def records_of_database(bench, path):
    """Its keys and values, in order."""
    lines = bench.caffe.run(path, tool="mdb_dump").splitlines()
    rows = [bytes.fromhex(line.strip()) for line in lines[lines.index("HEADER=END") + 1:]
            if line.startswith(" ")]
    return list(zip(rows[::2], rows[1::2]))


FEATURE = "conv2"


def features(bench):
    """What extract_features of both writes: of the images the same bytes, of a layer's top the same
    keys and shapes, and values that differ by rounding."""
    copy_fixture(bench, "features")
    blobs = ("data", FEATURE)
    found = {}
    for program in (bench.caffe, bench.millrace):
        places = [f"features/{program.name}_{blob}" for blob in blobs]
        arguments = ["features/caffe_iter_60.caffemodel", "features/net.prototxt", ",".join(blobs),
                     ",".join(places), "3", "lmdb"]
        if program is bench.caffe:
            program.run(*arguments, tool="extract_features")
        else:
            program.run("extract_features", *arguments)
        found[program.name] = [records_of_database(bench, place) for place in places]
    (images, tops), (our_images, our_tops) = found["caffe"], found["millrace"]
    if not images or images != our_images:
        return Found(False, f"{len(images)} and {len(our_images)} records of 'data', not equal")
    most = 0.0
    for (key, value), (our_key, our_value) in zip(tops, our_tops):
        datum, ours = (list(fields(v)) for v in (value, our_value))
        if key != our_key or [f[0] for f in datum] != [f[0] for f in ours]:
            return Found(False, f"record {key} of '{FEATURE}' has other fields")
        for (number, a, _), (_, b, _) in zip(datum, ours):
            if number != 6 and a != b:
                return Found(False, f"record {key} of '{FEATURE}' has another shape")
            if number == 6:
                a, b = (struct.unpack("<f", v)[0] for v in (a, b))
                most = max(most, abs(a - b) / max(abs(a), 1e-2))
    return Found(len(tops) == len(our_tops) and most < 1e-4,
                 f"{len(images)} images the same byte for byte; {len(tops)} records of '{FEATURE}' "
                 f"differ by {most:.1e} at most")


def debug_info(bench):
    """Two iterations of the fixture's net from Caffe's weights: layer by layer the same blobs, and
    means of absolute values that differ by rounding."""
    folder = copy_fixture(bench, "debug")
    edit(f"{folder}/solver.prototxt",
         {"net: .*": 'net: "debug/net.prototxt"', "max_iter: .*": "max_iter: 2",
          "snapshot: .*": "", "snapshot_prefix: .*": 'snapshot_prefix: "debug/run"',
          "display: .*": "display: 1 debug_info: true"})
    lines = {}
    for program in (bench.caffe, bench.millrace):
        log = program.train("debug/solver.prototxt", "--weights=debug/caffe_iter_0.caffemodel")
        lines[program.name] = re.findall(r"\]     (\[(?:For|Back)ward\] .*)", log.text)
    number = re.compile(r"(?<=[ (])[\d.]+(?:e[-+]?\d+)?(?=[,)]|$)")
    words = {name: [number.sub("#", line) for line in of] for name, of in lines.items()}
    values = {name: [float(v) for line in of for v in number.findall(line)]
              for name, of in lines.items()}
    # Caffe displays the loss once more after the last iteration, by another forward pass.
    count = len(lines["millrace"])
    if count == 0 or words["caffe"][:count] != words["millrace"]:
        return Found(False, f"{len(lines['caffe'])} and {count} lines, of other blobs")
    most = max(abs(a - b) / max(abs(a), 1e-3)
               for a, b in zip(values["caffe"], values["millrace"]))
    return Found(most < 1e-4, f"{count} lines, values differ by {most:.1e} at most")


def of_the_zoo(name):
    def run(bench):
        caffe, millrace = zoo.scores(bench, name)
        apart = farthest(caffe, millrace)
        if apart is None:
            raise Failed(f"outputs {sorted(caffe)} and {sorted(millrace)}")
        return Found(apart <= ZOO_TOLERANCE,
                     ", ".join(f"{output} {values[0]:g}" for output, values in caffe.items()) +
                     f"; apart by {apart:.1e}")
    return Check(f"zoo: {name}", run)


def all_checks():
    found = [
        Check("data: convert_mnist_data", databases(["grey/mnist_train_lmdb",
                                                     "grey/mnist_test_lmdb"])),
        Check("data: convert_cifar_data", databases(["colour/cifar10_train_lmdb",
                                                     "colour/cifar10_test_lmdb"])),
        Check("data: compute_image_mean", mean_image), encoded("png"), encoded("jpg")]
    found.append(Check("debug_info", debug_info))
    found.append(Check("extract_features", features))
    found += [upgrade(name, tool) for name, tool in OLD_FILES.items()]
    found += [of_the_zoo(name) for name in zoo.NAMES]
    for study in STUDIES + LAYER_STUDIES:
        found += [first_step(study), curve(study)]
        if study.curve_only:
            continue
        found += [tests(study), score(study, "caffe"), score(study, "millrace"),
                  resume(study, "caffe", by="millrace"), resume(study, "millrace", by="caffe")]
    return found
