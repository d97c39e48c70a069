// Counter files of any content are read, or skipped with one line; the reader never crashes. Their
// display is printable text and valid JSON.
#include <fcntl.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/utf8.h"
#include "metrics/counter_file_layout.h"
#include "metrics/counter_table.h"
#include "metrics/registry.h"
#include "millrace/file_descriptor.h"
#include "millrace/metrics.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

namespace layout = counter_file_layout;

const MemoryFolder& Folder() {
  static const MemoryFolder folder;
  return folder;
}

// Name for the pid of this process, so that the writer counts as alive unless the file contradicts
// it.
std::string Name() { return StrCat("millrace_counters.", getpid()); }

struct Entry {
  std::string name;
  MetricLabels labels;
};

// The parts of a counter file with these metrics, written by this process in a separate directory:
// head, two families, four metrics with their values. Between them the file has only zeros.
constexpr size_t kFamilies = 2, kMetrics = 4;
constexpr struct {
  size_t at, bytes;
} kParts[] = {{0, sizeof(layout::Head) + kFamilies * sizeof(layout::FamilyRow)},
              {layout::kValuesAt, kMetrics * sizeof(uint64_t)},
              {layout::kMetricsAt, kMetrics * sizeof(layout::MetricRow)}};

std::string PartsOf(const std::string& title, const std::vector<Entry>& entries) {
  const MemoryFolder folder;
  MetricsRegistry registry(folder.path());
  for (size_t i = 0; i < entries.size(); ++i) {
    registry.AddGauge({entries[i].name, "Help.", ""}, entries[i].labels)
        ->Set(std::exp(static_cast<double>(i)));
  }
  registry.Publish(title);
  const std::string file = ReadFile(registry.path());
  std::string parts;
  for (const auto& part : kParts) parts += file.substr(part.at, part.bytes);
  return parts;
}

// Writes the file with these parts, cut or filled with zeros to its only valid length.
void WriteParts(const std::string& parts) {
  const FileDescriptor file(
      open((Folder() / Name()).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (ftruncate(file.get(), layout::kFileBytes) != 0) abort();
  size_t begin = 0;
  for (const auto& part : kParts) {
    const size_t end = std::min(parts.size(), begin + part.bytes);
    const auto at = static_cast<off_t>(part.at);
    if (pwrite(file.get(), parts.data() + begin, end - begin, at) < 0) abort();
    begin = end;
  }
}

bool HoldsPrintableLines(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (OneLine(line) != line) return false;
  }
  return true;
}

bool IsJsonOfOneLine(const std::string& text) {
  google::protobuf::ListValue value;
  return text.find('\n') + 1 == text.size() &&
         google::protobuf::util::JsonStringToMessage(text, &value).ok();
}

bool IsShownWell(const std::vector<CounterFileReading>& readings) {
  for (const CounterFileReading& reading : readings) {
    if (reading.pid != getpid()) return false;
    if (reading.Groups().size() > reading.metrics.size()) return false;
  }
  return HoldsPrintableLines(CounterTable({}, readings, 1, true)) &&
         HoldsPrintableLines(CounterFileJson(readings)) &&
         IsJsonOfOneLine(CounterFileJson(readings));
}

}  // namespace

std::vector<std::string> Corpus() {
  const std::string iteration = "millrace_run_iteration", members = "millrace_segment_members";
  const std::vector<std::string> seeds = {
      PartsOf("LeNet \"demo\"", {{iteration, {}},
                                 {members, {{"segment", "lan"}}},
                                 {members, {{"segment", "lan"}, {"peer", "b"}}},
                                 {members, {{"segment", "lan"}, {"type", "diff"}}}}),
      PartsOf("r\u00e9seau \u7f51 \U0001f600", {{members, {{"segment", "\u7f51"}}}}),
      PartsOf("", {})};
  // A skipped seed would test only the rejection of files.
  for (const std::string& seed : seeds) {
    WriteParts(seed);
    if (ReadCounterFiles(Folder().path()).size() != 1) abort();
  }
  return seeds;
}

bool Target(const std::string& input) {
  // A file of another length is skipped, so few inputs are one.
  if (input.size() % 16 == 15) {
    Folder().Write(Name(), input);
  } else {
    WriteParts(input);
  }
  std::vector<std::string> skipped;
  const std::vector<CounterFileReading> readings = ReadCounterFiles(Folder().path(), &skipped);
  for (const std::string& line : skipped) {
    if (line.rfind(Folder() / Name(), 0) != 0 || OneLine(line) != line) return false;
  }
  // The file was read, skipped, or removed as that of a process that has ended.
  const bool removed = !FileExists(Folder() / Name());
  if (readings.size() + skipped.size() + (removed ? 1 : 0) != 1) return false;
  return IsShownWell(readings);
}

}  // namespace millrace::fuzz
