#include "nn/layout.h"

#include <map>

namespace millrace::inline nn {
namespace {

std::map<DeviceType, LayoutChooser>& Choosers() {
  static std::map<DeviceType, LayoutChooser> choosers;
  return choosers;
}

}  // namespace

Layout ChooseLayout(const std::vector<PlacedLayer>& layers, DeviceType device) {
  const auto found = Choosers().find(device);
  return found == Choosers().end() ? Layout::kPlain : found->second(layers);
}

RegisterLayoutChooser::RegisterLayoutChooser(DeviceType device, LayoutChooser chooser) {
  Choosers()[device] = chooser;
}

}  // namespace millrace::inline nn
