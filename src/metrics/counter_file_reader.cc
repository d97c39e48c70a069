// Reads counter files (millrace/metrics.h) from a folder where all users may create files. The
// reader does not trust the contents of a file, never waits for a file, and maps none, since its
// owner may truncate it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/files/private_file.h"
#include "base/process_identity.h"
#include "metrics/counter_file_layout.h"
#include "metrics/metrics_reading.h"

namespace millrace {
namespace {

namespace layout = counter_file_layout;
using layout::Head;

// For all files together. A user may have a large sparse file for each of their processes.
constexpr uint64_t kMaxBytesOfAll = uint64_t{64} << 20;
// Maximum number of lines about skipped files.
constexpr size_t kMaxLines = 16;

struct Candidate {
  std::string path;
  int32_t pid;
  bool own;  // owned by this user when listed; affects the order only
};

// The pid in the name of a counter file; nullopt for any other name.
std::optional<int32_t> PidOf(const std::string& name) {
  constexpr std::string_view kPrefix = layout::kPrefix;
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
  if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) != layout::kFileBytes) {
    throw Error(path, ": has ", status.st_size, " bytes, expected ", layout::kFileBytes);
  }
}

// Reads `bytes` bytes at offset `at`. Throws Error if the file has fewer by now.
void ReadBytes(int fd, void* to, size_t bytes, size_t at, const std::string& path) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        pread(fd, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(path, ": cannot be read: ", ErrnoText(errno));
    if (got == 0) throw Error(path, ": was cut short while it was read");
    done += static_cast<size_t>(got);
  }
}

template <typename Row>
std::vector<Row> ReadRows(int fd, size_t count, size_t at, const std::string& path) {
  std::vector<Row> rows(count);
  ReadBytes(fd, rows.data(), count * sizeof(Row), at, path);
  return rows;
}

void CheckHead(const Head& head, int32_t pid, const std::string& path) {
  if (std::memcmp(head.magic, layout::kMagic, sizeof(head.magic)) != 0) {
    throw Error(path, ": begins with other letters than ",
                std::string_view(layout::kMagic, sizeof(layout::kMagic)));
  }
  if (head.version != layout::kVersion) {
    throw Error(path, ": has format ", head.version, ", expected ", layout::kVersion);
  }
  if (head.families > layout::kMaxFamilies || head.metrics > layout::kMaxMetrics) {
    throw Error(path, ": its header announces ", head.metrics, " metrics of ", head.families,
                " names, expected at most ", layout::kMaxMetrics, " and ", layout::kMaxFamilies);
  }
  if (head.pid != pid) {
    throw Error(path, ": is of process ", head.pid, ", expected process ", pid);
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
  ReadBytes(file.get(), &head, sizeof(head), 0, path);
  CheckHead(head, pid, path);
  if (!IsAlive({head.pid, head.start_time})) {
    RemoveEnded(*found, path);
    return std::nullopt;
  }
  const uint32_t families = head.families, metrics = head.metrics;
  const uint64_t bytes = sizeof(head) + families * sizeof(layout::FamilyRow) +
                         metrics * (sizeof(layout::MetricRow) + sizeof(uint64_t));
  if (bytes > *room) {
    throw Error(path, ": has ", bytes, " bytes of metrics, and there is room for ", *room, " more");
  }
  *room -= bytes;
  CounterFileReading reading;
  static_cast<MetricsReading&>(reading) =
      DecodeMetrics(ReadRows<layout::FamilyRow>(file.get(), families, layout::kFamiliesAt, path),
                    ReadRows<layout::MetricRow>(file.get(), metrics, layout::kMetricsAt, path),
                    ReadRows<uint64_t>(file.get(), metrics, layout::kValuesAt, path));
  reading.pid = pid;
  reading.user = found->status.st_uid;
  reading.title.assign(head.title, strnlen(head.title, sizeof(head.title)));
  return reading;
}

}  // namespace

std::vector<CounterFileReading> ReadCounterFiles(const std::string& folder,
                                                 std::vector<std::string>* skipped) {
  std::vector<CounterFileReading> readings;
  uint64_t room = kMaxBytesOfAll;
  size_t lines = 0;
  for (const Candidate& candidate : CandidatesIn(folder)) {
    try {
      std::optional<CounterFileReading> reading =
          ReadCounterFile(candidate.path, candidate.pid, &room);
      if (reading) readings.push_back(std::move(*reading));
    } catch (const Error& error) {
      if (++lines <= kMaxLines && skipped != nullptr) skipped->push_back(error.what());
    }
  }
  if (lines > kMaxLines && skipped != nullptr) {
    skipped->push_back(StrCat(folder, ": ", lines - kMaxLines, " more such files"));
  }
  std::sort(readings.begin(), readings.end(),
            [](const CounterFileReading& a, const CounterFileReading& b) { return a.pid < b.pid; });
  return readings;
}

}  // namespace millrace
