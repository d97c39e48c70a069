#include "device/cuda_memory.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "device/cuda_status.h"

namespace millrace::inline device {
namespace {

constexpr char kCannotFree[] = "cannot free memory";

// Allocation granularity in bytes. A dma-buf consists of whole pages, so an array must end on a
// page boundary. Large arrays also begin on one.
constexpr size_t kPiece = size_t{64} << 10;

size_t WholePieces(size_t bytes) {
  const size_t whole = (std::max<size_t>(bytes, 1) + kPiece - 1) / kPiece * kPiece;
  return whole < bytes ? bytes : whole;  // overflow: let the driver refuse the size
}

// Driver API function, resolved at run time: a program linked against the driver would not start on
// machines without one.
using ExportRange = CUresult (*)(void* handle, CUdeviceptr from, size_t bytes,
                                 CUmemRangeHandleType type, unsigned long long flags);
ExportRange FindExport() {
  constexpr unsigned kSince = 11070;  // CUDA 11.7
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status = cudaGetDriverEntryPointByVersion(
      "cuMemGetHandleForAddressRange", &found, kSince, cudaEnableDefault, &result);
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess && result == cudaDriverEntryPointSuccess
             ? reinterpret_cast<ExportRange>(found)
             : nullptr;
}

// Copies with the legacy stream and waits, which cudaMemcpy alone does not do for every kind.
void CopyAndWait(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind,
                 const std::string& device) {
  CheckCuda(cudaMemcpy(destination, source, bytes, kind), device, "cannot copy ", bytes, " bytes");
  CheckCuda(cudaStreamSynchronize(cudaStreamLegacy), device, "cannot copy ", bytes, " bytes");
}

}  // namespace

CudaMemory::CudaMemory(int ordinal) : ordinal_(ordinal), name_(StrCat("cuda device ", ordinal)) {}

// The current device is a property of the calling thread.
void CudaMemory::Select() { CheckCuda(cudaSetDevice(ordinal_), name_, "cannot be used"); }

void* CudaMemory::Allocate(size_t bytes) {
  Select();
  void* pointer = nullptr;
  CheckCuda(cudaMalloc(&pointer, WholePieces(bytes)), name_, "cannot allocate ", bytes, " bytes");
  return pointer;
}

DmaBuf CudaMemory::ExportDmaBuf(const void* pointer, size_t bytes, std::string* why) {
  static const ExportRange export_range = FindExport();
  if (!export_range) {
    *why = "the driver is older than CUDA 11.7";
    return {};
  }
  Select();
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(pointer), from = begin / page * page;
  const uintptr_t to = (begin + bytes + page - 1) / page * page;
  int file = -1;
  const CUresult result =
      export_range(&file, from, to - from, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (result != CUDA_SUCCESS) {
    *why = result == CUDA_ERROR_NOT_SUPPORTED
               ? "the driver has no dma-buf (it needs NVIDIA's open kernel modules)"
               : StrCat("the driver gives no dma-buf: error ", static_cast<int>(result));
    return {};
  }
  return {FileDescriptor(file), begin - from};
}

void CudaMemory::Free(void* pointer) {
  CheckCudaFree(cudaSetDevice(ordinal_), name_, kCannotFree);
  CheckCudaFree(cudaFree(pointer), name_, kCannotFree);
}

void CudaMemory::Fill(void* pointer, int byte, size_t bytes) {
  Select();
  CheckCuda(cudaMemset(pointer, byte, bytes), name_, "cannot fill memory");
  // cudaMemset() may return before the GPU has finished.
  CheckCuda(cudaStreamSynchronize(cudaStreamLegacy), name_, "cannot fill memory");
}

void CudaMemory::CopyFromHost(void* destination, const void* host, size_t bytes) {
  Select();
  CopyAndWait(destination, host, bytes, cudaMemcpyHostToDevice, name_);
}

void CudaMemory::CopyToHost(void* host, const void* source, size_t bytes) {
  Select();
  CopyAndWait(host, source, bytes, cudaMemcpyDeviceToHost, name_);
}

PinnedMemory::PinnedMemory(int ordinal)
    : ordinal_(ordinal), device_(StrCat("cuda device ", ordinal)) {}

// Without a selection the runtime would begin a context on GPU 0, with hundreds of MiB, for threads
// that have used no GPU.
void* PinnedMemory::Allocate(size_t bytes) {
  CheckCuda(cudaSetDevice(ordinal_), device_, "cannot be used");
  void* pointer = nullptr;
  CheckCuda(cudaHostAlloc(&pointer, std::max<size_t>(bytes, 1), cudaHostAllocPortable), device_,
            "cannot allocate ", bytes, " bytes of page-locked host memory");
  return pointer;
}

void PinnedMemory::Free(void* pointer) {
  CheckCudaFree(cudaSetDevice(ordinal_), device_, kCannotFree);
  CheckCudaFree(cudaFreeHost(pointer), device_, kCannotFree);
}

void PinnedMemory::Fill(void* pointer, int byte, size_t bytes) {
  HostMemory().Fill(pointer, byte, bytes);
}
void PinnedMemory::CopyFromHost(void* destination, const void* host, size_t bytes) {
  HostMemory().CopyFromHost(destination, host, bytes);
}
void PinnedMemory::CopyToHost(void* host, const void* source, size_t bytes) {
  HostMemory().CopyToHost(host, source, bytes);
}

}  // namespace millrace::inline device
