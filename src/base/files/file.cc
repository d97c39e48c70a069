#include "base/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/process_identity.h"

namespace millrace::inline base {

std::string ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(path, ": ", ErrnoText(errno));
  std::string content;
  struct stat status;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) content.reserve(status.st_size);
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got > 0) {
      content.append(buffer, got);
    } else if (got == 0) {
      break;
    } else if (errno != EINTR) {
      const int reason = errno;
      close(fd);
      throw Error(path, ": ", ErrnoText(reason));
    }
  }
  close(fd);
  return content;
}

namespace {

constexpr std::string_view kTemporary = ".tmp";

// Identifies the boot and the PID namespace, because systems that share a folder may use the same
// pids. All zeros if unknown.
std::string SystemTag() {
  std::string name;
  try {
    name = ReadFile("/proc/sys/kernel/random/boot_id");
    name += std::filesystem::read_symlink("/proc/self/ns/pid").string();
  } catch (const std::exception&) {
    return std::string(16, '0');
  }
  char tag[17];
  snprintf(tag, sizeof(tag), "%016" PRIx64, Fnv1a(name));
  return tag;
}

std::string OwnTemporaryEnding() {
  static const std::string system = SystemTag();
  uint64_t start = 0;
  try {
    start = ThisProcess().start_time;
  } catch (const Error&) {  // no /proc: the system tag is unknown as well
  }
  return StrCat(".", system, ".", getpid(), ".", start, kTemporary);
}

// Parts of the name of a temporary file.
struct TemporaryName {
  std::string_view target, system;
  ProcessIdentity writer;
};

// Removes the part after the last dot from `name` and returns it.
std::string_view TakeFragment(std::string_view* name) {
  const size_t dot = name->rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view part = name->substr(dot + 1);
  name->remove_suffix(part.size() + 1);
  return part;
}

template <typename T>
bool ParseDigits(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 0;
}

std::optional<TemporaryName> ParseTemporary(std::string_view name) {
  if (!name.ends_with(kTemporary)) return std::nullopt;
  name.remove_suffix(kTemporary.size());
  TemporaryName parsed;
  const std::string_view start = TakeFragment(&name), pid = TakeFragment(&name);
  parsed.system = TakeFragment(&name);
  parsed.target = name;
  const bool is_tag = parsed.system.size() == 16 &&
                      parsed.system.find_first_not_of("0123456789abcdef") == parsed.system.npos;
  if (!is_tag || !ParseDigits(pid, &parsed.writer.pid) ||
      !ParseDigits(start, &parsed.writer.start_time)) {
    return std::nullopt;
  }
  return parsed;
}

bool IsStale(const TemporaryName& name, const struct stat& status) {
  const std::string system = SystemTag();
  const bool known = system.find_first_not_of('0') != system.npos;
  if (known && name.system == system) return !IsAlive(name.writer);
  return time(nullptr) - status.st_mtime >= kForeignTemporarySeconds;
}

}  // namespace

int RemoveStaleTemporaries(const std::string& folder,
                           const std::function<bool(std::string_view)>& is_meant) {
  int removed = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string(), name = entry->path().filename().string();
    const std::optional<TemporaryName> parsed = ParseTemporary(name);
    if (!parsed || !is_meant(parsed->target)) continue;
    struct stat status;
    if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (status.st_uid != geteuid() || !IsStale(*parsed, status)) continue;
    if (unlink(path.c_str()) == 0) ++removed;
  }
  return removed;
}

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), temporary_(StrCat(path, OwnTemporaryEnding())) {
  // An existing file with this name is a leftover or was planted by another user. It is removed,
  // never written to.
  const auto create = [&] {
    fd_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd_ >= 0;
  };
  if (!create() && errno == EEXIST && unlink(temporary_.c_str()) == 0) create();
  if (fd_ < 0) throw Error(path_, ": cannot be written: ", ErrnoText(errno));
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

void AtomicFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd_, bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      throw Error(path_, ": cannot be written: ", ErrnoText(errno));
    }
    bytes.remove_prefix(put);
  }
}

void AtomicFile::Commit() {
  if (fsync(fd_) != 0) throw Error(path_, ": cannot be written: ", ErrnoText(errno));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw Error(path_, ": cannot be written: ", ErrnoText(errno));
  }
  close(fd_);
  fd_ = -1;
  // The rename survives a power failure only after the directory is synced.
  const std::string folder = Dirname(path_);
  const int directory = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (directory >= 0) {
    fsync(directory);
    close(directory);
  }
}

void MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error(path, ": cannot be created: ", error.message());
}

std::string Dirname(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

bool FileExists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string ResolveBeside(const std::string& path, const std::string& named_in) {
  if (path.empty() || path[0] == '/' || FileExists(path)) return path;
  const std::string beside = Dirname(named_in) + path;
  return FileExists(beside) ? beside : path;
}

}  // namespace millrace::inline base
