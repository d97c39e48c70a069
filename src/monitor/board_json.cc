// Boards as JSON for programs.
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "monitor/board_table.h"

namespace millrace {
namespace {

// Bytes that are no UTF-8 stay as they are.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      quoted += c;
    } else {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      quoted += escape;
    }
  }
  return quoted + '"';
}

// With the digits that tell it from all others.
std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.17g", value);
  return digits;
}

std::string GroupJson(const BoardReading& reading, const std::string& group) {
  std::string json;
  for (size_t i = 0; i < reading.entries.size(); ++i) {
    if (reading.entries[i].group != group) continue;
    json += Cat(json.empty() ? "" : ",", Quoted(reading.entries[i].name), ":",
                Number(reading.values[i]));
  }
  return "{" + json + "}";
}

}  // namespace

std::string BoardJson(const std::vector<BoardReading>& now) {
  std::string json;
  for (const BoardReading& reading : now) {
    std::string groups;
    for (const std::string& group : reading.Groups()) {
      groups += Cat(groups.empty() ? "" : ",", Quoted(group), ":", GroupJson(reading, group));
    }
    json += Cat(json.empty() ? "" : ",", "{\"pid\":", reading.pid,
                ",\"title\":", Quoted(reading.title), ",\"groups\":{", groups, "}}");
  }
  return "[" + json + "]\n";
}

}  // namespace millrace
