// Reads little-endian numbers and runs of bytes from a file's contents, and never beyond their end.
#ifndef MILLRACE_MODEL_ARRAYS_BYTE_READER_H_
#define MILLRACE_MODEL_ARRAYS_BYTE_READER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"

namespace millrace::inline model {

class ByteReader {
 public:
  // `path`: for errors. Both outlive the reader.
  ByteReader(std::string_view bytes, const std::string& path, size_t at = 0)
      : bytes_(bytes), path_(path), at_(at) {
    if (at > bytes.size()) Fail("an offset beyond the end");
  }

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  // The next `count` bytes. Throws Error naming the file if there are fewer.
  std::string_view Take(uint64_t count) {
    if (count > left()) Fail(StrCat(count, " bytes expected and ", left(), " left"));
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  [[noreturn]] void Fail(const std::string& why) const {
    throw Error(path_, ": damaged at byte ", at_, ": ", why);
  }

 private:
  const std::string_view bytes_;
  const std::string& path_;
  size_t at_;
};

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_ARRAYS_BYTE_READER_H_
