// The threads of the minibatch service: those that make batches, and one that serves the workers'
// connections.
#ifndef MILLRACE_BATCHES_SERVICE_LOOP_H_
#define MILLRACE_BATCHES_SERVICE_LOOP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/thread/condition_variable.hpp>

#include "base/clock.h"
#include "base/threads/thread.h"
#include "batches/batch_server.h"
#include "batches/connection.h"
#include "batches/dispatcher.h"
#include "batches/frames.h"
#include "batches/ledger_file.h"
#include "batches/service_metrics.h"
#include "batches/slot_memory.h"

namespace millrace::inline batches {

// A worker's connection.
struct Peer {
  explicit Peer(FileDescriptor socket) : connection(std::move(socket)) {}

  enum class State { kChallenged, kWelcomed, kBegun, kClosing };
  Connection connection;
  State state = State::kChallenged;
  std::string text;  // its address
  Nonce nonce = {};
  int64_t since_ns = 0, heard_ns = 0, sent_ns = 0;
  size_t layer = 0;
  uint64_t sequence = 0;
  uint64_t link_id = 0;
  bool uses_memory = false, said_bye = false;
  bool has_finished = false;  // the service sends nothing more
  FileDescriptor link;        // local socket of its process; open as long as that maps the memory
};

// A local socket whose process has not said yet for which connection it is.
struct NewLink {
  FileDescriptor socket;
  int64_t since_ns;
};

// Used by its own threads; the public functions may be called by any.
class ServiceLoop {
 public:
  ServiceLoop(const BatchServerConfig& config, BatchMaker* maker, ErrorSink* errors);
  ~ServiceLoop();
  ServiceLoop(const ServiceLoop&) = delete;
  ServiceLoop& operator=(const ServiceLoop&) = delete;

  std::string address() const;
  uint64_t memory_bytes() const { return dispatcher_config_.slots * maker_.bytes(); }
  BatchServerCounts counts() const;

 private:
  void Produce();
  void Serve();
  void Wake();
  void Wait();
  void Accept();
  void AcceptLink();
  void TakeLink(NewLink* link);
  void Receive(uint64_t id);
  // These return false if the connection is to be closed.
  bool OnFrame(Peer* peer, uint64_t id, const FrameDecoder::Frame& frame);
  bool OnHello(Peer* peer, std::string_view payload);
  bool OnBegin(Peer* peer, uint64_t id, std::string_view payload);
  bool OnNumber(Peer* peer, uint64_t id, FrameKind kind, uint64_t number);
  // Sends the reason and closes the connection when it is sent.
  bool Refuse(Peer* peer, const std::string& reason, bool is_passing = false);
  void Welcome(Peer* peer, const batch_api::Hello& hello);
  std::optional<size_t> LayerOf(const std::string& name) const;
  void Deliver();
  void Tick();
  void Close(uint64_t id, const char* why);
  // The batches of a sequence whose workers are lost are for others from `at_ns` on.
  void ReturnLost();
  void RefuseAll();

  const BatchServerConfig config_;
  const DispatcherConfig dispatcher_config_;
  BatchMaker& maker_;
  ErrorSink* const errors_;
  const int64_t timeout_ns_;
  const SteadyClock clock_;
  ServiceMetrics metrics_;
  std::optional<SecretKey> key_;
  SlotMemory memory_;
  std::unique_ptr<LedgerFile> file_;    // null: no file
  std::unique_ptr<Ledger> own_ledger_;  // null: there is a file, or all get the same
  Ledger* const ledger_;                // null: all get the same
  const FileDescriptor listener_, wake_;
  std::string link_name_;
  FileDescriptor link_listener_;

  mutable boost::mutex mutex_;  // guards the rest up to the threads
  boost::condition_variable work_;
  Dispatcher dispatcher_;
  BatchServerCounts counts_;
  std::string failure_;  // why no more batches are made
  bool stopped_ = false;
  bool is_woken_ = false;  // there are batches to deliver, and the thread that serves will look

  // The rest belongs to the thread that serves.
  bool may_have_work_ = false;  // for the others
  int64_t metrics_ns_ = 0;      // when the metrics were updated last
  std::map<uint64_t, std::unique_ptr<Peer>> peers_;
  uint64_t next_id_ = 1;
  std::vector<NewLink> new_links_;
  std::map<uint64_t, FileDescriptor> abandoned_;  // links by consumer, until they close
  std::map<uint64_t, int64_t> lost_;              // sequences without a worker, since when
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_SERVICE_LOOP_H_
