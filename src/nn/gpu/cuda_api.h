// cuBLAS and cuDNN, loaded when the first GPU is used: programs start fast, and run where only the
// driver is installed. device/cuda_library_files.h says where they are looked for.
#ifndef MILLRACE_NN_GPU_CUDA_API_H_
#define MILLRACE_NN_GPU_CUDA_API_H_

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>

#include <string>

#include "base/error.h"
#include "millrace/memory_space.h"
#include "millrace/queue.h"

namespace millrace::inline nn {

#define MILLRACE_CUBLAS_FUNCTIONS(F) \
  F(cublasCreate_v2)                 \
  F(cublasDestroy_v2)                \
  F(cublasSetStream_v2)              \
  F(cublasSetWorkspace_v2)           \
  F(cublasSetMathMode)               \
  F(cublasSgemm_v2)                  \
  F(cublasGetStatusString)           \
  F(cublasGetProperty)

#define MILLRACE_CUBLASLT_FUNCTIONS(F)    \
  F(cublasLtMatmulDescCreate)             \
  F(cublasLtMatmulDescDestroy)            \
  F(cublasLtMatmulDescSetAttribute)       \
  F(cublasLtMatrixLayoutCreate)           \
  F(cublasLtMatrixLayoutDestroy)          \
  F(cublasLtMatmulPreferenceCreate)       \
  F(cublasLtMatmulPreferenceDestroy)      \
  F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatmulAlgoGetHeuristic)       \
  F(cublasLtMatmul)

#define MILLRACE_CUDNN_FUNCTIONS(F)                 \
  F(cudnnCreate)                                    \
  F(cudnnDestroy)                                   \
  F(cudnnSetStream)                                 \
  F(cudnnGetErrorString)                            \
  F(cudnnGetVersion)                                \
  F(cudnnCreateTensorDescriptor)                    \
  F(cudnnDestroyTensorDescriptor)                   \
  F(cudnnSetTensor4dDescriptor)                     \
  F(cudnnCreateFilterDescriptor)                    \
  F(cudnnDestroyFilterDescriptor)                   \
  F(cudnnSetFilter4dDescriptor)                     \
  F(cudnnCreateConvolutionDescriptor)               \
  F(cudnnDestroyConvolutionDescriptor)              \
  F(cudnnSetConvolution2dDescriptor)                \
  F(cudnnSetConvolutionGroupCount)                  \
  F(cudnnSetConvolutionMathType)                    \
  F(cudnnGetConvolutionForwardAlgorithm_v7)         \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
  F(cudnnFindConvolutionForwardAlgorithmEx)         \
  F(cudnnFindConvolutionBackwardDataAlgorithmEx)    \
  F(cudnnFindConvolutionBackwardFilterAlgorithmEx)  \
  F(cudnnGetConvolutionForwardWorkspaceSize)        \
  F(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
  F(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  F(cudnnConvolutionForward)                        \
  F(cudnnConvolutionBackwardData)                   \
  F(cudnnConvolutionBackwardFilter)

#define MILLRACE_FUNCTION(name) decltype(&::name) name;

// Functions of a library. Tests have tables with functions of their own.
struct CublasApi {
  MILLRACE_CUBLAS_FUNCTIONS(MILLRACE_FUNCTION)
  MILLRACE_CUBLASLT_FUNCTIONS(MILLRACE_FUNCTION)  // of the library that cuBLAS itself uses
  // In C++ the header overloads this name, so its type is written out.
  cublasStatus_t (*cublasGemmEx)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                                 int k, const void* alpha, const void* a, cudaDataType, int lda,
                                 const void* b, cudaDataType, int ldb, const void* beta, void* c,
                                 cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t);

  // Throws OutOfMemory or DeviceError unless `status` is success. `device` names the device: "cuda
  // device 0".
  void Check(cublasStatus_t status, const std::string& device, const char* doing) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const std::string line =
        StrCat(device, ": ", doing, ": cuBLAS: ", cublasGetStatusString(status));
    if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(line);
    throw DeviceError(line);
  }
};

struct CudnnApi {
  MILLRACE_CUDNN_FUNCTIONS(MILLRACE_FUNCTION)

  // As above.
  void Check(cudnnStatus_t status, const std::string& device, const char* doing) const {
    if (status == CUDNN_STATUS_SUCCESS) return;
    const std::string line = StrCat(device, ": ", doing, ": cuDNN: ", cudnnGetErrorString(status));
    if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
        status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
      throw OutOfMemory(line);
    }
    throw DeviceError(line);
  }
};

#undef MILLRACE_FUNCTION

// Thread-safe. The first call loads the library and logs its file and version. Throw Error with one
// line if it is not installed or lacks a function.
const CublasApi& Cublas();
const CudnnApi& Cudnn();

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_GPU_CUDA_API_H_
