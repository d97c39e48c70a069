// The parts of ZIP archives that NumPy and PyTorch use: members stored or deflated, ZIP64 sizes,
// no encryption, one volume.
#ifndef MILLRACE_MODEL_ARRAYS_ZIP_H_
#define MILLRACE_MODEL_ARRAYS_ZIP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::inline model {

class ZipReader {
 public:
  // `bytes`, of the whole file, outlives the reader. Throws Error naming `path` unless the archive
  // is complete.
  ZipReader(std::string_view bytes, std::string path);

  static bool IsZip(std::string_view bytes) { return bytes.starts_with("PK\3\4"); }

  // In the order of the directory; no two have one name.
  const std::vector<std::string>& names() const { return names_; }
  // The contents of member `index`. Throws Error naming the file and the member if its checksum
  // differs, or if it is compressed in another way.
  std::string Read(size_t index) const;

 private:
  struct Member {
    uint16_t flags, method;
    uint32_t checksum;
    uint64_t stored_bytes, bytes, offset;
  };

  const std::string_view bytes_;
  const std::string path_;
  std::vector<std::string> names_;
  std::vector<Member> members_;
};

// An archive of stored members, each smaller than 4 GiB, as the whole is. `path`: for errors.
class ZipWriter {
 public:
  explicit ZipWriter(std::string path) : path_(std::move(path)) {}
  void Add(const std::string& name, const std::string& contents);
  // The archive; nothing may be added afterwards.
  std::string Finish();

 private:
  const std::string path_;
  std::string bytes_, directory_;
  uint16_t members_ = 0;
};

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_ARRAYS_ZIP_H_
