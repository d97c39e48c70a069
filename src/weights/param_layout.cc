#include "weights/param_layout.h"

#include "base/fnv1a.h"

namespace millrace::inline weights {

int ParamLayout::Add(const std::string& name, const std::vector<int64_t>& shape) {
  ParamEntry entry{name, shape, size_, 1};
  for (int64_t dim : shape) entry.count *= dim;
  size_ += (entry.count + kAlignment - 1) / kAlignment * kAlignment;
  entries_.push_back(std::move(entry));
  return static_cast<int>(entries_.size()) - 1;
}

int ParamLayout::Find(const std::string& name) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

uint64_t ParamLayout::Digest() const {
  std::string all;
  const auto add = [&all](uint64_t value) {
    all.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (const ParamEntry& entry : entries_) {
    add(entry.name.size());
    all += entry.name;
    add(entry.shape.size());
    for (int64_t dim : entry.shape) add(static_cast<uint64_t>(dim));
  }
  return Fnv1a(all);
}

}  // namespace millrace::inline weights
