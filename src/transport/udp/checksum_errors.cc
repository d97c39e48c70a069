#include "transport/udp/checksum_errors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace millrace::inline transport {
namespace {

// Removes the next word from `text` and returns it; "" at the end.
std::string_view TakeWord(std::string_view* text) {
  constexpr std::string_view kSpace = " \t\n";
  text->remove_prefix(std::min(text->find_first_not_of(kSpace), text->size()));
  const std::string_view word = text->substr(0, text->find_first_of(kSpace));
  text->remove_prefix(word.size());
  return word;
}

std::string_view TakeLine(std::string_view* text) {
  const std::string_view line = text->substr(0, text->find('\n'));
  text->remove_prefix(std::min(line.size() + 1, text->size()));
  return line;
}

struct Found {
  UdpErrorCounts counts;
  int fields = 0;

  void Take(std::string_view name, std::string_view value) {
    uint64_t* const count = name == "InCsumErrors"   ? &counts.checksum
                            : name == "RcvbufErrors" ? &counts.no_room
                                                     : nullptr;
    if (!count) return;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *count);
    fields += error == std::errc() && end == value.data() + value.size() ? 1 : 0;
  }
  std::optional<UdpErrorCounts> Get() const {
    return fields == 2 ? std::optional(counts) : std::nullopt;
  }
};

}  // namespace

std::optional<UdpErrorCounts> ParseUdpErrors(std::string_view text, bool is_v6) {
  Found found;
  if (is_v6) {
    // One name and one number per line.
    constexpr std::string_view kPrefix = "Udp6";
    while (!text.empty()) {
      std::string_view line = TakeLine(&text);
      const std::string_view name = TakeWord(&line);
      if (name.starts_with(kPrefix)) found.Take(name.substr(kPrefix.size()), TakeWord(&line));
    }
    return found.Get();
  }
  // Per protocol, one line of names and one line of numbers.
  while (!text.empty()) {
    std::string_view names = TakeLine(&text), numbers = TakeLine(&text);
    if (TakeWord(&names) != "Udp:" || TakeWord(&numbers) != "Udp:") continue;
    for (std::string_view name; !(name = TakeWord(&names)).empty();) {
      found.Take(name, TakeWord(&numbers));
    }
  }
  return found.Get();
}

uint64_t UdpDropClassifier::Classify(uint64_t drops, const UdpErrorCounts& now) {
  const UdpErrorCounts fresh = {now.checksum - last_.checksum, now.no_room - last_.no_room};
  const uint64_t checksum = fresh.checksum + left_.checksum;
  const uint64_t no_room = fresh.no_room + left_.no_room;
  const uint64_t bad = std::min(drops - std::min(drops, no_room), checksum);
  last_ = now;
  left_ = {std::min(checksum - bad, fresh.checksum),
           std::min(no_room - std::min(no_room, drops - bad), fresh.no_room)};
  return bad;
}

UdpChecksumErrors::UdpChecksumErrors(bool is_v6)
    : is_v6_(is_v6),
      file_(open(is_v6 ? "/proc/thread-self/net/snmp6" : "/proc/thread-self/net/snmp",
                 O_RDONLY | O_CLOEXEC)) {
  if (const auto now = Read()) classifier_.emplace(*now);
}

std::optional<UdpErrorCounts> UdpChecksumErrors::Read() const {
  std::array<char, 16384> text;
  const ssize_t bytes = pread(file_.get(), text.data(), text.size(), 0);
  if (bytes <= 0) return std::nullopt;
  return ParseUdpErrors({text.data(), static_cast<size_t>(bytes)}, is_v6_);
}

uint64_t UdpChecksumErrors::Classify(uint64_t drops) {
  const auto now = Read();
  return classifier_ && now ? classifier_->Classify(drops, *now) : 0;
}

}  // namespace millrace::inline transport
