// The least that a program can do to move bytes by UDP: what the transport is
// measured against. Sockets are blocking, connected and made by the caller.
#ifndef MILLRACE_BENCH_UDP_BENCH_RAW_H_
#define MILLRACE_BENCH_UDP_BENCH_RAW_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace udp_bench {

// Sends datagrams of `bytes` until `stop`: 32 with each sendmmsg, or, segmented
// (UDP_SEGMENT), as many as fit one sendmsg.
void SendRaw(int fd, size_t bytes, bool segmented, const std::atomic<bool>& stop);
// Adds what arrives to `received`, in bytes, until `stop`: 32 buffers with each
// recvmmsg, or coalesced (UDP_GRO) into buffers of 64 KiB.
void ReceiveRaw(int fd, size_t bytes, bool coalesced, std::atomic<uint64_t>* received,
                const std::atomic<bool>& stop);

}  // namespace udp_bench

#endif  // MILLRACE_BENCH_UDP_BENCH_RAW_H_
