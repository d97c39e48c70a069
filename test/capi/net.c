// Nets: a small one with an input, a label, an inner product and a loss.
#include <math.h>

#include "test/capi/check.h"

static const char kNet[] =
    "name: 'line' layer { name: 'in' type: 'Input' top: 'x' top: 'label'"
    " input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }"
    " layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'"
    " inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }"
    " layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: 'loss' }";

static millrace_net* OpenLine(void) {
  millrace_net* net = NULL;
  millrace_net_options options = MILLRACE_NET_OPTIONS_INIT;
  options.train = 1;
  options.seed = 3;
  EXPECT_OK(millrace_net_open_text(kNet, "line.prototxt", &options, &net));
  return net;
}

static void WriteInputs(millrace_net* net) {
  millrace_array array = MILLRACE_ARRAY_INIT;
  int i = 0;
  EXPECT_OK(millrace_net_blob(net, "x", &array));
  for (i = 0; i < array.count; ++i) array.data[i] = (float)(i + 1) / 4;
  EXPECT_OK(millrace_net_blob(net, "label", &array));
  for (i = 0; i < array.count; ++i) array.data[i] = (float)(i % 2);
}

CAPI_TEST(Net) {
  millrace_net* net = OpenLine();
  millrace_array x = MILLRACE_ARRAY_INIT, y = MILLRACE_ARRAY_INIT, weight = MILLRACE_ARRAY_INIT;
  float loss = 0, again = 0, numeric = 0;
  float* weights = NULL;
  const float* gradients = NULL;
  size_t count = 0, i = 0;
  int64_t shape[2] = {5, 3};

  EXPECT(strcmp(millrace_net_name(net), "line") == 0);
  EXPECT(millrace_net_input_count(net) == 2);
  EXPECT(strcmp(millrace_net_input_name(net, 0), "x") == 0);
  EXPECT(millrace_net_output_count(net) == 1);
  EXPECT(strcmp(millrace_net_output_name(net, 0), "loss") == 0);
  EXPECT(millrace_net_blob_count(net) == 4);
  EXPECT(strcmp(millrace_net_blob_name(net, 2), "y") == 0);
  EXPECT(millrace_net_layer_count(net) == 3);
  EXPECT(strcmp(millrace_net_layer_name(net, 1), "ip") == 0);
  EXPECT(strcmp(millrace_net_layer_type(net, 1), "InnerProduct") == 0);
  EXPECT(millrace_net_parameter_count(net) == 2);
  EXPECT_OK(millrace_net_parameter(net, 0, &weight));
  EXPECT(strcmp(weight.name, "ip/0") == 0 && weight.axes == 2 && weight.count == 6);
  EXPECT(weight.shape[0] == 2 && weight.shape[1] == 3);
  EXPECT_OK(millrace_net_weights(net, &weights, &gradients, &count));
  EXPECT(weights == weight.data && gradients == weight.diff && count >= 8);
  EXPECT_OK(millrace_net_weights(net, NULL, NULL, NULL));

  WriteInputs(net);
  EXPECT_OK(millrace_net_forward(net, &loss));
  EXPECT(loss > 0);
  EXPECT_OK(millrace_net_backward(net));
  // The gradient of a weight is what the loss changes by.
  weight.data[0] += 1e-2f;
  EXPECT_OK(millrace_net_forward(net, &again));
  numeric = (again - loss) / 1e-2f;
  EXPECT(fabs(numeric - weight.diff[0]) < 5e-3);
  // A pass layer by layer is the same.
  EXPECT_OK(millrace_net_forward_layers(net, 0, 2, &loss));
  EXPECT(loss == again);
  EXPECT_OK(millrace_net_backward(net));
  numeric = weight.diff[0];
  EXPECT_OK(millrace_net_clear_gradients(net));
  EXPECT(weight.diff[0] == 0);
  EXPECT_OK(millrace_net_backward_layers(net, 2, 0));
  EXPECT(weight.diff[0] == numeric);

  // Another batch size.
  EXPECT_OK(millrace_net_reshape_blob(net, "x", shape, 2));
  EXPECT_OK(millrace_net_reshape_blob(net, "label", shape, 1));
  EXPECT_OK(millrace_net_reshape(net));
  EXPECT_OK(millrace_net_blob(net, "y", &y));
  EXPECT(y.axes == 2 && y.shape[0] == 5 && y.shape[1] == 2 && y.count == 10);
  WriteInputs(net);
  EXPECT_OK(millrace_net_forward(net, NULL));
  EXPECT_OK(millrace_net_blob(net, "x", &x));
  EXPECT_OK(millrace_net_parameter(net, 0, &weight));
  for (i = 0; i < 5; ++i) {
    const float* const row = x.data + 3 * i;
    const float sum = row[0] * weight.data[0] + row[1] * weight.data[1] + row[2] * weight.data[2];
    EXPECT(fabs(y.data[2 * i] - sum) < 1e-5);
  }
  millrace_net_close(net);
  millrace_net_close(NULL);
  (void)folder;
}

