// Counter files as JSON.
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "metrics/counter_table.h"

namespace millrace::inline metrics {
namespace {

// The groups in the order of their first metrics, each with all of its metrics. Of metrics with the
// same name only the first is kept, since names in a JSON object must differ.
std::string GroupsJson(const CounterFileReading& reading) {
  std::vector<std::string> groups;
  std::unordered_map<std::string, size_t> places;    // index in `groups`, by name
  std::set<std::pair<size_t, std::string>> numbers;  // index in `groups`, and name
  for (const auto& metric : reading.metrics) {
    const std::string group = JsonText(metric.group);
    const auto [place, is_new] = places.try_emplace(group, groups.size());
    if (is_new) groups.push_back(group + ":{");
    const std::string name = JsonText(reading.NumberOf(metric) + metric.detail);
    if (!numbers.emplace(place->second, name).second) continue;
    groups[place->second] += StrCat(is_new ? "" : ",", name, ":", JsonNumber(metric.value));
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
               ",\"title\":", JsonText(reading.title), ",\"groups\":{", GroupsJson(reading), "}}");
  }
  return "[" + json + "]\n";
}

}  // namespace millrace::inline metrics
