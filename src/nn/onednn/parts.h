// Copies between a blob and its parts along one axis, whatever their memory orders.
#ifndef MILLRACE_NN_ONEDNN_PARTS_H_
#define MILLRACE_NN_ONEDNN_PARTS_H_

#include <vector>

#include "nn/onednn/onednn.h"

namespace millrace::inline nn::onednn {

class Parts {
 public:
  Parts() = default;
  // The parts lie one behind the other along `axis` and fill `whole`. If `whole` has blocks of
  // channels, the parts begin at whole blocks. `scratch` outlives the object.
  Parts(const Blob& whole, const std::vector<Blob*>& parts, int axis, Scratchpad* scratch);

  // Arrays in host memory, laid out like the blobs.
  void Insert(size_t i, const float* part, float* whole) { insert_[i].Run(part, whole); }
  void Extract(size_t i, const float* whole, float* part) { extract_[i].Run(whole, part); }

 private:
  std::vector<Reorder> insert_, extract_;
};

}  // namespace millrace::inline nn::onednn

#endif  // MILLRACE_NN_ONEDNN_PARTS_H_
