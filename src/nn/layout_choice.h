// Chooses the memory order of a net's 4-axis activations on a device.
#ifndef MILLRACE_NN_LAYOUT_CHOICE_H_
#define MILLRACE_NN_LAYOUT_CHOICE_H_

#include <vector>

#include "millrace/blob.h"
#include "millrace/device.h"
#include "nn/net_param.h"

namespace millrace::inline nn {

// The best order for a net of these layers, a function of its arguments and this machine's device
// alone, so that runs are reproducible bit for bit.
using LayoutChooser = Layout (*)(const std::vector<PlacedLayer>& layers);

// The choice of the chooser registered for this type of device; kPlain if there is none.
Layout ChooseLayout(const std::vector<PlacedLayer>& layers, DeviceType device);

// Define one at namespace scope in a backend's file.
struct RegisterLayoutChooser {
  RegisterLayoutChooser(DeviceType device, LayoutChooser chooser);
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYOUT_CHOICE_H_
