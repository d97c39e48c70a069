#include <algorithm>
#include <cstring>
#include <vector>

#include "nn/gpu/bfloat16_kernels.h"
#include "test/cuda/fake_handles.h"

namespace millrace::test {
namespace {

using namespace fake_handles;

struct Tensor {
  int n = 0, c = 0, h = 0, w = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  size_t bytes_each() const { return type == CUDNN_DATA_BFLOAT16 ? 2 : 4; }
  size_t count() const { return size_t(n) * c * h * w; }
  // Where the value lies that is at `i` in the order of images, channels, rows, columns.
  size_t Place(size_t i) const {
    if (format == CUDNN_TENSOR_NCHW) return i;
    const size_t plane = size_t(h) * w, of_image = i % (c * plane);
    return i - of_image + of_image % plane * c + of_image / plane;
  }
};
struct Convolution {
  int pad[2] = {}, stride[2] = {}, dilation[2] = {}, group = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

bool RequireArray(const void* pointer, const Tensor& shape, const Handle& handle,
                  const char* what) {
  return RequireBytes(pointer, shape.count() * shape.bytes_each(), handle, what);
}

cudnnStatus_t Failure() {
  return Fake().fails_for_memory ? CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                                 : CUDNN_STATUS_EXECUTION_FAILED;
}

template <typename T, typename Opaque>
cudnnStatus_t MakeOwn(Opaque* opaque, T value, int* count) {
  if (Fails()) return Failure();
  Make(opaque, value, count);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t Create(cudnnHandle_t* handle) {
  return MakeOwn(handle, Handle{CurrentFakeGpu()}, &Fake().handles);
}
cudnnStatus_t SetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (Fails()) return Failure();
  As<Handle>(handle).stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetTensor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                        cudnnDataType_t type, int n, int c, int h, int w) {
  if (Fails()) return Failure();
  const bool known = type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_BFLOAT16;
  // Tensor cores want channels innermost.
  const bool fits = format == (type == CUDNN_DATA_FLOAT ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC);
  if (!Require(fits && known, "a tensor's format") ||
      !Require(n > 0 && c > 0 && h > 0 && w > 0, "a tensor of no elements")) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  As<Tensor>(tensor) = {n, c, h, w, type, format};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetFilter(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                        cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return SetTensor(reinterpret_cast<cudnnTensorDescriptor_t>(filter), format, type, k, c, h, w);
}
cudnnStatus_t SetConvolution(cudnnConvolutionDescriptor_t descriptor, int pad_h, int pad_w,
                             int stride_h, int stride_w, int dilation_h, int dilation_w,
                             cudnnConvolutionMode_t mode, cudnnDataType_t type) {
  if (Fails()) return Failure();
  if (!Require(mode == CUDNN_CROSS_CORRELATION && type == CUDNN_DATA_FLOAT, "a mode") ||
      !Require(stride_h > 0 && stride_w > 0 && dilation_h > 0 && dilation_w > 0, "a step")) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  Convolution& to = As<Convolution>(descriptor);
  to.pad[0] = pad_h, to.pad[1] = pad_w;
  to.stride[0] = stride_h, to.stride[1] = stride_w;
  to.dilation[0] = dilation_h, to.dilation[1] = dilation_w;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetGroups(cudnnConvolutionDescriptor_t descriptor, int groups) {
  if (Fails()) return Failure();
  As<Convolution>(descriptor).group = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t SetMath(cudnnConvolutionDescriptor_t descriptor, cudnnMathType_t math) {
  if (Fails()) return Failure();
  As<Convolution>(descriptor).math = math;
  return CUDNN_STATUS_SUCCESS;
}

// Whether the shapes belong together.
bool Fit(const Tensor& bottom, const Tensor& weights, const Convolution& by, const Tensor& top) {
  const auto out = [&](int axis, int size, int kernel) {
    return (size + 2 * by.pad[axis] - by.dilation[axis] * (kernel - 1) - 1) / by.stride[axis] + 1;
  };
  return Require(bottom.type == top.type && weights.type == top.type, "types") &&
         Require(bottom.n == top.n, "images") && Require(weights.n == top.c, "outputs") &&
         Require(weights.c * by.group == bottom.c, "channels") &&
         Require(weights.n % by.group == 0, "groups") &&
         Require(top.h == out(0, bottom.h, weights.h), "height") &&
         Require(top.w == out(1, bottom.w, weights.w), "width");
}

template <typename Proposal>
cudnnStatus_t Propose(const Tensor& bottom, const Tensor& weights, const Convolution& by,
                      const Tensor& top, int most, int* count, Proposal* to) {
  if (Fails()) return Failure();
  if (!Fit(bottom, weights, by, top)) return CUDNN_STATUS_BAD_PARAM;
  ++Fake().proposals_asked;
  *count = 0;
  for (const FakeProposal& from : Fake().proposals) {
    if (*count == most) break;
    Proposal& each = to[(*count)++];
    each = {};
    each.algo = static_cast<decltype(each.algo)>(from.algorithm);
    each.status = from.status;
    each.memory = from.memory;
    each.mathType = from.math;
  }
  return CUDNN_STATUS_SUCCESS;
}

size_t NeedOf(int algorithm) {
  const auto found = Fake().workspace.find(algorithm);
  return found == Fake().workspace.end() ? 0 : found->second;
}

cudnnStatus_t Workspace(const Tensor& bottom, const Tensor& weights, const Convolution& by,
                        const Tensor& top, int algorithm, size_t* bytes) {
  if (Fails()) return Failure();
  if (!Fit(bottom, weights, by, top)) return CUDNN_STATUS_BAD_PARAM;
  if (Fake().unknown.contains(algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (bottom.type == CUDNN_DATA_BFLOAT16 && Fake().unknown_in_bfloat16.contains(algorithm)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *bytes = NeedOf(algorithm);
  return CUDNN_STATUS_SUCCESS;
}

// What an algorithm leaves that fails at its work.
cudnnStatus_t FailAt(cudnnStatus_t status) {
  FakeCuda& cuda = FakeCuda::Get();
  cuda.last_error = cudaErrorLaunchOutOfResources;
  if (Fake().device_fails) cuda.fails_at = cuda.calls(), cuda.sticky = true;
  return status;
}

// Begins the work of a pass, which may use the whole workspace. `output`: the array that it writes.
cudnnStatus_t BeginPass(const char* name, const Handle& handle, const Tensor& bottom,
                        const Tensor& weights, const Convolution& by, const Tensor& top,
                        const void* const (&arrays)[3], int output, int algorithm, void* workspace,
                        size_t bytes) {
  if (Fails()) return Failure();
  if (Fake().refuses.contains(algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool half = bottom.type == CUDNN_DATA_BFLOAT16;
  if (half && Fake().refuses_bfloat16.contains(algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (const auto failing = Fake().fails.find(algorithm); failing != Fake().fails.end()) {
    const Tensor& shape = output == 0 ? bottom : output == 1 ? weights : top;
    if (CUDNN_STATUS_CATEGORY(failing->second) != CUDNN_STATUS_BAD_PARAM) {
      std::memset(const_cast<void*>(arrays[output]), 0x7f, shape.count() * shape.bytes_each());
    }
    return FailAt(failing->second);
  }
  const bool right =
      Fit(bottom, weights, by, top) &&
      Require(by.math == (half ? CUDNN_TENSOR_OP_MATH : Fake().math), "the arithmetic") &&
      Require(bytes >= NeedOf(algorithm), "bytes of the workspace") && Begin(handle, name) &&
      RequireArray(arrays[0], bottom, handle, "the bottom") &&
      RequireArray(arrays[1], weights, handle, "the weights") &&
      RequireArray(arrays[2], top, handle, "the top") &&
      (bytes == 0 || RequireBytes(workspace, bytes, handle, "the workspace"));
  if (!right) return CUDNN_STATUS_BAD_PARAM;
  if (bytes > 0) std::memset(workspace, 0x5a, bytes);
  Fake().used.push_back(algorithm);
  Fake().types.push_back(bottom.type);
  Fake().given.push_back(bytes);
  return CUDNN_STATUS_SUCCESS;
}

// Calls visit(index in the bottom, in the weights, in the top) for each product.
template <typename Visit>
void ForEachProduct(const Tensor& bottom, const Tensor& weights, const Convolution& by,
                    const Tensor& top, Visit visit) {
  const int per_group = top.c / by.group;
  for (size_t t = 0; t < top.count(); ++t) {
    const int x = int(t % top.w), y = int(t / top.w % top.h), o = int(t / top.w / top.h % top.c);
    const int n = int(t / top.w / top.h / top.c);
    for (size_t v = 0; v < weights.count() / weights.n; ++v) {
      const int j = int(v % weights.w), i = int(v / weights.w % weights.h);
      const int c = int(v / weights.w / weights.h);
      const int row = y * by.stride[0] - by.pad[0] + i * by.dilation[0];
      const int column = x * by.stride[1] - by.pad[1] + j * by.dilation[1];
      if (row < 0 || row >= bottom.h || column < 0 || column >= bottom.w) continue;
      const size_t channel = size_t(n) * bottom.c + o / per_group * weights.c + c;
      visit((channel * bottom.h + row) * bottom.w + column, o * (weights.count() / weights.n) + v,
            t);
    }
  }
}

// The values of an array, as float32.
std::vector<float> In(const void* from, const Tensor& shape) {
  std::vector<float> values(shape.count());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = shape.Place(i);
    values[i] = shape.type == CUDNN_DATA_FLOAT
                    ? static_cast<const float*>(from)[at]
                    : FromBfloat16(static_cast<const uint16_t*>(from)[at]);
  }
  return values;
}

// to = alpha * sums + beta * to
void Store(const std::vector<double>& sums, const void* alpha, const void* beta,
           const Tensor& shape, void* to) {
  const float a = *static_cast<const float*>(alpha), b = *static_cast<const float*>(beta);
  const std::vector<float> old = In(to, shape);
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto value = static_cast<float>(a * sums[i] + (b == 0 ? 0 : b * old[i]));
    const size_t at = shape.Place(i);
    if (shape.type == CUDNN_DATA_FLOAT) {
      static_cast<float*>(to)[at] = value;
    } else {
      static_cast<uint16_t*>(to)[at] = ToBfloat16(value);
    }
  }
}

template <typename Opaque>
const Tensor& Shape(Opaque* descriptor) {
  return As<const Tensor>(descriptor);
}
const Convolution& By(cudnnConvolutionDescriptor_t descriptor) {
  return As<const Convolution>(descriptor);
}

cudnnStatus_t Forward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t bottom,
                      const void* x, cudnnFilterDescriptor_t weights, const void* w,
                      cudnnConvolutionDescriptor_t by, cudnnConvolutionFwdAlgo_t algorithm,
                      void* workspace, size_t bytes, const void* beta, cudnnTensorDescriptor_t top,
                      void* y) {
  const cudnnStatus_t status =
      BeginPass("forward", As<Handle>(handle), Shape(bottom), Shape(weights), By(by), Shape(top),
                {x, w, y}, 2, algorithm, workspace, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::vector<float> in = In(x, Shape(bottom)), by_weights = In(w, Shape(weights));
  std::vector<double> sums(Shape(top).count());
  ForEachProduct(Shape(bottom), Shape(weights), By(by), Shape(top),
                 [&](size_t b, size_t v, size_t t) { sums[t] += double{in[b]} * by_weights[v]; });
  Store(sums, alpha, beta, Shape(top), y);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t BackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t weights,
                           const void* w, cudnnTensorDescriptor_t top, const void* dy,
                           cudnnConvolutionDescriptor_t by, cudnnConvolutionBwdDataAlgo_t algorithm,
                           void* workspace, size_t bytes, const void* beta,
                           cudnnTensorDescriptor_t bottom, void* dx) {
  const cudnnStatus_t status =
      BeginPass("backward data", As<Handle>(handle), Shape(bottom), Shape(weights), By(by),
                Shape(top), {dx, w, dy}, 0, algorithm, workspace, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::vector<float> diffs = In(dy, Shape(top)), by_weights = In(w, Shape(weights));
  std::vector<double> sums(Shape(bottom).count());
  ForEachProduct(
      Shape(bottom), Shape(weights), By(by), Shape(top),
      [&](size_t b, size_t v, size_t t) { sums[b] += double{diffs[t]} * by_weights[v]; });
  Store(sums, alpha, beta, Shape(bottom), dx);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t BackwardFilter(cudnnHandle_t handle, const void* alpha,
                             cudnnTensorDescriptor_t bottom, const void* x,
                             cudnnTensorDescriptor_t top, const void* dy,
                             cudnnConvolutionDescriptor_t by,
                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                             size_t bytes, const void* beta, cudnnFilterDescriptor_t weights,
                             void* dw) {
  const cudnnStatus_t status =
      BeginPass("backward filter", As<Handle>(handle), Shape(bottom), Shape(weights), By(by),
                Shape(top), {x, dw, dy}, 1, algorithm, workspace, bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::vector<float> in = In(x, Shape(bottom)), diffs = In(dy, Shape(top));
  std::vector<double> sums(Shape(weights).count());
  ForEachProduct(Shape(bottom), Shape(weights), By(by), Shape(top),
                 [&](size_t b, size_t v, size_t t) { sums[v] += double{in[b]} * diffs[t]; });
  Store(sums, alpha, beta, Shape(weights), dw);
  return CUDNN_STATUS_SUCCESS;
}

// Measures, and overwrites `output`, one of the arrays, and the workspace.
template <typename Perf>
cudnnStatus_t Find(const Handle& handle, const Tensor& bottom, const void* x, const Tensor& weights,
                   const void* w, const Convolution& by, const Tensor& top, const void* y,
                   const void* output, int most, int* count, Perf* to, void* workspace,
                   size_t bytes) {
  if (Fails()) return Failure();
  const Tensor& shape = output == x ? bottom : output == w ? weights : top;
  const bool right =
      Fit(bottom, weights, by, top) && Begin(handle, "measurement") &&
      Require(!FakeCuda::Get().IsRecording(handle.stream), "a measurement in a recording") &&
      RequireArray(x, bottom, handle, "measurement: the bottom") &&
      RequireArray(w, weights, handle, "measurement: the weights") &&
      RequireArray(y, top, handle, "measurement: the top") &&
      (bytes == 0 || RequireBytes(workspace, bytes, handle, "measurement: the workspace"));
  if (!right) return CUDNN_STATUS_BAD_PARAM;
  ++Fake().measured;
  std::memset(const_cast<void*>(output), 0x7f, shape.count() * shape.bytes_each());
  if (bytes > 0) std::memset(workspace, 0x5a, bytes);
  *count = 0;
  for (const auto& [algorithm, time] : Fake().times) {
    if (*count == most) break;
    Perf& each = to[(*count)++];
    each = {};
    each.algo = static_cast<decltype(each.algo)>(algorithm);
    each.time = time;
    each.memory = NeedOf(algorithm);
    each.mathType = by.math;
    const auto failing = Fake().fails.find(algorithm);
    if (Fake().refuses.contains(algorithm) || each.memory > bytes) {
      each.status = CUDNN_STATUS_NOT_SUPPORTED;
    } else if (failing != Fake().fails.end()) {
      each.status = FailAt(failing->second);
    }
    if (each.status != CUDNN_STATUS_SUCCESS) each.time = -1;
  }
  // Sorts those that failed behind the others.
  std::stable_sort(to, to + *count, [](const Perf& a, const Perf& b) {
    return a.time >= 0 && (b.time < 0 || a.time < b.time);
  });
  if (Fake().when_measured) Fake().when_measured();
  return CUDNN_STATUS_SUCCESS;
}

CudnnApi MakeCudnn() {
  CudnnApi api{};
  api.cudnnCreate = Create;
  api.cudnnDestroy = [](cudnnHandle_t handle) {
    End<Handle>(handle, &Fake().handles);
    return CUDNN_STATUS_SUCCESS;
  };
  api.cudnnSetStream = SetStream;
  api.cudnnGetErrorString = [](cudnnStatus_t) { return "a failure of cuDNN"; };
  api.cudnnGetVersion = [] { return Fake().version; };
  api.cudnnCreateTensorDescriptor = [](cudnnTensorDescriptor_t* made) {
    return MakeOwn(made, Tensor(), &Fake().descriptors);
  };
  api.cudnnDestroyTensorDescriptor = [](cudnnTensorDescriptor_t descriptor) {
    End<Tensor>(descriptor, &Fake().descriptors);
    return CUDNN_STATUS_SUCCESS;
  };
  api.cudnnSetTensor4dDescriptor = SetTensor;
  api.cudnnCreateFilterDescriptor = [](cudnnFilterDescriptor_t* made) {
    return MakeOwn(made, Tensor(), &Fake().descriptors);
  };
  api.cudnnDestroyFilterDescriptor = [](cudnnFilterDescriptor_t descriptor) {
    End<Tensor>(descriptor, &Fake().descriptors);
    return CUDNN_STATUS_SUCCESS;
  };
  api.cudnnSetFilter4dDescriptor = SetFilter;
  api.cudnnCreateConvolutionDescriptor = [](cudnnConvolutionDescriptor_t* made) {
    return MakeOwn(made, Convolution(), &Fake().descriptors);
  };
  api.cudnnDestroyConvolutionDescriptor = [](cudnnConvolutionDescriptor_t descriptor) {
    End<Convolution>(descriptor, &Fake().descriptors);
    return CUDNN_STATUS_SUCCESS;
  };
  api.cudnnSetConvolution2dDescriptor = SetConvolution;
  api.cudnnSetConvolutionGroupCount = SetGroups;
  api.cudnnSetConvolutionMathType = SetMath;
  api.cudnnGetConvolutionForwardAlgorithm_v7 =
      [](cudnnHandle_t, cudnnTensorDescriptor_t bottom, cudnnFilterDescriptor_t weights,
         cudnnConvolutionDescriptor_t by, cudnnTensorDescriptor_t top, int most, int* count,
         cudnnConvolutionFwdAlgoPerf_t* to) {
        return Propose(Shape(bottom), Shape(weights), By(by), Shape(top), most, count, to);
      };
  api.cudnnGetConvolutionBackwardDataAlgorithm_v7 =
      [](cudnnHandle_t, cudnnFilterDescriptor_t weights, cudnnTensorDescriptor_t top,
         cudnnConvolutionDescriptor_t by, cudnnTensorDescriptor_t bottom, int most, int* count,
         cudnnConvolutionBwdDataAlgoPerf_t* to) {
        return Propose(Shape(bottom), Shape(weights), By(by), Shape(top), most, count, to);
      };
  api.cudnnGetConvolutionBackwardFilterAlgorithm_v7 =
      [](cudnnHandle_t, cudnnTensorDescriptor_t bottom, cudnnTensorDescriptor_t top,
         cudnnConvolutionDescriptor_t by, cudnnFilterDescriptor_t weights, int most, int* count,
         cudnnConvolutionBwdFilterAlgoPerf_t* to) {
        return Propose(Shape(bottom), Shape(weights), By(by), Shape(top), most, count, to);
      };
  api.cudnnFindConvolutionForwardAlgorithmEx =
      [](cudnnHandle_t handle, cudnnTensorDescriptor_t bottom, const void* x,
         cudnnFilterDescriptor_t weights, const void* w, cudnnConvolutionDescriptor_t by,
         cudnnTensorDescriptor_t top, void* y, int most, int* count,
         cudnnConvolutionFwdAlgoPerf_t* to, void* workspace, size_t bytes) {
        return Find(As<Handle>(handle), Shape(bottom), x, Shape(weights), w, By(by), Shape(top), y,
                    y, most, count, to, workspace, bytes);
      };
  api.cudnnFindConvolutionBackwardDataAlgorithmEx =
      [](cudnnHandle_t handle, cudnnFilterDescriptor_t weights, const void* w,
         cudnnTensorDescriptor_t top, const void* dy, cudnnConvolutionDescriptor_t by,
         cudnnTensorDescriptor_t bottom, void* dx, int most, int* count,
         cudnnConvolutionBwdDataAlgoPerf_t* to, void* workspace, size_t bytes) {
        return Find(As<Handle>(handle), Shape(bottom), dx, Shape(weights), w, By(by), Shape(top),
                    dy, dx, most, count, to, workspace, bytes);
      };
  api.cudnnFindConvolutionBackwardFilterAlgorithmEx =
      [](cudnnHandle_t handle, cudnnTensorDescriptor_t bottom, const void* x,
         cudnnTensorDescriptor_t top, const void* dy, cudnnConvolutionDescriptor_t by,
         cudnnFilterDescriptor_t weights, void* dw, int most, int* count,
         cudnnConvolutionBwdFilterAlgoPerf_t* to, void* workspace, size_t bytes) {
        return Find(As<Handle>(handle), Shape(bottom), x, Shape(weights), dw, By(by), Shape(top),
                    dy, dw, most, count, to, workspace, bytes);
      };
  api.cudnnGetConvolutionForwardWorkspaceSize =
      [](cudnnHandle_t, cudnnTensorDescriptor_t bottom, cudnnFilterDescriptor_t weights,
         cudnnConvolutionDescriptor_t by, cudnnTensorDescriptor_t top,
         cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
        return Workspace(Shape(bottom), Shape(weights), By(by), Shape(top), algorithm, bytes);
      };
  api.cudnnGetConvolutionBackwardDataWorkspaceSize =
      [](cudnnHandle_t, cudnnFilterDescriptor_t weights, cudnnTensorDescriptor_t top,
         cudnnConvolutionDescriptor_t by, cudnnTensorDescriptor_t bottom,
         cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
        return Workspace(Shape(bottom), Shape(weights), By(by), Shape(top), algorithm, bytes);
      };
  api.cudnnGetConvolutionBackwardFilterWorkspaceSize =
      [](cudnnHandle_t, cudnnTensorDescriptor_t bottom, cudnnTensorDescriptor_t top,
         cudnnConvolutionDescriptor_t by, cudnnFilterDescriptor_t weights,
         cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
        return Workspace(Shape(bottom), Shape(weights), By(by), Shape(top), algorithm, bytes);
      };
  api.cudnnConvolutionForward = Forward;
  api.cudnnConvolutionBackwardData = BackwardData;
  api.cudnnConvolutionBackwardFilter = BackwardFilter;
  return api;
}

}  // namespace

FakeLibraries& FakeLibraries::Get() {
  static FakeLibraries fake;
  return fake;
}

const CudnnApi& FakeCudnn() {
  static const CudnnApi api = MakeCudnn();
  return api;
}

}  // namespace millrace::test
