// Net prototxts: parsing, layer selection, and insertion of splits.
#include "base/error.h"
#include "nn/net_param.h"
#include "proto/parse.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  return {
      "name: 'n' layer { name: 'd' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } "
      "}\n"
      "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'x' include { phase: TRAIN } }\n"
      "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'y' loss_weight: 1\n"
      "  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'c' type: 'Softmax' bottom: 'y' top: 'z' exclude { stage: 's' } }\n",
      "input: 'x' input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4\n"
      "layer { name: 'p' type: 'Pooling' bottom: 'x' bottom: 'x' top: 'q' }",
      "layers { name: 'old' }",
  };
}

bool Target(const std::string& input) {
  try {
    caffe::NetParameter net;
    SourceMap source;
    ParseText(input, "net", &net, &source);
    for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
      caffe::NetState state;
      state.set_phase(phase);
      InsertSplits(SelectLayers(net, state, source), source);
    }
  } catch (const Error& error) {
    return std::string(error.what()).find('\n') == std::string::npos;
  }
  return true;
}

}  // namespace millrace::fuzz