CAPI_TEST(NetFiles) {
  millrace_net *net = OpenLine(), *other = OpenLine(), *from_file = NULL;
  millrace_net_options options = MILLRACE_NET_OPTIONS_INIT;
  const char* const stages[] = {"deploy", NULL};
  millrace_array weight = MILLRACE_ARRAY_INIT, copy = MILLRACE_ARRAY_INIT;
  const char* const model = CapiPath(folder, LANGUAGE "_line.caffemodel");
  int layers = 0;

  EXPECT_OK(millrace_net_parameter(net, 0, &weight));
  EXPECT_OK(millrace_net_parameter(other, 0, &copy));
  weight.data[4] = 17;
  EXPECT_OK(millrace_net_save(net, model));
  EXPECT_OK(millrace_net_load(other, model, &layers));
  EXPECT(layers == 1 && copy.data[4] == 17);
  EXPECT_OK(millrace_net_load(other, model, NULL));
  EXPECT_ERROR(millrace_net_load(other, CapiPath(folder, "none.caffemodel"), NULL),
               "none.caffemodel");
  EXPECT_ERROR(millrace_net_save(net, CapiPath(folder, "none/x.caffemodel")), "x.caffemodel");

  EXPECT_OK(millrace_net_share_weights(other, net));
  weight.data[4] = 18;
  EXPECT_OK(millrace_net_parameter(other, 0, &copy));
  EXPECT(copy.data[4] == 18);
  millrace_net_close(other);
  millrace_net_close(net);

  options.stages = stages;
  options.level = 1;
  options.train = 1;
  EXPECT_OK(millrace_net_open(CapiPath(folder, "net.prototxt"), &options, &from_file));
  EXPECT(millrace_net_parameter_count(from_file) == 4);
  EXPECT_OK(millrace_net_forward(from_file, NULL));
  millrace_net_close(from_file);
  from_file = NULL;
  EXPECT_ERROR(millrace_net_open(CapiPath(folder, "none.prototxt"), NULL, &from_file),
               "none.proto");
  EXPECT_ERROR(millrace_net_open_text("layer { name: 3", "bad.prototxt", NULL, &from_file),
               "bad.prototxt");
  EXPECT_ERROR(millrace_net_open_text("layer { name: 'a' type: 'Nothing' }", "bad.prototxt", NULL,
                                      &from_file),
               "Nothing");
  EXPECT(from_file == NULL);
}

