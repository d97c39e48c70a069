// One port of an RDMA device, found by an IP address of this machine.
#ifndef MILLRACE_TRANSPORT_VERBS_DEVICE_H_
#define MILLRACE_TRANSPORT_VERBS_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "device/device.h"
#include "transport/inet_address.h"
#include "transport/verbs/handles.h"

namespace millrace {

class VerbsDevice {
 public:
  // The port that has `address`, where others can look this node up from now on (what
  // they ask arrives at channel()). Throws Error with one line: there is no such device
  // (lists the addresses of those there are), the port is down, the kernel or its
  // permissions lack something.
  explicit VerbsDevice(const InetAddress& address);

  const InetAddress& local() const { return local_; }
  const std::string& name() const { return name_; }  // "rxe0 port 1"
  size_t mtu() const { return mtu_; }                // bytes of a datagram
  // What the link puts before and behind a datagram's payload, in bytes.
  size_t overhead_bytes() const { return overhead_bytes_; }
  size_t most_requests() const { return most_requests_; }  // in a queue
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  rdma_event_channel* channel() const { return channel_.get(); }
  uint8_t port() const { return listener_->port_num; }
  // As of now. Any thread.
  bool IsActive() const;

  // The attributes that a queue pair for datagrams begins with (state INIT). False if the
  // device is gone.
  bool FirstAttributes(ibv_qp_attr* attributes, int* mask) const;

  // Lets the device read and write `memory`. Throws Error, which says how much memory may
  // be locked if that is why; `what` it is for.
  MemoryRegion Register(std::span<const std::byte> memory, const char* what) const;
  // The same of memory that the device may be unable to reach: null, with errno set, if it is.
  MemoryRegion TryRegister(std::span<const std::byte> memory) const;
  // By a file of `memory`, which another device's driver gave.
  MemoryRegion TryRegisterDmaBuf(const DmaBuf& file, std::span<const std::byte> memory) const;
  // The address handle for what rdma_cm has found; null if there is none. Any thread.
  AddressHandle MakeAddress(const ibv_ah_attr& attributes) const;

 private:
  InetAddress local_;
  std::string name_;
  CmChannel channel_;
  CmId listener_;
  VerbsContext context_;
  ProtectionDomain domain_;
  size_t mtu_ = 0, overhead_bytes_ = 0, most_requests_ = 0;
};

// Throws Error: `what` failed with `error` (an errno) on `device`. Where the reason may be
// the limit of locked memory, says what it is and how to raise it.
[[noreturn]] void ThrowVerbsError(const std::string& device, const std::string& what, int error);

CmChannel OpenCmChannel();
CmId MakeCmId(rdma_event_channel* channel, void* context);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_DEVICE_H_
