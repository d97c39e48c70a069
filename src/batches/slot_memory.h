// Memory of the service that the workers of its machine read: an unnamed file, which ends with the
// processes that use it. The workers' processes get its descriptor over a local socket, in one
// message with a byte.
#ifndef MILLRACE_BATCHES_SLOT_MEMORY_H_
#define MILLRACE_BATCHES_SLOT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "millrace/file_descriptor.h"

namespace millrace::inline batches {

// Thread-safe. The addresses are valid as long as the object.
class SlotMemory {
 public:
  // The service's, zero; memory that is never written takes none. Throws Error.
  SlotMemory(uint64_t slots, uint64_t slot_bytes);
  // A worker's, for reading only: the descriptor that the service sent. Throws Error if it is not
  // such memory, or could shrink.
  SlotMemory(FileDescriptor file, uint64_t slots, uint64_t slot_bytes);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  // The service may write there, a worker may not.
  std::byte* slot(size_t index) const { return memory_ + index * stride_; }
  // A new descriptor, for reading only. Throws Error.
  FileDescriptor ForReading() const;

 private:
  const uint64_t stride_, bytes_;
  FileDescriptor file_;
  std::byte* memory_ = nullptr;
};

// Sends and receives a descriptor. False, or none, if the other side has gone.
bool SendDescriptor(int socket, int descriptor);
FileDescriptor ReceiveDescriptor(int socket);

// Local sockets with abstract names, which no file has. -1 with errno on failure.
FileDescriptor ListenLocally(const std::string& name);
FileDescriptor ConnectLocally(const std::string& name);

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_SLOT_MEMORY_H_
