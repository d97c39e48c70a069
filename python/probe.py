"""Prints what the Makefile needs to build the modules for this interpreter: how the file name of
a module ends, and the folders of headers. If something is missing, "no:" and the reason. With the
argument `embed`: linker flags of a program with an interpreter; nothing if there is no shared
library of it."""
import importlib.util
import os
import sys
import sysconfig


def main():
    if sys.version_info < (3, 9):
        return f"no: Python {sys.version.split()[0]}: expected 3.9 or newer"
    include = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(include, "Python.h")):
        return f"no: no {include}/Python.h: install python3-dev"
    folders = [include]
    if not os.path.exists("/usr/include/pybind11/pybind11.h"):
        spec = importlib.util.find_spec("pybind11")
        if spec is None:
            return "no: no pybind11/pybind11.h: install pybind11-dev"
        folders.append(os.path.join(os.path.dirname(spec.origin), "include"))
    for module, package in (("numpy", "python3-numpy"), ("google.protobuf", "python3-protobuf")):
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # of google
            found = False
        if not found:
            return f"no: {sys.executable} has no module {module}: install {package}"
    return " ".join([sysconfig.get_config_var("EXT_SUFFIX")] + folders)


def embed():
    of = sysconfig.get_config_var
    if not of("Py_ENABLE_SHARED"):
        return ""
    return f"-L{of('LIBDIR')} -lpython{of('LDVERSION')}"


print(embed() if sys.argv[1:] == ["embed"] else main())
