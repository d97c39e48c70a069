// Which memory order the 4-axis activations of a net take on this CPU.
#ifndef MILLRACE_NN_LAYOUT_CHOICE_H_
#define MILLRACE_NN_LAYOUT_CHOICE_H_

#include <vector>

#include "nn/blob.h"
#include "nn/net_param.h"

namespace millrace {

// Blocks of channels where every convolution's channels fill whole blocks of
// this CPU's vectors; channels innermost otherwise. A function of the net and
// the CPU alone, so that a run repeats bit for bit.
Layout ChooseLayout(const std::vector<PlacedLayer>& layers);

}  // namespace millrace

#endif  // MILLRACE_NN_LAYOUT_CHOICE_H_
