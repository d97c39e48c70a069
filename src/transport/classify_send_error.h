// What to do about a datagram that the kernel did not take.
#ifndef MILLRACE_TRANSPORT_CLASSIFY_SEND_ERROR_H_
#define MILLRACE_TRANSPORT_CLASSIFY_SEND_ERROR_H_

#include <cerrno>

namespace millrace {

enum class SendErrorClass { kAgain, kBusy, kFailed };

// By the errno of the call. kFailed may also be what an earlier datagram left behind for
// this call: the caller tries again before it gives the datagram up.
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

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_CLASSIFY_SEND_ERROR_H_
