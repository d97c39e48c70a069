// Registers layers that run on every type of GPU (device/gpu_types.h).
#ifndef MILLRACE_NN_GPU_GPU_LAYER_H_
#define MILLRACE_NN_GPU_GPU_LAYER_H_

#include <string>

#include "device/gpu_types.h"
#include "millrace/layer.h"

namespace millrace::inline nn {

// Define one at namespace scope in a layer's _gpu.cc.
template <typename LayerClass>
struct RegisterGpuLayer {
  explicit RegisterGpuLayer(const std::string& type) {
    GpuTypes::ForEach([type](DeviceType device) { RegisterLayer<LayerClass>(type, device); });
  }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_GPU_LAYER_H_
