// A directed acyclic graph of layers on one device, built from a net description (net.prototxt),
// with its learnable parameters in one flat array.
#ifndef MILLRACE_NN_NET_H_
#define MILLRACE_NN_NET_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/blob.h"
#include "millrace/layer.h"
#include "nn/blob_memory.h"
#include "nn/gpu/gpu_settings.h"
#include "nn/net_param.h"
#include "proto/caffe.pb.h"
#include "proto/parse.h"
#include "weights/param_layout.h"

namespace millrace::inline nn {

struct BuiltNetOptions {
  caffe::NetState state;        // phase, level, stages: decides include/exclude
  uint64_t seed = 0;            // part of the key of every random stream of the net
  DataService* data = nullptr;  // outlives the net; null if the net reads no data
  std::string data_scope = "train";
  int data_consumer = 0;           // number of the net among those that draw batches of the scope
  Device* device = &HostDevice();  // outlives the net
  GpuSettings gpu;                 // for a device that is a GPU
  // Gives a net without a loss a backward pass for measurements: as if each blob that no gradient
  // reaches from another layer counted in the objective with weight 1.
  bool backward_without_loss = false;
  // Memory order of 4-axis activations whose shape allows it. Unset: the best order for the net and
  // the device.
  std::optional<Layout> layout;
  // Each blob keeps the values and the gradient of the last iteration. Otherwise gradients of
  // activations share memory, with each other and with values that no backward pass reads; outputs,
  // and gradients of inputs (force_backward), stay.
  bool keep_activations = false;
  // Layers do the work of those behind them where they can (nn/layers/layer_interfaces.h). Blobs
  // between them then hold what the last one computes.
  bool fuse = true;
  // For callers that read and write blobs between layers, on the host: all blobs are in plain
  // order, each keeps its values and its gradient in memory that only a change of shapes moves, and
  // each layer does its own work. Overrides the three options above.
  bool plain_blobs = false;
};

// Throws Error that names all layers of the net in `state` whose type has no code for `device`,
// each with its position in the file, if there are any.
void CheckLayerTypes(const caffe::NetParameter& param, const SourceMap& source,
                     const caffe::NetState& state, const Device& device = HostDevice());

// A learnable parameter as the solver accesses it.
struct NetParam {
  int entry = 0;  // index in layout().entries()
  float lr_mult = 1;
  float decay_mult = 1;
  Param* owner = nullptr;
  std::string display_name;
  // Initial values that the net description has in place of a filler's; null if it has none.
  const caffe::BlobProto* initial = nullptr;
};

// One instance belongs to one solver. Not thread-safe: the thread that constructs a net must also
// run it.
//
// All blobs, weights and gradients are in the memory of the net's device, and the passes enqueue
// their work on the net's queue. Functions that return values to the host, or copy to or from
// blobs, wait for that work and throw Error if the device has failed. On the host, each call
// computes before it returns.
class BuiltNet {
 public:
  // Throws Error with the position in the file for any error in `param`.
  BuiltNet(const caffe::NetParameter& param, const SourceMap& source,
           const BuiltNetOptions& options);
  // Waits until the device no longer uses the net's memory.
  ~BuiltNet();
  BuiltNet(const BuiltNet&) = delete;
  BuiltNet& operator=(const BuiltNet&) = delete;

  Device& device() const { return *options_.device; }
  // The queue of all work on the net: update rules enqueue theirs behind the passes.
  Queue& queue() const { return *queue_; }

  // ---- Weights ----
  const ParamLayout& layout() const { return layout_; }
  const std::vector<NetParam>& params() const { return params_; }
  // Binds the parameters to the flat array `weights` (layout().size() floats in the memory of the
  // device), which must outlive the net.
  void BindWeights(float* weights);
  // For test nets. A parameter that `other` also has, under the same layer name, uses its part of
  // the array `weights`. All other parameters use memory of this net; the first call initialises
  // them by their fillers. Throws Error where shapes differ.
  void BindWeights(const ParamLayout& other, float* weights);
  // Makes layers that write their weights at the end of an iteration (statistics) hold `lock`
  // meanwhile, which then outlives the last iteration. Null, as at first: no lock. For the host;
  // other devices ignore it.
  void LockWith(UpdateLock* lock) { update_lock_ = lock; }
  // The net's passes run at the same time as those of other nets of the same description, of which
  // `collective`, which outlives the passes, makes sums: layers that are `synchronized` take the
  // batches of all of them as one. Null, as at first: this net is alone.
  void SynchronizeWith(Collective* collective) { collective_ = collective; }
  // Runs the fillers over the bound weights, or copies the values that the net description has in
  // their place (`blobs`). Throws Error where shapes differ.
  void FillWeights();
  // Copies weights from a saved net, in any of Caffe's formats, by layer name, as Caffe does.
  // Layers that only one of the two has are left unchanged. Where several layers with weights have
  // the same name, the first of the file goes to the first of the net, and so on; those that the
  // file has beyond that to the last. Throws Error(`what`, ...) where numbers or shapes of blobs
  // differ. Returns the number of layers that matched.
  int CopyWeightsFrom(const caffe::NetParameter& saved, const std::string& what);
  // The same for the parameters alone that a test net does not share with its train net.
  int CopyOwnWeightsFrom(const caffe::NetParameter& saved, const std::string& what);
  // The layers with weights of which CopyWeightsFrom has not set all since FillWeights, in order:
  // "'fc8' (InnerProduct)". Arrays that several layers share need to be in one of them only.
  std::vector<std::string> LayersWithoutSavedWeights() const;
  void ToProto(caffe::NetParameter* proto, bool with_diff) const;
  // With the values of `weights`, in the order of the layout and in memory of the host, in place of
  // the net's. Without diffs, works even if the device has failed.
  void ToProto(caffe::NetParameter* proto, bool with_diff, const float* weights) const;
  // The same with the shapes of the parameters and no values.
  void ShapesToProto(caffe::NetParameter* proto) const;

