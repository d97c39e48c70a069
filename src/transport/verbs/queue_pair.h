// A queue pair for unreliable datagrams, with its completion queues. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_VERBS_QUEUE_PAIR_H_
#define MILLRACE_TRANSPORT_VERBS_QUEUE_PAIR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/verbs/device.h"

namespace millrace {

// A multicast group as the device knows it.
struct VerbsGroup {
  ibv_gid gid{};
  uint16_t lid = 0;
};

class VerbsQueuePair {
 public:
  // `device` outlives it. Queues for so many requests. Throws Error with one line.
  VerbsQueuePair(const VerbsDevice* device, size_t sends, size_t receives);
  ~VerbsQueuePair() { Detach(); }
  VerbsQueuePair(const VerbsQueuePair&) = delete;
  VerbsQueuePair& operator=(const VerbsQueuePair&) = delete;

  ibv_qp* get() const { return queue_pair_.get(); }
  uint32_t number() const { return queue_pair_->qp_num; }
  // Bytes that a send request may carry itself.
  size_t most_inline() const { return most_inline_; }
  // From now on, also after Renew, it gets what is sent to the group. False if refused.
  bool Attach(const VerbsGroup& group);

  // After a request that failed: nothing more comes of this queue pair but completions
  // without success. Said once, by whoever sees it.
  void SetBroken() { broken_ = true; }
  bool broken() const { return broken_; }
  // Puts a new one, of another number, in its place; requests and completions of the old
  // one are gone. False, and it stays broken, if the device will not.
  bool Renew();

  ibv_cq* send_completions() const { return send_.get(); }
  ibv_cq* receive_completions() const { return receive_.get(); }
  // Readable once the completions that were armed have come.
  int fd() const { return channel_->fd; }
  void ArmSend() { Arm(send_.get(), &send_armed_); }
  void ArmReceive() { Arm(receive_.get(), &receive_armed_); }
  void TakeEvents();

 private:
  // Null if the device refuses, with errno set.
  QueuePair Make();
  // One that is in a group cannot be destroyed.
  void Detach();
  void Arm(ibv_cq* queue, bool* armed);

  const VerbsDevice& device_;
  const size_t sends_, receives_;
  CompletionChannel channel_;
  CompletionQueue send_, receive_;
  size_t most_inline_ = 0;
  QueuePair queue_pair_;
  std::vector<VerbsGroup> groups_;
  bool broken_ = false, send_armed_ = false, receive_armed_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_VERBS_QUEUE_PAIR_H_
