// Kernels (device/kernel.h) of the BoxAnnotatorOHEM layer.
#ifndef MILLRACE_NN_LAYERS_BOX_ANNOTATOR_OHEM_KERNELS_H_
#define MILLRACE_NN_LAYERS_BOX_ANNOTATOR_OHEM_KERNELS_H_

#include <cstdint>

#include "base/host_device.h"

namespace millrace::inline nn {

// An element is a region: position s of item n, of `area` positions per item.
struct KeepHardRegions {
  int64_t count, area, channels;  // of regions; positions of an item; of the weights
  int64_t kept;                   // regions of each image
  float ignored;                  // the label of the others
  const float* regions;           // [items][5][area]
  const float* loss;              // [items][1][area]
  const float* labels;            // the same
  const float* weights;           // [items][channels][area]
  float* top_labels;
  float* top_weights;

  template <typename Visit>
  void Pointers(Visit visit) {
    visit(regions), visit(loss), visit(labels), visit(weights);
    visit(top_labels), visit(top_weights);
  }
  MILLRACE_HOST_DEVICE float ImageOf(int64_t i) const {
    return regions[i / area * 5 * area + i % area];
  }
  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float image = ImageOf(i), own = loss[i];
    int64_t harder = 0;
    for (int64_t k = 0; k < count; ++k) {
      const bool before = loss[k] > own || (!(own > loss[k]) && k < i);
      harder += before && ImageOf(k) == image;
    }
    const bool keep = harder < kept;
    top_labels[i] = keep ? labels[i] : ignored;
    const int64_t begin = i / area * channels * area + i % area;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t at = begin + c * area;
      top_weights[at] = keep ? weights[at] : 0.0f;
    }
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_BOX_ANNOTATOR_OHEM_KERNELS_H_
