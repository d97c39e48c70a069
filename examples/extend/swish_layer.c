/* A layer in C: y = x / (1 + exp(-beta x)), with a learnable beta.
 *   layer { type: "LearnedSwish" bottom: "x" top: "y" custom_param { key: "beta" value: "1" } }
 */
#include <math.h>
#include <millrace/plugin.h>

static int Create(millrace_layer* layer, void* user, void** state) {
  millrace_filler filler = MILLRACE_FILLER_INIT;
  double beta = 1;
  (void)user, (void)state;
  if (millrace_layer_number(layer, "beta", 1, &beta) != MILLRACE_OK) return MILLRACE_ERROR;
  if (beta <= 0) return millrace_fail("beta is %g, expected a number above 0", beta);
  filler.value = (float)beta;
  return millrace_layer_add_parameter(layer, NULL, 0, &filler); /* one number, without axes */
}

static float Sigmoid(float x) { return 1 / (1 + expf(-x)); }

static int Forward(millrace_layer* layer, void* state) {
  millrace_array x = MILLRACE_ARRAY_INIT, y = MILLRACE_ARRAY_INIT, beta = MILLRACE_ARRAY_INIT;
  int64_t i = 0;
  (void)state;
  if (millrace_layer_bottom(layer, 0, &x) != MILLRACE_OK ||
      millrace_layer_top(layer, 0, &y) != MILLRACE_OK ||
      millrace_layer_parameter(layer, 0, &beta) != MILLRACE_OK) {
    return MILLRACE_ERROR;
  }
  for (i = 0; i < x.count; ++i) y.data[i] = x.data[i] * Sigmoid(beta.data[0] * x.data[i]);
  return MILLRACE_OK;
}

static int Backward(millrace_layer* layer, void* state) {
  millrace_array x = MILLRACE_ARRAY_INIT, y = MILLRACE_ARRAY_INIT, beta = MILLRACE_ARRAY_INIT;
  int64_t i = 0;
  (void)state;
  if (millrace_layer_bottom(layer, 0, &x) != MILLRACE_OK ||
      millrace_layer_top(layer, 0, &y) != MILLRACE_OK ||
      millrace_layer_parameter(layer, 0, &beta) != MILLRACE_OK) {
    return MILLRACE_ERROR;
  }
  for (i = 0; i < x.count; ++i) {
    const float s = Sigmoid(beta.data[0] * x.data[i]);
    const float slope = s * (1 - s); /* of the sigmoid */
    if (millrace_layer_learns(layer, 0) == 1) {
      beta.diff[0] += y.diff[i] * x.data[i] * x.data[i] * slope;
    }
    if (x.diff != NULL) x.diff[i] = y.diff[i] * (s + beta.data[0] * x.data[i] * slope);
  }
  return MILLRACE_OK;
}

int millrace_plugin_init(void) {
  static const char* const parameters[] = {"beta", NULL};
  const millrace_layer_type type = {.size = sizeof(millrace_layer_type),
                                    .name = "LearnedSwish",
                                    .min_bottom = 1,
                                    .max_bottom = 1,
                                    .min_top = 1,
                                    .max_top = 1,
                                    .parameters = parameters,
                                    .create = Create,
                                    .forward = Forward,
                                    .backward = Backward};
  if (MILLRACE_CHECK_ABI() != MILLRACE_OK) return MILLRACE_ERROR;
  return millrace_register_layer(&type);
}
