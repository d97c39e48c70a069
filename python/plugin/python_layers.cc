// A plugin of the millrace program, which has no interpreter: layers of type "Python", and other
// parts that Python files register.
//
//   millrace train --solver=solver.prototxt --plugins=python,my_parts.py
//
// Starts an interpreter and imports millrace, whose compiled module registers the layer type.
// Modules of layers are found in the current folder and by PYTHONPATH.
#include <dlfcn.h>
#include <pybind11/embed.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "millrace/layer.h"

namespace millrace::python {
namespace {

namespace py = pybind11;

// The library that has a function.
std::filesystem::path LibraryOf(const void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0) return {};
  return std::filesystem::absolute(info.dli_fname);
}

// The folder of the package millrace, in which this library is.
std::string Folder() {
  return LibraryOf(reinterpret_cast<const void*>(&Folder)).parent_path().parent_path().string();
}

// Compiled modules of Python take the interpreter's symbols from the whole program.
void MakeInterpreterGlobal() {
  const std::string library = LibraryOf(reinterpret_cast<const void*>(&Py_InitializeEx)).string();
  dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

// A layer of type Python that says why there is none.
void RegisterFailure(const std::string& reason) {
  LayerRegistry::Get().Register(
      "Python", DeviceType::kCpu,
      [reason](const caffe::LayerParameter&, const LayerContext&) -> std::unique_ptr<Layer> {
        throw Error("layers in Python: import of millrace: ", reason);
      });
}

class Interpreter {
 public:
  Interpreter() {
    if (Py_IsInitialized() != 0) return;  // of a program in Python, which imports millrace itself
    // Threads of imported libraries leave all signals to the program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    MakeInterpreterGlobal();
    Py_InitializeEx(0);
    try {
      py::list path = py::module_::import("sys").attr("path");
      path.insert(0, "");
      path.insert(1, Folder());
      py::module_::import("numpy");  // before millrace registers the layer type
      py::module_::import("millrace");
    } catch (const py::error_already_set& error) {
      const std::string text = py::str(error.value()).cast<std::string>();
      RegisterFailure(text.substr(0, text.find('\n')));
    }
    // Layers take the interpreter's lock when they need it.
    PyEval_SaveThread();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    started_ = true;
  }
  // The interpreter lives as long as the program. Only what layers have printed is missing.
  ~Interpreter() {
    if (!started_) return;
    const py::gil_scoped_acquire acquire;
    PyRun_SimpleString("import sys; sys.stdout.flush()");
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

 private:
  bool started_ = false;
};

const Interpreter interpreter;

// Imports a file as the module of its name, which then finds other modules in the file's folder.
constexpr char kImport[] = R"(
import importlib.util, os, sys
def load(path):
    folder, name = os.path.split(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = os.path.splitext(name)[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
)";

}  // namespace
}  // namespace millrace::python

// The program calls it for each Python file of --plugins. Throws Error in one line, or an exception
// with the traceback of Python.
extern "C" MILLRACE_API void millrace_import_python(const char* path) {
  namespace py = pybind11;
  const py::gil_scoped_acquire acquire;
  py::dict scope;
  py::exec(millrace::python::kImport, scope);
  scope["load"](path);
}
