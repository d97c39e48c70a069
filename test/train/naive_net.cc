#include "test/train/naive_net.h"

#include <algorithm>
#include <cmath>

namespace millrace::test {
namespace {

// y = W x + b, and its gradients.
std::vector<double> Multiply(const std::vector<double>& w, const std::vector<double>& b,
                             const std::vector<double>& x) {
  std::vector<double> y = b;
  for (size_t o = 0; o < y.size(); ++o) {
    for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
  }
  return y;
}

std::vector<double> MultiplyBack(const std::vector<double>& w, const std::vector<double>& x,
                                 const std::vector<double>& dy, std::vector<double>* dw,
                                 std::vector<double>* db) {
  std::vector<double> dx(x.size(), 0);
  for (size_t o = 0; o < dy.size(); ++o) {
    (*db)[o] += dy[o];
    for (size_t i = 0; i < x.size(); ++i) {
      (*dw)[o * x.size() + i] += dy[o] * x[i];
      dx[i] += dy[o] * w[o * x.size() + i];
    }
  }
  return dx;
}

}  // namespace

NaiveNet::NaiveNet(const caffe::NetParameter& model) {
  std::vector<Array*> arrays = All();
  size_t next = 0;
  for (const caffe::LayerParameter& layer : model.layer()) {
    for (int b = 0; b < layer.blobs_size(); ++b) {
      Array* array = arrays.at(next++);
      array->w.assign(layer.blobs(b).data().begin(), layer.blobs(b).data().end());
      array->gradient.assign(array->w.size(), 0);
      array->velocity.assign(array->w.size(), 0);
      const bool bias = b == 1 && layer.type() == "InnerProduct";
      array->lr_mult = bias ? 2 : 1;
      array->decay_mult = bias ? 0 : 1;
    }
  }
}

double NaiveNet::AddExample(const std::vector<double>& image, int label, double batch) {
  constexpr int kMap = kSide - kKernel + 1, kPooled = kMap / 2;
  // Convolution, and the index of the largest value of each 2 x 2 window.
  std::vector<double> map(kConv * kMap * kMap), pooled(kConv * kPooled * kPooled);
  std::vector<int> largest(pooled.size());
  for (int o = 0; o < kConv; ++o) {
    for (int y = 0; y < kMap; ++y) {
      for (int x = 0; x < kMap; ++x) {
        double sum = conv_b_.w[o];
        for (int k = 0; k < kKernel * kKernel; ++k) {
          const int from = (y + k / kKernel) * kSide + x + k % kKernel;
          sum += conv_w_.w[o * kKernel * kKernel + k] * image[from];
        }
        map[(o * kMap + y) * kMap + x] = sum;
      }
    }
    for (int y = 0; y < kPooled; ++y) {
      for (int x = 0; x < kPooled; ++x) {
        const int to = (o * kPooled + y) * kPooled + x;
        largest[to] = (o * kMap + 2 * y) * kMap + 2 * x;
        for (int k : {1, kMap, kMap + 1}) {
          const int at = (o * kMap + 2 * y) * kMap + 2 * x + k;
          if (map[at] > map[largest[to]]) largest[to] = at;
        }
        pooled[to] = map[largest[to]];
      }
    }
  }
  const std::vector<double> hidden = Multiply(hidden_w_.w, hidden_b_.w, pooled);
  std::vector<double> active = hidden;
  for (double& value : active) value = std::max(value, 0.0);
  const std::vector<double> scores = Multiply(scores_w_.w, scores_b_.w, active);
  double sum = 0;
  for (double score : scores) sum += std::exp(score);
  const double loss = std::log(sum) - scores[label];

  std::vector<double> dscores;
  for (double score : scores) dscores.push_back(std::exp(score) / sum / batch);
  dscores[label] -= 1 / batch;
  std::vector<double> dhidden =
      MultiplyBack(scores_w_.w, active, dscores, &scores_w_.gradient, &scores_b_.gradient);
  for (size_t i = 0; i < dhidden.size(); ++i) dhidden[i] *= hidden[i] > 0;
  const std::vector<double> dpooled =
      MultiplyBack(hidden_w_.w, pooled, dhidden, &hidden_w_.gradient, &hidden_b_.gradient);
  for (size_t i = 0; i < dpooled.size(); ++i) {
    const int o = largest[i] / (kMap * kMap), y = largest[i] / kMap % kMap, x = largest[i] % kMap;
    conv_b_.gradient[o] += dpooled[i];
    for (int k = 0; k < kKernel * kKernel; ++k) {
      const int from = (y + k / kKernel) * kSide + x + k % kKernel;
      conv_w_.gradient[o * kKernel * kKernel + k] += dpooled[i] * image[from];
    }
  }
  return loss;
}

void NaiveNet::Step(double rate, double momentum, double decay) {
  for (Array* array : All()) {
    for (size_t i = 0; i < array->w.size(); ++i) {
      array->velocity[i] =
          momentum * array->velocity[i] +
          rate * array->lr_mult * (array->gradient[i] + decay * array->decay_mult * array->w[i]);
      array->w[i] -= array->velocity[i];
      array->gradient[i] = 0;
    }
  }
}

std::vector<double> NaiveNet::Weights() const {
  std::vector<double> weights;
  for (const Array* array : const_cast<NaiveNet*>(this)->All()) {
    weights.insert(weights.end(), array->w.begin(), array->w.end());
  }
  return weights;
}

}  // namespace millrace::test
