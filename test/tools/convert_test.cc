// millrace convert: weights from and to the formats of other programs.
#include "test/support/peer_python.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

constexpr char kNet[] = R"(
  name: 'n'
  layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
  layer { name: 'block/fc' type: 'InnerProduct' bottom: 'x' top: 'y'
          inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
  layer { name: 'prelu' type: 'PReLU' bottom: 'y' top: 'z' })";

std::string Peer(const std::string& action, const std::string& peer, const std::string& path) {
  const CommandResult result =
      test::Run({PeerPython(), "test/tools/peer_arrays", action, peer, path});
  EXPECT_EQ(result.status, 0) << result.errors;
  return result.output.substr(0, result.output.find('\n'));
}

class Convert : public testing::Test {
 protected:
  CommandResult ToFile(const std::string& to, const std::string& weights, const std::string& output,
                       const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"convert", "--to=" + to, "--weights=" + weights,
                                          "--output=" + output};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Millrace(arguments);
  }
  void ExpectConverts(const std::string& to, const std::string& weights, const std::string& output,
                      const std::vector<std::string>& more = {}) {
    const CommandResult result = ToFile(to, weights, output, more);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_CONTAINS(result.errors, "Wrote " + output);
  }
  TempDir folder_;
};

// ---- Files of arrays, as they are ----

struct PeerFile {
  const char* peer;
  const char* file;
};

class ConvertPeer : public Convert, public testing::WithParamInterface<PeerFile> {};

TEST_P(ConvertPeer, ReadsWhatItWritesAndWritesWhatOthersRead) {
  const std::string peer = GetParam().peer, path = folder_ / GetParam().file;
  const std::string written = Peer("write", peer, path);
  if (written.rfind("skip ", 0) == 0) GTEST_SKIP() << peer << ": " << written.substr(5);
  ASSERT_EQ(written, "ok");
  // NumPy has no bfloat16, which the tensors of PyTorch are among.
  const std::vector<std::string> floats =
      peer == "torch" ? std::vector<std::string>{"--dtype=float32"} : std::vector<std::string>{};
  const std::string npz = folder_ / (floats.empty() ? "o.npz" : "float32.npz");
  const std::string safetensors =
      folder_ / (floats.empty() ? "o.safetensors" : "float32.safetensors");
  const CommandResult result = ToFile("npz", path, npz, floats);
  if (peer == "onnx" && result.status != 0) {
    GTEST_SKIP() << "the build has no ONNX: " << result.errors;
  }
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(Peer("check", peer, npz), "ok");
  ExpectConverts("safetensors", npz, safetensors);
  const std::string checked = Peer("check", peer, safetensors);
  EXPECT_TRUE(checked == "ok" || checked.rfind("skip ", 0) == 0) << checked;
  // From there again, without a difference.
  ExpectConverts("npz", safetensors, folder_ / "again.npz");
  ExpectConverts("safetensors", folder_ / "again.npz", folder_ / "again.safetensors");
  EXPECT_EQ(ReadFile(folder_ / "again.safetensors").size(), ReadFile(safetensors).size());
}

INSTANTIATE_TEST_SUITE_P(All, ConvertPeer,
                         testing::Values(PeerFile{"numpy", "a.npz"},
                                         PeerFile{"numpy", "compressed.npz"},
                                         PeerFile{"safetensors", "a.safetensors"},
                                         PeerFile{"torch", "a.pt"}, PeerFile{"onnx", "a.onnx"}),
                         [](const auto& info) {
                           std::string name = info.param.file;
                           name.replace(name.find('.'), 1, "_");
                           return std::string(info.param.peer) + "_" + name;
                         });

// ---- Nets ----

class ConvertNet : public Convert {
 protected:
  ConvertNet() {
    WriteFile(net_, kNet);
    WriteFile(folder_ / "solver",
              StrCat("net_param { ", kNet,
                     " layer { name: 'loss' type: 'EuclideanLoss' bottom: 'z' bottom: 'y'"
                     " top: 'l' } } base_lr: 0.1 lr_policy: 'fixed' max_iter: 0"
                     " random_seed: 3 snapshot_prefix: '",
                     folder_ / "s", "'"));
    const CommandResult trained = Millrace({"train", "--solver=" + folder_ / "solver"});
    EXPECT_EQ(trained.status, 0) << trained.errors;
    // As convert writes it.
    ExpectConverts("npz", folder_ / "s_iter_0.caffemodel", folder_ / "s.npz");
    ExpectConverts("caffemodel", folder_ / "s.npz", model_, {Model()});
  }
  std::string Model() const { return "--model=" + net_; }

  const std::string net_ = folder_ / "net.prototxt";
  const std::string model_ = folder_ / "net.caffemodel";
};

