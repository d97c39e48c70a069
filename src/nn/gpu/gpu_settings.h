#ifndef MILLRACE_NN_GPU_GPU_SETTINGS_H_
#define MILLRACE_NN_GPU_GPU_SETTINGS_H_

#include <memory>
#include <string>

#include "millrace/queue.h"

namespace millrace::inline nn {

// Arithmetic of matrix products and convolutions.
enum class GpuPrecision {
  kAuto,  // matrix products in float32; convolutions in TF32 on a GPU that has it, else in float32
  kFloat32,
  kTf32,  // factors rounded to 10 bits of mantissa, sums in float32: tensor cores, from Ampere on
  kBfloat16,  // factors, and results of convolutions, rounded to 7 bits; sums in float32; as above
};

// "auto", "fp32", "tf32" or "bf16". Throws Error for another text.
GpuPrecision ParseGpuPrecision(const std::string& text);

// Whether solvers enqueue iterations as graphs (solver/pass_graphs.h): not at all; where the net
// allows it; always, and Error for a net that does not allow it.
enum class GraphUse { kOff, kAuto, kOn };

// "auto", "on" or "off". Throws Error for another text.
GraphUse ParseGraphUse(const std::string& text);

// How nets compute on GPUs. The values here are those of a net that gets none; commands, sessions
// and runs have other defaults (GpuSettingsFor).
struct GpuSettings {
  GpuPrecision precision = GpuPrecision::kFloat32;
  // Whether inner products add their bias while their results are written.
  bool fused_bias = true;
  // Time that each net may spend on measuring algorithms of its convolutions, in seconds. A
  // measurement that has begun is completed. 0: none; the library's heuristics choose.
  double measure_seconds = 0;
  // Whether images are copied to GPUs as bytes, and mirrored, less the mean and scaled there
  // (data/images/pixel_rule.h). The values are the same either way.
  bool transform_images = true;
  GraphUse graphs = GraphUse::kAuto;
};

inline constexpr double kDefaultMeasureSeconds = 10;  // of commands, sessions and runs

// Settings of a session or run, which chooses the precision only. Throws as ParseGpuPrecision.
inline GpuSettings GpuSettingsFor(const std::string& precision) {
  return {.precision = ParseGpuPrecision(precision), .measure_seconds = kDefaultMeasureSeconds};
}

// The settings of what computes on `queue`, for its thread. Changes apply to libraries and layers
// that are made on it later.
inline GpuSettings& GpuSettingsOf(Queue& queue) {
  return queue.Attached<GpuSettings>([] { return std::make_unique<GpuSettings>(); });
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_GPU_SETTINGS_H_
