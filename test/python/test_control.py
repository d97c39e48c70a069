"""millrace.ControlService and millrace.Controller."""
import json
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import millrace
from conftest import BUILD
from test_run import start, wait_until  # noqa: F401 (start is a fixture)


def ask(url, path, body=None, token=None):
    request = urllib.request.Request(url + path, method="GET" if body is None else "POST",
                                     data=None if body is None else body.encode(),
                                     headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def token_of(service):
    ctl = [f"{BUILD}/millrace", "ctl", "token", "--control=" + service.url.removeprefix("http://")]
    return subprocess.run(ctl, check=True, capture_output=True, text=True).stdout.strip()


def test_a_service_shows_and_controls_a_run(start):
    run = start()
    service = millrace.ControlService(run, "127.0.0.1:0")
    wait_until(run, lambda status: status["iteration"] > 0)
    assert ask(service.url, "/v1/status")["state"] == "training"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ask(service.url, "/v1/stop", "")
    assert ask(service.url, "/v1/stop", "", token_of(service)) == {}
    assert run.wait()["stopped_early"]


def test_commands_take_and_return_json(start):
    run = start()

    def double(values):
        """Doubles each value."""
        return [2 * value for value in values]

    def fail(_):
        raise ValueError("not today")

    service = millrace.ControlService(run, commands={"double": double, "fail": fail})
    token = token_of(service)
    assert ask(service.url, "/v1/commands")["command"][0] == {"name": "double", "help": "Doubles each value."}
    assert ask(service.url, "/v1/commands/double", "[1, 2.5]", token) == [2, 5.0]
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(service.url, "/v1/commands/fail", "1", token)
    assert json.load(refused.value)["error"] == "command fail: not today"
    del service
    run.stop()
    run.wait()


def test_errors_are_exceptions(start):
    run = start()
    with pytest.raises(millrace.Error, match="expected a key_file"):
        millrace.ControlService(run, "0.0.0.0:0")
    with pytest.raises(millrace.Error, match="expected host:port"):
        millrace.ControlService(run, "nonsense")
    with pytest.raises(TypeError):
        millrace.ControlService(None, commands={"x": 1})
    with pytest.raises(millrace.Error, match="expected a topology"):
        millrace.Controller().run()


class StopAfter(millrace.Controller):
    """Sets a rate, trains twice for 100 iterations at least, and stops."""

    def __init__(self):
        super().__init__()
        self.seen, self.gone = [], []

    def next(self, worker):
        self.seen.append(worker.iteration)
        if len(self.seen) == 1:
            return millrace.Instruction.set_learning_rate(0.001)
        if len(self.seen) < 4:
            return millrace.Instruction.train(100)
        return millrace.Instruction.stop()

    def left(self, worker):
        self.gone.append(worker.name)


def test_a_controller_leads_a_run(start):
    run = start()
    service = millrace.ControlService(run)
    controller = StopAfter()
    address = service.url.removeprefix("http://")
    controller.run(addresses=[address])
    assert run.wait()["iteration"] >= 200
    assert len(controller.seen) == 4 and controller.gone == [address]


def test_an_exception_of_a_controller_is_raised_and_the_run_goes_on(start):
    run = start()
    service = millrace.ControlService(run)

    class Fails(millrace.Controller):
        def next(self, worker):
            raise KeyError("none")

    with pytest.raises(KeyError, match="none"):
        Fails().run(addresses=[service.url.removeprefix("http://")])
    assert run.status()["state"] == "training"


def test_the_program_runs_a_script(start, write, monkeypatch):
    run = start()
    service = millrace.ControlService(run)
    script = write("controller.py", "import millrace\n"
                   "class Controller(millrace.Controller):\n"
                   "    def next(self, worker):\n"
                   "        print('at', worker.iteration)\n"
                   "        return millrace.Instruction.stop()\n")
    address = service.url.removeprefix("http://")
    monkeypatch.setenv("PYTHON3", sys.executable)
    result = subprocess.run([f"{BUILD}/millrace", "controller", f"--script={script}",
                             f"--addresses={address}"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("at ")
    assert run.wait()["stopped_early"]
    bad = write("bad.py", "Controller = 7\n")
    result = subprocess.run([f"{BUILD}/millrace", "controller", f"--script={bad}"],
                            capture_output=True, text=True)
    assert result.returncode == 1
    assert "bad.py: expected a class Controller" in result.stderr
