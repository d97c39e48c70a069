#include "metrics/registry.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/private_file.h"
#include "base/process_identity.h"
#include "base/utf8.h"
#include "metrics/counter_file_layout.h"

namespace millrace {
namespace {

namespace layout = counter_file_layout;

// Metrics for which the file gets pages at a time: the values fill one page of 4 KiB.
constexpr uint32_t kReserve = 512;

// Copies a text that fits with a zero behind it.
template <size_t kBytes>
void Put(std::string_view text, char (&to)[kBytes]) {
  std::memcpy(to, text.data(), text.size());
}

bool IsWord(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  return !text.empty() && kDigits.find(text[0]) == kDigits.npos &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == text.npos;
}

void CheckLength(const std::string& metric, const char* what, size_t bytes, size_t room) {
  if (bytes < room) return;
  throw Error("metric ", metric, ": its ", what, " has ", bytes, " bytes, expected at most ",
              room - 1);
}

void CheckInfo(const MetricInfo& info, MetricType type) {
  constexpr std::string_view kTotal = "_total";
  std::string_view name = info.name;
  CheckLength(info.name, "name", name.size(), sizeof(layout::FamilyRow::name));
  CheckLength(info.name, "unit", info.unit.size(), sizeof(layout::FamilyRow::unit));
  CheckLength(info.name, "help", info.help.size(), sizeof(layout::FamilyRow::help));
  if (!IsWord(name)) {
    throw Error("metric \"", OneLine(info.name), "\": expected a name of a-z, 0-9 and _");
  }
  if (info.help.empty()) throw Error("metric ", info.name, ": expected a help text");
  if (name.ends_with(kTotal) == (type == MetricType::kGauge)) {
    throw Error("metric ", info.name, ": expected a name that ends with ", kTotal,
                " for a counter, and for no gauge");
  }
  if (name.ends_with(kTotal)) name.remove_suffix(kTotal.size());
  if (!info.unit.empty() && !name.ends_with("_" + info.unit)) {
    throw Error("metric ", info.name, ": expected its unit, ", info.unit,
                ", at the end of its name");
  }
}

// The labels as in layout::MetricRow.
std::string Encoded(const std::string& metric, const MetricLabels& labels) {
  std::string encoded;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto& [key, value] = labels[i];
    const bool again = std::any_of(labels.begin(), labels.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const auto& other) { return other.first == key; });
    if (!IsWord(key) || again || value.find('\0') != value.npos) {
      throw Error("metric ", metric, ": label \"", OneLine(key),
                  "\": expected keys of a-z, 0-9 and _, each once, and values without zero bytes");
    }
    encoded += key + '\0' + value + '\0';
  }
  CheckLength(metric, "label text", encoded.size(), sizeof(layout::MetricRow::labels));
  return encoded;
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

MetricsRegistry::MetricsRegistry() : no_file_("metrics: in private memory") { MapMemory(); }

MetricsRegistry::MetricsRegistry(const std::string& folder)
    : path_(StrCat(folder, "/", layout::kPrefix, getpid())), file_(CreateNameless(folder)) {
  int error = file_.get() < 0 ? errno : 0;
  if (error == 0 && ftruncate(file_.get(), layout::kFileBytes) != 0) error = errno;
  if (error == 0) error = posix_fallocate(file_.get(), 0, layout::kValuesAt);
  if (error != 0) no_file_ = StrCat(path_, ": cannot be created: ", ErrnoText(error));
  MapMemory();
  const ProcessIdentity self = ThisProcess();
  auto* const head = new (memory_) layout::Head{};
  std::memcpy(head->magic, layout::kMagic, sizeof(head->magic));
  head->version = layout::kVersion;
  head->pid = self.pid;
  head->start_time = self.start_time;
}

void MetricsRegistry::MapMemory() {
  const bool shared = no_file_.empty();
  const int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const memory = mmap(nullptr, layout::kFileBytes, PROT_READ | PROT_WRITE, flags,
                            shared ? file_.get() : -1, 0);
  if (memory == MAP_FAILED) throw Error("metrics: cannot be mapped: ", ErrnoText(errno));
  memory_ = static_cast<char*>(memory);
}

MetricsRegistry::~MetricsRegistry() {
  if (published_) UnlinkIfSame(file_.get(), path_);
  munmap(memory_, layout::kFileBytes);
}

Counter* MetricsRegistry::AddCounter(const MetricInfo& info, const MetricLabels& labels) {
  return At<Counter>(Add(info, MetricType::kCounter, labels));
}

Gauge* MetricsRegistry::AddGauge(const MetricInfo& info, const MetricLabels& labels) {
  return At<Gauge>(Add(info, MetricType::kGauge, labels));
}

Gauge* MetricsRegistry::AddFractionalCounter(const MetricInfo& info, const MetricLabels& labels) {
  return At<Gauge>(Add(info, MetricType::kFractionalCounter, labels));
}

// Returns the offset of the metric's value.
size_t MetricsRegistry::Add(const MetricInfo& info, MetricType type, const MetricLabels& labels) {
  CheckInfo(info, type);
  const std::string encoded = Encoded(info.name, labels);
  std::lock_guard lock(mutex_);
  if (metrics_ == layout::kMostMetrics) {
    throw Error("metric ", info.name, ": the registry has ", metrics_,
                " metrics already, and room ", "for no more");
  }
  Reserve();
  const uint32_t family = FamilyOf(info, type);
  if (!known_.insert(info.name + '\0' + encoded).second) {
    throw Error("metric ", info.name, ": exists with these labels already");
  }
  auto* const row =
      new (memory_ + layout::kMetricsAt + metrics_ * sizeof(layout::MetricRow)) layout::MetricRow{};
  row->family = family;
  Put(encoded, row->labels);
  const size_t value = layout::kValuesAt + metrics_ * sizeof(uint64_t);
  if (type == MetricType::kCounter) {
    new (memory_ + value) Counter;
  } else {
    new (memory_ + value) Gauge;
  }
  ++metrics_;
  if (no_file_.empty()) {
    auto* const head = At<layout::Head>(0);
    head->families.store(families_, std::memory_order_release);
    head->metrics.store(metrics_, std::memory_order_release);
  }
  return value;
}

// The index of the description, which is added unless it exists. REQUIRES: mutex_ is held.
uint32_t MetricsRegistry::FamilyOf(const MetricInfo& info, MetricType type) {
  const auto [found, is_new] = family_of_.try_emplace(info.name, families_);
  auto* const row =
      At<layout::FamilyRow>(layout::kFamiliesAt + found->second * sizeof(layout::FamilyRow));
  if (!is_new) {
    if (info.help == row->help && info.unit == row->unit &&
        row->type == static_cast<uint32_t>(type)) {
      return found->second;
    }
    throw Error("metric ", info.name, ": exists with another type, unit or help text");
  }
  if (families_ == layout::kMostFamilies) {
    family_of_.erase(found);
    throw Error("metric ", info.name, ": the registry has ", families_, " names already, and room ",
                "for no more");
  }
  new (row) layout::FamilyRow{};
  row->type = static_cast<uint32_t>(type);
  Put(info.name, row->name);
  Put(info.unit, row->unit);
  Put(info.help, row->help);
  return families_++;
}

// Gives the file pages for more metrics. Writing to a page that the file system has no room for
// would end the process. Without room, all further metrics are in private memory. REQUIRES: mutex_
// is held.
void MetricsRegistry::Reserve() {
  if (metrics_ < reserved_) return;
  const uint32_t first = std::exchange(reserved_, reserved_ + kReserve);
  if (!no_file_.empty()) return;
  struct {
    size_t begin, end, row;
  } const areas[] = {{layout::kValuesAt, layout::kMetricsAt, sizeof(uint64_t)},
                     {layout::kMetricsAt, layout::kFileBytes, sizeof(layout::MetricRow)}};
  for (const auto& area : areas) {
    const auto begin = static_cast<off_t>(area.begin + first * area.row);
    const int error = posix_fallocate(file_.get(), begin, static_cast<off_t>(kReserve * area.row));
    if (error != 0) no_file_ = StrCat(path_, ": no room for more metrics: ", ErrnoText(error));
  }
  if (no_file_.empty()) return;
  for (const auto& area : areas) {
    const size_t begin = area.begin + first * area.row;
    constexpr int kFlags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (mmap(memory_ + begin, area.end - begin, PROT_READ | PROT_WRITE, kFlags, -1, 0) ==
        MAP_FAILED) {
      throw Error(no_file_);
    }
  }
}

size_t MetricsRegistry::room() const {
  std::lock_guard lock(mutex_);
  return layout::kMostMetrics - metrics_;
}

MetricsReading MetricsRegistry::Read() const {
  std::lock_guard lock(mutex_);
  const std::span families(At<const layout::FamilyRow>(layout::kFamiliesAt), families_);
  const std::span metrics(At<const layout::MetricRow>(layout::kMetricsAt), metrics_);
  std::vector<uint64_t> values;
  for (size_t i = 0; i < metrics_; ++i) {
    const size_t at = layout::kValuesAt + i * sizeof(uint64_t);
    const bool is_counter =
        families[metrics[i].family].type == static_cast<uint32_t>(MetricType::kCounter);
    values.push_back(is_counter ? At<const Counter>(at)->Read()
                                : std::bit_cast<uint64_t>(At<const Gauge>(at)->Read()));
  }
  return DecodeMetrics(families, metrics, values);
}

void MetricsRegistry::Publish(const std::string& title) {
  std::lock_guard lock(mutex_);
  if (!no_file_.empty()) throw Error(no_file_);
  auto* const head = At<layout::Head>(0);
  std::memset(head->title, 0, sizeof(head->title));
  Put(CutText(title, sizeof(head->title) - 1), head->title);
  published_ = LinkNameless(file_.get(), path_);
  if (!published_ && errno == EEXIST) {
    RemoveLeftover(path_);
    published_ = LinkNameless(file_.get(), path_);
  }
  if (!published_) throw Error(path_, ": cannot be created: ", ErrnoText(errno));
}

}  // namespace millrace
