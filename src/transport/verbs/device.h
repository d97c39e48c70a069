// One port of an RDMA device, found by an IP address of this machine.
#ifndef MILLRACE_TRANSPORT_VERBS_DEVICE_H_
#define MILLRACE_TRANSPORT_VERBS_DEVICE_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "millrace/device.h"
#include "transport/inet_address.h"

namespace millrace::inline transport {

// Owning handles for objects of libibverbs and librdmacm.
template <auto destroy>
struct VerbsDestroy {
  template <typename Object>
  void operator()(Object* object) const {
    destroy(object);
  }
};

template <typename Object, auto destroy>
using VerbsHandle = std::unique_ptr<Object, VerbsDestroy<destroy>>;

using CmChannel = VerbsHandle<rdma_event_channel, rdma_destroy_event_channel>;
using CmId = VerbsHandle<rdma_cm_id, rdma_destroy_id>;
using VerbsContext = VerbsHandle<ibv_context, ibv_close_device>;
using ProtectionDomain = VerbsHandle<ibv_pd, ibv_dealloc_pd>;
using MemoryRegion = VerbsHandle<ibv_mr, ibv_dereg_mr>;
using CompletionChannel = VerbsHandle<ibv_comp_channel, ibv_destroy_comp_channel>;
using CompletionQueueHandle = VerbsHandle<ibv_cq, ibv_destroy_cq>;
using QueuePair = VerbsHandle<ibv_qp, ibv_destroy_qp>;
using AddressHandle = VerbsHandle<ibv_ah, ibv_destroy_ah>;

class VerbsDevice {
 public:
  // Opens the port that has `address` and listens there: peers resolve this node through it, and
  // their requests arrive at channel(). Throws Error with one line if no device has the address
  // (lists those available), the port is down, or the kernel lacks support or permissions.
  explicit VerbsDevice(const InetAddress& address);

  const InetAddress& local() const { return local_; }
  const std::string& name() const { return name_; }  // "rxe0 port 1"
  size_t mtu() const { return mtu_; }                // bytes of a datagram
  // Bytes that the network adds before and after a datagram's payload.
  size_t overhead_bytes() const { return overhead_bytes_; }
  size_t max_requests() const { return max_requests_; }  // per queue
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  rdma_event_channel* channel() const { return channel_.get(); }
  uint8_t port() const { return listener_->port_num; }
  // Queries the port's current state. Any thread.
  bool IsActive() const;

  // Gets the attributes for the first transition (to INIT) of a datagram queue pair. Returns
  // false if the device is gone.
  bool FirstAttributes(ibv_qp_attr* attributes, int* mask) const;

  // Registers `memory` for reading and writing by the device. `what` names its purpose in errors.
  // Throws Error; if the limit of locked memory is the reason, the message states the limit.
  MemoryRegion Register(std::span<const std::byte> memory, const char* what) const;
  // As Register, for memory that the device may be unable to access. Returns null with errno set
  // on failure.
  MemoryRegion TryRegister(std::span<const std::byte> memory) const;
  // As TryRegister, through a file that the driver of another device exported for `memory`.
  MemoryRegion TryRegisterDmaBuf(const DmaBuf& file, std::span<const std::byte> memory) const;
  // Creates an address handle from attributes that rdma_cm resolved; null on failure. Any thread.
  AddressHandle MakeAddress(const ibv_ah_attr& attributes) const;

 private:
  InetAddress local_;
  std::string name_;
  CmChannel channel_;
  CmId listener_;
  VerbsContext context_;
  ProtectionDomain domain_;
  size_t mtu_ = 0, overhead_bytes_ = 0, max_requests_ = 0;
};

// Throws Error: `what` failed on `device` with errno `error`. If the limit of locked memory may
// be the reason, the message states the limit and how to raise it.
[[noreturn]] void ThrowVerbsError(const std::string& device, const std::string& what, int error);

CmChannel OpenCmChannel();
CmId MakeCmId(rdma_event_channel* channel, void* context);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_DEVICE_H_
