#include "transport/socket_option.h"

#include <sys/socket.h>

namespace millrace::inline transport {

bool SetSocketInt(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

int GetSocketInt(int fd, int level, int name) {
  int value = 0;
  socklen_t length = sizeof(value);
  if (getsockopt(fd, level, name, &value, &length) != 0) return -1;
  return value;
}

void SetSocketBuffer(int fd, int name, int force_name, int64_t bytes) {
  SetSocketInt(fd, SOL_SOCKET, name, static_cast<int>(bytes));
  // The kernel doubles the requested size and reports the doubled size.
  if (GetSocketInt(fd, SOL_SOCKET, name) < 2 * bytes) {
    SetSocketInt(fd, SOL_SOCKET, force_name, static_cast<int>(bytes));
  }
}

}  // namespace millrace::inline transport
