// A worker's connection to a minibatch service: asks for batches ahead of their use, connects again
// when the service is gone, and says which batches were trained on.
#ifndef MILLRACE_BATCHES_BATCH_CLIENT_H_
#define MILLRACE_BATCHES_BATCH_CLIENT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/thread/condition_variable.hpp>

#include "base/error.h"
#include "base/threads/thread.h"
#include "batches/frames.h"
#include "batches/service_address.h"
#include "batches/slot_memory.h"
#include "batches/worker_socket.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline batches {

// Thread-safe.
class BatchClient : public std::enable_shared_from_this<BatchClient> {
 public:
  // Connects, and waits for a service that is not there yet. Throws Error with one line that begins
  // with the address.
  static std::shared_ptr<BatchClient> Connect(const ServiceAddress& address);
  // Says that no more batches are taken.
  ~BatchClient();
  BatchClient(const BatchClient&) = delete;
  BatchClient& operator=(const BatchClient&) = delete;

  const batch_api::Welcome& welcome() const { return welcome_; }
  // See BatchSource.
  void Begin(const std::string& layer, uint64_t sequence, bool resumed);

  struct View {
    std::string_view values;
    std::shared_ptr<const void> owner;
  };
  // Waits for a batch (an interruption point). The service may reuse its memory when the owner
  // ends. Throws Error if the service is gone for longer than the address says, or refuses.
  View Get(uint64_t number);
  void MarkConsumed(uint64_t number);

  // Whether batches come in shared memory.
  bool uses_memory() const;

 private:
  // The shared memory of one connection. The service sees when the last view of it has ended.
  struct Mapping {
    Mapping(FileDescriptor file, const batch_api::Welcome& welcome, FileDescriptor local)
        : memory(std::move(file), welcome.slots(), welcome.slot_bytes()), link(std::move(local)) {}
    const SlotMemory memory;
    const FileDescriptor link;
  };
  // An agreed connection.
  struct Session {
    WorkerSocket socket;
    batch_api::Welcome welcome;
    std::shared_ptr<const Mapping> mapping;  // null: over the connection
  };
  // A batch that has arrived.
  struct Arrived {
    uint64_t slot = 0;
    std::unique_ptr<char[]> values;  // null: in the slot
  };
  // The service says no. `is_passing`: it may say yes later.
  struct Refused : Error {
    Refused(const std::string& reason, bool passing) : Error(reason), is_passing(passing) {}
    bool is_passing;
  };

  explicit BatchClient(const ServiceAddress& address);

  Session Agree();
  // Calls Agree until it succeeds, or for wait_seconds from `since_ns` on. Throws Error.
  Session AgreePatiently(int64_t since_ns, const std::string& why);
  // Throws boost::thread_interrupted when the thread is to end.
  void Pause(int64_t ms) const;
  void Run();
  void Use(Session session);
  // Receives until the connection ends; returns why.
  std::string Follow();
  void OnFrame(const FrameHeader& header);
  void OnBatch(const FrameHeader& header);
  bool HasQueued() const;
  // Sends what has been queued for long, and a ping after silence.
  void Tick();
  void Fail(const std::string& reason);
  std::string place() const;

  // The caller holds mutex_.
  void SendLocked(const std::string& frame);  // with what is queued
  // Sends what is queued, unless it may wait for more, as with small batches: until half of the
  // batches that a worker may hold are asked for, or a millisecond has passed since the last
  // message.
  void SendSoonLocked();
  void FlushLocked();
  void SendNowLocked(const std::string& frames);  // before what is queued
  void SendBegin();
  void Want(uint64_t number);
  void WantAhead();
  void MakeCredit(uint64_t number);
  void Release(uint64_t number, uint64_t generation, std::unique_ptr<char[]> values);

  const ServiceAddress address_;
  const std::optional<SecretKey> key_;
  batch_api::Welcome welcome_;  // constant once connected
  int64_t timeout_ns_ = 0;

  mutable boost::mutex mutex_;  // guards the rest
  boost::condition_variable changed_;
  std::string layer_;
  WorkerSocket socket_;
  std::shared_ptr<const Mapping> mapping_;
  uint64_t generation_ = 0;  // of the connection
  bool has_sequence_ = false, resumed_ = false;
  uint64_t sequence_ = 0;
  bool has_begun_ = false;  // the service has agreed to the sequence, on this connection
  bool stopped_ = false, broken_ = false;
  std::string queued_;  // frames to send
  uint64_t queued_wants_ = 0;
  int64_t sent_ns_ = 0;
  std::string error_;
  std::set<uint64_t> unreleased_;        // asked for on this connection, and not released
  std::map<uint64_t, Arrived> arrived_;  // of these, not taken by Get
  std::set<uint64_t> held_;              // taken by Get, and not trained on
  std::deque<uint64_t> consumed_;        // the last; the service may not have heard of them
  uint64_t ahead_ = 0;                   // the next number that Get will probably want
  std::vector<std::unique_ptr<char[]>> spare_;
  ErrorSink sink_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_BATCH_CLIENT_H_
