#include "bench/onednn_loop/gemm_conv.h"

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>

#include "bench/onednn_loop/clones.h"

namespace onednn_loop {
namespace {

// Their patches stay in an L2 cache of 512 KiB.
constexpr int kTogether = 2;

// patches[image][i][j][a][b][c] = x[image][i + a][j + b][c]
void Unfold(const GemmConvShape& s, int images, const float* x, float* patches) {
  const int row = s.kernel * s.channels;
  for (int n = 0; n < images; ++n, x += s.side * s.side * s.channels) {
    for (int i = 0; i < s.out_side(); ++i) {
      for (int j = 0; j < s.out_side(); ++j) {
        for (int a = 0; a < s.kernel; ++a, patches += row) {
          std::memcpy(patches, x + ((i + a) * s.side + j) * s.channels, row * sizeof(float));
        }
      }
    }
  }
}

// x[image][i + a][j + b][c] += patches[image][i][j][a][b][c]
CLONES void AddFolded(const GemmConvShape& s, int images, const float* __restrict patches,
                      float* __restrict x) {
  const int row = s.kernel * s.channels;
  for (int n = 0; n < images; ++n, x += s.side * s.side * s.channels) {
    for (int i = 0; i < s.out_side(); ++i) {
      for (int j = 0; j < s.out_side(); ++j) {
        for (int a = 0; a < s.kernel; ++a, patches += row) {
          float* const to = x + ((i + a) * s.side + j) * s.channels;
          for (int at = 0; at < row; ++at) to[at] += patches[at];
        }
      }
    }
  }
}

CLONES void SumRows(const float* __restrict rows, int count, int width, float* __restrict sum) {
  for (int r = 0; r < count; ++r, rows += width) {
    for (int i = 0; i < width; ++i) sum[i] += rows[i];
  }
}

}  // namespace

GemmConvBackward::GemmConvBackward(const GemmConvShape& shape)
    : shape_(shape),
      patches_(AllocateHuge(sizeof(float) * kTogether * shape.out_side() * shape.out_side() *
                            shape.patch())) {}

void GemmConvBackward::Data(const float* dy, const float* weights, float* dx) {
  const GemmConvShape& s = shape_;
  const int windows = s.out_side() * s.out_side(), image = s.side * s.side * s.channels;
  std::memset(dx, 0, sizeof(float) * s.images * image);
  for (int n = 0; n < s.images; n += kTogether) {
    const int images = std::min(kTogether, s.images - n);
    dnnl_sgemm('N', 'N', images * windows, s.patch(), s.outputs, 1, dy + n * windows * s.outputs,
               s.outputs, weights, s.patch(), 0, patches_.get(), s.patch());
    AddFolded(s, images, patches_.get(), dx + n * image);
  }
}

void GemmConvBackward::Weights(const float* x, const float* dy, float* dw, float* db) {
  const GemmConvShape& s = shape_;
  const int windows = s.out_side() * s.out_side(), image = s.side * s.side * s.channels;
  for (int n = 0; n < s.images; n += kTogether) {
    const int images = std::min(kTogether, s.images - n);
    Unfold(s, images, x + n * image, patches_.get());
    const float keep = n > 0 ? 1 : 0;
    dnnl_sgemm('T', 'N', s.outputs, s.patch(), images * windows, 1, dy + n * windows * s.outputs,
               s.outputs, patches_.get(), s.patch(), keep, dw, s.patch());
  }
  std::memset(db, 0, sizeof(float) * s.outputs);
  SumRows(dy, s.images * windows, s.outputs, db);
}

}  // namespace onednn_loop
