#include "batches/ledger_file.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/wire_bytes.h"

namespace millrace::inline batches {
namespace {

constexpr uint64_t kLedgerVersion = 1;
constexpr uint8_t kHeaderKind = 0;

std::string Record(uint8_t kind, uint64_t sequence, uint64_t number, uint64_t batch) {
  std::string record(kLedgerRecordBytes, '\0');
  auto* const at = reinterpret_cast<std::byte*>(record.data());
  Put(at, 4, kind);
  Put(at, 8, sequence);
  Put(at, 16, number);
  Put(at, 24, batch);
  Put(at, 0, Crc32c(std::span<const std::byte>(at + 4, kLedgerRecordBytes - 4)));
  return record;
}

// The kind and the event of a record; none if it is damaged.
std::optional<std::pair<uint8_t, LedgerEvent>> ParseRecord(std::string_view record) {
  const auto* const at = reinterpret_cast<const std::byte*>(record.data());
  if (Get<uint32_t>(at, 0) != Crc32c(std::span<const std::byte>(at + 4, kLedgerRecordBytes - 4))) {
    return {};
  }
  const auto kind = Get<uint8_t>(at, 4);
  return std::pair(kind, LedgerEvent{static_cast<LedgerEvent::Kind>(kind), Get<uint64_t>(at, 8),
                                     Get<uint64_t>(at, 16), Get<uint64_t>(at, 24)});
}

void Lock(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) throw Error(path, ": another process uses it");
  throw Error(path, ": cannot be locked: ", ErrnoText(errno));
}

}  // namespace

std::string LedgerHeader(uint64_t fingerprint, uint64_t first_batch) {
  return Record(kHeaderKind, fingerprint, first_batch, kLedgerVersion);
}

std::string LedgerRecord(const LedgerEvent& event) {
  return Record(static_cast<uint8_t>(event.kind), event.sequence, event.number, event.batch);
}

std::optional<LedgerContent> ParseLedger(std::string_view content, const std::string& path) {
  if (content.size() < kLedgerRecordBytes) return {};
  const auto header = ParseRecord(content.substr(0, kLedgerRecordBytes));
  if (!header || header->first != kHeaderKind || header->second.batch != kLedgerVersion ||
      header->second.number > uint64_t{1} << 40) {
    return {};
  }
  LedgerContent parsed{header->second.sequence, Ledger(header->second.number), kLedgerRecordBytes};
  while (content.size() - parsed.used_bytes >= kLedgerRecordBytes) {
    const auto record = ParseRecord(content.substr(parsed.used_bytes, kLedgerRecordBytes));
    if (!record) break;
    if (!parsed.ledger.Apply(record->second)) {
      throw Error(path, ": record ", parsed.used_bytes / kLedgerRecordBytes,
                  " does not fit those before it: the file is damaged");
    }
    parsed.used_bytes += kLedgerRecordBytes;
  }
  return parsed;
}

LedgerFile::LedgerFile(const std::string& path, uint64_t fingerprint, uint64_t first_batch)
    : path_(path), fingerprint_(fingerprint) {
  file_ = FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file_.get() < 0) throw Error(path, ": cannot be opened: ", ErrnoText(errno));
  Lock(file_.get(), path);
  const std::string content = ReadFile(path);
  const auto record = [this](const LedgerEvent& event) { Append(event); };
  ledger_ = std::make_unique<Ledger>(first_batch, record);
  if (!content.empty()) {
    const std::optional<LedgerContent> parsed = ParseLedger(content, path);
    if (!parsed) throw Error(path, ": is no state file of a minibatch service");
    if (parsed->fingerprint != fingerprint) {
      throw Error(path,
                  ": is of a service with other layers, sources, batch sizes, transforms or "
                  "another seed, whose batches are others");
    }
    if (parsed->used_bytes < content.size()) {
      LOG(WARNING) << path << ": drops an incomplete record at its end";
    }
    ledger_ = std::make_unique<Ledger>(0, record);
    parsed->ledger.ForEachEvent([&](const LedgerEvent& event) { CHECK(ledger_->Apply(event)); });
    has_continued_ = true;
  }
  Compact();
}

void LedgerFile::Append(const LedgerEvent& event) {
  const std::string record = LedgerRecord(event);
  if (write(file_.get(), record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
    throw Error(path_, ": cannot be written: ", ErrnoText(errno));
  }
  ++records_;
  constexpr uint64_t kMinRecords = uint64_t{1} << 20;
  if (records_ > std::max(kMinRecords, 4 * records_at_compaction_)) Compact();
}

void LedgerFile::Compact() {
  AtomicFile file(path_);
  file.Write(LedgerHeader(fingerprint_, 0));
  records_ = 1;
  ledger_->ForEachEvent([&](const LedgerEvent& event) {
    file.Write(LedgerRecord(event));
    ++records_;
  });
  records_at_compaction_ = records_;
  FileDescriptor written(fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  if (written.get() < 0) throw Error(path_, ": ", ErrnoText(errno));
  Lock(written.get(), path_);
  file.Commit();
  file_ = std::move(written);
}

}  // namespace millrace::inline batches
