// Sums of arrays between processes of one machine, for caffe.NCCL.
#include "collective/shared_memory_group.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "owner.h"

namespace millrace::python {
namespace {

using PyGroup = std::unique_ptr<Collective, DeleteWithoutLock<Collective>>;

PyGroup Join(const std::string& name, int rank, int size, size_t floats, double seconds) {
  const py::gil_scoped_release release;
  return PyGroup(
      JoinSharedMemoryGroup(
          {.name = name, .rank = rank, .size = size, .floats = floats, .seconds = seconds},
          PollSignals)
          .release());
}

std::vector<std::span<float>> SpansOf(const std::vector<py::object>& arrays) {
  std::vector<std::span<float>> spans;
  for (const py::object& array : arrays) spans.push_back(ValuesOf(array, "arrays", true));
  return spans;
}

}  // namespace

void BindProcessGroup(py::module_* module) {
  py::class_<Collective, PyGroup>(
      *module, "ProcessGroup",
      "A member of a group of processes of this machine. All of them call the same methods, with\n"
      "arrays of the same sizes, one thread at a time. Calls raise Error once a member has ended.")
      .def(py::init(&Join), py::arg("name"), py::arg("rank"), py::arg("size"), py::arg("floats"),
           py::arg("seconds") = 60.0,
           "Returns when all `size` members have joined. name: the same for all, letters and\n"
           "digits; floats: the most values of one call of average.")
      .def(
          "broadcast",
          [](Collective* group, const std::vector<py::object>& arrays) {
            const auto spans = SpansOf(arrays);
            const py::gil_scoped_release release;
            for (const std::span<float> values : spans) {
              group->Broadcast(std::as_writable_bytes(values), PollSignals);
            }
          },
          py::arg("arrays"), "Copies the values of rank 0 to all members: float32 arrays.")
      .def(
          "average",
          [](Collective* group, const std::vector<py::object>& arrays) {
            const auto spans = SpansOf(arrays);
            const py::gil_scoped_release release;
            for (const std::span<float> values : spans) group->StartSum(values);
            group->Wait(PollSignals);
            const float share = 1.0f / static_cast<float>(group->size());
            for (const std::span<float> values : spans) {
              for (float& value : values) value *= share;
            }
          },
          py::arg("arrays"),
          "Replaces the values of float32 arrays by their means over all members.");
}

}  // namespace millrace::python