  // ---- Computing ----
  // Sets the number of the next pass, a part of random stream keys (dropout masks).
  void set_pass(uint64_t pass) { pass_ = pass; }
  // Enqueues a forward pass.
  void EnqueueForward();
  // Waits for the last forward pass, but not for work enqueued behind it. Returns its loss: the sum
  // of tops times their loss weights.
  float Loss() const;
  // EnqueueForward and Loss.
  float Forward() {
    EnqueueForward();
    return Loss();
  }
  // Enqueues a backward pass. After the work of each layer, calls `ready` with the first index from
  // which on all gradients() are complete: it falls to 0, which is the last call. May be empty.
  void Backward(const std::function<void(int64_t begin)>& ready = {});
  // Enqueues one layer's part of a pass, by its index in nodes().
  void ForwardNode(size_t index);
  // Calls Reshape of the layer, or its forward pass without its loss, of a net with plain_blobs.
  void ReshapeNode(size_t index) { ReshapeNode(&nodes_[index]); }
  void ForwardNodeWithoutLoss(size_t index);
  void BackwardNode(size_t index);
  // Gives a net without plain_blobs, but with keep_activations, plain_blobs from now on, between
  // two passes. `param` and `source`: those that it was made of. The arrays of parameters and the
  // blobs that FindBlob returns stay the same objects and hold what they held, in plain order;
  // those that HasPlainPlace in the same memory. After an Error only destruction is allowed.
  void MakePlain(const caffe::NetParameter& param, const SourceMap& source);
  // Whether MakePlain leaves this blob, of FindBlob, where it is: one between layers, or an output,
  // in plain order, in memory that it shares with no other and that passes do not change.
  bool HasPlainPlace(const Blob& blob) const;
  // Notifies the layers that an iteration is complete (Layer::EndIteration).
  void EndIteration();
  // Makes the next Backward overwrite the gradients instead of adding to them.
  void ClearGradients();
  // Gradients of all parameters, laid out like the weights, in the memory of the device.
  float* gradients();
  // The values of all outputs() after the last forward pass, one output after the other.
  std::vector<float> OutputValues() const;

  // Whether passes log the mean absolute values of each layer's tops, parameters and their
  // gradients, in the form of Caffe's debug_info. Such passes wait for the device after every
  // layer. Initially the net description's debug_info.
  void set_debug_info(bool debug_info);

  // Describes the first layer whose weights or tops are not finite; "" if all are finite.
  std::string FindNonFinite() const;

  // ---- Inspection ----
  const std::string& name() const { return name_; }
  // Lines to log: what of the net description was read in an earlier format, or is ignored.
  const std::vector<std::string>& notices() const { return notices_; }
  void LogNotices() const;
  struct Node {
    std::unique_ptr<Layer> layer;
    Blobs bottom, top;
    std::vector<std::string> bottom_names, top_names;
    std::vector<bool> propagate_down;
    std::vector<float> loss_weight;  // per top
    std::vector<int64_t> loss_at;    // per top: index in loss_values_ and loss_diffs_,
    std::vector<int64_t> loss_room;  // and how many values have room there
    bool reshapes = false;           // shapes depend on values: Reshape before each Forward
    bool need_backward = false;
    bool ran = false;      // a forward pass has run the layer
    bool is_anew = false;  // MakePlain has made the layer since its last forward pass
    // The name in the net file. The layer's own name is unique (GiveUniqueNames); this one may be
    // empty.
    std::string name_in_file;
    std::string path;  // for SourceMap::Where; "" if inserted
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  // A conversion between memory orders that is not in the net description.
  static bool IsInsertedReorder(const Node& node) {
    return node.path.empty() && node.layer->type() == "Reorder";
  }
  // Blobs that no layer consumes, by name, as in Caffe. A test reports them.
  struct Output {
    std::string name;
    Blob* blob;
    float loss_weight;
    std::string layer_type;  // of the layer that writes it
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  // The blob that the last layer of the net file with a top `name` writes, in any memory order; an
  // output is in plain order. Callers write the values of an input to this blob
  // (Blob::CopyDataFromHost). nullptr if there is no such blob.
  Blob* FindBlob(const std::string& name) const;
  // The layer whose unique name this is; nullptr if there is none.
  Layer* FindLayer(const std::string& name) const;
  // Examples per forward pass: the batch size of the data layers, or the first axis of the first
  // input.
  int64_t batch_size() const;
  // Bytes that the passes need, whether or not one has run. Memory that libraries allocate for
  // themselves is not included.
  struct Memory {
    size_t weights = 0, weight_gradients = 0;
    size_t activations = 0, activation_gradients = 0;
    size_t workspace = 0;  // scratch memory that the layers share
  };
  Memory memory() const;
  // The memory of activations, their gradients and workspace.
  size_t activation_bytes() const;

