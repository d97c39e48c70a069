// A small problem that a net can learn, and files that train on it.
#ifndef MILLRACE_TEST_SUPPORT_PROBLEM_H_
#define MILLRACE_TEST_SUPPORT_PROBLEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/caffe.pb.h"
#include "test/support/support.h"

namespace millrace::test {

// Grey images of side x side: image i is of class i % classes, and shows the
// random pattern of its class under noise. A function of these fields alone.
struct Images {
  int count = 64, side = 8, classes = 4;
  double noise = 50;          // grey levels, at most, either way
  uint64_t noise_seed = 1;    // images of the same problem differ in this
  uint64_t pattern_seed = 1;  // names the problem
  int first_label = 0;        // the label of class 0

  std::vector<uint8_t> Pixels() const;  // count x side x side
  std::vector<uint8_t> Labels() const;  // count
  // As an LMDB that the MNIST converter makes of IDX files.
  void WriteDatabase(const std::string& path) const;
  // The IDX files themselves.
  void WriteIdx(const std::string& image_file, const std::string& label_file) const;
};

// A net on such images, for both phases: a convolution with pooling if asked
// for, two inner products, loss, and accuracy in tests.
struct SmallNet {
  std::vector<std::string> train_sources, test_sources;
  int batch = 8, test_batch = 16, classes = 4;
  int hidden = 16;  // outputs of the first inner product
  bool convolution = false, dropout = false;
  std::string data_fields;       // more of the train layer's data_param
  std::string transform_fields;  // more of its transform_param
  std::string more_layers;       // at the end

  std::string Text() const;
};

// Its text with a loss that is never finite: a solver on it fails in its first iteration, before
// it changes a weight.
std::string OverflowingText(const SmallNet& net);

// A folder with train_lmdb (64 images), test_lmdb (32 others of the same
// problem), net.prototxt, and solvers that are written into it.
class Workspace {
 public:
  Workspace();
  explicit Workspace(const Images& train);

  std::string operator/(const std::string& name) const { return folder_ / name; }
  // Without data_fields and the like.
  SmallNet Net() const;
  // Replaces net.prototxt.
  void WriteNet(const SmallNet& net) const { WriteNet(net.Text()); }
  void WriteNet(const std::string& text) const { WriteFile(folder_ / "net.prototxt", text); }

  // SGD with momentum and weight decay, seed 7, no tests; `iterations` of them.
  static caffe::SolverParameter Solver(int iterations);
  // Writes NAME.prototxt and returns its path; snapshots get the prefix NAME.
  std::string Write(const std::string& name, caffe::SolverParameter solver) const;
  // Adds a test every `interval` iterations.
  static caffe::SolverParameter Tested(caffe::SolverParameter solver, int interval);

  // "<folder>/NAME_iter_N"
  std::string Snapshot(const std::string& name, int64_t iteration) const;
  // The files whose name begins with `prefix`, sorted, without the folder.
  std::vector<std::string> FilesWith(const std::string& prefix) const;

 private:
  TempDir folder_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_PROBLEM_H_
