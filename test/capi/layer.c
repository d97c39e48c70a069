// A layer as a table of functions: y = factor * s * x, with a learnable s; and its mistakes.
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "millrace/plugin.h"
#include "test/capi/check.h"

typedef struct State {
  double factor;
  int* destroyed;
} State;

static int destroyed = 0;
static const char* refuse = "";  // the function that is to report an error

static int Refused(const char* function) {
  return strcmp(refuse, function) == 0 ? millrace_fail("%s is refused", function) : MILLRACE_OK;
}

// The functions of a layer refuse what does not belong to their step.
static void CheckStep(millrace_layer* layer, int create, int reshape, int backward) {
  const int64_t shape[1] = {1};
  millrace_array array = MILLRACE_ARRAY_INIT;
  if (!create) {
    EXPECT_ERROR(millrace_layer_add_parameter(layer, shape, 1, NULL), "call within create");
  }
  if (!reshape) EXPECT_ERROR(millrace_layer_set_shape(layer, 0, shape, 1), "call within reshape");
  if (!backward) EXPECT_ERROR(millrace_layer_propagates(layer, 0), "call within backward");
  EXPECT_ERROR(millrace_layer_bottom(layer, 1, &array), "expected less than 1");
  EXPECT_ERROR(millrace_layer_top(layer, 1, &array), "expected less than 1");
  EXPECT_ERROR(millrace_layer_bottom(layer, 0, NULL), "millrace_array is NULL");
  EXPECT_OK(millrace_layer_bottom(layer, 0, &array));
  EXPECT((array.data != NULL) == (!create && !reshape) && array.count == 6);
  EXPECT(millrace_layer_bottom_count(layer) == 1 && millrace_layer_top_count(layer) == 1);
}

static int Create(millrace_layer* layer, void* user, void** state) {
  static State states[64];
  static int used = 0;
  millrace_filler filler = MILLRACE_FILLER_INIT;
  double number = 0;
  State* const made = &states[used++ % 64];

  CheckStep(layer, 1, 0, 0);
  made->destroyed = (int*)user;
  if (Refused("create") != MILLRACE_OK) return MILLRACE_ERROR;
  EXPECT(strcmp(millrace_layer_name(layer), "scaled") == 0);
  EXPECT(millrace_layer_is_training(layer) == 1);
  EXPECT_ERROR(millrace_layer_number(layer, "none", 0, &number), "not one of its parameters");
  EXPECT_ERROR(millrace_layer_number(layer, NULL, 0, &number), "key is NULL");
  EXPECT_ERROR(millrace_layer_number(layer, "factor", 0, NULL), "number is NULL");
  EXPECT_VALUE_ERROR(millrace_layer_text(layer, "none", ""), NULL, "not one of its parameters");
  EXPECT(strcmp(millrace_layer_text(layer, "mood", "calm"), "calm") == 0);
  if (millrace_layer_number(layer, "factor", 1, &made->factor) != MILLRACE_OK) {
    return MILLRACE_ERROR;
  }
  filler.value = 3;
  EXPECT_ERROR(millrace_layer_add_parameter(layer, NULL, 1, &filler), "shape is NULL");
  filler.size = 1;
  EXPECT_ERROR(millrace_layer_add_parameter(layer, NULL, 0, &filler), "millrace_filler: size is 1");
  filler.size = sizeof(filler);
  EXPECT_OK(millrace_layer_add_parameter(layer, NULL, 0, &filler));
  *state = made;
  return MILLRACE_OK;
}

static void Destroy(void* state) { ++*((State*)state)->destroyed; }

