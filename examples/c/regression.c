/* One node of a cluster that learns y = 2 x0 - x1 + 0.5 from examples of its own:
 *   regression TOPOLOGY.prototxt NODE
 * The loop below is the program's. The stream adds its updates to the weights, and meanwhile
 * exchanges them with the other nodes.
 */
#include <math.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWeights = 3, kIterations = 20000, kBatch = 1000 }; /* iterations of all nodes together */
static const float kRate = 0.01f;

/* Uniform in [-1, 1]. */
static float Draw(void) { return 2 * (float)rand() / (float)RAND_MAX - 1; }

/* delta = -rate * the gradient of the mean squared error / 2 over a batch. */
static void ComputeUpdate(const float* weights, float* delta) {
  int i = 0;
  delta[0] = delta[1] = delta[2] = 0;
  for (i = 0; i < kBatch; ++i) {
    const float x0 = Draw(), x1 = Draw();
    const float error = weights[0] * x0 + weights[1] * x1 + weights[2] - (2 * x0 - x1 + 0.5f);
    delta[0] -= kRate / kBatch * error * x0;
    delta[1] -= kRate / kBatch * error * x1;
    delta[2] -= kRate / kBatch * error;
  }
}

static int Train(millrace_stream* stream, const float* weights) {
  float delta[kWeights];
  if (millrace_stream_join(stream, 60) != MILLRACE_OK) return MILLRACE_ERROR;
  while (millrace_stream_iterations(stream) < kIterations) {
    ComputeUpdate(weights, delta);
    if (millrace_stream_add(stream, delta, kWeights) != MILLRACE_OK) return MILLRACE_ERROR;
  }
  return millrace_stream_finish(stream); /* all nodes have the same weights now */
}

int main(int argc, char** argv) {
  millrace_stream_options options = MILLRACE_STREAM_OPTIONS_INIT;
  millrace_stream* stream = NULL;
  float* const weights = millrace_floats_alloc(kWeights);
  int status = MILLRACE_ERROR;
  if (argc != 3) {
    fprintf(stderr, "usage: regression TOPOLOGY.prototxt NODE\n");
    return 1;
  }
  options.topology = argv[1];
  options.node = argv[2];
  srand((unsigned)argv[2][0]); /* other examples on each node */
  if (MILLRACE_CHECK_ABI() == MILLRACE_OK && weights != NULL &&
      millrace_stream_open(&options, weights, kWeights, &stream) == MILLRACE_OK) {
    status = Train(stream, weights);
  }
  if (status == MILLRACE_OK) {
    printf("%s: %.3f %.3f %.3f\n", argv[2], weights[0], weights[1], weights[2]);
    if (fabs(weights[0] - 2) > 0.01 || fabs(weights[1] + 1) > 0.01 ||
        fabs(weights[2] - 0.5) > 0.01) {
      fprintf(stderr, "regression: expected 2 -1 0.5\n");
      status = MILLRACE_ERROR;
    }
  } else {
    fprintf(stderr, "regression: %s\n", millrace_last_error());
  }
  millrace_stream_close(stream);
  millrace_floats_free(weights);
  return status == MILLRACE_OK ? 0 : 1;
}
