// A directed acyclic graph of layers, built from a net description (net.prototxt), with its
// learnable parameters in one flat array.
#ifndef MILLRACE_NN_NET_H_
#define MILLRACE_NN_NET_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/export.h"
#include "nn/blob.h"
#include "nn/layer.h"
#include "nn/net_param.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"
#include "weights/param_layout.h"

namespace millrace {

struct NetOptions {
  caffe::NetState state;        // phase, level, stages: decides include/exclude
  uint64_t seed = 0;            // part of the key of every random stream of the net
  DataService* data = nullptr;  // outlives the net; null if the net reads no data
  std::string data_scope = "train";
  DeviceType device = DeviceType::kCpu;
  // Memory order of 4-axis activations whose shape allows it. Unset: the best order for the net and
  // this processor.
  std::optional<Layout> layout;
};

// A learnable parameter as the solver accesses it.
struct NetParam {
  int entry = 0;  // index in layout().entries()
  float lr_mult = 1;
  float decay_mult = 1;
  Param* owner = nullptr;
  std::string display_name;
};

// One instance belongs to one solver. Not thread-safe: the thread that constructs a net must also
// run it.
class MILLRACE_API Net {
 public:
  // Throws Error with the position in the file for any error in `param`.
  Net(const caffe::NetParameter& param, const SourceMap& source, const NetOptions& options);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  // ---- Weights ----
  const ParamLayout& layout() const { return layout_; }
  const std::vector<NetParam>& params() const { return params_; }
  // Binds the parameters to the flat array `weights` (layout().size() floats), which must outlive
  // the net.
  void BindWeights(float* weights);
  // For test nets. A parameter that `other` also has, under the same layer name, uses its part of
  // the array `weights`. All other parameters use memory of this net and are initialised by their
  // fillers. Throws Error where shapes differ.
  void BindWeights(const ParamLayout& other, float* weights);
  // Runs the fillers over the bound weights.
  void FillWeights();
  // Copies weights from a saved net by layer name, as Caffe does. Layers that only one of the two
  // has are left unchanged. Throws Error(`what`, ...) where numbers or shapes of blobs differ.
  // Returns the number of layers that matched.
  int CopyWeightsFrom(const caffe::NetParameter& saved, const std::string& what);
  void ToProto(caffe::NetParameter* proto, bool with_diff) const;

  // ---- Computing ----
  // Sets the number of the next pass, a part of random stream keys (dropout masks).
  void set_pass(uint64_t pass) { pass_ = pass; }
  // Returns the loss: the sum of tops times their loss weights.
  float Forward();
  void Backward();
  // Runs one layer's part of Forward or Backward, by its index in nodes(). ForwardNode returns the
  // layer's contribution to the loss.
  float ForwardNode(size_t index);
  void BackwardNode(size_t index);
  // Notifies the layers that an iteration is complete (Layer::EndIteration).
  void EndIteration();
  // Makes the next Backward overwrite the gradients instead of adding to them.
  void ClearGradients();
  // Gradients of all parameters, laid out like the weights.
  float* gradients();

  // Describes the first layer whose weights or tops are not finite; "" if all are finite.
  std::string FindNonFinite() const;

  // ---- Inspection ----
  const std::string& name() const { return name_; }
  struct Node {
    std::unique_ptr<Layer> layer;
    Blobs bottom, top;
    std::vector<std::string> bottom_names, top_names;
    std::vector<bool> propagate_down;
    std::vector<float> loss_weight;  // per top
    bool need_backward = false;
    int source_index = -1;  // index among the file's layers; -1 if inserted
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  // Blobs that no layer consumes. A test reports them.
  struct Output {
    std::string name;
    Blob* blob;
    float loss_weight;
    std::string layer_type;  // of the layer that writes it
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  // The blob that the last layer of the net file with a top `name` writes, in any memory order; an
  // output is in plain order. Callers write the values of an input to this blob. nullptr if there
  // is no such blob.
  Blob* FindBlob(const std::string& name) const;
  Layer* FindLayer(const std::string& name) const;
  // Examples per forward pass: the batch size of the data layers, or the first axis of the first
  // input.
  int64_t batch_size() const;
  // Bytes of activations, their gradients and scratch memory that the passes need, whether or not
  // one has run.
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
  std::map<std::string, Blob*> blob_by_name_;   // blob that the next consumer of a name reads
  std::map<std::string, Blob*> found_by_name_;  // result of FindBlob
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