static int Reshape(millrace_layer* layer, void* state) {
  millrace_array x = MILLRACE_ARRAY_INIT;
  const int64_t negative[1] = {-1};
  (void)state;
  CheckStep(layer, 0, 1, 0);
  if (Refused("reshape") != MILLRACE_OK) return MILLRACE_ERROR;
  EXPECT_OK(millrace_layer_bottom(layer, 0, &x));
  EXPECT_ERROR(millrace_layer_set_shape(layer, 1, x.shape, x.axes), "expected less than 1");
  EXPECT_ERROR(millrace_layer_set_shape(layer, 0, negative, 1), "length -1");
  return millrace_layer_set_shape(layer, 0, x.shape, x.axes);
}

static int Forward(millrace_layer* layer, void* state) {
  millrace_array x = MILLRACE_ARRAY_INIT, y = MILLRACE_ARRAY_INIT, s = MILLRACE_ARRAY_INIT;
  int64_t i = 0;
  if (strcmp(refuse, "silent") == 0) return MILLRACE_ERROR;
  CheckStep(layer, 0, 0, 0);
  if (Refused("forward") != MILLRACE_OK) return MILLRACE_ERROR;
  EXPECT_OK(millrace_layer_bottom(layer, 0, &x));
  EXPECT_OK(millrace_layer_top(layer, 0, &y));
  EXPECT_OK(millrace_layer_parameter(layer, 0, &s));
  EXPECT(strcmp(s.name, "scaled/0") == 0 && s.axes == 0 && s.count == 1 && s.diff == NULL);
  EXPECT(x.diff == NULL && y.diff == NULL && strcmp(y.name, "y") == 0);
  EXPECT_ERROR(millrace_layer_parameter(layer, 1, &s), "expected less than 1");
  for (i = 0; i < x.count; ++i) {
    y.data[i] = (float)((State*)state)->factor * s.data[0] * x.data[i];
  }
  return MILLRACE_OK;
}

static int Backward(millrace_layer* layer, void* state) {
  millrace_array x = MILLRACE_ARRAY_INIT, y = MILLRACE_ARRAY_INIT, s = MILLRACE_ARRAY_INIT;
  const float factor = (float)((State*)state)->factor;
  int64_t i = 0;
  CheckStep(layer, 0, 0, 1);
  if (Refused("backward") != MILLRACE_OK) return MILLRACE_ERROR;
  EXPECT_OK(millrace_layer_bottom(layer, 0, &x));
  EXPECT_OK(millrace_layer_top(layer, 0, &y));
  EXPECT_OK(millrace_layer_parameter(layer, 0, &s));
  EXPECT(millrace_layer_learns(layer, 0) == 1);
  EXPECT_ERROR(millrace_layer_learns(layer, 1), "expected less than 1");
  EXPECT_ERROR(millrace_layer_propagates(layer, 1), "expected less than 1");
  EXPECT((x.diff != NULL) == (millrace_layer_propagates(layer, 0) == 1));
  for (i = 0; i < x.count; ++i) {
    s.diff[0] += factor * x.data[i] * y.diff[i];
    if (x.diff != NULL) x.diff[i] = factor * s.data[0] * y.diff[i];
  }
  return MILLRACE_OK;
}

static const char* const kParameters[] = {"factor", "mood", NULL};

static millrace_layer_type Table(void) {
  millrace_layer_type type;
  memset(&type, 0, sizeof(type));
  type.size = sizeof(type);
  type.name = LANGUAGE "Scale";
  type.user = &destroyed;
  type.min_bottom = type.max_bottom = type.min_top = type.max_top = 1;
  type.parameters = kParameters;
  type.create = Create;
  type.destroy = Destroy;
  type.reshape = Reshape;
  type.forward = Forward;
  type.backward = Backward;
  return type;
}

static millrace_net* OpenScaled(const char* fields, int* status) {
  char text[2000];
  millrace_net* net = NULL;
  millrace_net_options options = MILLRACE_NET_OPTIONS_INIT;
  options.train = 1;
  snprintf(text, sizeof(text),
           "force_backward: true layer { name: 'in' type: 'Input' top: 'x' top: 't'"
           " input_param { shape { dim: 2 dim: 3 } } }"
           " layer { name: 'scaled' type: '" LANGUAGE
           "Scale' bottom: 'x' top: 'y' %s }"
           " layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' }",
           fields);
  *status = millrace_net_open_text(text, "scaled.prototxt", &options, &net);
  return net;
}

