// The module millrace._millrace: Millrace's public C++ API in Python.
#include <glog/logging.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdlib>

#include "millrace/layer.h"
#include "millrace/version.h"
#include "owner.h"
#include "python_call.h"

namespace millrace::python {
namespace {

// Messages may quote any bytes of a file.
void SetError(PyObject* type, const char* text) {
  PyObject* const message =
      PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strlen(text)), "replace");
  if (message == nullptr) return;
  PyErr_SetObject(type, message);
  Py_DECREF(message);
}

PyObject* error_type = nullptr;  // as long as the interpreter

void Translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(std::move(thrown));
  } catch (const Error& error) {
    SetError(error_type, error.what());
  }
}

void LogTo(int level, bool to_stderr) {
  FLAGS_minloglevel = level;
  FLAGS_logtostderr = to_stderr;
  FLAGS_stderrthreshold = level;
}

}  // namespace

py::handle ErrorType() { return error_type; }

PYBIND11_MODULE(_millrace, module) {
  module.doc() = "Millrace's C++ library. Use the module millrace.";
  error_type = PyErr_NewExceptionWithDoc("millrace.Error",
                                         "An error of the caller's input or environment: one line.",
                                         PyExc_RuntimeError, nullptr);
  if (error_type == nullptr) throw py::error_already_set();
  module.attr("Error") = py::handle(error_type);
  py::register_exception_translator(&Translate);

  if (!google::IsGoogleLoggingInitialized()) {  // by another program that runs Python
    google::InitGoogleLogging("millrace");
    // Warnings and errors only, unless the environment names another level.
    const bool is_named = getenv("GLOG_minloglevel") != nullptr;
    LogTo(is_named ? FLAGS_minloglevel : int{google::GLOG_WARNING}, true);
  }
  module.def("set_log_level", &LogTo, py::arg("level"), py::arg("to_stderr") = true,
             "Lines below `level` are not logged: 0 information, 1 warnings, 2 errors.");
  module.def(
      "log", [](const std::string& line) { LOG(INFO) << line; }, py::arg("line"),
      "Writes a line to the log, at level 0.");
  module.def("version", &Version, "The version of the library.");
  module.def(
      "layer_types", [] { return LayerRegistry::Get().Types(DeviceType::kCpu); },
      "The layer types that run on the host, in alphabetical order.");
  BindBlob(&module);
  BindNet(&module);
  BindSession(&module);
  BindRun(&module);
  BindControl(&module);
  BindMember(&module);
  BindProcessGroup(&module);
  BindPythonLayer(&module);
  BindPythonSource(&module);
  BindPythonRule(&module);
  BindPythonConditions(&module);
  BindEnd(&module);
}

}  // namespace millrace::python
