#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/private_file.h"
#include "base/process_identity.h"
#include "base/text/utf8.h"
#include "metrics/counter_file_layout.h"
#include "metrics/metrics_reading.h"
#include "millrace/file_descriptor.h"

namespace millrace {
namespace {

namespace layout = counter_file_layout;

// Metrics for which the file gets pages at a time: the values fill one page of 4 KiB.
constexpr uint32_t kReserve = 512;

static_assert(MetricsRegistry::kCapacity == layout::kMaxMetrics);

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
  if (type == MetricType::kHistogram) {
    name = metrics::HistogramName(name);
  } else if (name.ends_with(kTotal) == (type == MetricType::kGauge)) {
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

// The metrics, in private memory or a mapped file.
class MetricsRegistry::Memory {
 public:
  Memory() : no_file_("metrics: in private memory") { Map(); }
  explicit Memory(const std::string& folder);
  ~Memory();

  // Returns the offset of the metric's value. `part`, if not null, receives the row.
  size_t Add(const MetricInfo& info, MetricType type, const MetricLabels& labels,
             std::vector<uint32_t>* part);
  // Makes these metrics available to the next Add.
  void Release(const std::vector<uint32_t>& rows);
  size_t room() const;
  MetricsReading Read() const;
  void Publish(const std::string& title);
  // Removes the file's name.
  void Withdraw();
  const std::string& path() const { return path_; }
  template <typename T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(memory_ + offset);
  }

 private:
  uint32_t FamilyOf(const MetricInfo& info, MetricType type);
  void Reserve();
  void Map();

  struct Known {
    uint32_t row;
    bool in_use;
  };

  std::string path_;
  FileDescriptor file_{-1};
  std::string no_file_;  // why the metrics, or the last of them, are not in a file; "" if they are
  char* memory_ = nullptr;

  mutable std::mutex mutex_;
  bool published_ = false;
  uint32_t families_ = 0, metrics_ = 0;
  uint32_t reserved_ = 0;                                // metrics for which the file has pages
  std::unordered_map<std::string, uint32_t> family_of_;  // by name
  std::unordered_map<std::string, Known> known_;         // by name and labels
  std::vector<Known*> rows_;                             // in known_
};

MetricsRegistry::Memory::Memory(const std::string& folder)
    : path_(StrCat(folder, "/", layout::kPrefix, getpid())), file_(CreateUnnamed(folder)) {
  int error = file_.get() < 0 ? errno : 0;
  if (error == 0 && ftruncate(file_.get(), layout::kFileBytes) != 0) error = errno;
  if (error == 0) error = posix_fallocate(file_.get(), 0, layout::kValuesAt);
  if (error != 0) no_file_ = StrCat(path_, ": cannot be created: ", ErrnoText(error));
  Map();
  const ProcessIdentity self = ThisProcess();
  auto* const head = new (memory_) layout::Head{};
  std::memcpy(head->magic, layout::kMagic, sizeof(head->magic));
  head->version = layout::kVersion;
  head->pid = self.pid;
  head->start_time = self.start_time;
}

MetricsRegistry::Memory::~Memory() {
  Withdraw();
  munmap(memory_, layout::kFileBytes);
}

void MetricsRegistry::Memory::Map() {
  const bool shared = no_file_.empty();
  const int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const memory = mmap(nullptr, layout::kFileBytes, PROT_READ | PROT_WRITE, flags,
                            shared ? file_.get() : -1, 0);
  if (memory == MAP_FAILED) throw Error("metrics: cannot be mapped: ", ErrnoText(errno));
  memory_ = static_cast<char*>(memory);
}

size_t MetricsRegistry::Memory::Add(const MetricInfo& info, MetricType type,
                                    const MetricLabels& labels, std::vector<uint32_t>* part) {
  CheckInfo(info, type);
  const std::string encoded = Encoded(info.name, labels);
  const std::string key = info.name + '\0' + encoded;
  std::lock_guard lock(mutex_);
  const bool is_new = !known_.contains(key);
  if (is_new && metrics_ == layout::kMaxMetrics) {
    throw Error("metric ", info.name, ": the registry has ", metrics_,
                " metrics already, and room ", "for no more");
  }
  if (is_new) Reserve();
  const uint32_t family = FamilyOf(info, type);
  Known& known = known_[key];
  if (known.in_use) throw Error("metric ", info.name, ": exists with these labels already");
  if (is_new) known.row = metrics_;
  known.in_use = true;
  const size_t value = layout::kValuesAt + known.row * sizeof(uint64_t);
  if (type == MetricType::kCounter) {
    new (memory_ + value) Counter;
  } else {
    new (memory_ + value) Gauge;
  }
  if (part != nullptr) part->push_back(known.row);
  if (!is_new) return value;
  rows_.push_back(&known);
  auto* const row =
      new (memory_ + layout::kMetricsAt + metrics_ * sizeof(layout::MetricRow)) layout::MetricRow{};
  row->family = family;
  Put(encoded, row->labels);
  ++metrics_;
  if (no_file_.empty()) {
    auto* const head = At<layout::Head>(0);
    head->families.store(families_, std::memory_order_release);
    head->metrics.store(metrics_, std::memory_order_release);
  }
  return value;
}

void MetricsRegistry::Memory::Release(const std::vector<uint32_t>& rows) {
  std::lock_guard lock(mutex_);
  for (const uint32_t row : rows) rows_[row]->in_use = false;
}

// The index of the description, which is added unless it exists. REQUIRES: mutex_ is held.
uint32_t MetricsRegistry::Memory::FamilyOf(const MetricInfo& info, MetricType type) {
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
  if (families_ == layout::kMaxFamilies) {
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
void MetricsRegistry::Memory::Reserve() {
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

size_t MetricsRegistry::Memory::room() const {
  std::lock_guard lock(mutex_);
  return layout::kMaxMetrics - metrics_;
}

MetricsReading MetricsRegistry::Memory::Read() const {
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

void MetricsRegistry::Memory::Publish(const std::string& title) {
  std::lock_guard lock(mutex_);
  if (!no_file_.empty()) throw Error(no_file_);
  auto* const head = At<layout::Head>(0);
  std::memset(head->title, 0, sizeof(head->title));
  Put(CutText(title, sizeof(head->title) - 1), head->title);
  if (published_) return;
  published_ = LinkUnnamed(file_.get(), path_);
  if (!published_ && errno == EEXIST) {
    RemoveLeftover(path_);
    published_ = LinkUnnamed(file_.get(), path_);
  }
  if (!published_) throw Error(path_, ": cannot be created: ", ErrnoText(errno));
}

void MetricsRegistry::Memory::Withdraw() {
  std::lock_guard lock(mutex_);
  // Not in a process that was forked from the file's own.
  if (published_ && At<layout::Head>(0)->pid == getpid()) UnlinkIfSame(file_.get(), path_);
  published_ = false;
}

MetricsRegistry& MetricsRegistry::OfProcess() {
  // Never destroyed: threads may count until the process ends.
  static MetricsRegistry* const registry = new MetricsRegistry(kFolder);
  static const struct AtExit {
    ~AtExit() { registry->memory_->Withdraw(); }
  } at_exit;
  return *registry;
}

MetricsRegistry::MetricsRegistry() : memory_(std::make_shared<Memory>()) {}
MetricsRegistry::MetricsRegistry(const std::string& folder)
    : memory_(std::make_shared<Memory>(folder)) {}
MetricsRegistry::MetricsRegistry(MetricsRegistry* whole)
    : memory_(whole->memory_), part_(std::make_unique<std::vector<uint32_t>>()) {}

MetricsRegistry::~MetricsRegistry() {
  if (part_) memory_->Release(*part_);
}

Counter* MetricsRegistry::AddCounter(const MetricInfo& info, const MetricLabels& labels) {
  return memory_->At<Counter>(memory_->Add(info, MetricType::kCounter, labels, part_.get()));
}

Gauge* MetricsRegistry::AddGauge(const MetricInfo& info, const MetricLabels& labels) {
  return memory_->At<Gauge>(memory_->Add(info, MetricType::kGauge, labels, part_.get()));
}

Gauge* MetricsRegistry::AddFractionalCounter(const MetricInfo& info, const MetricLabels& labels) {
  return memory_->At<Gauge>(
      memory_->Add(info, MetricType::kFractionalCounter, labels, part_.get()));
}

Histogram MetricsRegistry::AddHistogram(const MetricInfo& info, const std::vector<double>& bounds,
                                        const MetricLabels& labels) {
  if (!std::is_sorted(bounds.begin(), bounds.end(), std::less_equal<double>())) {
    throw Error("metric ", info.name, ": expected bounds that ascend");
  }
  const auto add = [&](const char* suffix, const MetricLabels& all) {
    return memory_->At<Gauge>(memory_->Add({info.name + suffix, info.help, info.unit},
                                           MetricType::kHistogram, all, part_.get()));
  };
  Histogram histogram;
  const auto add_bucket = [&](double bound, const std::string& text) {
    MetricLabels with_bound = labels;
    with_bound.emplace_back("le", text);
    histogram.buckets_.push_back({bound, add("_bucket", with_bound)});
  };
  for (const double bound : bounds) add_bucket(bound, StrCat(bound));
  add_bucket(std::numeric_limits<double>::infinity(), "+Inf");
  histogram.sum_ = add("_sum", labels);
  histogram.count_ = add("_count", labels);
  return histogram;
}

void Histogram::Observe(double value) {
  for (size_t i = buckets_.size(); i-- > 0 && value <= buckets_[i].bound;) {
    buckets_[i].count->AddShared(1);
  }
  sum_->AddShared(value);
  count_->AddShared(1);
}

size_t MetricsRegistry::room() const { return memory_->room(); }
MetricsReading MetricsRegistry::Read() const { return memory_->Read(); }
void MetricsRegistry::Publish(const std::string& title) { memory_->Publish(title); }
const std::string& MetricsRegistry::path() const { return memory_->path(); }

}  // namespace millrace
