// Nets in C.
#include "capi/net.h"

#include "capi/arrays.h"
#include "capi/call.h"

using millrace::Call;
using millrace::Given;
using millrace::GivenText;
using millrace::ValueOf;

millrace_net::millrace_net(millrace::Net* given) : net(*given) {
  for (const millrace::NetBlob& blob : net.blobs()) blobs.push_back(texts.Keep(blob.name));
  for (const millrace::NetBlob& blob : net.inputs()) inputs.push_back(texts.Keep(blob.name));
  for (const millrace::NetBlob& blob : net.outputs()) outputs.push_back(texts.Keep(blob.name));
  for (const millrace::NetLayer& layer : net.layers()) {
    layer_names.push_back(texts.Keep(layer.name));
    layer_types.push_back(texts.Keep(layer.type));
    for (size_t i = 0; i < layer.weights.size(); ++i) {
      parameters.push_back({texts.Keep(millrace::StrCat(layer.name, "/", i)), layer.weights[i]});
    }
  }
}

namespace {

template <typename Open>
int OpenNet(const char* function, const millrace_net_options* given, millrace_net** result,
            Open open) {
  return Call(function, [&] {
    Given(function, "net", result);
    const millrace_net_options options =
        millrace::TakenOr(function, "millrace_net_options", given, {});
    *result = new millrace_net(open({.train = options.train != 0,
                                     .level = options.level,
                                     .stages = millrace::ListOf(options.stages),
                                     .seed = options.seed == 0 ? 1 : options.seed,
                                     .plain_blobs = true}));
  });
}

using Names = std::vector<const char*> millrace_net::*;

size_t CountOf(const char* function, const millrace_net* net, Names names) {
  return ValueOf(function, size_t{0}, [&] { return (Given(function, "net", net).*names).size(); });
}

const char* NameAt(const char* function, const millrace_net* net, Names names, size_t index) {
  return ValueOf(function, static_cast<const char*>(nullptr),
                 [&] { return millrace::At(function, Given(function, "net", net).*names, index); });
}

}  // namespace

int millrace_net_open(const char* net_file, const millrace_net_options* options,
                      millrace_net** net) {
  return OpenNet(__func__, options, net, [&](const millrace::NetOptions& net_options) {
    return millrace::Net::Open(GivenText("millrace_net_open", "net_file", net_file), net_options);
  });
}

int millrace_net_open_text(const char* text, const char* name, const millrace_net_options* options,
                           millrace_net** net) {
  return OpenNet(__func__, options, net, [&](const millrace::NetOptions& net_options) {
    return millrace::Net::OpenText(GivenText("millrace_net_open_text", "text", text),
                                   GivenText("millrace_net_open_text", "name", name), net_options);
  });
}

// A session's net goes with its session.
void millrace_net_close(millrace_net* net) {
  if (net != nullptr && net->owned) delete net;
}

const char* millrace_net_name(millrace_net* net) {
  const char* const function = __func__;
  return ValueOf(function, static_cast<const char*>(nullptr),
                 [&] { return Given(function, "net", net).texts.Keep(net->net.name()); });
}

int millrace_net_load(millrace_net* net, const char* model_file, int* layers) {
  const char* const function = __func__;
  return Call(function, [&] {
    const int matched =
        Given(function, "net", net).net.LoadWeights(GivenText(function, "model_file", model_file));
    if (layers != nullptr) *layers = matched;
  });
}

int millrace_net_save(millrace_net* net, const char* model_file) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "net", net).net.SaveWeights(GivenText(function, "model_file", model_file));
  });
}

int millrace_net_share_weights(millrace_net* net, millrace_net* other) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "net", net).net.ShareWeights(Given(function, "other", other).net);
  });
}

size_t millrace_net_blob_count(millrace_net* net) {
  return CountOf(__func__, net, &millrace_net::blobs);
}
const char* millrace_net_blob_name(millrace_net* net, size_t index) {
  return NameAt(__func__, net, &millrace_net::blobs, index);
}
size_t millrace_net_input_count(millrace_net* net) {
  return CountOf(__func__, net, &millrace_net::inputs);
}
const char* millrace_net_input_name(millrace_net* net, size_t index) {
  return NameAt(__func__, net, &millrace_net::inputs, index);
}
size_t millrace_net_output_count(millrace_net* net) {
  return CountOf(__func__, net, &millrace_net::outputs);
}
const char* millrace_net_output_name(millrace_net* net, size_t index) {
  return NameAt(__func__, net, &millrace_net::outputs, index);
}