TEST_F(ConvertNet, KeepsTheWeightsThroughEveryFormat) {
  const std::string model = ReadFile(model_);
  for (const std::string names : {"numbers", "torch"}) {
    for (const std::string to : {"npz", "safetensors"}) {
      const std::string arrays = folder_ / (names + "." + to);
      ExpectConverts(to, model_, arrays, {"--names=" + names});
      EXPECT_EQ(ReadFile(arrays).find("block/fc.weight") != std::string::npos, names == "torch");
      ExpectConverts("caffemodel", arrays, folder_ / "back.caffemodel", {Model()});
      EXPECT_EQ(ReadFile(folder_ / "back.caffemodel"), model) << arrays;
      // With the net beside the .caffemodel, the same arrays.
      ExpectConverts(to, model_, folder_ / "checked", {Model(), "--names=" + names});
      EXPECT_EQ(ReadFile(folder_ / "checked"), ReadFile(arrays));
    }
  }
  ExpectConverts("caffemodel", folder_ / "torch.npz", folder_ / "back.caffemodel.h5", {Model()});
  ExpectConverts("caffemodel", folder_ / "back.caffemodel.h5", folder_ / "back.caffemodel",
                 {Model()});
  EXPECT_EQ(ReadFile(folder_ / "back.caffemodel"), model);
  // Half the bytes, and nearly the same values.
  ExpectConverts("safetensors", model_, folder_ / "half.safetensors", {"--dtype=float16"});
  EXPECT_CONTAINS(ReadFile(folder_ / "half.safetensors"), "\"F16\"");
  ExpectConverts("caffemodel", folder_ / "half.safetensors", folder_ / "half.caffemodel",
                 {Model()});
  EXPECT_NE(ReadFile(folder_ / "half.caffemodel"), model);
  EXPECT_EQ(ReadFile(folder_ / "half.caffemodel").size(), model.size());
}

TEST_F(ConvertNet, ReadsTheWeightsOfOnnxModels) {
  const CommandResult result = ToFile("onnx", folder_ / "s.npz", folder_ / "net.onnx", {Model()});
  if (result.status != 0) {
    ExpectOneLine(result, {"--to=onnx: in module onnx, which is not installed"});
    GTEST_SKIP() << "the module onnx is not installed";
  }
  ExpectConverts("caffemodel", folder_ / "net.onnx", folder_ / "back.caffemodel", {Model()});
  EXPECT_EQ(ReadFile(folder_ / "back.caffemodel"), ReadFile(model_));
}

TEST_F(ConvertNet, NamesWhatDoesNotFit) {
  const std::string arrays = folder_ / "a.safetensors", output = folder_ / "o.caffemodel";
  const auto write = [&](const std::string& header, size_t floats) {
    const uint64_t bytes = header.size();
    WriteFile(arrays, std::string(reinterpret_cast<const char*>(&bytes), 8) + header +
                          std::string(4 * floats, '\0'));
  };
  const std::string slope =
      "\"prelu.weight\":{\"dtype\":\"F32\",\"shape\":[2],"
      "\"data_offsets\":[0,8]}";
  const std::string weight =
      ",\"block.fc.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],"
      "\"data_offsets\":[8,32]}";
  const std::string bias =
      ",\"block.fc.1\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[32,40]}";
  write("{" + slope + weight + bias + "}", 10);
  ExpectConverts("caffemodel", arrays, output, {Model()});
  write("{" + slope + "}", 2);
  ExpectOneLine(ToFile("caffemodel", arrays, output, {Model()}),
                {arrays + ": no array for 'block/fc.0', 'block/fc.1'; expected the names"});
  write("{" + slope + weight + bias +
            ",\"more\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[40,44]}}",
        11);
  ExpectOneLine(ToFile("caffemodel", arrays, output, {Model()}),
                {arrays + ": the net has no parameter for 'more'; expected the names"});
  write("{\"prelu.0\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}", 2);
  ExpectOneLine(ToFile("caffemodel", arrays, output, {Model()}),
                {"array 'prelu.0': its shape is 1 x 2, expected 2, as the net has it"});
  write("{\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[0,8]}}", 2);
  ExpectOneLine(ToFile("npz", arrays, output), {"array 'x': type F8_E4M3 is not known"});
  write("{\"x\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 2);
  ExpectOneLine(ToFile("npz", arrays, output), {"array 'x': NumPy has no bfloat16"});
  ExpectConverts("npz", arrays, folder_ / "o.npz", {"--dtype=float32"});

  ExpectOneLine(ToFile("npz", net_, output), {net_});
  ExpectOneLine(ToFile("npz", folder_ / "none", output), {"none: "});
  ExpectOneLine(ToFile("caffemodel", arrays, output), {"--model is missing"});
  ExpectOneLine(ToFile("npz", model_, output, {"--dtype=int8"}),
                {"--dtype=int8: expected float32, float16 or bfloat16"});
  ExpectOneLine(ToFile("npz", model_, output, {"--names=letters"}),
                {"--names=letters: expected numbers or torch"});
  WriteFile(folder_ / "old.pt", "\x80\x02\x8a\x0al\xfc");
  ExpectOneLine(ToFile("npz", folder_ / "old.pt", output), {"PyTorch 1.6 or later"});
}

}  // namespace
}  // namespace millrace::test
