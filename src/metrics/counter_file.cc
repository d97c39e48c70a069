#include "metrics/counter_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/private_file.h"
#include "base/process_identity.h"
#include "base/utf8.h"
#include "metrics/counter_file_layout.h"

namespace millrace {
namespace {

using counter_file_layout::Head;
using counter_file_layout::Row;

template <size_t kBytes>
void Put(const std::string& text, char (&to)[kBytes]) {
  const std::string_view cut = CutText(text, kBytes - 1);
  std::memcpy(to, cut.data(), cut.size());
}

Row* RowsOf(void* memory) {
  return reinterpret_cast<Row*>(static_cast<char*>(memory) + sizeof(Head));
}

void Fill(void* memory, const std::string& title, const std::vector<CounterEntry>& entries,
          const ProcessIdentity& self) {
  Head* head = new (memory) Head{};
  std::memcpy(head->magic, counter_file_layout::kMagic, sizeof(head->magic));
  head->entries = static_cast<uint32_t>(entries.size());
  head->pid = self.pid;
  head->start_time = self.start_time;
  Put(title, head->title);
  for (size_t i = 0; i < entries.size(); ++i) {
    Row* row = new (RowsOf(memory) + i) Row{};
    Put(entries[i].group, row->group);
    Put(entries[i].name, row->name);
    row->kind = static_cast<uint32_t>(entries[i].kind);
  }
}

// Removes a file of this user that an ended process with the same pid left. Throws Error for any
// other file.
void RemoveLeftover(const std::string& path) {
  const std::optional<FoundFile> found = FindFile(path);
  if (!found) return;
  if (!S_ISREG(found->status.st_mode)) {
    throw Error(path, ": exists and is ", FileKind(found->status.st_mode), "; remove it");
  }
  if (found->status.st_uid != geteuid()) {
    throw Error(path, ": exists and belongs to user ", found->status.st_uid, ", expected user ",
                geteuid(), "; remove it");
  }
  UnlinkIfSame(found->at.get(), path);
}

}  // namespace

CounterFile::CounterFile(const std::string& title, const std::vector<CounterEntry>& entries,
                         const std::string& folder)
    : path_(StrCat(folder, "/", counter_file_layout::kPrefix, getpid())) {
  if (entries.size() > counter_file_layout::kMostEntries) {
    throw Error(path_, ": ", entries.size(), " numbers, expected at most ",
                counter_file_layout::kMostEntries);
  }
  const ProcessIdentity self = ThisProcess();
  bytes_ = counter_file_layout::FileBytes(static_cast<uint32_t>(entries.size()));
  file_ = FileDescriptor(CreateNameless(folder));
  if (file_.get() < 0) throw Error(path_, ": cannot be created: ", ErrnoText(errno));
  if (const int error = posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes_))) {
    throw Error(path_, ": no room for ", bytes_, " bytes: ", ErrnoText(error));
  }
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory_ == MAP_FAILED) throw Error(path_, ": cannot be mapped: ", ErrnoText(errno));
  Fill(memory_, title, entries, self);
  try {
    Publish();
  } catch (...) {
    munmap(memory_, bytes_);
    throw;
  }
}

// Gives the file its name: readers see it complete or not at all.
void CounterFile::Publish() const {
  if (LinkNameless(file_.get(), path_)) return;
  if (errno == EEXIST) {
    RemoveLeftover(path_);
    if (LinkNameless(file_.get(), path_)) return;
  }
  throw Error(path_, ": cannot be created: ", ErrnoText(errno));
}

CounterFile::~CounterFile() {
  UnlinkIfSame(file_.get(), path_);
  munmap(memory_, bytes_);
}

void CounterFile::Set(size_t entry, double value) {
  RowsOf(memory_)[entry].value.store(std::bit_cast<uint64_t>(value), std::memory_order_relaxed);
}

}  // namespace millrace
