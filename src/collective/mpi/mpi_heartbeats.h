// The heartbeats of processes that MPI connects, in a thread of their own.
#ifndef MILLRACE_COLLECTIVE_MPI_MPI_HEARTBEATS_H_
#define MILLRACE_COLLECTIVE_MPI_MPI_HEARTBEATS_H_

#include <mpi.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collective/heartbeat_monitor.h"

namespace millrace::inline collective {

// Thread-safe.
class MpiHeartbeats {
 public:
  // Begins to send. `mpi`: held during all calls of MPI; outlives this object. `peer_timeout`: in
  // seconds.
  MpiHeartbeats(std::mutex* mpi, double peer_timeout);
  // Stop has been called.
  ~MpiHeartbeats();

  // Throws Error, in one line, if a process has failed or is silent.
  void ThrowIfLost() const;
  // Ends the thread. Does not say so to the others.
  void Stop();
  // Stops, and tells the others that this process has failed. Returns when the messages are on
  // their way, or after a second.
  void Fail(const std::string& reason);

 private:
  struct Message {
    std::array<char, 512> reason = {};  // empty: the process is well
  };
  struct Peer {
    Message message;
    MPI_Request sending = MPI_REQUEST_NULL;
  };

  void Run();
  // The caller holds `mpi_`.
  void Receive();
  void Send(const std::string& reason);
  bool AllSent();

  std::mutex& mpi_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  const double interval_;    // seconds between two heartbeats
  std::vector<Peer> peers_;  // by rank; under mpi_

  mutable std::mutex mutex_;  // of what follows; taken after mpi_
  std::condition_variable wake_;
  HeartbeatMonitor monitor_;
  bool stops_ = false;

  std::thread thread_;
};

}  // namespace millrace::inline collective

#endif  // MILLRACE_COLLECTIVE_MPI_MPI_HEARTBEATS_H_