CAPI_TEST(Layer) {
  const char* const fields = "custom_param { key: 'factor' value: '2' }";
  millrace_layer_type type = Table();
  millrace_net* net = NULL;
  millrace_array x = MILLRACE_ARRAY_INIT, y = MILLRACE_ARRAY_INIT, s = MILLRACE_ARRAY_INIT;
  float loss = 0, more = 0;
  int status = 0, i = 0;

  EXPECT_OK(millrace_register_layer(&type));
  net = OpenScaled(fields, &status);
  EXPECT_OK(status);
  EXPECT_OK(millrace_net_parameter(net, 0, &s));
  EXPECT(s.data[0] == 3);
  EXPECT_OK(millrace_net_blob(net, "x", &x));
  EXPECT_OK(millrace_net_blob(net, "y", &y));
  for (i = 0; i < 6; ++i) x.data[i] = (float)i - 2;
  EXPECT_OK(millrace_net_forward(net, &loss));
  for (i = 0; i < 6; ++i) EXPECT(y.data[i] == 6 * x.data[i]);
  EXPECT_OK(millrace_net_backward(net));
  for (i = 0; i < 6; ++i) EXPECT(fabs(x.diff[i] - 6 * y.diff[i]) < 1e-5);
  s.data[0] += 1e-2f;
  EXPECT_OK(millrace_net_forward(net, &more));
  EXPECT(fabs((more - loss) / 1e-2f - s.diff[0]) < 1e-2 * s.diff[0]);

  refuse = "forward";
  EXPECT_ERROR(millrace_net_forward(net, NULL), "forward is refused");
  refuse = "backward";
  EXPECT_ERROR(millrace_net_backward(net), "backward is refused");
  refuse = "reshape";
  EXPECT(OpenScaled(fields, &status) == NULL);
  EXPECT_ERROR(status, "reshape is refused");
  EXPECT(CapiErrorHas("layer 'scaled'"));
  refuse = "silent";
  EXPECT_ERROR(millrace_net_forward(net, NULL), "Scale: forward reported an error");
  refuse = "create";
  OpenScaled(fields, &status);
  EXPECT_ERROR(status, "create is refused");
  refuse = "";
  OpenScaled("custom_param { key: 'factr' value: '2' }", &status);
  EXPECT_ERROR(status, "no parameter factr");
  OpenScaled("custom_param { key: 'factor' value: 'x' }", &status);
  EXPECT_ERROR(status, "factor is 'x', expected a number");
  OpenScaled("bottom: 't'", &status);
  EXPECT_ERROR(status, "bottom");
  // All that was created has been destroyed, but for the net that is open.
  EXPECT(destroyed == 1);
  millrace_net_close(net);
  EXPECT(destroyed == 2);
  (void)folder;
}

// Copies x. The first bottom has a label behind it that gets no gradient.
static int Copy(millrace_layer* layer, void* state) {
  millrace_array x = MILLRACE_ARRAY_INIT, y = MILLRACE_ARRAY_INIT;
  EXPECT(state == NULL);
  EXPECT_OK(millrace_layer_bottom(layer, 0, &x));
  EXPECT_OK(millrace_layer_top(layer, 0, &y));
  memcpy(y.data, x.data, (size_t)x.count * sizeof(float));
  return MILLRACE_OK;
}

