// Where each learnable parameter lives in the flat weight array.
#ifndef MILLRACE_WEIGHTS_PARAM_LAYOUT_H_
#define MILLRACE_WEIGHTS_PARAM_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct ParamEntry {
  std::string name;            // "<layer>/<index>", unique
  std::vector<int64_t> shape;  // row-major
  int64_t offset = 0;          // in floats, a multiple of kAlignment
  int64_t count = 0;           // product of shape
};

// Immutable once built; safe to read from any thread.
class ParamLayout {
 public:
  // Entries begin on cache lines (16 floats): two parameters never share one.
  static constexpr int64_t kAlignment = 16;

  // Appends an entry and returns its index.
  int Add(const std::string& name, const std::vector<int64_t>& shape);

  const std::vector<ParamEntry>& entries() const { return entries_; }
  // Length of the array in floats, padding included; the padding stays zero.
  int64_t size() const { return size_; }
  // The index of `name`, or -1.
  int Find(const std::string& name) const;

  // FNV-1a (64 bit) over names and shapes in order: equal digests mean that one
  // array can serve both nets.
  uint64_t Digest() const;

 private:
  std::vector<ParamEntry> entries_;
  int64_t size_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_WEIGHTS_PARAM_LAYOUT_H_
