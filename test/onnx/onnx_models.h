// Nets as ONNX models, run by another program and compared with what the nets themselves compute.
#ifndef MILLRACE_TEST_ONNX_ONNX_MODELS_H_
#define MILLRACE_TEST_ONNX_ONNX_MODELS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/loaded_net.h"
#include "test/support/support.h"

namespace millrace::test {

// The net of a text, in the test phase, with random weights and random inputs. The statistics of
// BatchNorm layers are those of values that have some mean and a variance around 1.
class RandomNet {
 public:
  explicit RandomNet(const std::string& text);
  explicit RandomNet(const caffe::NetParameter& param);

  BuiltNet& net() { return loaded_->net(); }
  // Writes whole numbers from 0 to `below` - 1 to an input.
  void SetIndices(const std::string& input, int below);

 private:
  void FillWeights();
  void FillInputs();

  std::unique_ptr<LoadedNet> loaded_;
};

// Runs models in one call of test/onnx/run_models, or of the program that ONNX_RUNNER names.
class OnnxModels {
 public:
  // Runs `net` and writes its model, its inputs and its outputs to a folder of the name.
  void Add(const std::string& name, BuiltNet* net);

  struct Result {
    double error = -1;   // relative; -1: the model was not run
    std::string reason;  // why it was not
    bool is_invalid = false;
  };
  // By name. Empty if there is no program that runs models; `reason` then says so. `runtime`, if
  // not null, receives the program's name and version.
  std::map<std::string, Result> Run(std::string* reason, std::string* runtime = nullptr);

 private:
  TempDir folder_;
  std::vector<std::string> names_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_ONNX_ONNX_MODELS_H_
