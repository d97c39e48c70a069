#include "transport/verbs/queue_pair.h"

#include <fcntl.h>

#include <cerrno>

#include "base/error.h"

namespace millrace::inline transport {
namespace {

// Inline sizes to request, in order: room for prefix and header of a frame, or for a short frame;
// less for devices with a smaller limit.
constexpr uint32_t kInlineBytes[] = {128, 64, 0};

}  // namespace

VerbsQueuePair::VerbsQueuePair(const VerbsDevice* device, size_t sends, size_t receives)
    : device_(*device),
      sends_(sends),
      receives_(receives),
      channel_(ibv_create_comp_channel(device->context())) {
  if (!channel_) ThrowVerbsError(device->name(), "no completion channel", errno);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  const auto make = [&](size_t entries) {
    CompletionQueueHandle queue(
        ibv_create_cq(device->context(), static_cast<int>(entries), nullptr, channel_.get(), 0));
    if (!queue)
      ThrowVerbsError(device->name(), StrCat("no queue of ", entries, " completions"), errno);
    return queue;
  };
  send_ = make(sends);
  receive_ = make(receives);
  queue_pair_ = Make();
  if (!queue_pair_) {
    ThrowVerbsError(device->name(),
                    StrCat("no queue pair of ", sends, " sends and ", receives, " receives"),
                    errno);
  }
}

QueuePair VerbsQueuePair::Make() {
  QueuePair made;
  for (const uint32_t bytes : kInlineBytes) {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_UD;
    wanted.send_cq = send_.get();
    wanted.recv_cq = receive_.get();
    wanted.cap.max_send_wr = static_cast<uint32_t>(sends_);
    wanted.cap.max_recv_wr = static_cast<uint32_t>(receives_);
    wanted.cap.max_send_sge = 2;
    wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = bytes;
    made.reset(ibv_create_qp(device_.domain(), &wanted));
    max_inline_ = wanted.cap.max_inline_data;
    if (made || errno == ENOMEM) break;
  }
  if (!made) return made;
  ibv_qp_attr attributes{};
  int mask = 0;
  int error = device_.FirstAttributes(&attributes, &mask) ? 0 : errno;
  if (error == 0) error = ibv_modify_qp(made.get(), &attributes, mask);
  attributes.qp_state = IBV_QPS_RTR;
  if (error == 0) error = ibv_modify_qp(made.get(), &attributes, IBV_QP_STATE);
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = 0;
  if (error == 0) error = ibv_modify_qp(made.get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
  if (error == 0) return made;
  made.reset();
  errno = error;
  return made;
}

bool VerbsQueuePair::Attach(const VerbsGroup& group) {
  if (ibv_attach_mcast(get(), &group.gid, group.lid) != 0) return false;
  groups_.push_back(group);
  return true;
}

void VerbsQueuePair::Detach() {
  for (const VerbsGroup& group : groups_) ibv_detach_mcast(get(), &group.gid, group.lid);
}

bool VerbsQueuePair::Renew() {
  QueuePair made = Make();
  if (!made) return false;
  Detach();
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (ibv_attach_mcast(made.get(), &groups_[i].gid, groups_[i].lid) == 0) continue;
    // A queue pair that is attached to a group cannot be destroyed.
    while (i-- > 0) ibv_detach_mcast(made.get(), &groups_[i].gid, groups_[i].lid);
    return false;
  }
  queue_pair_ = std::move(made);
  ibv_wc completion;
  while (ibv_poll_cq(send_.get(), 1, &completion) > 0) {
  }
  while (ibv_poll_cq(receive_.get(), 1, &completion) > 0) {
  }
  broken_ = false;
  return true;
}

void VerbsQueuePair::Arm(ibv_cq* queue, bool* armed) {
  if (!*armed) *armed = ibv_req_notify_cq(queue, 0) == 0;
}

void VerbsQueuePair::TakeEvents() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) {
    ibv_ack_cq_events(queue, 1);
    (queue == send_.get() ? send_armed_ : receive_armed_) = false;
  }
}

}  // namespace millrace::inline transport
