#include "collective/mpi/mpi_heartbeats.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "collective/mpi/mpi_call.h"

namespace millrace::inline collective {
namespace {

// Heartbeats within a peer timeout, but at most one in a twentieth of a second.
constexpr int kInTimeout = 20;
constexpr double kMinSeconds = 0.05;

using Seconds = std::chrono::duration<double>;

int RankOf(MPI_Comm communicator) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}

int SizeOf(MPI_Comm communicator) {
  int size = 1;
  MPI_Comm_size(communicator, &size);
  return size;
}

}  // namespace

MpiHeartbeats::MpiHeartbeats(std::mutex* mpi, double peer_timeout)
    : mpi_(*mpi),
      rank_(RankOf(MPI_COMM_WORLD)),
      size_(SizeOf(MPI_COMM_WORLD)),
      interval_(std::max(peer_timeout / kInTimeout, kMinSeconds)),
      peers_(size_),
      monitor_(rank_, size_, static_cast<int>(peer_timeout / interval_), peer_timeout) {
  CheckMpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "heartbeats");
}

MpiHeartbeats::~MpiHeartbeats() { Stop(); }

void MpiHeartbeats::ThrowIfLost() const {
  const std::lock_guard lock(mutex_);
  if (!monitor_.lost().empty()) throw Error(monitor_.lost());
}

void MpiHeartbeats::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MpiHeartbeats::Fail(const std::string& reason) {
  Stop();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  {
    const std::lock_guard lock(mpi_);
    Send(reason.empty() ? "unknown error" : reason);
  }
  while (std::chrono::steady_clock::now() < deadline) {
    {
      const std::lock_guard lock(mpi_);
      if (AllSent()) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void MpiHeartbeats::Run() {
  while (true) {
    {
      const std::lock_guard lock(mpi_);
      Receive();
      Send("");
    }
    std::unique_lock lock(mutex_);
    monitor_.Sent();
    if (wake_.wait_for(lock, Seconds(interval_), [this] { return stops_; })) return;
  }
}

void MpiHeartbeats::Receive() {
  while (true) {
    int arrived = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, communicator_, &arrived, &status) != MPI_SUCCESS) return;
    if (!arrived) return;
    Message message;
    if (MPI_Recv(&message, sizeof(message), MPI_BYTE, status.MPI_SOURCE, 0, communicator_,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return;
    }
    const std::lock_guard lock(mutex_);
    monitor_.OnHeartbeat(status.MPI_SOURCE);
    message.reason.back() = 0;
    if (message.reason[0] != 0) monitor_.Failed(status.MPI_SOURCE, message.reason.data());
  }
}

void MpiHeartbeats::Send(const std::string& reason) {
  for (int to = 0; to < size_; ++to) {
    Peer& peer = peers_[to];
    int sent = 0;
    // One that does not receive gets no more messages: its silence is noticed.
    if (to == rank_ || MPI_Test(&peer.sending, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || !sent) {
      continue;
    }
    peer.message = {};
    std::copy_n(reason.begin(), std::min(reason.size(), peer.message.reason.size() - 1),
                peer.message.reason.begin());
    MPI_Isend(&peer.message, sizeof(peer.message), MPI_BYTE, to, 0, communicator_, &peer.sending);
  }
}

bool MpiHeartbeats::AllSent() {
  bool all = true;
  for (Peer& peer : peers_) {
    int sent = 0;
    all &= MPI_Test(&peer.sending, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || sent;
  }
  return all;
}

}  // namespace millrace::inline collective
