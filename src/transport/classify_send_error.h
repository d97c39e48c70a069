// Classifies the errno of a failed send call.
#ifndef MILLRACE_TRANSPORT_CLASSIFY_SEND_ERROR_H_
#define MILLRACE_TRANSPORT_CLASSIFY_SEND_ERROR_H_

#include <cerrno>

namespace millrace::inline transport {

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

#endif  // MILLRACE_TRANSPORT_CLASSIFY_SEND_ERROR_H_
