// Runs of strategy { type: "allreduce" }.
#ifndef MILLRACE_TEST_TRAIN_ALLREDUCE_SUPPORT_H_
#define MILLRACE_TEST_TRAIN_ALLREDUCE_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/train/train_support.h"

namespace millrace::test {

inline caffe::SolverParameter Synchronous(caffe::SolverParameter solver,
                                          const std::map<std::string, double>& params = {}) {
  solver.mutable_strategy()->set_type("allreduce");
  for (const auto& [name, value] : params) {
    (*solver.mutable_strategy()->mutable_param())[name] = value;
  }
  return solver;
}

// A workspace whose train net has this batch size.
inline std::unique_ptr<Workspace> WorkWithBatch(int batch, bool convolution = false) {
  auto work = std::make_unique<Workspace>();
  SmallNet net = work->Net();
  net.batch = batch;
  net.convolution = convolution;
  work->WriteNet(net);
  return work;
}

inline void ExpectNear(const std::vector<float>& expected, const std::vector<float>& weights,
                       float tolerance) {
  ASSERT_EQ(expected.size(), weights.size());
  float largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i] - weights[i]));
  }
  EXPECT_LE(largest, tolerance);
}

inline caffe::SolverParameter Merging(caffe::SolverParameter solver, const std::string& rule,
                                      int every, const std::map<std::string, double>& params = {}) {
  solver = Synchronous(std::move(solver), {{"every", every}});
  caffe::PartParameter& merge = *solver.mutable_strategy()->mutable_merge_rule();
  merge.set_type(rule);
  for (const auto& [name, value] : params) (*merge.mutable_param())[name] = value;
  return solver;
}

inline std::string NormalizedText(const std::string& net, const std::string& param) {
  std::string text = net;
  return text.insert(text.find("layer { name: 'relu'"),
                     StrCat("layer { name: 'bn' type: 'BatchNorm' bottom: 'hidden' top: 'hidden'\n"
                            "  batch_norm_param { moving_average_fraction: 0.9 ",
                            param,
                            " } }\n"
                            "layer { name: 'scale' type: 'Scale' bottom: 'hidden' top: 'hidden'\n"
                            "  scale_param { bias_term: true } }\n"));
}

inline void WriteNormalized(const Workspace& work, int batch, const std::string& param) {
  SmallNet net = work.Net();
  net.batch = batch;
  work.WriteNet(NormalizedText(net.Text(), param));
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TRAIN_ALLREDUCE_SUPPORT_H_
