// millrace.Net.
#include "millrace/net.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "owner.h"

namespace millrace::python {
namespace {

class PyNet {
 public:
  PyNet(std::shared_ptr<Owner> owner, Net* net)
      : owner_(std::move(owner)), net_(*net), last_(net->layers().size() - 1) {
    const std::vector<NetBlob> blobs = net_.blobs();
    if (!blobs.empty()) first_ = blobs[0].name;
  }

  const std::shared_ptr<Owner>& owner() const { return owner_; }
  Net& net() const { return net_; }

  // Throws Error for a net whose activations are not in plain order.
  void ExpectLiveBlobs() const {
    if (owner_->live_blobs) return;
    throw Error("net '", net_.name(), "': is of a session without live_blobs, expected ",
                "live_blobs=True for blobs and passes");
  }
  // For a pass by layers: a blob of a data layer is one that needs plain_blobs.
  void WantPlainBlobs() {
    ExpectLiveBlobs();
    if (owner_->session && !first_.empty()) owner_->wanted.emplace_back(&net_, first_);
  }
  float Forward(size_t first, std::optional<size_t> last) {
    WantPlainBlobs();
    return Compute(owner_, [&] { return net_.ForwardLayers(first, last.value_or(last_)); });
  }
  void Backward(std::optional<size_t> last, size_t first) {
    WantPlainBlobs();
    Compute(owner_, [&] { net_.BackwardLayers(last.value_or(last_), first); });
  }
  PyBlob BlobNamed(const std::string& name) {
    ExpectLiveBlobs();
    if (owner_->net != nullptr) return {owner_, &net_.blob(name), PyBlob::Kind::kActivation};
    const std::vector<NetBlob> all = net_.blobs();
    const bool known =
        std::any_of(all.begin(), all.end(), [&](const NetBlob& each) { return each.name == name; });
    if (!known) net_.blob(name);  // throws Error that lists the blobs
    return {owner_, &net_, name};
  }

 private:
  const std::shared_ptr<Owner> owner_;
  Net& net_;
  const size_t last_;  // the index of the last layer
  std::string first_;  // a blob of the first
};

// The learnable arrays of a layer.
class PyBlobVec {
 public:
  void Add(PyBlob blob) { blobs_.push_back(std::move(blob)); }
  size_t size() const { return blobs_.size(); }
  auto begin() const { return blobs_.begin(); }
  auto end() const { return blobs_.end(); }
  PyBlob& At(int64_t index) {
    const auto size = static_cast<int64_t>(blobs_.size());
    if (index < -size || index >= size) throw py::index_error("blobs: the layer has fewer");
    return blobs_[static_cast<size_t>(index < 0 ? index + size : index)];
  }

 private:
  std::vector<PyBlob> blobs_;
};

struct PyLayer {
  std::string name, type;
  std::vector<std::string> bottoms, tops;
  std::vector<float> loss_weights;
  PyBlobVec blobs;
  py::object object = py::none();  // of a layer in Python
};

std::vector<PyLayer> Layers(const PyNet& net) {
  std::vector<PyLayer> layers;
  for (NetLayer& layer : net.net().layers()) {
    PyLayer& to = layers.emplace_back();
    to.name = std::move(layer.name);
    to.type = std::move(layer.type);
    to.bottoms = std::move(layer.bottoms);
    to.tops = std::move(layer.tops);
    to.loss_weights = std::move(layer.loss_weights);
    if (to.type == "Python" && !to.tops.empty() && net.owner()->live_blobs) {
      const auto& objects = net.owner()->python_layers;
      const auto found = objects.find(&net.net().blob(to.tops[0]));
      if (found != objects.end()) to.object = py::reinterpret_borrow<py::object>(found->second);
    }
    for (Blob* blob : layer.weights) {
      to.blobs.Add({net.owner(), blob, PyBlob::Kind::kWeight});
    }
  }
  return layers;
}

std::vector<std::string> Names(const std::vector<NetBlob>& blobs) {
  std::vector<std::string> names;
  for (const NetBlob& blob : blobs) names.push_back(blob.name);
  return names;
}

std::unique_ptr<PyNet> Open(const std::function<std::unique_ptr<Net>(const NetOptions&)>& open,
                            bool train, int level, std::vector<std::string> stages, uint64_t seed,
                            const std::optional<Path>& weights) {
  NetOptions options;
  options.train = train;
  options.level = level;
  options.stages = std::move(stages);
  options.seed = seed;
  options.plain_blobs = true;
  const auto owner = std::make_shared<Owner>();
  Compute(owner, [&] {
    owner->net = open(options);
    if (weights) owner->net->LoadWeights(weights->string());
  });
  return std::make_unique<PyNet>(owner, owner->net.get());
}

constexpr char kNetDoc[] = R"(A net on the host, without a solver.

