// No call of NCCL waits here: the communicators are "non-blocking", and a call that is not complete
// (ncclInProgress) is asked for until it is. The waits also look for other processes that have
// failed.
#include "collective/nccl/cuda_nccl_group.h"

#include <glog/logging.h>

#include <thread>

#include "base/error.h"
#include "device/cuda_library_files.h"
#include "device/cuda_queue.h"
#include "device/cuda_status.h"

namespace millrace::inline collective {
namespace {

class NcclMember : public DeviceCollective {
 public:
  NcclMember(const NcclApi& api, Device& device, int rank, int size)
      : api_(api), device_(device), rank_(rank), size_(size) {}
  // ncclCommDestroy would wait for other members.
  ~NcclMember() override { Abort(); }

  // Starts to join the group with this id.
  void Join(const ncclUniqueId& id) {
    Select();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    Require(api_.ncclCommInitRankConfig(&communicator_, size_, id, rank_, &config), "join");
  }
  // Whether the last call is complete. Throws Error if it, or earlier work, has failed.
  bool IsComplete(const char* doing) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = api_.ncclCommGetAsyncError(communicator_, &state);
    Require(asked != ncclSuccess ? asked : state, doing);
    return state == ncclSuccess;
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Sum(Queue* queue, std::span<float> values, bool average) override {
    CudaQueue& cuda = CudaQueue::Of(*queue);
    cuda.Select();
    Require(api_.ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32,
                               average ? ncclAvg : ncclSum, communicator_, cuda.stream()),
            "sum");
    while (!IsComplete("sum")) std::this_thread::yield();
  }
  void Check() override { IsComplete("sum"); }
  void Abort() override {
    if (communicator_ == nullptr) return;
    const ncclResult_t result = api_.ncclCommAbort(communicator_);
    communicator_ = nullptr;
    if (result != ncclSuccess && result != ncclInProgress) LOG(WARNING) << Line(result, "end");
  }

 private:
  std::string Line(ncclResult_t result, const char* doing) const {
    const char* const detail = api_.ncclGetLastError(communicator_);
    return OneLine(StrCat(device_.name(), ": cannot ", doing,
                          " with the other GPUs: NCCL: ", api_.ncclGetErrorString(result),
                          detail == nullptr || *detail == '\0' ? "" : StrCat(": ", detail)));
  }
  // A call that goes on is a success, too.
  void Require(ncclResult_t result, const char* doing) const {
    if (result != ncclSuccess && result != ncclInProgress) throw DeviceError(Line(result, doing));
  }
  void Select() { CheckCuda(cudaSetDevice(device_.ordinal()), device_.name(), "cudaSetDevice"); }

  const NcclApi& api_;
  Device& device_;
  const int rank_, size_;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace

DeviceGroup MakeNcclGroup(const NcclApi& api, std::span<Device* const> devices,
                          Collective* between) {
  const auto require = [&](ncclResult_t result, const char* doing) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    throw Error("NCCL: ", doing, ": ", api.ncclGetErrorString(result));
  };
  ncclUniqueId id{};
  if (between == nullptr || between->rank() == 0) {
    require(api.ncclGetUniqueId(&id), "cannot make an id of a group");
  }
  if (between != nullptr) between->Broadcast(std::as_writable_bytes(std::span(&id, 1)));
  const int count = static_cast<int>(devices.size());
  const int first = between == nullptr ? 0 : between->rank() * count;
  const int size = between == nullptr ? count : between->size() * count;
  std::vector<std::unique_ptr<NcclMember>> members;
  for (int i = 0; i < count; ++i) {
    members.push_back(std::make_unique<NcclMember>(api, *devices[i], first + i, size));
  }
  // One thread joins with all of them, which NCCL allows within a group of calls only.
  require(api.ncclGroupStart(), "ncclGroupStart");
  for (const auto& member : members) member->Join(id);
  require(api.ncclGroupEnd(), "cannot connect the GPUs");
  for (const auto& member : members) {
    while (!member->IsComplete("connect")) {
      if (between != nullptr) between->Poll();
      std::this_thread::yield();
    }
  }
  DeviceGroup group;
  for (auto& member : members) group.push_back(std::move(member));
  return group;
}

namespace {

const RegisterDeviceGroup cuda_nccl_group(DeviceType::kCuda, [](std::span<Device* const> devices,
                                                                Collective* between) {
  return MakeNcclGroup(Nccl(), devices, between);
});

}  // namespace

const NcclApi& Nccl() {
  static const NcclApi api = [] {
    const LoadedLibrary library("libnccl.so.2");
    NcclApi api{};
#define MILLRACE_FIND(name) library.Find(#name, &api.name);
    MILLRACE_NCCL_FUNCTIONS(MILLRACE_FIND)
#undef MILLRACE_FIND
    int version = 0;  // 10000 * major + 100 * minor + patch level, since 2.9
    api.ncclGetVersion(&version);
    if (version < NCCL_VERSION(2, 14, 0)) {
      throw Error(library.path(), " has version code ", version, ", expected NCCL 2.14 or later");
    }
    LOG(INFO) << "NCCL " << version / 10000 << "." << version / 100 % 100 << "." << version % 100
              << ": " << library.Origin();
    return api;
  }();
  return api;
}

}  // namespace millrace::inline collective
