// Chooses the memory order of a net's 4-axis activations on this CPU.
#ifndef MILLRACE_NN_LAYOUT_CHOICE_H_
#define MILLRACE_NN_LAYOUT_CHOICE_H_

#include <vector>

#include "nn/blob.h"
#include "nn/net_param.h"

namespace millrace {

// Blocks of channels if the outputs of every convolution fill whole blocks of this CPU's vectors;
// channels innermost otherwise. A function of the net and the CPU alone, so that runs are
// reproducible bit for bit.
Layout ChooseLayout(const std::vector<PlacedLayer>& layers);

}  // namespace millrace

#endif  // MILLRACE_NN_LAYOUT_CHOICE_H_
