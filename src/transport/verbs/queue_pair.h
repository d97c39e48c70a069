// A queue pair for unreliable datagrams, with its completion queues. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_VERBS_QUEUE_PAIR_H_
#define MILLRACE_TRANSPORT_VERBS_QUEUE_PAIR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/verbs/device.h"

namespace millrace::inline transport {

// A multicast group in the device's terms.
struct VerbsGroup {
  ibv_gid gid{};
  uint16_t lid = 0;
};

class VerbsQueuePair {
 public:
  // `device` outlives this object. `sends` and `receives` are queue lengths, in requests. Throws
  // Error with one line.
  VerbsQueuePair(const VerbsDevice* device, size_t sends, size_t receives);
  ~VerbsQueuePair() { Detach(); }
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;

  ibv_qp* get() const { return queue_pair_.get(); }
  uint32_t number() const { return queue_pair_->qp_num; }
  // Maximum bytes of inline data per send request.
  size_t max_inline() const { return max_inline_; }
  // Joins the multicast group, also for queue pairs that Renew creates. Returns false on failure.
  bool Attach(const VerbsGroup& group);

  // Called after a failed request: from then on the queue pair only delivers completions with an
  // error.
  void SetBroken() { broken_ = true; }
  bool broken() const { return broken_; }
  // Replaces the queue pair by a new one with another number; requests and completions of the old
  // one are lost. Returns false if the device refuses; the queue pair then stays broken.
  bool Renew();

  ibv_cq* send_completions() const { return send_.get(); }
  ibv_cq* receive_completions() const { return receive_.get(); }
  // Readable once an armed completion queue has a completion.
  int fd() const { return channel_->fd; }
  void ArmSend() { Arm(send_.get(), &send_armed_); }
  void ArmReceive() { Arm(receive_.get(), &receive_armed_); }
  void TakeEvents();

 private:
  // Returns null with errno set if the device refuses.
  QueuePair Make();
  // Leaves all groups: a queue pair cannot be destroyed while it is in a group.
  void Detach();
  void Arm(ibv_cq* queue, bool* armed);

  const VerbsDevice& device_;
  const size_t sends_, receives_;
  CompletionChannel channel_;
  CompletionQueueHandle send_, receive_;
  size_t max_inline_ = 0;
  QueuePair queue_pair_;
  std::vector<VerbsGroup> groups_;
  bool broken_ = false, send_armed_ = false, receive_armed_ = false;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_VERBS_QUEUE_PAIR_H_
