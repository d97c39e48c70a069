// A small learning problem, and files to train on it.
#ifndef MILLRACE_TEST_SUPPORT_PROBLEM_H_
#define MILLRACE_TEST_SUPPORT_PROBLEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "test/support/support.h"

namespace millrace::test {

// Grey images of side x side pixels. Image i is of class i % classes and shows the random pattern
// of its class with added noise. These fields alone determine the images.
struct Images {
  int count = 64, side = 8, classes = 4;
  double noise = 50;          // amplitude in grey levels
  uint64_t noise_seed = 1;    // distinguishes data sets of the same problem
  uint64_t pattern_seed = 1;  // selects the problem
  int first_label = 0;        // the label of class 0

  std::vector<uint8_t> Pixels() const;  // count x side x side
  std::vector<uint8_t> Labels() const;  // count
  // Writes an LMDB, as the MNIST converter makes it from IDX files.
  void WriteDatabase(const std::string& path) const;
  // Writes the IDX files.
  void WriteIdx(const std::string& image_file, const std::string& label_file) const;
};

// A net for such images, for both phases: optional convolution with pooling, two inner products,
// loss, and accuracy in the test phase.
struct SmallNet {
  std::vector<std::string> train_sources, test_sources;
  int batch = 8, test_batch = 16, classes = 4;
  int hidden = 16;  // outputs of the first inner product
  bool convolution = false, dropout = false;
  std::string data_fields;       // further fields of the train layer's data_param
  std::string transform_fields;  // further fields of its transform_param
  std::string more_layers;       // appended at the end

  std::string Text() const;
};

// Text of `net` with a loss that is never finite: a solver fails in its first iteration, before it
// changes a weight.
std::string OverflowingText(const SmallNet& net);

// A directory with train_lmdb (64 images), test_lmdb (32 others of the same problem), net.prototxt,
// and the solver files written to it.
class Workspace {
 public:
  Workspace();
  explicit Workspace(const Images& train);

  std::string operator/(const std::string& name) const { return folder_ / name; }
  // The net without data_fields and similar additions.
  SmallNet Net() const;
  // Replaces net.prototxt.
  void WriteNet(const SmallNet& net) const { WriteNet(net.Text()); }
  void WriteNet(const std::string& text) const { WriteFile(folder_ / "net.prototxt", text); }

  // SGD with momentum and weight decay, seed 7, no tests, and `iterations` iterations.
  static caffe::SolverParameter Solver(int iterations);
  // The same problem for each of AdaGrad, RMSProp, AdaDelta and Adam, with settings that learn it.
  static std::vector<caffe::SolverParameter> AdaptiveSolvers(int iterations);
  // Writes NAME.prototxt and returns its path. NAME is the snapshot prefix.
  std::string Write(const std::string& name, caffe::SolverParameter solver) const;
  // Adds a test every `interval` iterations.
  static caffe::SolverParameter Tested(caffe::SolverParameter solver, int interval);

  // "<folder>/NAME_iter_N"
  std::string Snapshot(const std::string& name, int64_t iteration) const;
  // Names of the files that begin with `prefix`, sorted, without the directory.
  std::vector<std::string> FilesWith(const std::string& prefix) const;

 private:
  TempDir folder_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_PROBLEM_H_
