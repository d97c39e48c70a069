// The order in which a backward pass completes the gradients of the parameters.
#include <algorithm>

#include "test/nn/net_support.h"
#include "test/support/blob_values.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

const char kShared[] = R"(name: 'n'
layer { name: 'x' type: 'Input' top: 'x' top: 't'
  input_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 3 } } }
layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' param { name: 'w' }
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' param { lr_mult: 0 } param { lr_mult: 0 }
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'c' type: 'InnerProduct' bottom: 'b' top: 'c'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'd' type: 'InnerProduct' bottom: 'c' top: 'd' param { name: 'w' }
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'd' bottom: 't' top: 'loss' }
)";

// The values from the reported index on must not change any more.
TEST(GradientOrder, WhatIsReportedAsCompleteDoesNotChange) {
  TestNet net(kShared);
  SetData({1, 2, 3, 4, 5, 6}, net->FindBlob("x"));
  SetData({1, 0, 0, 0, 1, 0}, net->FindBlob("t"));
  const int64_t size = net->layout().size();
  net.Pass();
  const std::vector<float> final_values(net->gradients(), net->gradients() + size);
  net->ClearGradients();
  std::fill_n(net->gradients(), size, 99.0f);
  for (const ParamEntry& entry : net->layout().entries()) {
    // Gradients that are not wanted are 0 and stay so.
    if (entry.name.starts_with("b/")) std::fill_n(net->gradients() + entry.offset, entry.count, 0);
  }
  net->Forward();
  std::vector<int64_t> begins;
  net->Backward([&](int64_t begin) {
    begins.push_back(begin);
    for (const ParamEntry& entry : net->layout().entries()) {
      for (int64_t i = std::max(begin, entry.offset); i < entry.offset + entry.count; ++i) {
        ASSERT_EQ(net->gradients()[i], final_values[i]) << "from " << begin << ", at " << i;
      }
    }
  });
  EXPECT_TRUE(std::is_sorted(begins.rbegin(), begins.rend()));
  EXPECT_EQ(begins.back(), 0);
  const auto offset = [&](const char* name) {
    return net->layout().entries()[net->layout().Find(name)].offset;
  };
  // d/0 is a/0, which is complete at the end only; c is complete when c has been computed.
  EXPECT_EQ(std::count(begins.begin(), begins.end(), offset("d/1")), 1);
  EXPECT_EQ(std::count(begins.begin(), begins.end(), offset("b/0")), 2);
}

}  // namespace
}  // namespace millrace::test