CAPI_TEST(NetMemoryData) {
  static const char kMemory[] =
      "layer { name: 'data' type: 'MemoryData' top: 'x' top: 'label'"
      " memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }";
  millrace_net* net = NULL;
  millrace_array x = MILLRACE_ARRAY_INIT;
  const float values[6] = {1, 2, 3, 4, 5, 6}, labels[2] = {0, 1};

  EXPECT_OK(millrace_net_open_text(kMemory, "memory", NULL, &net));
  EXPECT_OK(millrace_net_set_memory_data(net, "data", values, 6, labels, 2));
  EXPECT_OK(millrace_net_forward(net, NULL));
  EXPECT_OK(millrace_net_blob(net, "x", &x));
  EXPECT(x.count == 6 && x.data[5] == 6);
  EXPECT_ERROR(millrace_net_set_memory_data(net, "data", values, 5, labels, 2), "data");
  EXPECT_ERROR(millrace_net_set_memory_data(net, "none", values, 6, labels, 2), "none");
  EXPECT_ERROR(millrace_net_set_memory_data(net, NULL, values, 6, labels, 2), "layer is NULL");
  EXPECT_ERROR(millrace_net_set_memory_data(net, "data", NULL, 6, labels, 2), "values is NULL");
  EXPECT_ERROR(millrace_net_set_memory_data(net, "data", values, 6, NULL, 2), "labels is NULL");
  EXPECT_ERROR(millrace_net_set_memory_data(NULL, "data", values, 6, labels, 2), "net is NULL");
  millrace_net_close(net);
  (void)folder;
}

