// Position of each learnable parameter in the flat weight array.
#ifndef MILLRACE_WEIGHTS_PARAM_LAYOUT_H_
#define MILLRACE_WEIGHTS_PARAM_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::inline weights {

struct ParamEntry {
  std::string name;            // "<layer>/<index>", unique
  std::vector<int64_t> shape;  // row-major
  int64_t offset = 0;          // in floats, a multiple of kAlignment
  int64_t count = 0;           // product of shape
};

// Immutable once built; then readable from any thread.
class ParamLayout {
 public:
  // Entries begin on cache lines (16 floats), so two parameters never share one.
  static constexpr int64_t kAlignment = 16;

  // Appends an entry and returns its index.
  int Add(const std::string& name, const std::vector<int64_t>& shape);

  const std::vector<ParamEntry>& entries() const { return entries_; }
  // Length of the array in floats, padding included; the padding stays zero.
  int64_t size() const { return size_; }
  // Index of the entry `name`; -1 if there is none.
  int Find(const std::string& name) const;

  // 64-bit FNV-1a over names and shapes in order. Nets with equal digests can share one array.
  uint64_t Digest() const;

 private:
  std::vector<ParamEntry> entries_;
  int64_t size_ = 0;
};

}  // namespace millrace::inline weights

#endif  // MILLRACE_WEIGHTS_PARAM_LAYOUT_H_
