// Net prototxts in Caffe's three formats: parsing, upgrade, layer selection, insertion of splits,
// and names.
#include <set>

#include "base/error.h"
#include "nn/net_param.h"
#include "proto/parse.h"
#include "proto/upgrade.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {

std::vector<std::string> Corpus() {
  return {
      "name: 'n' layer { name: 'd' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } "
      "}\n"
      "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'x' include { phase: TRAIN } }\n"
      "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'y' loss_weight: 1\n"
      "  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'a' type: 'Softmax' bottom: 'y' top: 'z' exclude { stage: 's' } }\n",
      "input: 'x' input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4\n"
      "layer { type: 'Pooling' bottom: 'x' bottom: 'x' top: 'q' }\n"
      "layer { type: 'BatchNorm' bottom: 'q' top: 'q' param { } param { } param { lr_mult: 1 } }",
      "layers { name: 'old' }",
      "input: 'x' input_shape { dim: 1 dim: 2 }\n"
      "layers { name: 'd' type: DATA top: 'd' data_param { scale: 2 mean_file: 'm' mirror: true } "
      "}\n"
      "layers { name: 'c' type: CONVOLUTION bottom: 'd' top: 'c' blobs_lr: 1 blobs_lr: 2\n"
      "  weight_decay: 0 param: 'w' blob_share_mode: PERMISSIVE include { phase: TEST }\n"
      "  convolution_param { num_output: 3 kernel_size: 1 } blobs { num: 1 data: 2 } }\n"
      "layers { name: 'i' type: IMAGE_DATA top: 'i' image_data_param { crop_size: 2 } }\n"
      "layers { name: 'l' type: SOFTMAX_LOSS bottom: 'c' bottom: 'i' loss_weight: 1 top: 'l' }\n",
      "input: 'x' input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4\n"
      "layers { layer { name: 'p' type: 'padding' pad: 2 } bottom: 'x' top: 'p' }\n"
      "layers { layer { name: 'c' type: 'conv' num_output: 2 kernelsize: 3 biasterm: false\n"
      "  weight_filler { type: 'xavier' } blobs_lr: 1 } bottom: 'p' top: 'c' }\n"
      "layers { layer { name: 'm' type: 'pool' pool: AVE stride: 2 } bottom: 'c' top: 'm' }\n"
      "layers { layer { name: 'n' type: 'lrn' local_size: 3 alpha: 0.5 } bottom: 'm' top: 'n' }\n"
      "layers { layer { name: 'w' type: 'window_data' det_crop_mode: 'square' batchsize: 2\n"
      "  new_height: 3 rand_skip: 1 } top: 'w' }\n"
      "layers { layer { name: 'h' type: 'hdf5_output' hdf5_output_param { file_name: 'f' } }\n"
      "  bottom: 'n' bottom: 'w' }\n",
  };
}

bool Target(const std::string& input) {
  try {
    caffe::NetParameter net;
    SourceMap source;
    ParseText(input, "net", &net, &source);
    caffe::NetParameter today = net;
    const NetUpgrade upgrade = UpgradeNet(source, &today);
    // There is nothing left to upgrade, and each layer has a place.
    if (NeedsUpgrade(today) || upgrade.changes.empty() == NeedsUpgrade(net) ||
        upgrade.layer_paths.size() != static_cast<size_t>(today.layer_size())) {
      return false;
    }
    for (const caffe::Phase phase : {caffe::TRAIN, caffe::TEST}) {
      caffe::NetState state;
      state.set_phase(phase);
      std::vector<PlacedLayer> layers = InsertSplits(SelectLayers(net, state, source), source);
      GiveUniqueNames(&layers);
      std::set<std::string> names;
      for (const PlacedLayer& layer : layers) {
        if (!names.insert(layer.param.name()).second) return false;
      }
    }
  } catch (const Error& error) {
    return std::string(error.what()).find('\n') == std::string::npos;
  }
  return true;
}

}  // namespace millrace::fuzz
