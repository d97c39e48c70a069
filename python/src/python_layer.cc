// Layers of type "Python": classes of Python modules, as in Caffe.
//
//   layer { type: "Python" bottom: "x" top: "y"
//           python_param { module: "my_layers" layer: "Scale" param_str: "2" } }
//
// The net creates an object of class my_layers.Scale, sets its attributes param_str, phase (0
// TRAIN, 1 TEST) and blobs, and calls setup(bottom, top), reshape(bottom, top) before each
// forward(bottom, top), and backward(top, propagate_down, bottom), with lists of Blob.
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>

#include "millrace/layer.h"
#include "owner.h"
#include "python_call.h"

namespace millrace::python {
namespace {

// The learnable arrays of a layer, its attribute `blobs`.
class PyLayerBlobs {
 public:
  explicit PyLayerBlobs(std::weak_ptr<Owner> owner) : owner_(std::move(owner)) {}

  void Add(const py::args& sizes) {
    if (closed_) throw Error("add_blob: expected a call in setup");
    Shape shape;
    for (const py::handle size : sizes) shape.push_back(WholeNumber(size));
    blobs_.push_back(std::make_shared<Blob>());
    PyBlob blob = At(blobs_.size() - 1, PyBlob::Kind::kActivation);
    blob.Reshape(shape);  // checks it
  }
  size_t size() const { return blobs_.size(); }
  PyBlob At(size_t index, PyBlob::Kind kind = PyBlob::Kind::kWeight) const {
    if (index >= blobs_.size()) throw py::index_error("blobs: the layer has fewer");
    static const bool kAlive = true;
    // The pointer keeps the blob as long as somebody has it.
    return {owner_, blobs_[index].get(), kind, std::shared_ptr<const bool>(blobs_[index], &kAlive)};
  }
  const std::vector<std::shared_ptr<Blob>>& Close() {
    closed_ = true;
    return blobs_;
  }

 private:
  const std::weak_ptr<Owner> owner_;
  std::vector<std::shared_ptr<Blob>> blobs_;
  bool closed_ = false;
};

class PythonLayer : public Layer {
 public:
  PythonLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), owner_(CurrentOwner()) {}
  ~PythonLayer() override {
    *alive_ = false;
    const HeldObject blobs(std::move(blobs_)), self(std::move(self_));
  }

  Arity arity() const override {
    constexpr int kAny = std::numeric_limits<int>::max();
    return {0, kAny, 0, kAny};
  }
  std::set<std::string> fields() const override { return {"python_param"}; }
  bool MayWorkInPlace() const override { return true; }
  // The net calls `reshape` before each pass, as in Caffe.
  bool ReshapesInForward() const override { return true; }

  void SetUp(const Blobs& bottom, const Blobs& top) override {
    const caffe::PythonParameter& python = param_.python_param();
    if (python.module().empty()) throw FieldError("python_param.module", "missing");
    if (python.layer().empty()) throw FieldError("python_param.layer", "missing");
    const PythonCall call;
    const py::object type =
        py::module_::import(python.module().c_str()).attr(python.layer().c_str());
    self_ = type(py::none());
    self_.attr("param_str") = py::str(python.param_str());
    self_.attr("phase") = static_cast<int>(context_.phase);
    blobs_ = py::cast(PyLayerBlobs(owner_));
    self_.attr("blobs") = blobs_;
    self_.attr("type") = "Python";
    if (const std::shared_ptr<Owner> owner = owner_.lock(); owner && !top.empty()) {
      owner->python_layers[top[0]] = self_.ptr();
    }
    self_.attr("setup")(ListOf(bottom), ListOf(top));
    TakeParams();
  }

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    const PythonCall call;
    self_.attr("reshape")(ListOf(bottom), ListOf(top));
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    const PythonCall call;
    self_.attr("forward")(ListOf(bottom), ListOf(top));
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    for (const Param& param : params_) {
      // The layer may add to it.
      if (!*param.has_gradient) std::fill_n(param.blob->diff(), param.blob->count(), 0.0f);
    }
    const PythonCall call;
    self_.attr("backward")(ListOf(top), propagate_down, ListOf(bottom));
  }

 private:
  // Declares what setup has added to `blobs`; the values that it wrote are the initial ones.
  void TakeParams() {
    const bool given = param_.blobs_size() > 0;
    for (const std::shared_ptr<Blob>& blob : blobs_.cast<PyLayerBlobs&>().Close()) {
      params_.emplace_back().blob = blob;
      if (!given) blob->ToProto(param_.add_blobs(), false);
    }
  }

  py::list ListOf(const Blobs& blobs) const {
    py::list list;
    for (Blob* blob : blobs) {
      list.append(PyBlob(owner_, blob, PyBlob::Kind::kActivation, alive_));
    }
    return list;
  }

  const std::weak_ptr<Owner> owner_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  py::object self_, blobs_;
};

}  // namespace

void BindPythonLayer(py::module_* module) {
  py::class_<PyLayerBlobs>(*module, "LayerBlobs", "The learnable arrays of a layer in Python.")
      .def("add_blob", &PyLayerBlobs::Add,
           "add_blob(*sizes), in setup: declares an array; its values there are the initial ones.")
      .def("__len__", &PyLayerBlobs::size)
      .def("__getitem__", [](const PyLayerBlobs& blobs, size_t index) { return blobs.At(index); });
  LayerRegistry::Get().Register("Python", DeviceType::kCpu,
                                [](const caffe::LayerParameter& param,
                                   const LayerContext& context) -> std::unique_ptr<Layer> {
                                  return std::make_unique<PythonLayer>(param, context);
                                });
}

}  // namespace millrace::python
