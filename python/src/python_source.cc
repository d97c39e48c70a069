// Data sources in Python: sequences of records, which a Data layer opens by a registered name.
#include <limits>
#include <optional>

#include "capi/arrays.h"
#include "millrace/data_source.h"
#include "owner.h"
#include "python_call.h"

namespace millrace::python {
namespace {

constexpr char kExpected[] =
    ", expected (values, label), with an array of 1 to 3 axes, or the bytes of a Datum";

// The bytes of a Datum with `values`: (channels, height, width), (height, width) or (channels,).
std::string DatumOf(const std::string& where, py::handle given, py::handle label) {
  const auto values = py::array::ensure(given);
  if (!values || values.ndim() < 1 || values.ndim() > 3) {
    PyErr_Clear();
    throw Error(where, ": ", values ? StrCat("an array of ", values.ndim(), " axes") : "no array",
                kExpected);
  }
  for (py::ssize_t axis = 0; axis < values.ndim(); ++axis) {
    if (values.shape(axis) > std::numeric_limits<int>::max()) {
      throw Error(where, ": an axis of ", values.shape(axis), " values", kExpected);
    }
  }
  const auto dim = [&](py::ssize_t axis) { return static_cast<int>(values.shape(axis)); };
  millrace_record record{};
  record.size = sizeof(record);
  record.channels = values.ndim() == 2 ? 1 : dim(0);
  record.height = values.ndim() == 1 ? 1 : dim(values.ndim() - 2);
  record.width = values.ndim() == 1 ? 1 : dim(values.ndim() - 1);
  const int64_t number = WholeNumber(label);
  if (number != static_cast<int>(number)) throw Error(where, ": label ", number, " is too large");
  record.label = static_cast<int>(number);
  using Bytes = py::array_t<uint8_t, py::array::c_style | py::array::forcecast>;
  using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
  if (py::isinstance<py::array_t<uint8_t>>(values)) {
    const Bytes bytes(values);
    record.bytes = bytes.data();
    return capi::DatumOf(where, record);
  }
  const Floats floats(values);  // throws TypeError for values that are no numbers
  record.floats = floats.data();
  return capi::DatumOf(where, record);
}

std::string BytesOf(const std::string& where, py::handle record) {
  if (py::isinstance<py::bytes>(record)) return py::cast<std::string>(record);
  if (py::isinstance<py::sequence>(record) && !py::isinstance<py::str>(record) &&
      py::len(record) == 2) {
    const auto pair = py::reinterpret_borrow<py::sequence>(record);
    return DatumOf(where, py::object(pair[0]), py::object(pair[1]));
  }
  const auto type = py::cast<std::string>(py::type::handle_of(record).attr("__name__"));
  throw Error(where, ": a ", type, " given", kExpected);
}

class PythonSource : public DataSource {
 public:
  PythonSource(const RegisteredClass& registered, const std::string& name, const std::string& path)
      : path_(name + ":" + path) {
    CallFactory([&] {
      py::object records = registered.type(path);
      size_ = py::len(records);
      records_.emplace(std::move(records));
    });
    if (size_ == 0) throw Error(path_, ": no records, expected at least one");
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  std::unique_ptr<RecordReader> MakeReader(bool) override {
    return std::make_unique<Reader>(*this);
  }

 private:
  class Reader : public RecordReader {
   public:
    explicit Reader(const PythonSource& source) : source_(source) {}
    RecordView At(uint64_t index) override {
      struct Stored {
        std::string key, value;
      };
      const auto stored = std::make_shared<Stored>();
      stored->key = std::to_string(index);
      {
        const PythonCall call;
        stored->value = BytesOf(StrCat(source_.path_, ": record ", index),
                                source_.records_->get()[py::int_(index)]);
      }
      return {.key = stored->key, .value = stored->value, .owner = stored};
    }

   private:
    const PythonSource& source_;
  };

  const std::string path_;
  uint64_t size_ = 0;
  std::optional<HeldObject> records_;
};

}  // namespace

void BindPythonSource(py::module_* module) {
  module->def("register_source", [](const std::string& name, py::object open) {
    RegisterClass(
        "data source type", name, std::move(open), "", [&](const RegisteredClass& registered) {
          DataSourceRegistry::Get().Register(name, [&registered, name](const std::string& path) {
            return std::make_shared<PythonSource>(registered, name, path);
          });
        });
  });
}

}  // namespace millrace::python
