"""The Debian packages that make deb makes."""
import gzip
import os
import re
import subprocess

import pytest

from conftest import BUILD, NOISE_NET, ROOT, needs, output_of

MAKE_DEB = os.path.join(ROOT, "packaging/debian/make-deb")
SECONDS = "1700000000"  # 2023-11-14


def make(folder, version):
    output_of(MAKE_DEB, BUILD, version, str(folder),
              env={**os.environ, "SOURCE_DATE_EPOCH": SECONDS})
    return {path.name.split("_")[0]: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def packages(tmp_path_factory, version):
    """Paths of the packages by name."""
    needs("dpkg-deb", "dpkg-shlibdeps", "patchelf", "strip")
    return make(tmp_path_factory.mktemp("deb"), version)


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    """All packages unpacked in one folder, as dpkg would."""
    root = tmp_path_factory.mktemp("unpacked")
    for package in packages.values():
        output_of("dpkg-deb", "-x", str(package), str(root))
    return root


def field(package, name):
    return output_of("dpkg-deb", "-f", str(package), name).strip()


def contents(package):
    """Lines of tar: mode, owner, time and path of each file."""
    return output_of("dpkg-deb", "-c", str(package), env={**os.environ, "TZ": "UTC"}).splitlines()


def paths(package):
    return [re.sub(r"^(\S+\s+){5}\.", "", line).split(" -> ")[0] for line in contents(package)]


def test_the_packages_hold_what_their_names_promise(packages):
    assert {"millrace", "libmillrace-dev"} <= set(packages)
    found = paths(packages["millrace"])
    for path in ("/usr/bin/millrace", "/usr/share/man/man1/millrace-train.1.gz", "/etc/millrace/",
                 "/usr/lib/systemd/system/millrace@.service", "/usr/lib/sysusers.d/millrace.conf",
                 "/usr/share/bash-completion/completions/millrace"):
        assert path in found
    assert any(re.fullmatch(r"/usr/lib/[^/]+/libmillrace\.so\.\d+\.\d+", path) for path in found)
    development = paths(packages["libmillrace-dev"])
    for pattern in ("/usr/include/millrace/net.h", "/usr/lib/[^/]+/libmillrace.so",
                    "/usr/lib/[^/]+/pkgconfig/millrace.pc",
                    "/usr/lib/[^/]+/cmake/Millrace/MillraceConfig.cmake"):
        assert any(re.fullmatch(pattern, path) for path in development), pattern
    for module, package in (("contrib", "millrace"), ("cuda", "millrace-cuda"), ("mpi", "millrace-mpi"),
                            ("verbs", "millrace-rdma")):
        assert os.path.exists(f"{BUILD}/modules/{module}.so") == (package in packages)
        if package in packages:
            assert any(path.endswith(f"/millrace/{module}.so") for path in paths(packages[package]))
    if "python3-millrace" in packages:
        modules = "/usr/lib/python3/dist-packages"
        assert f"{modules}/millrace/__init__.py" in paths(packages["python3-millrace"])
        assert f"{modules}/caffe/proto/caffe_pb2.py" in paths(packages["millrace-caffe"])


def test_no_file_is_in_two_packages(packages):
    files = [path for package in packages.values() for path in paths(package)
             if not path.endswith("/")]
    assert len(files) == len(set(files))


def test_dependencies_are_those_of_the_libraries(packages, version):
    depends = field(packages["millrace"], "Depends")
    assert re.search(r"\blibprotobuf\d+", depends)
    assert re.search(r"\blibdnnl\d+", depends)
    for library in ("opencv", "onnx", "openmpi", "ibverbs", "rdmacm"):
        assert library not in depends
    if "millrace-mpi" in packages:
        assert "libopenmpi" in field(packages["millrace-mpi"], "Depends")
    if "millrace-rdma" in packages:
        assert "libibverbs1" in field(packages["millrace-rdma"], "Depends")
    assert f"millrace (= {version}-1" in field(packages["libmillrace-dev"], "Depends")
    if "python3-millrace" in packages:
        depends = field(packages["python3-millrace"], "Depends")
        assert f"millrace (= {version}-1" in depends
        assert re.search(r"python3 \(>= 3\.\d+~\), python3 \(<< 3\.\d+\)", depends)
        assert field(packages["millrace-caffe"], "Architecture") == "all"


def test_no_path_of_the_build_is_left(unpacked):
    for folder, _, names in os.walk(unpacked):
        for path in (os.path.join(folder, name) for name in names):
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    assert ROOT.encode() not in file.read(), path


def test_the_unpacked_program_trains_with_its_own_library(unpacked, tmp_path):
    libdir, = [path.parent for path in unpacked.glob("usr/lib/*/libmillrace.so.*")]
    environment = {"LD_LIBRARY_PATH": f"{libdir}:{libdir}/millrace", "PATH": "/usr/bin:/bin"}
    program = str(unpacked / "usr/bin/millrace")
    found = output_of("ldd", program, env=environment)
    assert f"=> {libdir}/libmillrace.so." in found
    assert "not found" not in found
    (tmp_path / "net.prototxt").write_text(NOISE_NET)
    (tmp_path / "solver.prototxt").write_text(
        'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 3 snapshot_prefix: "run"')
    output_of(program, "train", "--solver=solver.prototxt", cwd=tmp_path, env=environment)
    assert (tmp_path / "run_iter_3.caffemodel").exists()


def test_two_runs_make_the_same_bytes(packages, version, tmp_path):
    again = make(tmp_path / "again", version)
    assert set(again) == set(packages)
    for name, package in packages.items():
        assert package.read_bytes() == again[name].read_bytes(), name


def test_files_are_of_root_and_no_younger_than_the_last_commit(packages):
    for package in packages.values():
        for line in contents(package):
            assert re.match(r"(drwxr-xr-x|lrwxrwxrwx|-rw[x-]r-[x-]r-[x-]) root/root ", line), line
            assert "2023-11-14 22:13" in line


def test_changelog_and_licence(unpacked, version):
    folder = unpacked / "usr/share/doc/millrace"
    with gzip.open(folder / "changelog.Debian.gz", "rt", encoding="utf-8") as file:
        text = file.read()
    assert text.startswith(f"millrace ({version}-1")
    assert "millrace train reads Caffe solver and net files." in text
    assert text.endswith("Tue, 14 Nov 2023 22:13:20 +0000\n")
    assert max(map(len, text.splitlines()[:-1])) <= 80
    licence = (folder / "copyright").read_text()
    assert licence.startswith(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n")
    words = " ".join(licence.split()).replace(" . ", " ")
    with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as file:
        terms = file.read().split("\n\n", 2)[2]
    assert " ".join(terms.split()) in words


def test_lintian_has_no_complaint(packages):
    needs("lintian")
    run = subprocess.run(["lintian", "--allow-root", "--fail-on=error,warning",
                          *map(str, packages.values())],
                         capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


def test_a_missing_tool_is_named(version, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to("/usr/bin/python3")
    run = subprocess.run([MAKE_DEB, BUILD, version, str(tmp_path / "deb")], capture_output=True,
                         text=True, check=False, env={"PATH": str(tmp_path / "bin")})
    assert run.returncode == 1
    assert run.stderr == "make-deb: dpkg-deb is not installed: tools/install-deps --packaging\n"
