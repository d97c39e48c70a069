// A worker's socket to the minibatch service.
#ifndef MILLRACE_BATCHES_WORKER_SOCKET_H_
#define MILLRACE_BATCHES_WORKER_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "batches/frames.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline batches {

// One thread at a time receives, and one sends. Move-only.
class WorkerSocket {
 public:
  WorkerSocket() = default;
  // Connects. Throws Error with the reason only.
  explicit WorkerSocket(const std::string& host_and_port);

  int fd() const { return socket_.get(); }
  // How long a Read waits for bytes that do not come.
  void SetReadTimeout(int64_t ms);

  // Whether bytes are here that have been received and not read. poll() does not know of them.
  bool has_input() const { return begin_ < end_; }
  // These throw Error if the bytes do not come, or are no frame.
  void Read(void* to, size_t bytes);
  FrameHeader ReadHeader(uint64_t max_batch_bytes);
  std::string ReadPayload(const FrameHeader& header);

  // Returns false if the connection has failed.
  bool Send(std::string_view bytes) const;

 private:
  // At least one byte.
  size_t Receive(void* to, size_t most);

  FileDescriptor socket_;
  // What was received together with what was asked for: several small frames come at once.
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // of it, not read
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_WORKER_SOCKET_H_
