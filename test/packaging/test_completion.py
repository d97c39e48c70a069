"""The shells complete command lines of millrace with the files that make install writes."""
import os
import re
import subprocess

import pytest

from conftest import MILLRACE, needs, output_of

PLACES = {"bash": "usr/share/bash-completion/completions/millrace",
          "zsh": "usr/share/zsh/vendor-completions/_millrace",
          "fish": "usr/share/fish/vendor_completions.d/millrace.fish"}

BASH = """source "$1"
COMP_LINE=$2 COMP_POINT=${#2}
read -ra COMP_WORDS <<<"$COMP_LINE"
_millrace millrace
printf '%s\\n' "${COMPREPLY[@]}"
"""

# An interactive zsh in a terminal of its own, in which the list of matches is asked for by ^D-like
# list-choices; descriptions and files stand in lines of their own. Nothing more is typed before the list is
# there.
ZSH = """zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1= PS2= RPS1=; stty -echo; cd $3; fpath=($1 \\$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell "ask() { zle list-choices; zle -R; print -rn -- LIS''TED }; zle -N ask; bindkey '^I' ask"
zpty -w shell "zstyle ':completion:*' list-grouped no; LISTMAX=1000; COLUMNS=400"
zpty -w shell "print -r R''EADY"
zpty -r shell text '*READY*' || exit 1
zpty -n -w shell "$2"$'\\t'
zpty -r shell text '*LISTED*' || exit 1
print -r -- "$text"
zpty -d shell
"""


class Shell:
    def __init__(self, name, installed, folder):
        needs(name)
        self.name, self.folder = name, folder
        self.file = installed / PLACES[name]

    def complete(self, line):
        """The completions of the last word of `line`, as words without descriptions."""
        if self.name == "bash":
            text = output_of("bash", "-c", BASH, "bash", str(self.file), line, cwd=self.folder)
            return text.split()
        if self.name == "fish":
            text = output_of("fish", "--no-config", "-c", f"source {self.file}; complete -C '{line}'",
                             cwd=self.folder, env={**os.environ, "HOME": str(self.folder)})
            return [each.split("\t")[0].split("=")[-1] for each in text.splitlines()]
        text = output_of("zsh", "-f", "-c", ZSH, "zsh", str(self.file.parent), line,
                         str(self.folder), env={**os.environ, "TERM": "dumb"}, timeout=120)
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.replace("\r", "\n"))
        return text.split()


@pytest.fixture(params=PLACES)
def shell(request, installed, tmp_path):
    (tmp_path / "solver.prototxt").write_text("")
    (tmp_path / "soluble").mkdir()
    (tmp_path / "sources").write_text("")
    return Shell(request.param, installed, tmp_path)


def test_commands(shell):
    found = shell.complete("millrace t")
    assert {"train", "test", "time", "top", "transports"} <= set(found)
    assert "bench" not in found


def test_flags_are_those_of_the_command(shell):
    found = " ".join(shell.complete("millrace train --so"))
    assert "--solver" in found
    found = " ".join(shell.complete("millrace train --"))
    for flag in re.findall(r"^  (--\w+)  ", output_of(MILLRACE, "help", "train"), re.M):
        assert flag in found, flag
    assert "--log_dir" in found
    assert "--restarts" not in found
    assert "--restarts" in " ".join(shell.complete("millrace launch --"))


def test_files_where_a_flag_takes_one(shell):
    found = shell.complete("millrace train --solver=s")
    assert "solver.prototxt" in found
    assert "sources" in found


def test_folders_where_a_flag_takes_one(shell):
    found = [each.rstrip("/") for each in shell.complete("millrace train --tensorboard=s")]
    assert "soluble" in found
    assert "sources" not in found


def test_nothing_where_a_flag_takes_a_number(shell):
    found = shell.complete("millrace train --cpu=s")
    assert not {"solver.prototxt", "sources", "soluble"} & set(found)


def test_values_where_a_flag_has_a_list_of_them(shell):
    found = shell.complete("millrace convert --to=s")
    assert "safetensors" in found
    assert not {"npz", "solver.prototxt", "sources"} & set(found)
    assert {"auto", "local", "ssh", "namespaces"} <= set(shell.complete("millrace launch --by="))


def test_actions(shell):
    found = shell.complete("millrace ctl --control=8400 s")
    assert {"status", "stop", "snapshot"} <= set(found)
    assert not {"pause", "solver.prototxt", "sources"} & set(found)
    text = re.search(r"^actions: (.*?)\n\n", output_of(MILLRACE, "help", "ctl"), re.M | re.S)[1]
    actions = [action.split()[0] for action in text.replace("\n", " ").split(", ")]
    assert {"resume", "rate", "call", "read_token"} <= set(actions)
    assert set(actions) <= set(shell.complete("millrace ctl "))
    assert "stop" not in shell.complete("millrace ctl status s")


def test_a_command_behind_launch(shell):
    found = shell.complete("millrace launch --topology=t -- t")
    assert {"train", "test", "time"} <= set(found)
    assert not {"bench", "solver.prototxt"} & set(found)
    assert "train" not in shell.complete("millrace launch t")
    if shell.name == "fish":  # which completes no flags behind "--"
        return
    found = " ".join(shell.complete("millrace launch --topology=t -- train --"))
    assert "--solver" in found
    assert "--restarts" not in found
    assert "solver.prototxt" in shell.complete("millrace launch -- train --solver=s")


def test_commands_behind_help(shell):
    assert "snapshot_info" in shell.complete("millrace help s")


def test_bash_takes_the_last_of_several_files_and_separate_values(installed, tmp_path):
    (tmp_path / "one.caffemodel").write_text("")
    bash = Shell("bash", installed, tmp_path)
    assert bash.complete("millrace train --weights=zero,on") == ["zero,one.caffemodel"]
    assert bash.complete("millrace train --weights on") == ["one.caffemodel"]
    assert bash.complete("millrace train -weights on") == ["one.caffemodel"]
    assert bash.complete("millrace top --json=t") == ["true"]


@pytest.mark.parametrize("shell_name", PLACES)
def test_the_shells_can_read_the_files(installed, shell_name):
    needs(shell_name)
    subprocess.run([shell_name, "-n", str(installed / PLACES[shell_name])], check=True)
