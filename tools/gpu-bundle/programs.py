"""Starts the programs of the bundle: their libraries, their time limits, their logs, the CUDA libraries they load."""
import collections
import dataclasses
import glob
import os
import re
import select
import shutil
import signal
import site
import subprocess
import sysconfig
import time

ROOT = os.path.dirname(os.path.abspath(__file__))
ENDING = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # signals that end a part
MAX_LOG_PART = 512 * 1024  # bytes that a log keeps of the beginning, and as many of the end
CUDA_LIBRARY = re.compile(r"(/\S*/lib(?:cublas|cublasLt|cuda|cudart|cudnn\w*|cupti|nccl)\.so[.\d]*)$")


def python_library_folders():
    """Folders with cuBLAS, cuDNN and NCCL in the packages of this Python."""
    places = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], *site.getsitepackages()}
    return [folder for place in sorted(places) for folder in sorted(glob.glob(place + "/nvidia/*/lib"))]


def library_path():
    """LD_LIBRARY_PATH for programs of the bundle. Others (python3, nvidia-smi) keep their own."""
    given = os.environ.get("LD_LIBRARY_PATH")
    return ":".join([os.path.join(ROOT, "lib"), os.path.join(ROOT, "lib/millrace"),
                     *python_library_folders(), *([given] if given else [])])


def find_tool(name):
    """Path of a tool of the CUDA toolkit; None if it is not installed."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")


@dataclasses.dataclass
class Ended:
    status: int = 0  # below 0: the signal that ended it
    stopped: str = ""  # why this program stopped it: its time limit, or the reason of `on_line`
    last_lines: tuple = ()

    @property
    def ok(self):
        return self.status == 0 and not self.stopped

    def why(self):
        """What went wrong, in one line; "" if nothing."""
        if self.ok:
            return ""
        how = self.stopped or (f"ended by signal {-self.status}" if self.status < 0
                               else f"exit status {self.status}")
        said = [line for line in self.last_lines if line.strip()]
        return f"{how}: {said[-1].strip()}" if said else how


class Log:
    """A file with the first and the last part of an output of any length."""

    def __init__(self, path):
        self._file = open(path, "ab", buffering=0)
        self._room = MAX_LOG_PART
        self._tail, self._tail_bytes, self._dropped = collections.deque(), 0, 0

    def write(self, data):
        if self._room > 0:
            self._file.write(data)
            self._room -= len(data)
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes > MAX_LOG_PART:
            self._dropped += len(self._tail[0])
            self._tail_bytes -= len(self._tail.popleft())

    def close(self):
        if self._dropped:
            self._file.write(f"\n[{self._dropped} bytes are left out]\n".encode())
        self._file.write(b"".join(self._tail))
        self._file.close()


class Runner:
    """Runs one program at a time, each in a process group of its own."""

    def __init__(self, folder):
        self.folder = folder  # of logs and other files
        self.cuda_libraries = set()  # paths of the files that programs have loaded
        self._noted_at = 0.0
        self._process = None

    def run(self, name, command, seconds, env=None, own_libraries=True, on_line=None):
        """Runs a command for at most `seconds`; its output goes to NAME.log. Calls on_line with each line (a string
        without its end), or with None every tenth of a second at least; a string that it returns stops the program.
        own_libraries: with those of the bundle."""
        environment = {"TZ": ":/etc/localtime", **os.environ, "PYTHONUNBUFFERED": "1",
                       "XDG_CACHE_HOME": os.path.join(self.folder, "cache")}  # with the algorithms of cuDNN
        if own_libraries:
            environment["LD_LIBRARY_PATH"] = library_path()
        environment.update(env or {})
        log = Log(os.path.join(self.folder, name + ".log"))
        settings = "".join(f"{key}={value} " for key, value in (env or {}).items())
        log.write(f"$ {settings}{' '.join(command)}\n".encode())
        try:
            ended = self._run(command, max(seconds, 0), environment, log, on_line)
            log.write(f"[{ended.stopped or 'status ' + str(ended.status)}]\n".encode())
            return ended
        finally:
            log.close()

    def _run(self, command, seconds, environment, log, on_line):
        end = time.monotonic() + seconds
        # A signal between the start of the process and its assignment would leave it behind.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            self._process = process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT,
                env=environment, process_group=0,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING))
        except OSError as error:
            return Ended(status=127, last_lines=(f"{command[0]}: {error.strerror}",))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        last, rest, stopped = collections.deque(maxlen=20), b"", ""
        # Reading ends with the process: a process that it has left behind may keep the pipe open.
        ending = None
        try:
            while not stopped:
                now = time.monotonic()
                if now >= end:
                    stopped = f"stopped after {seconds:.0f} s"
                    break
                ready, _, _ = select.select([process.stdout], [], [], min(0.1, end - now))
                self._note_libraries(process.pid)
                data = os.read(process.stdout.fileno(), 1 << 16) if ready else None
                if data == b"":
                    break
                if data is None:
                    if process.poll() is not None:
                        ending = ending or now
                        if now > ending + 0.5:
                            break
                    stopped = (on_line and on_line(None)) or ""
                    continue
                log.write(data)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    text = line.decode(errors="replace")
                    last.append(text)
                    stopped = (on_line and on_line(text)) or ""
                    if stopped:
                        break
            if rest:
                last.append(rest.decode(errors="replace"))
            if not stopped:
                try:
                    process.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    stopped = f"stopped after {seconds:.0f} s"
        finally:
            self.end()
        return Ended(process.returncode, stopped, tuple(last))

    def end(self):
        """Ends the present process and all that it has started."""
        process = self._process
        if process is None:
            return
        for each in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, each)
            except ProcessLookupError:
                break
            if each == signal.SIGTERM:
                try:
                    process.wait(1)
                except subprocess.TimeoutExpired:
                    pass
        process.wait()
        process.stdout.close()
        self._process = None

    def _note_libraries(self, pid):
        if time.monotonic() < self._noted_at + 0.2:
            return
        self._noted_at = time.monotonic()
        try:
            with open(f"/proc/{pid}/maps") as file:
                for line in file:
                    found = CUDA_LIBRARY.search(line.rstrip("\n"))
                    if found:
                        self.cuda_libraries.add(found[1])
        except OSError:
            pass  # it has ended
