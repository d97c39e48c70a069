// A connection of the service: collects what arrives and keeps what is to be sent.
#ifndef MILLRACE_BATCHES_CONNECTION_H_
#define MILLRACE_BATCHES_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "batches/frames.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline batches {

// Used by one thread.
class Connection {
 public:
  // `socket` does not block.
  explicit Connection(FileDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  FrameDecoder& decoder() { return decoder_; }

  // Sends as much as the socket takes, now and with each Flush.
  void Send(std::string frame);
  // Also sends `bytes` behind it, which exist until `sent` was called or this object ends.
  void Send(std::string frame, std::string_view bytes, std::function<void()> sent);
  bool wants_to_send() const { return !out_.empty(); }
  size_t queued() const { return out_.size(); }
  // A connection that has failed sends nothing more. What arrived before can still be received.
  void Flush();
  // Calls `on_frame` for each frame that arrived, until it returns false. Returns false if it did,
  // or the other side has closed the connection or sent no frames.
  bool Receive(const std::function<bool(FrameDecoder::Frame)>& on_frame);

 private:
  struct Out {
    std::string frame;
    std::string_view bytes;
    std::function<void()> sent;
    size_t done = 0;  // of both
  };

  const FileDescriptor socket_;
  FrameDecoder decoder_;
  std::deque<Out> out_;
  bool has_failed_ = false;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_CONNECTION_H_
