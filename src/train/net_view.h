// The public class Net on a net of Millrace's.
#ifndef MILLRACE_TRAIN_NET_VIEW_H_
#define MILLRACE_TRAIN_NET_VIEW_H_

#include <string>
#include <vector>

#include "millrace/net.h"
#include "nn/layers/data/memory_data_layer.h"
#include "nn/net.h"

namespace millrace::inline train {

// The MemoryData layer of that name. Throws Error naming the net if there is none.
MemoryDataLayer& FindMemoryData(const BuiltNet& net, const std::string& layer);

class NetView : public Net {
 public:
  // `net`: on the host, and bound to the `weights`; both outlive this object.
  NetView(BuiltNet* net, std::span<float> weights) : net_(*net), weights_(weights) {}

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
  std::vector<NetBlob> outputs() const override;
  std::vector<NetBlob> blobs() const override;
  std::vector<float> Values(const std::string& blob) const override;
  std::vector<float> Gradients(const std::string& blob) const override;
  std::span<const float> gradients() const override;

 private:
  Blob& Find(const std::string& blob) const;

  BuiltNet& net_;
  const std::span<float> weights_;
  uint64_t passes_ = 0;  // by this object
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_NET_VIEW_H_