CAPI_TEST(NetMistakes) {
  millrace_net *net = OpenLine(), *other = NULL;
  millrace_net_options options = MILLRACE_NET_OPTIONS_INIT;
  millrace_array array = MILLRACE_ARRAY_INIT;
  // A struct of a later version: known fields, and one more.
  struct {
    millrace_net_options known;
    int64_t later;
  } newer = {MILLRACE_NET_OPTIONS_INIT, 0};
  const int64_t shape[3] = {2, -1, 1 << 20}, large[2] = {1 << 20, 1 << 20};

  newer.known.size = sizeof(newer);
  EXPECT_OK(millrace_net_open_text(kNet, "line", &newer.known, &other));
  millrace_net_close(other);
  other = NULL;
  newer.later = 1;
  EXPECT_ERROR(millrace_net_open_text(kNet, "line", &newer.known, &other), "of a later version");
  options.size = sizeof(options) - 1;
  EXPECT_ERROR(millrace_net_open_text(kNet, "line", &options, &other),
               "expected sizeof(millrace_net_options)");
  options.size = SIZE_MAX;
  EXPECT_ERROR(millrace_net_open(kNet, &options, &other), "millrace_net_options: size is");
  EXPECT_ERROR(millrace_net_open(NULL, NULL, &other), "net_file is NULL");
  EXPECT_ERROR(millrace_net_open("x", NULL, NULL), "net is NULL");
  EXPECT_ERROR(millrace_net_open_text(NULL, "line", NULL, &other), "text is NULL");
  EXPECT_ERROR(millrace_net_open_text(kNet, NULL, NULL, &other), "name is NULL");
  EXPECT_ERROR(millrace_net_open_text(kNet, "line", NULL, NULL), "net is NULL");
  EXPECT(other == NULL);

  EXPECT_VALUE_ERROR(millrace_net_name(NULL), NULL, "millrace_net_name: net is NULL");
  EXPECT_ERROR(millrace_net_load(NULL, "x", NULL), "net is NULL");
  EXPECT_ERROR(millrace_net_load(net, NULL, NULL), "model_file is NULL");
  EXPECT_ERROR(millrace_net_save(NULL, "x"), "net is NULL");
  EXPECT_ERROR(millrace_net_save(net, NULL), "model_file is NULL");
  EXPECT_ERROR(millrace_net_share_weights(NULL, net), "net is NULL");
  EXPECT_ERROR(millrace_net_share_weights(net, NULL), "other is NULL");
  EXPECT_VALUE_ERROR(millrace_net_blob_count(NULL), 0, "net is NULL");
  EXPECT_VALUE_ERROR(millrace_net_blob_name(net, 4), NULL, "index is 4, expected less than 4");
  EXPECT_VALUE_ERROR(millrace_net_blob_name(NULL, 0), NULL, "net is NULL");
  EXPECT_VALUE_ERROR(millrace_net_input_count(NULL), 0, "net is NULL");
  EXPECT_VALUE_ERROR(millrace_net_input_name(net, 2), NULL, "expected less than 2");
  EXPECT_VALUE_ERROR(millrace_net_output_count(NULL), 0, "net is NULL");
  EXPECT_VALUE_ERROR(millrace_net_output_name(net, 1), NULL, "expected less than 1");
  EXPECT_VALUE_ERROR(millrace_net_layer_count(NULL), 0, "net is NULL");
  EXPECT_VALUE_ERROR(millrace_net_layer_name(net, 3), NULL, "expected less than 3");
  EXPECT_VALUE_ERROR(millrace_net_layer_type(net, 3), NULL, "expected less than 3");
  EXPECT_VALUE_ERROR(millrace_net_parameter_count(NULL), 0, "net is NULL");
  EXPECT_ERROR(millrace_net_parameter(net, 2, &array), "expected less than 2");
  EXPECT_ERROR(millrace_net_parameter(net, 0, NULL), "millrace_array is NULL");
  EXPECT_ERROR(millrace_net_parameter(NULL, 0, &array), "net is NULL");
  EXPECT_ERROR(millrace_net_weights(NULL, NULL, NULL, NULL), "net is NULL");
  EXPECT_ERROR(millrace_net_blob(net, "none", &array), "none");
  EXPECT_ERROR(millrace_net_blob(net, NULL, &array), "name is NULL");
  EXPECT_ERROR(millrace_net_blob(net, "x", NULL), "millrace_array is NULL");
  EXPECT_ERROR(millrace_net_blob(NULL, "x", &array), "net is NULL");
  array.size = 0;
  EXPECT_ERROR(millrace_net_blob(net, "x", &array), "size is 0, expected sizeof(millrace_array)");
  EXPECT_ERROR(millrace_net_reshape_blob(net, "x", shape, 3), "axis 1 has length -1");
  EXPECT_ERROR(millrace_net_reshape_blob(net, "x", large, 2), "values in all");
  EXPECT_ERROR(millrace_net_reshape_blob(net, "x", shape, -1), "-1 axes");
  EXPECT_ERROR(millrace_net_reshape_blob(net, "x", shape, 33), "33 axes");
  EXPECT_ERROR(millrace_net_reshape_blob(net, "x", NULL, 1), "shape is NULL");
  EXPECT_ERROR(millrace_net_reshape_blob(net, "none", shape, 1), "none");
  EXPECT_ERROR(millrace_net_reshape_blob(NULL, "x", shape, 1), "net is NULL");
  EXPECT_ERROR(millrace_net_reshape(NULL), "net is NULL");
  EXPECT_ERROR(millrace_net_backward(net), "Forward");
  EXPECT_ERROR(millrace_net_backward(NULL), "net is NULL");
  EXPECT_ERROR(millrace_net_forward(NULL, NULL), "net is NULL");
  EXPECT_ERROR(millrace_net_forward_layers(net, 1, 3, NULL), "expected a range of 0 to 2");
  EXPECT_ERROR(millrace_net_forward_layers(NULL, 0, 0, NULL), "net is NULL");
  EXPECT_ERROR(millrace_net_backward_layers(net, 0, 1), "expected a range of 0 to 2");
  EXPECT_ERROR(millrace_net_backward_layers(NULL, 0, 0), "net is NULL");
  EXPECT_ERROR(millrace_net_clear_gradients(NULL), "net is NULL");
  // Bad data: labels that are no class.
  WriteInputs(net);
  array.size = sizeof(array);
  EXPECT_OK(millrace_net_blob(net, "label", &array));
  array.data[0] = 9;
  EXPECT_ERROR(millrace_net_forward(net, NULL), "label");
  // Shapes that no longer fit fail in the pass, and the net is usable afterwards.
  array.data[0] = 0;
  EXPECT_OK(millrace_net_reshape_blob(net, "x", large, 1));
  EXPECT_ERROR(millrace_net_forward(net, NULL), "layer");
  millrace_net_close(net);
  (void)folder;
}
