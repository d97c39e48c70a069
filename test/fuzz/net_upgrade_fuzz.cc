// Binary nets of any format, as upgrade_net_proto_binary reads them: refused with one line that
// names the file, or upgraded to a net that needs no upgrade, has the same weights, and is written
// and read again without a change.
#include "base/error.h"
#include "proto/upgrade.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

std::string Binary(const std::string& text) {
  caffe::NetParameter net;
  ParseText(text, "net", &net, nullptr);
  return net.SerializeAsString();
}

// The number of arrays of all layers, but for those of padding layers and beside V0 layers, which
// the upgrade drops.
size_t Blobs(const caffe::NetParameter& net) {
  size_t blobs = 0;
  for (const auto& layer : net.layer()) blobs += layer.blobs_size();
  for (const auto& layer : net.layers()) {
    if (layer.layer().type() == "padding") continue;
    blobs += layer.has_layer() ? layer.layer().blobs_size() : layer.blobs_size();
  }
  return blobs;
}

}  // namespace

std::vector<std::string> Corpus() {
  return {
      Binary("name: 'n' input: 'x' layers { layer { name: 'c' type: 'conv' num_output: 1 blobs { "
             "num: 1 channels: 1 height: 1 width: 2 data: 1 data: 2 } } bottom: 'x' top: 'c' }"),
      Binary(
          "layers { layer { name: 'p' type: 'padding' pad: 2 } top: 'p' } layers { layer { name: "
          "'q' type: 'pool' stride: 2 } bottom: 'p' top: 'q' }"),
      Binary("layers { name: 'c' type: CONVOLUTION blobs { shape { dim: 2 } data: 1 data: 2 } "
             "blobs_lr: 1 param: 'w' data_param { scale: 1 } }"),
      Binary("layers { name: 'd' type: DATA data_param { scale: 1 crop_size: 3 } top: 'd' }"),
      Binary(
          "input: 'x' input_shape { dim: 1 } layer { name: 'b' type: 'BatchNorm' param { } param { "
          "} param { } blobs { data: 1 } }"),
      Binary("layer { name: 'a' } layers { name: 'b' }"),
  };
}

bool Target(const std::string& input) {
  const MemoryFile file(input);
  try {
    caffe::NetParameter net;
    LoadBinary(file.path(), "a net in binary form", &net);
    const size_t blobs = Blobs(net);
    UpgradeNet(SourceMap(file.path()), &net);
    caffe::NetParameter again;
    const std::string written = net.SerializeAsString();
    return !NeedsUpgrade(net) && Blobs(net) == blobs && again.ParseFromString(written) &&
           again.SerializeAsString() == written;
  } catch (const Error& error) {
    return IsOneLineNaming(error, {file.path()});
  }
}

}  // namespace millrace::fuzz
