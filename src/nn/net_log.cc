// What a net logs: its notices, and as layers compute the lines of Caffe's debug_info.
#include <glog/logging.h>

#include <cmath>

#include "nn/net.h"

namespace millrace::inline nn {
namespace {

struct Sums {
  double absolute = 0, squares = 0;
};

Sums SumsOf(const std::vector<float>& values) {
  Sums sums;
  for (const double value : values) {
    sums.absolute += std::abs(value);
    sums.squares += value * value;
  }
  return sums;
}

Sums SumsOfData(const Blob& blob) {
  std::vector<float> values(blob.count());
  blob.CopyDataToHost(values.data());
  return SumsOf(values);
}

Sums SumsOfDiff(const Blob& blob) {
  std::vector<float> values(blob.count());
  blob.CopyDiffToHost(values.data());
  return SumsOf(values);
}

double Mean(const Sums& sums, const Blob& blob) {
  return sums.absolute / static_cast<double>(blob.count());
}

}  // namespace

void BuiltNet::LogNotices() const {
  for (const std::string& notice : notices_) LOG(INFO) << notice;
}

void BuiltNet::LogForward(const Node& node) const {
  if (IsInsertedReorder(node)) return;
  queue_->Synchronize();
  const std::string begin = StrCat("    [Forward] Layer ", node.name_in_file, ", ");
  for (size_t i = 0; i < node.top.size(); ++i) {
    LOG(INFO) << begin << "top blob " << node.top_names[i]
              << " data: " << Mean(SumsOfData(*node.top[i]), *node.top[i]);
  }
  const caffe::LayerParameter& layer = node.layer->param();
  for (size_t i = 0; i < node.layer->params().size(); ++i) {
    const int index = static_cast<int>(i);
    const std::string& shared = index < layer.param_size() ? layer.param(index).name() : "";
    const Blob& blob = *node.layer->params()[i].blob;
    LOG(INFO) << begin << "param blob " << (shared.empty() ? StrCat(i) : shared)
              << " data: " << Mean(SumsOfData(blob), blob);
  }
}

void BuiltNet::LogBackward(const Node& node) const {
  if (IsInsertedReorder(node) || !node.need_backward) return;
  queue_->Synchronize();
  const std::string begin = StrCat("    [Backward] Layer ", node.name_in_file, ", ");
  for (size_t i = 0; i < node.bottom.size(); ++i) {
    if (!node.propagate_down[i]) continue;
    LOG(INFO) << begin << "bottom blob " << node.bottom_names[i]
              << " diff: " << Mean(SumsOfDiff(*node.bottom[i]), *node.bottom[i]);
  }
  for (size_t i = 0; i < node.layer->params().size(); ++i) {
    const Param& param = node.layer->params()[i];
    if (!param.wanted) continue;
    LOG(INFO) << begin << "param blob " << i
              << " diff: " << Mean(SumsOfDiff(*param.blob), *param.blob);
  }
}

void BuiltNet::LogParams() const {
  queue_->Synchronize();
  Sums data, diff;
  for (const NetParam& param : params_) {
    const Sums of_data = SumsOfData(*param.owner->blob), of_diff = SumsOfDiff(*param.owner->blob);
    data.absolute += of_data.absolute, data.squares += of_data.squares;
    diff.absolute += of_diff.absolute, diff.squares += of_diff.squares;
  }
  LOG(INFO) << "    [Backward] All net params (data, diff): L1 norm = (" << data.absolute << ", "
            << diff.absolute << "); L2 norm = (" << std::sqrt(data.squares) << ", "
            << std::sqrt(diff.squares) << ")";
}

}  // namespace millrace::inline nn