 private:
  void Build(const caffe::NetParameter& param, const SourceMap& source);
  void AddLayer(const PlacedLayer& placed, const SourceMap& source);
  // With former_, these take parts of it.
  std::unique_ptr<Layer> MakeLayer(const caffe::LayerParameter& param, const LayerContext& context);
  void SetUpLayer(Node* node);
  Blob* AddBlob(const std::string& name);
  void NoticeIgnoredFields(const PlacedLayer& placed, const Layer& layer, const SourceMap& source);
  void AddReorder(const std::string& blob_name, Layout layout);
  void FinishLayer(Node* node);
  // A layer will work in place on `blob`.
  void StopSharing(const Blob* blob);
  void AddParams(Node* node);
  NetParam& AddOwnParam(Param* param, const std::string& entry_name, const caffe::ParamSpec& spec);
  void ShareParam(Param* param, const std::string& field, const caffe::ParamSpec& spec, int index);
  void MarkBackward(const SourceMap& source);
  void MarkReshapes();
  void ReshapeNode(Node* node);
  // Copies what a layer without bottoms has bound its tops to, a batch that others will overwrite,
  // to memory of the tops.
  void KeepBatch(const Node& node);
  void FuseLayers();
  void ShareBlobMemory();
  void ShareValueMemory();
  void AllocateLosses();
  void LogForward(const Node& node) const;
  void LogBackward(const Node& node) const;
  void LogParams() const;
  void BindParam(size_t index, float* data);
  // Sets complete_from_.
  void FindCompleteGradients();
  bool IsOwnWeight(const Blob& blob) const;
  int CopyWeights(const caffe::NetParameter& saved, const std::string& what, bool own_only);
  void FillParam(const NetParam& param);
  // Calls convert(blob, its parameter, message) for each learnable blob of the file format.
  template <typename Convert>
  void ParamsToProto(caffe::NetParameter* proto, Convert convert) const;

  std::string name_;
  std::vector<std::string> notices_;
  bool debug_info_ = false;
  BuiltNetOptions options_;
  struct Former;              // of MakePlain: the parts of the net as it was
  Former* former_ = nullptr;  // during MakePlain
  LayerContext context_;
  std::optional<Scratchpad> scratch_;
  uint64_t pass_ = 0;
  UpdateLock* update_lock_ = nullptr;
  Collective* collective_ = nullptr;
  bool force_backward_ = false;

  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Blob>> blobs_;
  std::map<std::string, Blob*> blob_by_name_;   // blob that the next consumer of a name reads
  std::map<std::string, Blob*> found_by_name_;  // result of FindBlob
  std::map<std::string, bool> blob_needs_backward_;
  std::vector<Output> outputs_;
  std::map<const Blob*, Blob> kept_batches_;  // with plain_blobs, by top

  ParamLayout layout_;
  std::vector<NetParam> params_;
  std::map<std::string, int> param_by_share_name_;
  std::map<std::string, Multipliers> multipliers_by_share_name_;
  std::vector<std::vector<int>> params_of_node_;  // indices into params_, per node
  std::set<int> copied_params_;                   // those that CopyWeightsFrom has set
  Buffer gradients_, own_weights_;
  BlobMemory blob_memory_;
  size_t last_backward_ = 0;  // the node that a backward pass begins with
  // Per node: the first index of gradients() from which on all are complete when a backward pass
  // has done this node.
  std::vector<int64_t> complete_from_;

  // In staging memory, for all tops with a loss weight: copies of their values, and their diffs.
  Buffer loss_values_, loss_diffs_;
  Event loss_copied_;
  // The last member: its destructor waits until the device no longer uses the memory above.
  std::unique_ptr<Queue> queue_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_NET_H_
