#include "proto/parse.h"

#include "base/files/file.h"
#include "proto/caffe.pb.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

const char kNet[] =
    "name: 'n'\n"
    "layer {\n"
    "  name: 'a'\n"
    "  convolution_param {\n"
    "    pad: 1\n"
    "    pad: 2\n"
    "  }\n"
    "}\n"
    "layer { name: 'b' }\n";

TEST(SourceMap, KnowsTheLineOfEachField) {
  caffe::NetParameter net;
  SourceMap source;
  ParseText(kNet, "net.prototxt", &net, &source);
  EXPECT_EQ(source.Where("name"), "net.prototxt:1");
  EXPECT_EQ(source.Where("layer[0]"), "net.prototxt:2");
  EXPECT_EQ(source.Where("layer[0].name"), "net.prototxt:3");
  EXPECT_EQ(source.Where("layer[0].convolution_param.pad[1]"), "net.prototxt:6");
  EXPECT_EQ(source.Where("layer[1].name"), "net.prototxt:9");
}

TEST(SourceMap, FallsBackToWhatEncloses) {
  caffe::NetParameter net;
  SourceMap source;
  ParseText(kNet, "net.prototxt", &net, &source);
  EXPECT_EQ(source.Where("layer[0].convolution_param.stride"), "net.prototxt:4");
  EXPECT_EQ(source.Where("layer[1].pooling_param.pad"), "net.prototxt:9");
  EXPECT_EQ(source.Where("layer[7]"), "net.prototxt");
  EXPECT_EQ(source.Where("no_such_field"), "net.prototxt");
  EXPECT_EQ(SourceMap().Where("name"), "");
}

TEST(SourceMap, OfASubMessageIsRelative) {
  caffe::SolverParameter solver;
  SourceMap source;
  ParseText("base_lr: 1\nnet_param {\n  layer {\n    name: 'a' } }", "s.prototxt", &solver,
            &source);
  EXPECT_EQ(source.Nested("net_param").Where("layer[0].name"), "s.prototxt:4");
}

TEST(ParseText, RefusesWhatItHasNoFieldFor) {
  caffe::NetParameter net;
  const auto error = [&](const std::string& text) {
    return ErrorOf([&] { ParseText(text, "f", &net, nullptr); });
  };
  EXPECT_EQ(error("name: 'n'\nlayer { nmae: 'x' }"),
            "f:2: Message type \"caffe.LayerParameter\" has no field named \"nmae\".");
  EXPECT_CONTAINS(error("layer { phase: TRIAN }"), "f:1:");
  EXPECT_CONTAINS(error("layer {"), "f:1:");
  EXPECT_EQ(error(" \n"), "f: is empty, expected a NetParameter in text form");
}

TEST(ParseText, SaysWhatAFileIsInstead) {
  caffe::NetParameter net;
  caffe::SolverParameter solver;
  SourceMap source;
  const auto error = [&](const std::string& text, google::protobuf::Message* message) {
    return ErrorOf([&] { ParseText(text, "f", message, &source); });
  };
  EXPECT_EQ(error("net: 'n'\nbase_lr: 1\nmax_iter: 3", &net),
            "f: is a SolverParameter, expected a NetParameter");
  EXPECT_EQ(error("name: 'n'\nlayer { name: 'x' }", &solver),
            "f: is a NetParameter, expected a SolverParameter");
  caffe::NetParameter model;
  model.add_layer()->set_name("ip");
  EXPECT_EQ(
      error(model.SerializeAsString() + std::string(1, '\0'), &net),
      "f: is a binary file, such as a .caffemodel or .solverstate; expected a NetParameter in "
      "text form");
}

TEST(ParseText, SkipsAByteOrderMark) {
  caffe::NetParameter net;
  SourceMap source;
  ParseText("\xef\xbb\xbfname: 'n'\nlayer { name: 'x' }", "f", &net, &source);
  EXPECT_EQ(net.name(), "n");
  EXPECT_EQ(source.Where("layer[0].name"), "f:2");
}

