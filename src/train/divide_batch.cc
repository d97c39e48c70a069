#include "train/divide_batch.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "base/text/parse.h"
#include "nn/net_param.h"

namespace millrace::inline train {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The layer of `net` at a path of SelectLayers: layer[i], or layers[i] in an earlier format.
Message* LayerAt(const std::string& path, caffe::NetParameter* net) {
  const size_t bracket = path.find('[');
  const auto index = ParseNumber<int>(path.substr(bracket + 1, path.size() - bracket - 2));
  if (path.starts_with("layers")) return net->mutable_layers(index.value());
  return net->mutable_layer(index.value());
}

// Divides each field batch_size of the layer's own messages. Returns how many there were.
int DivideIn(int solvers, Message* layer) {
  int found = 0;
  std::vector<const FieldDescriptor*> fields;
  layer->GetReflection()->ListFields(*layer, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated()) continue;
    const FieldDescriptor* const size = field->message_type()->FindFieldByName("batch_size");
    if (size == nullptr || size->cpp_type() != FieldDescriptor::CPPTYPE_UINT32) continue;
    Message* const message = layer->GetReflection()->MutableMessage(layer, field);
    const uint32_t total = message->GetReflection()->GetUInt32(*message, size);
    if (total == 0) continue;
    if (total % static_cast<uint32_t>(solvers) != 0) {
      throw FieldError(field->name() + ".batch_size", "is ", total,
                       ", which strategy.param divide_batch divides over ", solvers,
                       " solvers, expected a multiple of ", solvers);
    }
    message->GetReflection()->SetUInt32(message, size, total / static_cast<uint32_t>(solvers));
    ++found;
  }
  return found;
}

}  // namespace

void DivideBatch(int solvers, SolverNet* net) {
  int found = 0;
  for (const PlacedLayer& layer : SelectLayers(net->param, net->state, net->source)) {
    if (layer.path.empty()) continue;
    try {
      found += DivideIn(solvers, LayerAt(layer.path, &net->param));
    } catch (const FieldError& error) {
      throw Error(PlaceOf(net->source, layer, error.field()), error.what());
    }
  }
  if (found == 0) {
    throw Error(net->origin,
                ": no layer has a batch_size that strategy.param divide_batch divides");
  }
}

}  // namespace millrace::inline train
