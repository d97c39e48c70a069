#include "batches/slot_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/threads/cache_line.h"

namespace millrace::inline batches {
namespace {

constexpr uint64_t kPage = 4096;
constexpr timeval kAnswer{5, 0};  // within which the service sends the descriptor
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

uint64_t WholePages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::byte* Map(int fd, uint64_t bytes, int protection) {
  void* const memory = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw Error("shared memory of ", bytes, " bytes for batches: ", ErrnoText(errno));
  }
  return static_cast<std::byte*>(memory);
}

sockaddr_un LocalAddress(const std::string& name, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A name that begins with a zero byte is abstract.
  memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// One byte, with room for a descriptor.
struct DescriptorMessage {
  DescriptorMessage() {
    head.msg_iov = &data;
    head.msg_iovlen = 1;
    head.msg_control = control;
    head.msg_controllen = sizeof(control);
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr head{};
};

bool FitsLocalName(const std::string& name) {
  return !name.empty() && name.size() < sizeof(sockaddr_un::sun_path) - 1;
}

}  // namespace

SlotMemory::SlotMemory(uint64_t slots, uint64_t slot_bytes)
    : stride_(WholePages(slot_bytes)),
      bytes_(slots * stride_),
      file_(memfd_create("millrace batches", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (file_.get() < 0 || ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0 ||
      fcntl(file_.get(), F_ADD_SEALS, kSeals) != 0) {
    throw Error("shared memory of ", bytes_, " bytes for batches: ", ErrnoText(errno));
  }
  memory_ = Map(file_.get(), bytes_, PROT_READ | PROT_WRITE);
}

SlotMemory::SlotMemory(FileDescriptor file, uint64_t slots, uint64_t slot_bytes)
    : stride_(WholePages(slot_bytes)), bytes_(slots * stride_), file_(std::move(file)) {
  struct stat status {};
  const int seals = fcntl(file_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(file_.get(), &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != bytes_) {
    throw Error("the service's shared memory is not as it said");
  }
  memory_ = Map(file_.get(), bytes_, PROT_READ);
}

SlotMemory::~SlotMemory() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

FileDescriptor SlotMemory::ForReading() const {
  FileDescriptor file(open(StrCat("/proc/self/fd/", file_.get()).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw Error("shared memory for batches: ", ErrnoText(errno));
  return file;
}

bool SendDescriptor(int socket, int descriptor) {
  DescriptorMessage message;
  cmsghdr* const header = CMSG_FIRSTHDR(&message.head);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(socket, &message.head, MSG_NOSIGNAL) == 1;
}

FileDescriptor ReceiveDescriptor(int socket) {
  DescriptorMessage message;
  if (recvmsg(socket, &message.head, MSG_CMSG_CLOEXEC) != 1) return FileDescriptor();
  const cmsghdr* const header = CMSG_FIRSTHDR(&message.head);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return FileDescriptor();
  }
  int descriptor = -1;
  memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return FileDescriptor(descriptor);
}

FileDescriptor ListenLocally(const std::string& name) {
  if (!FitsLocalName(name)) return FileDescriptor();
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = 0;
  const sockaddr_un address = LocalAddress(name, &length);
  if (socket.get() < 0 ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(socket.get(), 64) != 0) {
    return FileDescriptor();
  }
  return socket;
}

FileDescriptor ConnectLocally(const std::string& name) {
  if (!FitsLocalName(name)) return FileDescriptor();
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = LocalAddress(name, &length);
  if (socket.get() < 0 ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return FileDescriptor();
  }
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswer, sizeof(kAnswer));
  return socket;
}

}  // namespace millrace::inline batches
