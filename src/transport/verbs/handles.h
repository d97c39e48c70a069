// Owning handles for objects of libibverbs and librdmacm.
#ifndef MILLRACE_TRANSPORT_VERBS_HANDLES_H_
#define MILLRACE_TRANSPORT_VERBS_HANDLES_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <memory>

namespace millrace::inline transport {

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

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_HANDLES_H_
