// The public class Net: a net with weights and data of its own.
#include "millrace/net.h"

#include "data/data_service.h"
#include "nn/net_text.h"
#include "proto/parse.h"
#include "train/net_view.h"
#include "train/one_omp_thread.h"
#include "weights/weight_buffer.h"

namespace millrace {
namespace {

BuiltNetOptions InternalOptions(const caffe::NetParameter& net, const NetOptions& options,
                                DataService* data) {
  BuiltNetOptions all;
  all.state = net.state();  // as in Caffe, its stages count beside those of the options
  all.state.set_phase(options.train ? caffe::TRAIN : caffe::TEST);
  all.state.set_level(options.level);
  for (const std::string& stage : options.stages) all.state.add_stage(stage);
  all.seed = options.seed;
  all.data = data;
  all.keep_activations = true;
  all.plain_blobs = options.plain_blobs;
  // Caffe's force_backward: gradients flow in a net without a loss, too.
  all.backward_without_loss = options.plain_blobs && net.force_backward();
  all.data_scope = options.train ? "train" : "test0";
  return all;
}

// Parts that the net needs, in order of construction.
struct Parts {
  Parts(const caffe::NetParameter& param, const SourceMap& source, const NetOptions& options)
      : data(DataOptions{.seed = options.seed}),
        net(param, source, InternalOptions(param, options, &data)),
        buffer(WeightBuffer::CreatePrivate(net.layout())) {
    net.LogNotices();
    net.BindWeights(buffer->data());
    net.FillWeights();
  }

  DataService data;
  BuiltNet net;
  const std::unique_ptr<WeightBuffer> buffer;
};

class OwnNet : private Parts, public NetView {
 public:
  OwnNet(const caffe::NetParameter& param, const SourceMap& source, const NetOptions& options)
      : Parts(param, source, options),
        NetView(&net, {buffer->data(), static_cast<size_t>(buffer->size())}, options.plain_blobs) {}
};

std::unique_ptr<Net> Make(const caffe::NetParameter& param, const SourceMap& source,
                          const NetOptions& options) {
  const OneOmpThread one;
  return std::make_unique<OwnNet>(param, source, options);
}

}  // namespace

std::unique_ptr<Net> Net::Open(const std::string& net_file, const NetOptions& options) {
  caffe::NetParameter param;
  SourceMap source;
  LoadNet(net_file, &param, &source);
  return Make(param, source, options);
}

std::unique_ptr<Net> Net::OpenText(const std::string& text, const std::string& name,
                                   const NetOptions& options) {
  caffe::NetParameter param;
  SourceMap source;
  ParseNet(text, name, &param, &source);
  return Make(param, source, options);
}

std::unique_ptr<Net> Net::Create(const caffe::NetParameter& param, const NetOptions& options) {
  // Errors have no line, but begin with the net's name.
  caffe::NetParameter none;
  SourceMap source;
  ParseText("name: ''", StrCat("net '", param.name(), "'"), &none, &source);
  return Make(param, source, options);
}

}  // namespace millrace
