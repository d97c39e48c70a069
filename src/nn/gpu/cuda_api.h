// cuBLAS and cuDNN, loaded when the first GPU is used: programs start fast, and run where only the
// driver is installed.
#ifndef MILLRACE_NN_GPU_CUDA_API_H_
#define MILLRACE_NN_GPU_CUDA_API_H_

#include <cublas_v2.h>
#include <cudnn.h>

#include <string>

#include "base/error.h"
#include "millrace/queue.h"

namespace millrace::inline nn {

#define MILLRACE_CUBLAS_FUNCTIONS(F) \
  F(cublasCreate_v2)                 \
  F(cublasDestroy_v2)                \
  F(cublasSetStream_v2)              \
  F(cublasSgemm_v2)                  \
  F(cublasGetStatusString)

#define MILLRACE_CUDNN_FUNCTIONS(F)                \
  F(cudnnCreate)                                   \
  F(cudnnDestroy)                                  \
  F(cudnnSetStream)                                \
  F(cudnnGetErrorString)                           \
  F(cudnnCreateTensorDescriptor)                   \
  F(cudnnDestroyTensorDescriptor)                  \
  F(cudnnSetTensor4dDescriptor)                    \
  F(cudnnCreateFilterDescriptor)                   \
  F(cudnnDestroyFilterDescriptor)                  \
  F(cudnnSetFilter4dDescriptor)                    \
  F(cudnnCreateConvolutionDescriptor)              \
  F(cudnnDestroyConvolutionDescriptor)             \
  F(cudnnSetConvolution2dDescriptor)               \
  F(cudnnSetConvolutionGroupCount)                 \
  F(cudnnSetConvolutionMathType)                   \
  F(cudnnGetConvolutionForwardAlgorithm_v7)        \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)   \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  F(cudnnConvolutionForward)                       \
  F(cudnnConvolutionBackwardData)                  \
  F(cudnnConvolutionBackwardFilter)

#define MILLRACE_FUNCTION(name) decltype(&::name) name;

struct CublasApi {
  MILLRACE_CUBLAS_FUNCTIONS(MILLRACE_FUNCTION)

  // Throws Error unless `status` is success. `device` names the device: "cuda device 0".
  void Check(cublasStatus_t status, const std::string& device, const char* doing) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw DeviceError(device, ": ", doing, ": cuBLAS: ", cublasGetStatusString(status));
  }
};

struct CudnnApi {
  MILLRACE_CUDNN_FUNCTIONS(MILLRACE_FUNCTION)

  // As above.
  void Check(cudnnStatus_t status, const std::string& device, const char* doing) const {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw DeviceError(device, ": ", doing, ": cuDNN: ", cudnnGetErrorString(status));
  }
};

#undef MILLRACE_FUNCTION

// Thread-safe. The first call loads the library. Throw Error with one line if it is not installed
// or lacks a function.
const CublasApi& Cublas();
const CudnnApi& Cudnn();

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_API_H_
