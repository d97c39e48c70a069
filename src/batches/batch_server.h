// The minibatch service: makes batches once and gives them to workers, through shared memory or
// sockets (batches/frames.h). docs/data.md says what it guarantees.
#ifndef MILLRACE_BATCHES_BATCH_SERVER_H_
#define MILLRACE_BATCHES_BATCH_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "batches/batch_maker.h"
#include "millrace/metrics.h"
#include "segment/auth/openssl_mac.h"

namespace millrace::inline batches {

struct BatchServerConfig {
  std::string listen = "127.0.0.1:7700";  // port 0: chosen by the system
  std::string name = "train";
  bool same = false;           // every worker gets every batch; else each batch goes to one
  uint32_t max_workers = 16;   // connections of data layers
  uint32_t credit = 4;         // batches that a worker may hold
  uint32_t threads = 1;        // that make batches
  double worker_timeout = 10;  // s of silence until a worker counts as lost
  // "cluster.key": workers must have the same key; needed for other addresses than loopback.
  std::string key_file = "";
  std::string state_file = "";  // keeps the position; "": it ends with the process
  // The first batch that is given. Then workers that go on from a position of an earlier service
  // are taken as new ones; without it they are refused. Not with `same`.
  bool has_first_batch = false;
  uint64_t first_batch = 0;
  // Gets the service's metrics, ten times a second; outlives it. Null: none.
  MetricsRegistry* metrics = nullptr;
};

struct BatchServerCounts {
  uint64_t made = 0, sent = 0, consumed = 0;
  uint64_t workers = 0;     // connected now
  uint64_t waiting = 0;     // of these, those that have no batch and want one
  uint64_t wanted = 0;      // batches that workers asked for and have not got
  uint64_t returned = 0;    // batches of lost workers that others get
  uint64_t twice = 0;       // batches that two workers may have trained on
  uint64_t used_slots = 0;  // batches in memory
};

class ServiceLoop;

// Thread-safe.
class BatchServer {
 public:
  // Listens and begins to make batches. `maker` outlives it. Throws Error in one line.
  BatchServer(const BatchServerConfig& config, BatchMaker* maker);
  // Closes all connections; workers find the service gone.
  ~BatchServer();
  BatchServer(const BatchServer&) = delete;
  BatchServer& operator=(const BatchServer&) = delete;

  std::string address() const;    // "host:port"
  uint64_t memory_bytes() const;  // at most used for batches
  BatchServerCounts counts() const;
  // Whether something has ended the service, such as a damaged record.
  bool has_failed() const;
  // Throws what has ended it; returns if nothing has.
  void RethrowIfFailed() const;

 private:
  const std::unique_ptr<ErrorSink> errors_;
  const std::unique_ptr<ServiceLoop> loop_;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_BATCH_SERVER_H_
