#include <pybind11/stl.h>

#include <chrono>
#include <limits>
#include <thread>

#include "owner.h"

namespace millrace::python {

Owner::~Owner() {
  const py::gil_scoped_release release;
  session.reset();
  net.reset();
}

std::shared_ptr<Owner>& CurrentOwner() {
  thread_local std::shared_ptr<Owner> current;
  return current;
}

Busy::Busy(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {
  if (owner_->busy.exchange(true)) {
    throw Error("the net is in use by another call, expected one call at a time");
  }
  before_ = std::exchange(CurrentOwner(), owner_);
}

Busy::~Busy() {
  CurrentOwner() = std::move(before_);
  owner_->busy = false;
}

namespace {

// What a view keeps: a copy of the blob shares the memory that the blob owns.
struct Kept {
  std::shared_ptr<Owner> owner;
  Blob blob;
};

// Limit of the milliseconds that a thread waits for the end of another's call. A call that itself
// waits for this thread, such as for data that it reads, would never end.
constexpr int kMaxWaits = 60000;

}  // namespace

Blob& PyBlob::Get() const {
  if (alive_ && !*alive_) throw Error("the layer of this blob no longer exists");
  if (blob_ != nullptr) return *blob_;
  // Nobody else changes the net: this thread computes on it, or has the interpreter's lock while no
  // thread does.
  for (int waits = 0; owner_->busy && CurrentOwner() != owner_; ++waits) {
    if (waits == 0) owner_->wanted.emplace_back(net_, name_);
    if (waits == kMaxWaits) {
      throw Error("blob '", name_, "': the net is in use by another call, expected an end of it");
    }
    {
      const py::gil_scoped_release release;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    PollSignals();
  }
  blob_ = &net_->blob(name_);
  return *blob_;
}

Shape PyBlob::dims() const {
  if (blob_ != nullptr) return Get().shape();
  for (const NetBlob& blob : net_->blobs()) {
    if (blob.name == name_) return blob.shape;
  }
  return Get().shape();
}

py::array PyBlob::View(float* values) const {
  // A layer may keep views of its bottoms and tops, which then must not keep the net that keeps
  // the layer. Weights lie in the net's memory.
  std::shared_ptr<Owner> owner = owner_;
  if (!owner && kind_ == Kind::kWeight) owner = of_layer_.lock();
  if (!owner && kind_ == Kind::kWeight) throw Error("the net of this blob no longer exists");
  auto kept = std::make_unique<Kept>(Kept{std::move(owner), *blob_});
  const py::capsule base(kept.get(), [](void* what) { delete static_cast<Kept*>(what); });
  kept.release();
  return py::array_t<float>(std::vector<py::ssize_t>(blob_->shape().begin(), blob_->shape().end()),
                            values, base);
}

py::array PyBlob::data() const { return View(Get().data()); }

py::array PyBlob::diff() const {
  const Blob& blob = Get();
  if (!blob.has_diff() && owner_ && owner_->busy) {
    throw Error("the net is in use by another call, expected none while a gradient is first read");
  }
  return View(blob.diff());
}

py::tuple PyBlob::shape() const {
  const Shape shape = dims();
  py::tuple result(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) result[i] = shape[i];
  return result;
}

void PyBlob::Share(const PyBlob& other) {
  if (!owner_ || !other.owner_ || kind_ != Kind::kWeight || other.kind_ != Kind::kWeight) {
    throw Error("blobs: expected a learnable array of a net");
  }
  if (dims() != other.dims()) {
    throw Error("blobs: an array of shape ", ShapeText(other.dims()), " given, expected ",
                ShapeText(dims()));
  }
  const Busy busy(owner_);
  Get().BindData(other.Get().data());
  if (owner_ != other.owner_) owner_->sharers.push_back(other.owner_);
}

void PyBlob::Reshape(const std::vector<int64_t>& shape) {
  Blob& blob = Get();
  int64_t count = 1;
  for (const int64_t dim : shape) {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();  // as in Caffe
    if (dim < 0 || (dim > 0 && count > kMax / dim)) {
      throw Error("reshape: a blob of shape ", ShapeText(shape),
                  " given, expected no negative size and at most ", kMax, " values");
    }
    count *= dim;
  }
  if (kind_ == Kind::kWeight && shape != blob.shape()) {
    throw Error("reshape: the shape of weights is constant, expected ", ShapeText(blob.shape()));
  }
  if (!alive_ && owner_->busy) {
    throw Error("reshape: the net is in use by another call, expected none");
  }
  if (owner_) owner_->reshaped = true;
  if (net_ != nullptr) net_->blob(net_->blobs()[0].name);  // other shapes need plain_blobs
  blob.Reshape(shape);
  blob.data();
}

namespace {

int64_t LegacyAxis(const PyBlob& blob, size_t axis) {
  const Shape shape = blob.dims();
  if (shape.size() > 4)
    throw Error("a blob of ", shape.size(), " axes has no such size: use shape");
  return axis < shape.size() ? shape[axis] : 1;
}

}  // namespace

int64_t WholeNumber(py::handle number) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
  if (!index) throw py::error_already_set();
  const int64_t value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

void BindBlob(py::module_* module) {
  py::class_<PyBlob>(*module, "Blob", R"(An array of a net: values and gradients, float32.

`data` and `diff` are numpy views of the memory that the net computes with: no copy is made,
writes are seen by the next pass, and a view stays valid as long as somebody holds it. After a
reshape to a larger size the blob has other memory; take the view again.)")
      .def_property(
          "data", &PyBlob::data,
          [](const PyBlob& blob, const py::object& values) {
            blob.data()[py::ellipsis()] = values;
          },
          "The values, an array of `shape`.")
      .def_property(
          "diff", &PyBlob::diff,
          [](const PyBlob& blob, const py::object& values) {
            blob.diff()[py::ellipsis()] = values;
          },
          "The gradient, an array of `shape`; zeros before the first backward pass.")
      .def_property_readonly("shape", &PyBlob::shape, "A tuple of sizes, of the first axis first.")
      .def_property_readonly("count", &PyBlob::count, "The number of values.")
      .def_property_readonly("num", [](const PyBlob& blob) { return LegacyAxis(blob, 0); })
      .def_property_readonly("channels", [](const PyBlob& blob) { return LegacyAxis(blob, 1); })
      .def_property_readonly("height", [](const PyBlob& blob) { return LegacyAxis(blob, 2); })
      .def_property_readonly("width", [](const PyBlob& blob) { return LegacyAxis(blob, 3); })
      .def(
          "reshape",
          [](PyBlob& blob, const py::args& args) {
            // Sizes, or one sequence of them.
            const bool sequence = args.size() == 1 && py::isinstance<py::sequence>(args[0]);
            const py::object sizes = sequence ? py::object(args[0]) : py::object(args);
            std::vector<int64_t> shape;
            for (const py::handle size : sizes) shape.push_back(WholeNumber(size));
            blob.Reshape(shape);
          },
          "reshape(*sizes): gives the blob another shape. Values that it held are undefined if "
          "the\n"
          "new shape is larger.")
      .def("__repr__", [](const PyBlob& blob) { return "<Blob " + ShapeText(blob.dims()) + ">"; });
}

}  // namespace millrace::python
