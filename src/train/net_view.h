// The public class Net on a net of Millrace's.
#ifndef MILLRACE_TRAIN_NET_VIEW_H_
#define MILLRACE_TRAIN_NET_VIEW_H_

#include <string>
#include <vector>

#include "millrace/net.h"
#include "nn/layers/data/memory_data_layer.h"
#include "nn/net.h"
#include "solver/solver_config.h"

namespace millrace::inline train {

// The MemoryData layer of that name. Throws Error naming the net if there is none.
MemoryDataLayer& FindMemoryData(const BuiltNet& net, const std::string& layer);

class NetView : public Net {
 public:
  // `net`: on the host, and bound to the `weights`; both outlive this object.
  // `weights` is empty for a net whose weights are those of another. `made_of`, which outlives this
  // object, is the description of a net with keep_activations that gets plain_blobs with the first
  // call that needs them; null: a net that stays as it is.
  NetView(BuiltNet* net, std::span<float> weights, bool plain_blobs = false,
          const SolverNet* made_of = nullptr);

  const std::string& name() const override { return net_.name(); }
  std::span<float> weights() override { return weights_; }
  std::span<const float> weights() const override { return weights_; }
  std::vector<WeightArray> arrays() const override;
  int LoadWeights(const std::string& model_file) override;
  void SaveWeights(const std::string& model_file) const override;
  std::vector<NetBlob> inputs() const override;
  void SetInput(const std::string& input, std::span<const float> values) override;
  void SetMemoryData(const std::string& layer, std::span<const float> values,
                     std::span<const float> labels) override;
  void SetMemoryData(const std::string& layer, std::span<const caffe::Datum> datums) override;
  float Forward() override;
  void Backward() override;
  std::vector<NetLayer> layers() const override;
  Blob& blob(const std::string& name) override;
  void Reshape() override;
  float ForwardLayers(size_t first, size_t last) override;
  void BackwardLayers(size_t last, size_t first) override;
  void ClearGradients() override;
  void ShareWeights(Net& other) override;
  std::vector<NetBlob> outputs() const override;
  std::vector<NetBlob> blobs() const override;
  std::vector<float> Values(const std::string& blob) const override;
  std::vector<float> Gradients(const std::string& blob) const override;
  std::span<const float> gradients() const override;

 private:
  Blob& Find(const std::string& blob) const;
  // Throws Error unless the net has plain_blobs or can get them.
  void ExpectBlobs(const char* what) const;
  // The same; then the net has them.
  void NeedPlainBlobs(const char* what);
  // Prepares a net with plain_blobs for programs that read and write its blobs.
  void ShowBlobs();
  void CheckRange(const char* what, size_t first, size_t last);
  // Whether the shapes of a layer's blobs have changed since its last Reshape.
  bool IsReshaped(size_t node) const;
  void ReshapeNode(size_t node);
  // The weight of a layer's top in the objective. That of the built net is 1 for any top of a net
  // without a loss that has force_backward.
  float LossWeight(const BuiltNet::Node& node, size_t top) const;

  BuiltNet& net_;
  const std::span<float> weights_;
  bool plain_blobs_;
  const SolverNet* const made_of_;
  uint64_t passes_ = 0;  // by this object
  // If ExpectBlobs allows them, per layer: the shapes of its bottoms and tops after its last
  // Reshape.
  std::vector<std::vector<Shape>> shapes_;
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_NET_VIEW_H_
