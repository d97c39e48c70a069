// Options of sockets that are numbers. Nothing here throws.
#ifndef MILLRACE_TRANSPORT_SOCKET_OPTION_H_
#define MILLRACE_TRANSPORT_SOCKET_OPTION_H_

#include <cstdint>

namespace millrace {

// False if the kernel refuses.
bool SetSocketInt(int fd, int level, int name, int value);
// -1 if the kernel does not say.
int GetSocketInt(int fd, int level, int name);
// Of SO_SNDBUF or SO_RCVBUF: grants up to the machine's limit, and beyond it (by
// `force_name`, SO_SNDBUFFORCE or SO_RCVBUFFORCE) with the privilege.
void SetSocketBuffer(int fd, int name, int force_name, int64_t bytes);

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_SOCKET_OPTION_H_
