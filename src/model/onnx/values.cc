#include "model/onnx/values.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace millrace::inline model::onnx_export {
namespace {

bool IsInput(const BuiltNet::Node& node) {
  return node.bottom.empty() && node.layer->type() != "Parameter";
}

// Layer types that inference does not need: losses, accuracies, writers of files.
bool IsDropped(const BuiltNet::Node& node) {
  static const std::set<std::string> kTypes = {"Accuracy", "HDF5Output", "SegAccuracy", "Silence"};
  const std::string& type = node.layer->type();
  return type.ends_with("Loss") || type.ends_with("LossOHEM") || kTypes.count(type) > 0;
}

bool PassesOn(const BuiltNet::Node& node) {
  const std::string& type = node.layer->type();
  const caffe::DropoutParameter& dropout = node.layer->param().dropout_param();
  return type == "Reorder" || type == "Split" ||
         (type == "Dropout" && node.layer->param().phase() == caffe::TEST &&
          !dropout.sample_weights_test() && dropout.scale_train());
}

// Crop uses the shape of its second bottom only.
bool UsesValues(const BuiltNet::Node& node, size_t bottom) {
  return node.layer->type() != "Crop" || bottom == 0;
}

class Finder {
 public:
  explicit Finder(const BuiltNet& net) : net_(net) {
    for (size_t n = 0; n < net_.nodes().size(); ++n) AddNode(net_.nodes()[n]);
    FindOutputs();
    FindWanted();
    GiveNames();
  }

  NetValues Take() { return std::move(all_); }

 private:
  void AddNode(const BuiltNet::Node& node) {
    NetValues::Node own;
    for (const std::string& name : node.bottom_names) own.bottom.push_back(current_.at(name));
    const bool labels_only =
        !own.bottom.empty() && std::all_of(own.bottom.begin(), own.bottom.end(),
                                           [&](int v) { return all_.values[v].is_label; });
    for (size_t i = 0; i < node.top.size(); ++i) {
      const std::string& blob = node.top_names[i];
      if (PassesOn(node)) {
        own.top.push_back(own.bottom[0]);
        // A Split's names are its own; a Dropout's are those of the file.
        if (node.layer->type() == "Dropout") all_.values[own.bottom[0]].name = blob;
      } else {
        own.top.push_back(static_cast<int>(all_.values.size()));
        Value& value = all_.values.emplace_back();
        value.blob = value.name = blob;
        value.node = static_cast<int>(all_.nodes.size());
        value.top = static_cast<int>(i);
        value.is_input = IsInput(node);
        // All tops of a data layer but the first are labels; they count as data where a layer mixes
        // them with it.
        value.is_label = labels_only || (value.is_input && i > 0 && node.layer->type() != "Input");
      }
      current_[blob] = own.top.back();
    }
    all_.nodes.push_back(std::move(own));
  }

  bool Computes(size_t n) const {
    const BuiltNet::Node& node = net_.nodes()[n];
    if (IsInput(node) || IsDropped(node) || PassesOn(node)) return false;
    const std::vector<int>& top = all_.nodes[n].top;
    return !std::all_of(top.begin(), top.end(), [&](int v) { return all_.values[v].is_label; });
  }

  void FindOutputs() {
    std::set<int> read;
    for (size_t n = 0; n < all_.nodes.size(); ++n) {
      if (Computes(n)) read.insert(all_.nodes[n].bottom.begin(), all_.nodes[n].bottom.end());
    }
    for (size_t n = 0; n < all_.nodes.size(); ++n) {
      if (!Computes(n)) continue;
      for (const int v : all_.nodes[n].top) all_.values[v].is_output = !read.count(v);
    }
  }

  void FindWanted() {
    for (size_t n = all_.nodes.size(); n-- > 0;) {
      NetValues::Node& node = all_.nodes[n];
      if (IsInput(net_.nodes()[n]) || IsDropped(net_.nodes()[n]) || PassesOn(net_.nodes()[n])) {
        continue;
      }
      for (const int v : node.top) {
        node.is_wanted |= all_.values[v].is_output || all_.values[v].is_wanted;
      }
      if (!node.is_wanted) continue;
      for (const int v : node.top) all_.values[v].is_wanted = true;
      for (size_t i = 0; i < node.bottom.size(); ++i) {
        if (UsesValues(net_.nodes()[n], i)) all_.values[node.bottom[i]].is_wanted = true;
      }
    }
  }

  void GiveNames() {
    std::map<std::string, int> owner;
    for (int v = static_cast<int>(all_.values.size()); v-- > 0;) {
      const Value& value = all_.values[v];
      if (value.is_wanted && !value.is_input) owner.emplace(value.name, v);
    }
    for (size_t v = 0; v < all_.values.size(); ++v) {
      const Value& value = all_.values[v];
      if (value.is_wanted && value.is_output) owner[value.name] = static_cast<int>(v);
    }
    for (size_t v = 0; v < all_.values.size(); ++v) {
      Value& value = all_.values[v];
      if (!value.is_wanted || !value.is_input) continue;
      value.name = value.blob;
      owner[value.name] = static_cast<int>(v);
    }
    for (size_t v = 0; v < all_.values.size(); ++v) {
      Value& value = all_.values[v];
      if (!value.is_wanted || owner[value.name] == static_cast<int>(v)) continue;
      value.name = StrCat(value.blob, "_", net_.nodes()[value.node].layer->name());
    }
  }

  const BuiltNet& net_;
  NetValues all_;
  std::map<std::string, int> current_;  // the value of a blob that the next layer reads
};

}  // namespace

NetValues FindValues(const BuiltNet& net) { return Finder(net).Take(); }

}  // namespace millrace::inline model::onnx_export
