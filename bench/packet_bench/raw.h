// The least that a program can do to move bytes by raw Ethernet: what the transport is
// measured against. One end of a cable each; packets are of 14 bytes and `payload`.
#ifndef MILLRACE_BENCH_PACKET_BENCH_RAW_H_
#define MILLRACE_BENCH_PACKET_BENCH_RAW_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace packet_bench {

// 32 packets with each sendmmsg.
class RawSender {
 public:
  // Of an interface in the calling thread's network namespace. Throws millrace::Error.
  RawSender(const std::string& device, const std::string& to);
  ~RawSender();
  void Send(size_t payload, const std::atomic<bool>& stop);

 private:
  struct Socket;
  std::unique_ptr<Socket> socket_;
};

// A TPACKET_V3 ring of 256 blocks, as large as the transport's.
class RawReceiver {
 public:
  RawReceiver(const std::string& device, size_t block_bytes);
  ~RawReceiver();
  // Adds the payloads of what arrives to `received`, in bytes.
  void Receive(std::atomic<uint64_t>* received, const std::atomic<bool>& stop);

 private:
  struct Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace packet_bench

#endif  // MILLRACE_BENCH_PACKET_BENCH_RAW_H_
