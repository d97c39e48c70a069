// Files of convolutions' algorithms of any bytes: they give choices that are written as they were
// read, or an error of one line.
#include "base/error.h"
#include "nn/gpu/convolution_cache.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  const ConvolutionProblem problem{.images = 64,
                                   .channels = 3,
                                   .height = 224,
                                   .width = 224,
                                   .outputs = 64,
                                   .out_height = 112,
                                   .out_width = 112,
                                   .group = 1,
                                   .kernel = {7, 7},
                                   .stride = {2, 2},
                                   .pad = {3, 3},
                                   .dilation = {1, 1}};
  ConvolutionChoices choices;
  for (const char* const pass : {"forward", "backward", "weight"}) {
    choices[TextOf({pass, "bf16", 90190, problem, "NVIDIA H100 80GB HBM3"})] = {1, *pass != 'w'};
  }
  return {FormatConvolutionChoices(choices), FormatConvolutionChoices({}), ""};
}

bool Target(const std::string& input) {
  try {
    const ConvolutionChoices choices = ParseConvolutionChoices(input);
    for (const auto& [key, choice] : choices) {
      if (choice.algorithm < 0 || choice.algorithm > kMaxAlgorithm) return false;
    }
    return ParseConvolutionChoices(FormatConvolutionChoices(choices)) == choices;
  } catch (const Error& error) {
    const std::string line = error.what();
    return line.starts_with("line ") && line.find('\n') == line.npos;
  }
}

}  // namespace millrace::fuzz
