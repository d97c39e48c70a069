#include "base/process_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.h"

namespace millrace::inline base {
namespace {

struct Stat {
  char state;
  uint64_t start_time;
};

// Returns nullopt if the process does not exist.
std::optional<Stat> ReadStat(int32_t pid) {
  if (pid <= 0) return std::nullopt;
  const int fd = open(StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char text[1024];
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return std::nullopt;
  text[length] = 0;
  // The second field is the program name in parentheses. The name may contain spaces and
  // parentheses; the later fields cannot.
  const char* field = strrchr(text, ')');
  if (!field || field[1] != ' ' || !field[2]) return std::nullopt;
  field += 2;  // field 3
  const char state = *field;
  for (int number = 3; number < 22; ++number) {
    field = strchr(field, ' ');
    if (!field) return std::nullopt;
    ++field;
  }
  return Stat{state, strtoull(field, nullptr, 10)};
}

}  // namespace

ProcessIdentity ThisProcess() {
  const int32_t pid = getpid();
  const std::optional<Stat> stat = ReadStat(pid);
  if (!stat) throw Error("/proc/", pid, "/stat: cannot be read; is /proc mounted?");
  return {pid, stat->start_time};
}

bool IsAlive(const ProcessIdentity& process) {
  const std::optional<Stat> stat = ReadStat(process.pid);
  if (!stat || stat->start_time != process.start_time) return false;
  return stat->state != 'Z' && stat->state != 'X' && stat->state != 'x';
}

}  // namespace millrace::inline base