    net = millrace.Net("deploy.prototxt", weights="lenet.caffemodel")
    net.blobs["data"].data[...] = pixels
    net.forward()
    scores = net.blobs["prob"].data

Args:
  net_file: path of the net's prototxt.
  train: the phase, TRAIN if true, else TEST.
  level, stages: the rest of the state that decides which layers the net includes.
  seed: of fillers, dropout masks and the like.
  weights: path of a .caffemodel, or .caffemodel.h5, to load.

One call at a time computes on a net; the interpreter's lock is released meanwhile. Raises
millrace.Error with one line that names file, line, layer and field.)";

}  // namespace

py::object NetOf(std::shared_ptr<Owner> owner, Net* net) {
  return py::cast(std::make_unique<PyNet>(std::move(owner), net));
}

void BindNet(py::module_* module) {
  py::class_<PyBlobVec>(*module, "BlobVec",
                        "The learnable arrays of a layer: weights, then bias. An assignment makes\n"
                        "the layer use the memory of another net's array.")
      .def("__len__", &PyBlobVec::size)
      .def("__getitem__", &PyBlobVec::At)
      .def("__setitem__", [](PyBlobVec& blobs, int64_t index,
                             const PyBlob& other) { blobs.At(index).Share(other); })
      .def(
          "__iter__",
          [](const PyBlobVec& blobs) { return py::make_iterator(blobs.begin(), blobs.end()); },
          py::keep_alive<0, 1>());
  py::class_<PyLayer>(*module, "NetLayer", "A layer of a net.")
      .def_readonly("name", &PyLayer::name, "Unique in the net.")
      .def_readonly("type", &PyLayer::type)
      .def_readonly("bottoms", &PyLayer::bottoms, "Names of the blobs that it reads.")
      .def_readonly("tops", &PyLayer::tops, "Names of the blobs that it writes.")
      .def_readonly("loss_weights", &PyLayer::loss_weights, "Per top; 0 for one that is no loss.")
      .def_readonly("blobs", &PyLayer::blobs, "Its learnable arrays: weights, then bias.")
      .def_readonly("object", &PyLayer::object, "Of a layer in Python, the object; else None.")
      .def("__repr__", [](const PyLayer& layer) {
        return "<NetLayer '" + layer.name + "' (" + layer.type + ")>";
      });

  py::class_<PyNet>(*module, "Net", kNetDoc)
      .def(py::init([](const Path& file, bool train, int level, std::vector<std::string> stages,
                       uint64_t seed, const std::optional<Path>& weights) {
             return Open([&](const NetOptions& o) { return Net::Open(file.string(), o); }, train,
                         level, std::move(stages), seed, weights);
           }),
           py::arg("net_file"), py::kw_only(), py::arg("train") = false, py::arg("level") = 0,
           py::arg("stages") = std::vector<std::string>(), py::arg("seed") = 1,
           py::arg("weights") = std::nullopt)
      .def_static(
          "from_text",
          [](const std::string& text, const std::string& name, bool train, int level,
             std::vector<std::string> stages, uint64_t seed, const std::optional<Path>& weights) {
            return Open([&](const NetOptions& o) { return Net::OpenText(text, name, o); }, train,
                        level, std::move(stages), seed, weights);
          },
          py::arg("text"), py::arg("name") = "net", py::kw_only(), py::arg("train") = false,
          py::arg("level") = 0, py::arg("stages") = std::vector<std::string>(), py::arg("seed") = 1,
          py::arg("weights") = std::nullopt,
          "A net from the text of a prototxt; `name` stands for the file in messages.")
      .def_property_readonly("name", [](const PyNet& net) { return net.net().name(); })
      .def_property_readonly(
          "blobs",
          [](PyNet& net) {
            py::dict blobs;
            for (const NetBlob& blob : net.net().blobs()) {
              blobs[py::str(blob.name)] = net.BlobNamed(blob.name);
            }
            return blobs;
          },
          "All blobs by name, in the order of the net: dict of Blob.")
      .def("blob", &PyNet::BlobNamed, py::arg("name"), "The blob of that name.")
      .def_property_readonly(
          "params",
          [](const PyNet& net) {
            py::dict params;
            for (PyLayer& layer : Layers(net)) {
              if (layer.blobs.size() == 0) continue;
              params[py::str(layer.name)] =
                  std::vector<PyBlob>(layer.blobs.begin(), layer.blobs.end());
            }
            return params;
          },
          "The learnable arrays by layer: dict of lists of Blob, weights first, then bias.")
      .def_property_readonly("layers", &Layers, "In the order of computation: list of NetLayer.")
      .def_property_readonly(
          "inputs", [](const PyNet& net) { return Names(net.net().inputs()); },
          "Names of the tops of Input layers.")
      .def_property_readonly(
          "outputs", [](const PyNet& net) { return Names(net.net().outputs()); },
          "Names of the blobs that no layer reads, in alphabetical order.")
      .def("forward", &PyNet::Forward, py::arg("first") = 0, py::arg("last") = std::nullopt,
           "Computes layers `first` to `last`, both included, by index; all by default. Returns\n"
           "their loss: the sum of tops times their loss weights.")
      .def(
          "backward",
          [](PyNet& net) {
            net.WantPlainBlobs();
            Compute(net.owner(), [&] { net.net().Backward(); });
          },
          "Computes the gradients of the last forward's loss, of all blobs and weights.")
      .def("backward_layers", &PyNet::Backward, py::arg("last") = std::nullopt,
           py::arg("first") = 0,
           "Computes layers `last` down to `first` from the gradients of their tops. Gradients of\n"
           "weights are added to what is there.")
      .def(
          "reshape", [](PyNet& net) { Compute(net.owner(), [&] { net.net().Reshape(); }); },
          "Gives all blobs the shapes that follow from those of the inputs, as forward does.")
      .def(
          "clear_gradients",
          [](PyNet& net) { Compute(net.owner(), [&] { net.net().ClearGradients(); }); },
          "Sets the gradients of all weights to 0.")
      .def(
          "load",
          [](PyNet& net, const Path& file) {
            return Compute(net.owner(), [&] { return net.net().LoadWeights(file.string()); });
          },
          py::arg("model_file"),
          "Copies weights from a .caffemodel by layer name; returns how many layers it has set.")
      .def(
          "save",
          [](PyNet& net, const Path& file) {
            Compute(net.owner(), [&] { net.net().SaveWeights(file.string()); });
          },
          py::arg("model_file"), "Writes a .caffemodel, in HDF5 if the name ends in .h5.")
      .def(
          "share_weights",
          [](PyNet& net, PyNet& other) {
            if (net.owner() != other.owner()) {
              const Busy busy(other.owner());
              Compute(net.owner(), [&] { net.net().ShareWeights(other.net()); });
              net.owner()->sharers.push_back(other.owner());
            } else {
              Compute(net.owner(), [&] { net.net().ShareWeights(other.net()); });
            }
          },
          py::arg("other"),
          "Uses the weights of `other` in all layers that have the name of one there.")
      .def(
          "set_memory_data",
          [](PyNet& net, const std::string& layer, const FloatArray& data,
             const FloatArray& labels) {
            Compute(net.owner(), [&] {
              net.net().SetMemoryData(layer, {data.data(), static_cast<size_t>(data.size())},
                                      {labels.data(), static_cast<size_t>(labels.size())});
            });
          },
          py::arg("layer"), py::arg("data").noconvert(), py::arg("labels").noconvert(),
          "Gives MemoryData layer `layer` its next examples, which are copied: float32 arrays in "
          "C\n"
          "order, (n, channels, height, width) and n labels, n a multiple of the batch size.")
      .def("__repr__", [](const PyNet& net) { return "<Net '" + net.net().name() + "'>"; });
}

}  // namespace millrace::python
