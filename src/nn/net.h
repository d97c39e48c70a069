// A directed acyclic graph of layers, as a net.prototxt describes it, with its
// learnable parameters laid out in one flat array.
#ifndef MILLRACE_NN_NET_H_
#define MILLRACE_NN_NET_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/blob.h"
#include "nn/layer.h"
#include "nn/net_param.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"
#include "weights/param_layout.h"

namespace millrace {

struct NetOptions {
  caffe::NetState state;        // phase, level, stages: decides include/exclude
  uint64_t seed = 0;            // names every random stream of the net
  DataService* data = nullptr;  // outlives the net; null if the net reads no data
  std::string data_scope = "train";
  DeviceType device = DeviceType::kCpu;
  // The order in memory that 4-axis activations take where their shape allows
  // it; unset: what suits the net and this processor best.
  std::optional<Layout> layout;
};

// A learnable parameter as the solver sees it.
struct NetParam {
  int entry = 0;  // in layout().entries()
  float lr_mult = 1;
  float decay_mult = 1;
  Param* owner = nullptr;
  std::string display_name;
};

// One instance belongs to one solver: no member is thread-safe, and the thread
// that constructs a net is the one that runs it.
class Net {
 public:
  // Throws Error with the place in the file for every mistake in `param`.
  Net(const caffe::NetParameter& param, const SourceMap& source, const NetOptions& options);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  // ---- Weights ----
  const ParamLayout& layout() const { return layout_; }
  const std::vector<NetParam>& params() const { return params_; }
  // Uses the flat array `weights` (layout().size() floats; outlives the net).
  void BindWeights(float* weights);
  // For test nets: parameters that `other` has under the same layer name live
  // in its array `weights`; the rest in memory of this net's own, filled by
  // their fillers. Throws Error where shapes differ.
  void BindWeights(const ParamLayout& other, float* weights);
  // Runs the fillers over the bound weights.
  void FillWeights();
  // Copies weights from a saved net by layer name, as Caffe does: layers that
  // only one of the two has are left alone. Throws Error(`what`, ...) where
  // numbers or shapes of blobs differ. Returns how many layers matched.
  int CopyWeightsFrom(const caffe::NetParameter& saved, const std::string& what);
  void ToProto(caffe::NetParameter* proto, bool with_diff) const;

  // ---- Computing ----
  // Number of the pass that follows: names random streams (dropout masks).
  void set_pass(uint64_t pass) { pass_ = pass; }
  // Returns the loss: the sum of tops times their loss weights.
  float Forward();
  void Backward();
  // One layer's part of these, by its index in nodes(). ForwardNode returns its
  // contribution to the loss.
  float ForwardNode(size_t index);
  void BackwardNode(size_t index);
  // Tells the layers that an iteration is complete (Layer::EndIteration).
  void EndIteration();
  // The next Backward starts the gradients anew instead of adding to them.
  void ClearGradients();
  // Gradients of all parameters, laid out as the weights.
  float* gradients();

  // The first layer whose weights or tops are not finite, and which; "" if all
  // are finite.
  std::string FindNonFinite() const;

  // ---- Looking inside ----
  const std::string& name() const { return name_; }
  struct Node {
    std::unique_ptr<Layer> layer;
    Blobs bottom, top;
    std::vector<std::string> bottom_names, top_names;
    std::vector<bool> propagate_down;
    std::vector<float> loss_weight;  // per top
    bool need_backward = false;
    int source_index = -1;  // in the file's layers; -1 if inserted
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  // Blobs that no layer consumes: what test prints.
  struct Output {
    std::string name;
    Blob* blob;
    float loss_weight;
    std::string layer_type;  // of the layer that makes it
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  // What the last layer of the net file that makes `name` writes (an input is
  // filled there), in whichever order of memory; an output is in plain order.
  // nullptr if there is none of that name.
  Blob* FindBlob(const std::string& name) const;
  Layer* FindLayer(const std::string& name) const;
  // Examples per forward pass: the batch size of the data layers, or the first
  // axis of the first input.
  int64_t batch_size() const;
  // Bytes of activations and their gradients, scratch included: what the passes
  // take, whether or not there has been one.
  size_t activation_bytes() const;

 private:
  void AddLayer(const caffe::LayerParameter& param, int source_index, const SourceMap& source);
  void AddReorder(const std::string& blob_name, Layout layout);
  static bool IsInsertedReorder(const Node& node) {
    return node.source_index < 0 && node.layer->type() == "Reorder";
  }
  void FinishLayer(Node* node);
  void AddParams(Node* node);
  void AddOwnParam(Param* param, const std::string& entry_name, const caffe::ParamSpec& spec);
  void ShareParam(Param* param, const std::string& field, const caffe::ParamSpec& spec, int index);
  void MarkBackward();
  void BindParam(size_t index, float* data);

  std::string name_;
  NetOptions options_;
  LayerContext context_;
  Scratchpad scratch_;
  uint64_t pass_ = 0;
  bool force_backward_ = false;

  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Blob>> blobs_;
  std::map<std::string, Blob*> blob_by_name_;   // what the next consumer of a name reads
  std::map<std::string, Blob*> found_by_name_;  // what FindBlob gives
  std::map<std::string, bool> blob_needs_backward_;
  std::vector<Output> outputs_;

  ParamLayout layout_;
  std::vector<NetParam> params_;
  std::map<std::string, int> param_by_share_name_;
  std::map<std::string, Multipliers> multipliers_by_share_name_;
  std::vector<std::vector<int>> params_of_node_;  // indices into params_, per node
  Buffer gradients_, own_weights_;
};

}  // namespace millrace

#endif  // MILLRACE_NN_NET_H_