CAPI_TEST(LayerDefaults) {
  millrace_layer_type type;
  millrace_net* net = NULL;
  millrace_array y = MILLRACE_ARRAY_INIT;
  float loss = 0;

  memset(&type, 0, sizeof(type));
  type.size = sizeof(type);
  type.name = LANGUAGE "Copy";
  type.min_bottom = 1;
  type.max_bottom = -1;
  type.min_top = 0;
  type.max_top = 2;
  type.loss_weight = 1;
  type.no_gradient = 2;
  type.forward = Copy;
  EXPECT_OK(millrace_register_layer(&type));
  EXPECT_OK(millrace_net_open_text(
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 } } }"
      " layer { name: 'copy' type: '" LANGUAGE "Copy' bottom: 'x' top: 'y' }",
      "copy.prototxt", NULL, &net));
  EXPECT_OK(millrace_net_blob(net, "x", &y));
  y.data[0] = 5;
  EXPECT_OK(millrace_net_forward(net, &loss));
  EXPECT_OK(millrace_net_blob(net, "y", &y));
  EXPECT(y.data[0] == 5 && loss == 5);
  millrace_net_close(net);
  net = NULL;
  // More tops than bottoms need a function that gives them shapes.
  EXPECT_ERROR(millrace_net_open_text(
                   "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 } } }"
                   " layer { name: 'copy' type: '" LANGUAGE "Copy' bottom: 'x' top: 'y' top: 'z' }",
                   "copy.prototxt", NULL, &net),
               "has no function reshape");
  (void)folder;
}

CAPI_TEST(LayerMistakes) {
  millrace_layer_type type = Table();
  millrace_array array = MILLRACE_ARRAY_INIT;
  const int64_t shape[1] = {1};
  double number = 0;

  EXPECT_ERROR(millrace_register_layer(NULL), "millrace_layer_type is NULL");
  type.size = 5;
  EXPECT_ERROR(millrace_register_layer(&type), "millrace_layer_type: size is 5");
  type = Table();
  type.name = NULL;
  EXPECT_ERROR(millrace_register_layer(&type), "name is NULL");
  type.name = "";
  EXPECT_ERROR(millrace_register_layer(&type), "name is \"\"");
  type = Table();
  type.forward = NULL;
  EXPECT_ERROR(millrace_register_layer(&type), "forward is NULL, expected a function");
  type = Table();
  type.max_top = 0;
  EXPECT_ERROR(millrace_register_layer(&type), "min_top is 1 and max_top is 0");
  type = Table();
  type.min_bottom = INT_MIN;
  EXPECT_ERROR(millrace_register_layer(&type), "min_bottom");

  EXPECT_VALUE_ERROR(millrace_layer_name(NULL), NULL, "layer is NULL");
  EXPECT_ERROR(millrace_layer_is_training(NULL), "layer is NULL");
  EXPECT_ERROR(millrace_layer_number(NULL, "x", 0, &number), "layer is NULL");
  EXPECT_VALUE_ERROR(millrace_layer_text(NULL, "x", ""), NULL, "layer is NULL");
  EXPECT_VALUE_ERROR(millrace_layer_bottom_count(NULL), 0, "layer is NULL");
  EXPECT_VALUE_ERROR(millrace_layer_top_count(NULL), 0, "layer is NULL");
  EXPECT_ERROR(millrace_layer_bottom(NULL, 0, &array), "layer is NULL");
  EXPECT_ERROR(millrace_layer_top(NULL, 0, &array), "layer is NULL");
  EXPECT_ERROR(millrace_layer_parameter(NULL, 0, &array), "layer is NULL");
  EXPECT_ERROR(millrace_layer_set_shape(NULL, 0, shape, 1), "layer is NULL");
  EXPECT_ERROR(millrace_layer_propagates(NULL, 0), "layer is NULL");
  EXPECT_ERROR(millrace_layer_learns(NULL, 0), "layer is NULL");
  EXPECT_ERROR(millrace_layer_add_parameter(NULL, shape, 1, NULL), "layer is NULL");
  (void)folder;
}

CAPI_TEST(Duplicate) {
  millrace_layer_type type = Table();
  type.name = LANGUAGE "Twice";
  EXPECT_OK(millrace_register_layer(&type));
  EXPECT_OK(millrace_register_layer(&type));
  (void)folder;
}
