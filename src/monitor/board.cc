#include "monitor/board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>

#include "base/error.h"
#include "base/file.h"
#include "base/process_identity.h"

namespace millrace {
namespace {

constexpr char kMagic[8] = {'M', 'I', 'L', 'L', 'B', 'R', 'D', '1'};
constexpr char kPrefix[] = "millrace_board.";
constexpr uint32_t kMostEntries = 65536;

struct Head {
  char magic[8];
  uint32_t entries;
  int32_t pid;
  uint64_t start_time;
  char reserved[8];
  char title[96];
};
struct Row {
  char group[48];
  char name[32];
  uint32_t kind;
  char reserved[4];
  std::atomic<uint64_t> value;  // the bits of a double
  char reserved_too[32];
};
static_assert(sizeof(Head) == 128 && sizeof(Row) == 128);

template <size_t kBytes>
void Put(const std::string& text, char (&to)[kBytes]) {
  std::memcpy(to, text.data(), std::min(text.size(), kBytes - 1));
}

template <size_t kBytes>
std::string Get(const char (&from)[kBytes]) {
  return std::string(from, strnlen(from, kBytes));
}

Row* RowsOf(void* memory) {
  return reinterpret_cast<Row*>(static_cast<char*>(memory) + sizeof(Head));
}

// Nothing if it is no board. A process may write while it is read.
bool Parse(const std::string& bytes, BoardReading* reading, ProcessIdentity* writer) {
  Head head;
  if (bytes.size() < sizeof(head)) return false;
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (std::memcmp(head.magic, kMagic, sizeof(kMagic)) != 0 || head.entries > kMostEntries ||
      bytes.size() != sizeof(Head) + head.entries * sizeof(Row)) {
    return false;
  }
  *writer = {head.pid, head.start_time};
  reading->pid = head.pid;
  reading->title = Get(head.title);
  for (uint32_t i = 0; i < head.entries; ++i) {
    char raw[sizeof(Row)];
    std::memcpy(raw, bytes.data() + sizeof(Head) + i * sizeof(Row), sizeof(Row));
    char group[sizeof(Row::group)], name[sizeof(Row::name)];
    uint32_t kind;
    uint64_t value;
    std::memcpy(group, raw + offsetof(Row, group), sizeof(group));
    std::memcpy(name, raw + offsetof(Row, name), sizeof(name));
    std::memcpy(&kind, raw + offsetof(Row, kind), sizeof(kind));
    std::memcpy(&value, raw + offsetof(Row, value), sizeof(value));
    reading->entries.push_back(
        {Get(group), Get(name), kind == 1 ? BoardEntry::Kind::kGauge : BoardEntry::Kind::kCount});
    reading->values.push_back(std::bit_cast<double>(value));
  }
  return true;
}

}  // namespace

Board::Board(const std::string& title, const std::vector<BoardEntry>& entries,
             const std::string& folder)
    : path_(Cat(folder, "/", kPrefix, getpid())),
      bytes_(sizeof(Head) + entries.size() * sizeof(Row)) {
  // Readers see it whole or not at all.
  const std::string unfinished = path_ + ".new";
  const int fd = open(unfinished.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) throw Error(unfinished, ": ", ErrnoText(errno));
  const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes_));
  if (error == 0) memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int map_error = errno;
  close(fd);
  if (error != 0 || memory_ == MAP_FAILED) {
    unlink(unfinished.c_str());
    throw Error(unfinished, ": no room for ", bytes_,
                " bytes: ", ErrnoText(error != 0 ? error : map_error));
  }
  const ProcessIdentity self = ThisProcess();
  Head* head = new (memory_) Head{};
  std::memcpy(head->magic, kMagic, sizeof(kMagic));
  head->entries = static_cast<uint32_t>(entries.size());
  head->pid = self.pid;
  head->start_time = self.start_time;
  Put(title, head->title);
  for (size_t i = 0; i < entries.size(); ++i) {
    Row* row = new (RowsOf(memory_) + i) Row{};
    Put(entries[i].group, row->group);
    Put(entries[i].name, row->name);
    row->kind = static_cast<uint32_t>(entries[i].kind);
  }
  if (rename(unfinished.c_str(), path_.c_str()) != 0) {
    const int rename_error = errno;
    munmap(memory_, bytes_);
    unlink(unfinished.c_str());
    throw Error(path_, ": ", ErrnoText(rename_error));
  }
}

Board::~Board() {
  unlink(path_.c_str());
  munmap(memory_, bytes_);
}

void Board::Set(size_t entry, double value) {
  RowsOf(memory_)[entry].value.store(std::bit_cast<uint64_t>(value), std::memory_order_relaxed);
}

double BoardReading::Value(const std::string& group, const std::string& name,
                           double fallback) const {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].group == group && entries[i].name == name) return values[i];
  }
  return fallback;
}

std::vector<std::string> BoardReading::Groups() const {
  std::vector<std::string> groups;
  for (const BoardEntry& entry : entries) {
    if (std::find(groups.begin(), groups.end(), entry.group) == groups.end()) {
      groups.push_back(entry.group);
    }
  }
  return groups;
}

std::vector<BoardReading> ReadBoards(const std::string& folder) {
  std::vector<BoardReading> readings;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = file.path().filename().string();
    if (name.rfind(kPrefix, 0) != 0 || name.ends_with(".new")) continue;
    BoardReading reading;
    ProcessIdentity writer;
    try {
      if (!Parse(ReadFile(file.path().string()), &reading, &writer)) continue;
    } catch (const Error&) {
      continue;  // another user's, or gone since
    }
    if (IsAlive(writer)) {
      readings.push_back(std::move(reading));
    } else {
      unlink(file.path().c_str());
    }
  }
  std::sort(readings.begin(), readings.end(),
            [](const BoardReading& a, const BoardReading& b) { return a.pid < b.pid; });
  return readings;
}

}  // namespace millrace
