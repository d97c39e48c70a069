// Integer socket options. Nothing here throws.
#ifndef MILLRACE_TRANSPORT_SOCKET_OPTION_H_
#define MILLRACE_TRANSPORT_SOCKET_OPTION_H_

#include <cstdint>

namespace millrace::inline transport {

// Returns false if the kernel rejects the option.
bool SetSocketInt(int fd, int level, int name, int value);
// Returns -1 on failure.
int GetSocketInt(int fd, int level, int name);
// Sets SO_SNDBUF or SO_RCVBUF (`name`). The system limit caps the size, unless the process has
// the privilege for `force_name` (SO_SNDBUFFORCE or SO_RCVBUFFORCE).
void SetSocketBuffer(int fd, int name, int force_name, int64_t bytes);

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_SOCKET_OPTION_H_
