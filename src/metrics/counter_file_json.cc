// Counter files as JSON.
#include <cmath>
#include <cstdio>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "metrics/counter_table.h"

namespace millrace {
namespace {

void AppendEscaped(char32_t code, std::string* to) {
  const auto append = [to](uint32_t unit) {
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", unit & 0xffff);
    *to += escape;
  };
  if (code < 0x10000) return append(code);
  append(0xd800 + ((code - 0x10000) >> 10));
  append(0xdc00 + ((code - 0x10000) & 0x3ff));
}

// Printable ASCII and UTF-8 for any `text`; a byte that is not UTF-8 becomes U+FFFD.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const Utf8Character next = FirstCharacter(text).value_or(Utf8Character{0xfffd, 1});
    if (next.code == '"' || next.code == '\\') quoted += '\\';
    if (IsPrintable(next.code) && next.code != 0xfffd) {
      quoted += text.substr(0, next.bytes);
    } else {
      AppendEscaped(next.code, &quoted);
    }
    text.remove_prefix(next.bytes);
  }
  return quoted + '"';
}

// 17 digits distinguish all doubles.
std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.17g", value);
  return digits;
}

// The groups in the order of their first metrics, each with all of its metrics. Of metrics with the
// same name only the first is kept, since names in a JSON object must differ.
std::string GroupsJson(const CounterFileReading& reading) {
  std::vector<std::string> groups;
  std::unordered_map<std::string, size_t> places;    // index in `groups`, by name
  std::set<std::pair<size_t, std::string>> numbers;  // index in `groups`, and name
  for (const auto& metric : reading.metrics) {
    const std::string group = Quoted(metric.group);
    const auto [place, is_new] = places.try_emplace(group, groups.size());
    if (is_new) groups.push_back(group + ":{");
    const std::string name = Quoted(reading.NumberOf(metric) + metric.detail);
    if (!numbers.emplace(place->second, name).second) continue;
    groups[place->second] += StrCat(is_new ? "" : ",", name, ":", Number(metric.value));
  }
  std::string json;
  for (const std::string& group : groups) json += StrCat(json.empty() ? "" : ",", group, "}");
  return json;
}

}  // namespace

std::string CounterFileJson(const std::vector<CounterFileReading>& now) {
  std::string json;
  for (const CounterFileReading& reading : now) {
    json +=
        StrCat(json.empty() ? "" : ",", "{\"pid\":", reading.pid, ",\"user\":", reading.user,
               ",\"title\":", Quoted(reading.title), ",\"groups\":{", GroupsJson(reading), "}}");
  }
  return "[" + json + "]\n";
}

}  // namespace millrace
