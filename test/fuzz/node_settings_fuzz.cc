// Settings of another node, of any content: they are compared, and reported in lines that are
// printable.
#include <algorithm>

#include "test/fuzz/support/fuzz.h"
#include "train/settings_check.h"

namespace millrace::fuzz {
namespace {

// Settings of one of two solvers that differ in a few fields, and of nets with 3 and 4 layers.
Settings Own(bool other) {
  caffe::SolverParameter solver;
  solver.set_base_lr(other ? 0.5f : 0.01f);
  solver.set_lr_policy("multistep");
  for (int i = 1; i < (other ? 9 : 40); ++i) solver.add_stepvalue(1000 * i);
  if (other) (*solver.mutable_custom_param())["a"] = "b";
  std::vector<PlacedLayer> layers;
  for (int i = 0; i < (other ? 3 : 4); ++i) {
    caffe::LayerParameter layer;
    layer.set_name(std::string(20, static_cast<char>('a' + i)));
    layer.set_type("Convolution");
    layer.mutable_convolution_param()->add_kernel_size(3);
    layer.mutable_transform_param()->set_scale(0.5f);
    layers.push_back({layer, ""});
  }
  return SettingsOf(solver, layers);
}

}  // namespace

std::vector<std::string> Corpus() {
  Settings large = Own(true);
  for (uint32_t i = 1; i < 200; ++i) large[{true, {117, i}}] = "value";
  return {"", EncodeSettings(Own(false)).SerializeAsString(),
          EncodeSettings(Own(true)).SerializeAsString(), EncodeSettings(large).SerializeAsString()};
}

bool Target(const std::string& input) {
  static const Settings own = Own(false);
  NodeSettings theirs;
  if (!theirs.ParseFromString(input)) return true;
  for (const SettingDifference& difference : CompareSettings(own, theirs)) {
    if (difference.field.empty() || difference.theirs.empty() || difference.here.empty())
      return false;
    const std::string line = OneLine(difference.theirs);
    if (std::any_of(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\033'; }))
      return false;
  }
  return true;
}

}  // namespace millrace::fuzz