TEST(ParseText, NamesUnknownFieldsInOneLine) {
  caffe::NetParameter net;
  SourceMap source;
  const auto error = [&](const std::string& text) {
    net.Clear();
    return ErrorOf([&] { ParseText(text, "f", &net, &source); });
  };
  const std::string layer = "Message type \"caffe.LayerParameter\" has no field named ";
  EXPECT_EQ(error("name: 'n'\nlayer { nmae: 'x'\n foo_param { a: 1 b { c: <d: 'e'> } }\n"
                  "name: 'l' }\nnames: [1, 2]"),
            "f:2: " + layer + "\"nmae\"; also f:3: " + layer + "\"foo_param\"; also f:5: " +
                "Message type \"caffe.NetParameter\" has no field named \"names\"");
  EXPECT_EQ(net.layer(0).name(), "l");  // the rest has been read
  EXPECT_EQ(source.Where("layer[0].name"), "f:4");
  EXPECT_CONTAINS(error("nmae: 1\nlayer {"), "has no field named \"nmae\"; also f:2: ");
  std::string many;
  for (int i = 0; i < 25; ++i) many += StrCat("x", i, ": 1\n");
  EXPECT_CONTAINS(error(many), "\"x4\"; and 20 more");
  EXPECT_THROW(ParseText("x: 1", "f", &net, nullptr), UnknownFields);
}

// Fields of other forks of Caffe that choose implementations; where a field of the same name means
// something else, or changes what is computed, it is refused.
TEST(ParseText, IgnoresFieldsThatOnlyChooseImplementations) {
  caffe::NetParameter net;
  EXPECT_NO_THROW(
      ParseText("engine: 'MKLDNN' bn_stats_batch_size: 32 default_forward_type: FLOAT16\n"
                "layer { name: 'a' engine: 'x' forward_math: FLOAT\n"
                "  quantization_param { bw_layer_in: 8 scale_in: 2.5 }\n"
                "  relu_param { fuse: true negative_slope: 2 }\n"
                "  convolution_param { engine: MKL2017 conv_algos_override: '1,1,1' }\n"
                "  data_param { threads: 4 parser_threads: 2 cache: true }\n"
                "  transform_param { use_gpu_transform: true } }",
                "f", &net, nullptr));
  EXPECT_EQ(net.layer(0).relu_param().negative_slope(), 2);
  EXPECT_CONTAINS(ErrorOf([&] { ParseText("layer { threads: 4 }", "f", &net, nullptr); }),
                  "has no field named \"threads\"");
}

TEST(LoadBinary, NamesFileAndKind) {
  TempDir folder;
  const std::string path = folder / "a.caffemodel";
  caffe::NetParameter net;
  const auto error = [&] { return ErrorOf([&] { LoadBinary(path, "a caffemodel", &net); }); };
  EXPECT_EQ(error(), path + ": No such file or directory");
  WriteFile(path, "");
  EXPECT_EQ(error(), path + ": is empty, expected a caffemodel");
  WriteFile(path, "this is text");
  EXPECT_EQ(error(), path + ": truncated or not a caffemodel");
}

TEST(SaveBinary, RoundTripsAndItsEveryTruncationIsNoticedOrShorter) {
  TempDir folder;
  const std::string path = folder / "a.caffemodel";
  caffe::NetParameter net, back;
  net.set_name("n");
  net.add_layer()->set_name("a layer");
  SaveBinary(path, net);
  LoadBinary(path, "a caffemodel", &back);
  EXPECT_EQ(back.SerializeAsString(), net.SerializeAsString());
  const std::string bytes = ReadFile(path);
  WriteFile(path, bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(ErrorOf([&] { LoadBinary(path, "a caffemodel", &back); }),
            path + ": truncated or not a caffemodel");
}

// Numbers are the format: a caffemodel written by hand, byte for byte.
TEST(CaffeModel, IsReadByFieldNumber) {
  caffe::NetParameter net;
  const std::string shape("\x3a\x04\x0a\x02\x01\x02", 6);                  // 7: {1: packed 1, 2}
  const std::string data("\x2a\x08\x00\x00\x80\x3f\x00\x00\x00\x40", 10);  // 5: 1.0f, 2.0f
  const std::string blob_field = "\x3a" +
                                 std::string(1, static_cast<char>(shape.size() + data.size())) +
                                 shape + data;  // LayerParameter 7: blobs
  const std::string layer = std::string(
                                "\x0a\x01"
                                "a",
                                3) +
                            blob_field;                    // 1: name
  const std::string model = std::string("\x0a\x01n", 3) +  // 1: name
                            std::string("\xa2\x06", 2) +   // 100: layer
                            std::string(1, static_cast<char>(layer.size())) + layer;
  ASSERT_TRUE(net.ParseFromString(model));
  EXPECT_EQ(net.name(), "n");
  ASSERT_EQ(net.layer_size(), 1);
  EXPECT_EQ(net.layer(0).name(), "a");
  ASSERT_EQ(net.layer(0).blobs_size(), 1);
  EXPECT_EQ(net.layer(0).blobs(0).shape().dim(1), 2);
  EXPECT_EQ(net.layer(0).blobs(0).data(1), 2.0f);
}

}  // namespace
}  // namespace millrace::test
