// Counter files of any content are read, or skipped with one line; the reader never crashes. Their
// display is printable text and valid JSON.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "metrics/counter_file.h"
#include "metrics/counter_table.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

const MemoryFolder& Folder() {
  static const MemoryFolder folder;
  return folder;
}

// Name for the pid of this process, so that the writer counts as alive unless the file contradicts
// it.
std::string Name() { return StrCat("millrace_board.", getpid()); }

// Counter file with these entries, written by this process in a separate directory.
std::string FileOf(const std::string& title, const std::vector<CounterEntry>& entries) {
  const MemoryFolder folder;
  CounterFile board(title, entries, folder.path());
  for (size_t i = 0; i < entries.size(); ++i) board.Set(i, std::exp(static_cast<double>(i)));
  return ReadFile(board.path());
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
    if (reading.pid != getpid() || reading.entries.size() != reading.values.size()) return false;
    if (reading.Groups().size() > reading.entries.size()) return false;
  }
  return HoldsPrintableLines(CounterTable({}, readings, 1, true)) &&
         HoldsPrintableLines(CounterFileJson(readings)) &&
         IsJsonOfOneLine(CounterFileJson(readings));
}

}  // namespace

std::vector<std::string> Corpus() {
  using Kind = CounterEntry::Kind;
  const std::vector<std::string> seeds = {
      FileOf("LeNet \"demo\"", {{"run", "iteration", Kind::kGauge},
                                {"run", "iterations_here", Kind::kCount},
                                {"segment lan", "members", Kind::kGauge},
                                {"peer b on lan", "bytes_out", Kind::kCount}}),
      FileOf("r\u00e9seau \u7f51 \U0001f600", {{"segment \u7f51", "\u00e9", Kind::kGauge}}),
      FileOf("", {})};
  // A skipped seed would test only the rejection of files.
  for (const std::string& seed : seeds) {
    Folder().Write(Name(), seed);
    if (ReadCounterFiles(Folder().path()).size() != 1) abort();
  }
  return seeds;
}

bool Target(const std::string& input) {
  // Most length changes make a file that is skipped, so three of four inputs get a valid length.
  std::string file = input;
  if (file.size() % 4 != 0 && file.size() > 128) {
    const auto rows = static_cast<uint32_t>((file.size() - 128) / 128);
    file.resize(128 + size_t{rows} * 128);
    std::memcpy(file.data() + 8, &rows, sizeof(rows));
  }
  Folder().Write(Name(), file);
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
