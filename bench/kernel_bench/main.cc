// What the exchange's kernels reach on the GPUs of this machine: operations a second and the
// bytes of their payloads, by chunk size, codec, operations in a call, and where the payloads
// lie (shared with the kernels, or copied to the stage); beside them what copies between the
// GPU and page-locked memory reach.
#include <gflags/gflags.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "device/copy_rate.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/executor_registry.h"
#include "test/support/cuda_devices.h"

DEFINE_double(seconds, 0.3, "of each measurement");

namespace millrace {
namespace {

constexpr int64_t kReplicaFloats = int64_t{16} << 20;

struct Work {
  const char* name;
  ChunkOpKind kind;
  Codec codec;
};
constexpr Work kWorks[] = {
    {"read", ChunkOpKind::kRead, Codec::kFloat32},
    {"merge float32", ChunkOpKind::kMerge, Codec::kFloat32},
    {"merge bfloat16", ChunkOpKind::kMerge, Codec::kBfloat16},
    {"merge int8", ChunkOpKind::kMerge, Codec::kInt8},
    {"exchange float32", ChunkOpKind::kExchange, Codec::kFloat32},
    {"exchange bfloat16", ChunkOpKind::kExchange, Codec::kBfloat16},
    {"exchange int8", ChunkOpKind::kExchange, Codec::kInt8},
    {"exchange sparse", ChunkOpKind::kExchange, Codec::kSparse},
};

// A replica on a device, and as many operations of one kind as go into a call.
class Bench {
 public:
  Bench(int ordinal, int64_t chunk_floats, size_t ops, bool shares)
      : device_(DeviceRegistry::Get().Find(DeviceType::kCuda, ordinal)),
        arrays_(device_.memory(), 3 * 4 * kReplicaFloats),
        room_(MaxPayloadBytes(chunk_floats) + 64),
        chunk_floats_(chunk_floats),
        ops_(ops) {
    float* const at = arrays_.get<float>();
    device_.memory().Fill(at, 0, arrays_.bytes());
    const ReplicaArrays replica = {at,      at + kReplicaFloats, at + 2 * kReplicaFloats,
                                   nullptr, kReplicaFloats,      chunk_floats};
    executor_ =
        ExecutorRegistry::Get().Make(device_, replica, CodecConfig{Codec::kSparse, 1e-3f}, {});
    payloads_ = Buffer(executor_->payload_memory(), 2 * ops * room_);
    std::memset(payloads_.get(), 0, payloads_.bytes());  // zeros are sound in every codec
    if (shares) executor_->RegisterMemory({payloads_.get<std::byte>(), payloads_.bytes()});
  }

  // Operations a second.
  double Run(const Work& work) {
    const auto chunks = static_cast<uint32_t>(executor_->arrays().chunks());
    uint32_t chunk = 0;
    const auto call = [&] {
      for (size_t i = 0; i < ops_.size(); ++i) {
        ChunkOp& op = ops_[i] = {.kind = work.kind, .codec = work.codec};
        op.acknowledged = op.take = true;
        chunk = chunk + 2 < chunks ? chunk + 1 : 0;  // whole ones
        op.chunk = chunk;
        op.in = payloads_.get<std::byte>() + 2 * i * room_;
        op.in_bytes = PayloadBytes(work);
        op.out = payloads_.get<std::byte>() + (2 * i + 1) * room_;
        op.out_bytes = static_cast<uint32_t>(room_);
      }
      executor_->Run(ops_);
    };
    for (int i = 0; i < 10; ++i) call();
    const SteadyClock clock;
    const double begin = clock.NowSeconds();
    double seconds = 0;
    uint64_t calls = 0;
    while ((seconds = clock.NowSeconds() - begin) < FLAGS_seconds) {
      call();
      ++calls;
    }
    for (const ChunkOp& op : ops_) {
      if (op.result & (kNonFinite | kMalformed)) throw Error(work.name, ": was refused");
    }
    return static_cast<double>(calls * ops_.size()) / seconds;
  }

  uint32_t PayloadBytes(const Work& work) const {
    const Codec codec = work.kind == ChunkOpKind::kMerge ? work.codec : Codec::kFloat32;
    return MinPayloadBytes(codec, chunk_floats_);
  }

 private:
  Device& device_;
  Buffer arrays_;
  const size_t room_;
  const int64_t chunk_floats_;
  std::vector<ChunkOp> ops_;
  Buffer payloads_;
  std::unique_ptr<ChunkExecutor> executor_;
};

void Measure(const DeviceInfo& info) {
  Device& device = DeviceRegistry::Get().Find(DeviceType::kCuda, info.ordinal);
  std::printf("cuda device %d: %s\n", info.ordinal, info.description.c_str());
  const CopyRate copies = MeasureCopies(device.memory(), device.staging(), SteadyClock());
  std::printf("copies of 8 MiB: %.1f GB/s to the host, %.1f GB/s from it\n", copies.to_host / 1e9,
              copies.from_host / 1e9);
  std::printf("%-18s %7s %5s %7s %12s %8s\n", "work", "floats", "ops", "payload", "ops/s", "GB/s");
  for (const int64_t floats : {350, 1000, 2200}) {
    for (const size_t ops : {size_t{1}, size_t{64}, size_t{512}}) {
      for (const bool shares : {true, false}) {
        Bench bench(info.ordinal, floats, ops, shares);
        for (const Work& work : kWorks) {
          const double rate = bench.Run(work);
          std::printf("%-18s %7ld %5zu %7s %12.0f %8.2f\n", work.name, static_cast<long>(floats),
                      ops, shares ? "shared" : "copied", rate,
                      rate * bench.PayloadBytes(work) / 1e9);
          std::fflush(stdout);
        }
      }
    }
  }
}

int Main() {
  if (const std::string why = test::WhyNoCudaDevice(0); !why.empty()) {
    std::printf("%s\n", why.c_str());
    return 0;
  }
  for (const DeviceInfo& info : DeviceRegistry::Get().FindDriver(DeviceType::kCuda)->List())
    Measure(info);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  try {
    return millrace::Main();
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 1;
  }
}
