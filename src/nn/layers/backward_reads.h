// What backward passes read of the values of blobs. Values that none reads need no memory of their
// own after the forward pass.
#ifndef MILLRACE_NN_LAYERS_BACKWARD_READS_H_
#define MILLRACE_NN_LAYERS_BACKWARD_READS_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

enum class ValuesRead { kNone, kBottoms, kAll };

// Mix-in for layers whose backward pass reads the values of some of their blobs only.
class BackwardReads {
 public:
  virtual ~BackwardReads() = default;
  // Of a layer that has been set up, fused with others or not (layer_fusion.h). kAll
  // includes the values of tops.
  virtual ValuesRead BackwardValues(const Blobs& bottom, const Blobs& top) const = 0;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BACKWARD_READS_H_