int millrace_net_blob(millrace_net* net, const char* name, millrace_array* blob) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::CheckResult(function, "millrace_array", blob);
    const std::string text = GivenText(function, "name", name);
    const millrace::Blob& found = Given(function, "net", net).net.blob(text);
    millrace::Give(millrace::ArrayOf(net->texts.Keep(text), found, true, true), blob);
  });
}

int millrace_net_reshape_blob(millrace_net* net, const char* name, const int64_t* shape, int axes) {
  const char* const function = __func__;
  return Call(function, [&] {
    const millrace::Shape lengths = millrace::ShapeFrom(function, shape, axes);
    Given(function, "net", net).net.blob(GivenText(function, "name", name)).Reshape(lengths);
  });
}

int millrace_net_reshape(millrace_net* net) {
  const char* const function = __func__;
  return Call(function, [&] { Given(function, "net", net).net.Reshape(); });
}

int millrace_net_set_memory_data(millrace_net* net, const char* layer, const float* values,
                                 size_t value_count, const float* labels, size_t label_count) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "net", net)
        .net.SetMemoryData(GivenText(function, "layer", layer),
                           {&Given(function, "values", values), value_count},
                           {&Given(function, "labels", labels), label_count});
  });
}

size_t millrace_net_parameter_count(millrace_net* net) {
  const char* const function = __func__;
  return ValueOf(function, size_t{0},
                 [&] { return Given(function, "net", net).parameters.size(); });
}

int millrace_net_parameter(millrace_net* net, size_t index, millrace_array* array) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::CheckResult(function, "millrace_array", array);
    const millrace_net::Parameter& parameter =
        millrace::At(function, Given(function, "net", net).parameters, index);
    millrace::Give(millrace::ArrayOf(parameter.name, *parameter.blob, true, true), array);
  });
}

int millrace_net_weights(millrace_net* net, float** weights, const float** gradients,
                         size_t* count) {
  const char* const function = __func__;
  return Call(function, [&] {
    const std::span<float> all = Given(function, "net", net).net.weights();
    if (gradients != nullptr) *gradients = all.empty() ? nullptr : net->net.gradients().data();
    if (weights != nullptr) *weights = all.data();
    if (count != nullptr) *count = all.size();
  });
}

int millrace_net_forward(millrace_net* net, float* loss) {
  const char* const function = __func__;
  return Call(function, [&] {
    const float computed = Given(function, "net", net).net.Forward();
    if (loss != nullptr) *loss = computed;
  });
}

int millrace_net_backward(millrace_net* net) {
  const char* const function = __func__;
  return Call(function, [&] { Given(function, "net", net).net.Backward(); });
}

size_t millrace_net_layer_count(millrace_net* net) {
  return CountOf(__func__, net, &millrace_net::layer_names);
}
const char* millrace_net_layer_name(millrace_net* net, size_t index) {
  return NameAt(__func__, net, &millrace_net::layer_names, index);
}
const char* millrace_net_layer_type(millrace_net* net, size_t index) {
  return NameAt(__func__, net, &millrace_net::layer_types, index);
}

int millrace_net_forward_layers(millrace_net* net, size_t first, size_t last, float* loss) {
  const char* const function = __func__;
  return Call(function, [&] {
    const float computed = Given(function, "net", net).net.ForwardLayers(first, last);
    if (loss != nullptr) *loss = computed;
  });
}

int millrace_net_backward_layers(millrace_net* net, size_t last, size_t first) {
  const char* const function = __func__;
  return Call(function, [&] { Given(function, "net", net).net.BackwardLayers(last, first); });
}

int millrace_net_clear_gradients(millrace_net* net) {
  const char* const function = __func__;
  return Call(function, [&] { Given(function, "net", net).net.ClearGradients(); });
}
