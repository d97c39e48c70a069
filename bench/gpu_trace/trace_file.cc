#include "bench/gpu_trace/trace_file.h"

#include <cxxabi.h>

#include <cctype>
#include <cinttypes>
#include <cstdlib>
#include <memory>

namespace millrace::gpu_trace {
namespace {

constexpr size_t kMaxName = 120;
// Room for the last line.
constexpr uint64_t kEndBytes = 256;

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The name of the function that `text` declares: between its return type, if it has one, and its
// parameters. Spaces and parentheses within template arguments belong to it.
std::string WithoutTypes(const std::string& text) {
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth > 0) continue;
    if (c == ' ') begin = i + 1;
    // "(anonymous namespace)" is a part of the name.
    if (c == '(' && !text.compare(i, 22, "(anonymous namespace):")) {
      i += 20;
    } else if (c == '(' && i > begin) {
      return text.substr(begin, i - begin);
    }
  }
  return text.substr(begin);
}

// Leaves out "name::" wherever it stands.
std::string WithoutNamespaces(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ':' && i + 1 < text.size() && text[i + 1] == ':') {
      if (!out.empty() && out.back() == ')') out.erase(out.rfind('('));
      while (!out.empty() && IsWord(out.back())) out.pop_back();
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string InJson(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

template <typename... Values>
std::string Format(const char* format, Values... values) {
  char text[1024];
  const int length = std::snprintf(text, sizeof(text), format, values...);
  return std::string(text, static_cast<size_t>(length));
}

std::string Microseconds(uint64_t nanoseconds) {
  return Format("%" PRIu64 ".%03d", nanoseconds / 1000, static_cast<int>(nanoseconds % 1000));
}

}  // namespace

std::string ShortKernelName(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  if (status != 0 || !plain) return std::string(mangled).substr(0, kMaxName);
  return WithoutNamespaces(WithoutTypes(plain.get())).substr(0, kMaxName);
}

TraceFile::TraceFile(const std::string& path, const TraceLimits& limits)
    : limits_(limits), file_(std::fopen(path.c_str(), "w")) {
  if (is_open()) bytes_ += static_cast<uint64_t>(std::fprintf(file_, "[\n"));
}

TraceFile::~TraceFile() {
  if (!is_open()) return;
  std::fprintf(file_,
               "{\"name\":\"end\",\"ph\":\"M\",\"pid\":0,\"args\":{\"spans\":%" PRIu64
               ",\"left_out\":%" PRIu64 ",\"lost\":%" PRIu64 "}}\n]\n",
               spans_, left_out_, lost_);
  std::fclose(file_);
}

void TraceFile::Write(const std::string& line) {
  bytes_ += line.size();
  std::fwrite(line.data(), 1, line.size(), file_);
}

void TraceFile::Add(const Span& span) {
  std::lock_guard lock(mutex_);
  // A record without times is of work that had not ended.
  if (span.begin < limits_.origin || span.end < span.begin) return;
  std::string line;
  const bool is_new = !named_.contains({span.device, span.stream});
  if (is_new) {
    line = Format(
        "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"GPU %u\"}},\n"
        "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,"
        "\"args\":{\"name\":\"stream %u\"}},\n",
        span.device, span.device, span.device, span.stream, span.stream);
  }
  line += "{\"name\":\"" + InJson(span.name) + "\",\"cat\":\"" + span.category +
          Format("\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":", span.device, span.stream) +
          Microseconds(span.begin - limits_.origin) +
          ",\"dur\":" + Microseconds(span.end - span.begin);
  line += Format(",\"args\":{\"bytes\":%" PRIu64 ",\"graph\":%d}},\n", span.bytes, span.of_graph);
  if (bytes_ + line.size() + kEndBytes > limits_.max_bytes) {
    ++left_out_;
    return;
  }
  if (is_new) named_.insert({span.device, span.stream});
  Write(line);
  ++spans_;
}

void TraceFile::AddLost(uint64_t records) {
  std::lock_guard lock(mutex_);
  lost_ += records;
}

void TraceFile::Flush() {
  std::lock_guard lock(mutex_);
  std::fflush(file_);
}

}  // namespace millrace::gpu_trace
