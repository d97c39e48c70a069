// Reads counter files in a folder where all users may create files. The reader does not trust the
// contents of a file, never waits for a file, and maps none, since its owner may truncate it.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/private_file.h"
#include "base/process_identity.h"
#include "metrics/counter_file.h"
#include "metrics/counter_file_layout.h"

namespace millrace {
namespace {

using counter_file_layout::Head;
using counter_file_layout::Row;

// For all files together. A user may have a large sparse file for each of their processes.
constexpr uint64_t kMostBytesOfAll = uint64_t{64} << 20;
// Maximum number of lines about skipped files.
constexpr size_t kMostLines = 16;

struct Candidate {
  std::string path;
  int32_t pid;
  bool own;  // owned by this user when listed; affects the order only
};

// The pid in the name of a counter file; nullopt for any other name.
std::optional<int32_t> PidOf(const std::string& name) {
  constexpr std::string_view kPrefix = counter_file_layout::kPrefix;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const begin = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size();
  int32_t pid = 0;
  const auto [stopped, error] = std::from_chars(begin, end, pid);
  if (error != std::errc() || stopped != end || pid <= 0 || *begin == '0') return std::nullopt;
  return pid;
}

// Sorted by owner, this user's files first, so that others cannot use up the limit; then by pid.
std::vector<Candidate> CandidatesIn(const std::string& folder) {
  std::vector<Candidate> candidates;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = file.path().string();
    const std::optional<int32_t> pid = PidOf(file.path().filename().string());
    struct stat status;
    if (!pid) continue;
    const bool own = lstat(path.c_str(), &status) == 0 && status.st_uid == geteuid();
    candidates.push_back({path, *pid, own});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.own != b.own ? a.own : a.pid < b.pid;
  });
  return candidates;
}

void CheckFile(const struct stat& status, const std::string& path) {
  if (status.st_uid != geteuid() && geteuid() != 0) {
    throw Error(path, ": belongs to user ", status.st_uid, ", and this process runs as user ",
                geteuid());
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (S_ISREG(status.st_mode) &&
      (bytes < sizeof(Head) || bytes > counter_file_layout::kMostBytes)) {
    throw Error(path, ": has ", bytes, " bytes, expected ", sizeof(Head), " to ",
                counter_file_layout::kMostBytes);
  }
}

// Reads from the beginning of the file. Throws Error if it has fewer bytes by now.
void ReadBytes(int fd, void* to, size_t bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        pread(fd, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(path, ": cannot be read: ", ErrnoText(errno));
    if (got == 0) throw Error(path, ": was cut short while it was read");
    done += static_cast<size_t>(got);
  }
}

void CheckHead(const Head& head, const struct stat& status, int32_t pid, const std::string& path) {
  if (std::memcmp(head.magic, counter_file_layout::kMagic, sizeof(head.magic)) != 0) {
    throw Error(path, ": begins with other letters than ",
                std::string_view(counter_file_layout::kMagic, sizeof(counter_file_layout::kMagic)));
  }
  if (head.entries > counter_file_layout::kMostEntries) {
    throw Error(path, ": its header announces ", head.entries, " numbers, expected at most ",
                counter_file_layout::kMostEntries);
  }
  const size_t bytes = counter_file_layout::FileBytes(head.entries);
  if (static_cast<uint64_t>(status.st_size) != bytes) {
    throw Error(path, ": has ", status.st_size, " bytes, and its header announces ", head.entries,
                " numbers: expected ", bytes);
  }
  if (head.pid != pid) {
    throw Error(path, ": is of process ", head.pid, ", expected process ", pid);
  }
}

template <size_t kBytes>
std::string TextAt(const char* bytes) {
  return std::string(bytes, strnlen(bytes, kBytes));
}

// The writer may write at the same time.
void ReadRows(const char* rows, uint32_t entries, CounterFileReading* reading) {
  for (uint32_t i = 0; i < entries; ++i) {
    const char* const row = rows + i * sizeof(Row);
    uint32_t kind;
    uint64_t value;
    std::memcpy(&kind, row + offsetof(Row, kind), sizeof(kind));
    std::memcpy(&value, row + offsetof(Row, value), sizeof(value));
    reading->entries.push_back(
        {TextAt<sizeof(Row::group)>(row + offsetof(Row, group)),
         TextAt<sizeof(Row::name)>(row + offsetof(Row, name)),
         kind == 1 ? CounterEntry::Kind::kGauge : CounterEntry::Kind::kCount});
    reading->values.push_back(std::bit_cast<double>(value));
  }
}

// Removes a file of this user whose process has ended. Throws Error for another user's file.
void RemoveEnded(const FoundFile& found, const std::string& path) {
  if (found.status.st_uid != geteuid()) {
    throw Error(path, ": was left by a process that has ended; user ", found.status.st_uid,
                " may remove it");
  }
  UnlinkIfSame(found.at.get(), path);
}

// Returns nullopt if the file, or the process that wrote it, is gone. Throws Error if the file must
// not be read. `room`: bytes that may still be read, over all files.
std::optional<CounterFileReading> ReadCounterFile(const std::string& path, int32_t pid,
                                                  uint64_t* room) {
  const std::optional<FoundFile> found = FindFile(path);
  if (!found) return std::nullopt;
  CheckFile(found->status, path);
  const FileDescriptor file = OpenFound(*found, path);
  Head head;
  ReadBytes(file.get(), &head, sizeof(head), path);
  CheckHead(head, found->status, pid, path);
  if (!IsAlive({head.pid, head.start_time})) {
    RemoveEnded(*found, path);
    return std::nullopt;
  }
  const size_t bytes = counter_file_layout::FileBytes(head.entries);
  if (bytes > *room) {
    throw Error(path, ": has ", bytes, " bytes, and there is room for ", *room, " more");
  }
  *room -= bytes;
  std::string content(bytes, 0);
  ReadBytes(file.get(), content.data(), bytes, path);
  CounterFileReading reading;
  reading.pid = pid;
  reading.user = found->status.st_uid;
  reading.title = TextAt<sizeof(Head::title)>(head.title);
  ReadRows(content.data() + sizeof(Head), head.entries, &reading);
  return reading;
}

}  // namespace

double CounterFileReading::Value(const std::string& group, const std::string& name,
                                 double fallback) const {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].group == group && entries[i].name == name) return values[i];
  }
  return fallback;
}

std::vector<std::string> CounterFileReading::Groups() const {
  std::vector<std::string> groups;
  std::unordered_set<std::string_view> known;
  for (const CounterEntry& entry : entries) {
    if (known.insert(entry.group).second) groups.push_back(entry.group);
  }
  return groups;
}

std::vector<CounterFileReading> ReadCounterFiles(const std::string& folder,
                                                 std::vector<std::string>* skipped) {
  std::vector<CounterFileReading> readings;
  uint64_t room = kMostBytesOfAll;
  size_t lines = 0;
  for (const Candidate& candidate : CandidatesIn(folder)) {
    try {
      std::optional<CounterFileReading> reading =
          ReadCounterFile(candidate.path, candidate.pid, &room);
      if (reading) readings.push_back(std::move(*reading));
    } catch (const Error& error) {
      if (++lines <= kMostLines && skipped != nullptr) skipped->push_back(error.what());
    }
  }
  if (lines > kMostLines && skipped != nullptr) {
    skipped->push_back(StrCat(folder, ": ", lines - kMostLines, " more such files"));
  }
  std::sort(readings.begin(), readings.end(),
            [](const CounterFileReading& a, const CounterFileReading& b) { return a.pid < b.pid; });
  return readings;
}

}  // namespace millrace
