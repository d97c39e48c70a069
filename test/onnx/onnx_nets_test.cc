// Well-known nets (examples/zoo) as ONNX models.
#include <gtest/gtest.h>

#include "proto/parse.h"
#include "test/onnx/onnx_models.h"

namespace millrace::test {
namespace {

// The net of the zoo for use: an Input layer in place of the images, no labels and no losses.
caffe::NetParameter ZooNet(const std::string& name) {
  const CommandResult printed = test::Run({"examples/zoo/run", "--print", name});
  EXPECT_EQ(printed.status, 0) << printed.errors;
  caffe::NetParameter all, net;
  ParseText(printed.output, name, &all, nullptr);
  net.set_name(name);
  for (const caffe::LayerParameter& layer : all.layer()) {
    const auto& bottoms = layer.bottom();
    if (std::find(bottoms.begin(), bottoms.end(), "label") != bottoms.end()) continue;
    if (layer.type() != "ImageData") {
      *net.add_layer() = layer;
      continue;
    }
    if (layer.include(0).phase() == caffe::TRAIN) continue;
    const caffe::ImageDataParameter& images = layer.image_data_param();
    const int64_t crop = layer.transform_param().crop_size();
    const int64_t side = crop > 0 ? crop : images.new_height();
    caffe::LayerParameter* const input = net.add_layer();
    input->set_name("data");
    input->set_type("Input");
    input->add_top(layer.top(0));
    caffe::BlobShape* const shape = input->mutable_input_param()->add_shape();
    for (const int64_t dim : {int64_t{1}, int64_t{images.is_color() ? 3 : 1}, side, side}) {
      shape->add_dim(dim);
    }
  }
  return net;
}

class OnnxNets : public testing::TestWithParam<const char*> {};

TEST_P(OnnxNets, ComputeTheSameElsewhere) {
  RandomNet net(ZooNet(GetParam()));
  OnnxModels models;
  models.Add(GetParam(), &net.net());
  std::string reason;
  std::map<std::string, OnnxModels::Result> results = models.Run(&reason);
  if (!reason.empty()) GTEST_SKIP() << reason;
  const OnnxModels::Result& result = results[GetParam()];
  EXPECT_EQ(result.reason, "");
  EXPECT_GE(result.error, 0);
  EXPECT_LE(result.error, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Zoo, OnnxNets,
                         testing::Values("lenet", "cifar10_quick", "cifar10_full",
                                         "cifar10_full_sigmoid", "squeezenet", "googlenet",
                                         "resnet50", "mobilenet", "densenet121"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace millrace::test
