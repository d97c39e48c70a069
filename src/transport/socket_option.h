// Integer socket options, and errors of sockets. Nothing here throws.
#ifndef MILLRACE_TRANSPORT_SOCKET_OPTION_H_
#define MILLRACE_TRANSPORT_SOCKET_OPTION_H_

#include <cerrno>
#include <cstdint>

namespace millrace::inline transport {

// Returns false if the kernel rejects the option.
bool SetSocketInt(int fd, int level, int name, int value);
// Returns -1 on failure.
int GetSocketInt(int fd, int level, int name);
// Sets SO_SNDBUF or SO_RCVBUF (`name`). The system limit caps the size, unless the process has
// the privilege for `force_name` (SO_SNDBUFFORCE or SO_RCVBUFFORCE).
void SetSocketBuffer(int fd, int name, int force_name, int64_t bytes);

// What the errno of a failed send call means.
enum class SendErrorClass { kAgain, kBusy, kFailed };

// kAgain: repeat the call. kBusy: a queue is full; retry later. kFailed: the datagram cannot be
// sent, or the call reports the pending error of an earlier datagram; callers therefore retry
// before they drop the datagram.
inline SendErrorClass ClassifySendError(int error) {
  switch (error) {
    case EINTR:
      return SendErrorClass::kAgain;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
      return SendErrorClass::kBusy;
    default:
      return SendErrorClass::kFailed;
  }
}

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_SOCKET_OPTION_H_
