// The file in which the service keeps its ledger (batches/ledger.h), so that it goes on after its
// process has ended in any way. Records of 32 bytes, in little-endian order:
//
//   u32 CRC-32C of the other 28 bytes, u8 kind, u8 0, 0, 0, u64 sequence, u64 number, u64 batch
//
// The first one has kind 0: in place of the sequence the fingerprint of the settings that determine
// the batches, then the first batch, then the version, 1. A record that is damaged or incomplete
// ends the file: it was being written.
#ifndef MILLRACE_BATCHES_LEDGER_FILE_H_
#define MILLRACE_BATCHES_LEDGER_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "batches/ledger.h"
#include "millrace/file_descriptor.h"

namespace millrace::inline batches {

inline constexpr size_t kLedgerRecordBytes = 32;

// The whole content of a ledger's file. Exposed for fuzzing.
struct LedgerContent {
  uint64_t fingerprint = 0;
  Ledger ledger;
  size_t used_bytes = 0;  // of complete records
};
// None: it does not begin as such a file. Throws Error if a complete record does not fit those
// before it.
std::optional<LedgerContent> ParseLedger(std::string_view content, const std::string& path);
std::string LedgerHeader(uint64_t fingerprint, uint64_t first_batch);
std::string LedgerRecord(const LedgerEvent& event);

// Not thread-safe.
class LedgerFile {
 public:
  // Continues the file at `path`, or begins one. `first_batch` is where a new one begins. Throws
  // Error in one line if the file cannot be used, is another service's, or another process uses it.
  LedgerFile(const std::string& path, uint64_t fingerprint, uint64_t first_batch);

  // Records each change before the call that makes it returns; those calls then throw Error if the
  // file cannot be written. A change survives the end of the process, but not always that of the
  // machine.
  Ledger& ledger() { return *ledger_; }
  bool has_continued() const { return has_continued_; }

 private:
  void Append(const LedgerEvent& event);
  // Replaces the file by one that has the ledger as it is.
  void Compact();

  const std::string path_;
  const uint64_t fingerprint_;
  bool has_continued_ = false;
  FileDescriptor file_;
  uint64_t records_ = 0, records_at_compaction_ = 0;
  std::unique_ptr<Ledger> ledger_;
};

}  // namespace millrace::inline batches

#endif  // MILLRACE_BATCHES_LEDGER_FILE_H_
