#include "weights/param_layout.h"

namespace millrace {
namespace {

class Fnv1a {
 public:
  void Add(const void* bytes, size_t size) {
    const auto* p = static_cast<const unsigned char*>(bytes);
    for (size_t i = 0; i < size; ++i) hash_ = (hash_ ^ p[i]) * 0x100000001b3ULL;
  }
  void Add(uint64_t value) { Add(&value, sizeof(value)); }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace

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
  Fnv1a hash;
  for (const ParamEntry& entry : entries_) {
    hash.Add(entry.name.size());
    hash.Add(entry.name.data(), entry.name.size());
    hash.Add(entry.shape.size());
    for (int64_t dim : entry.shape) hash.Add(static_cast<uint64_t>(dim));
  }
  return hash.hash();
}

}  // namespace millrace
