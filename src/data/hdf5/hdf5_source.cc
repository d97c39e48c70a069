#include "data/hdf5/hdf5_source.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "data/hdf5/hdf5_rows.h"

namespace millrace::inline data {
namespace {

std::string TextOf(const std::vector<Shape>& rows) {
  std::string text;
  for (const Shape& row : rows) text += StrCat(text.empty() ? "" : ", ", ShapeText(row));
  return text;
}

}  // namespace

class Hdf5Source::Reader : public RecordReader {
 public:
  explicit Reader(const Hdf5Source& source) : source_(source) {}

  RecordView At(uint64_t index) override {
    const auto& firsts = source_.first_rows_;
    const size_t file = static_cast<size_t>(std::upper_bound(firsts.begin(), firsts.end(), index) -
                                            firsts.begin()) -
                        1;
    const std::shared_ptr<const Rows> rows = RowsOf(file);
    const float* const row = rows->data() + (index - firsts[file]) * source_.row_floats_;
    return {source_.files_[file],
            {reinterpret_cast<const char*>(row), source_.row_floats_ * sizeof(float)},
            0,
            rows};
  }

 private:
  using Rows = std::vector<float>;
  struct Entry {
    size_t file = SIZE_MAX;
    std::shared_ptr<const Rows> rows;
  };

  std::shared_ptr<const Rows> RowsOf(size_t file) {
    if (last_.file == file) return last_.rows;
    std::swap(last_, other_);
    if (last_.file == file) return last_.rows;
    last_ = Entry();  // frees the memory before more is needed
    last_.rows = std::make_shared<const Rows>(
        ReadHdf5Rows(source_.files_[file], source_.names_, source_.shapes_[file]));
    last_.file = file;
    return last_.rows;
  }

  const Hdf5Source& source_;
  Entry last_, other_;
};

Hdf5Source::Hdf5Source(const std::string& list_file, const std::vector<std::string>& names)
    : path_(list_file), names_(names) {
  std::istringstream list(ReadFile(list_file));
  for (std::string file; list >> file;) {
    files_.push_back(ResolveBeside(file, list_file));
    shapes_.push_back(Hdf5Shapes(files_.back(), names));
    std::vector<Shape> rows = shapes_.back();
    for (Shape& row : rows) row.erase(row.begin());
    if (row_shapes_.empty()) row_shapes_ = rows;
    if (rows != row_shapes_) {
      throw Error(list_file, ": ", files_.back(), ": has rows of ", TextOf(rows), ", expected ",
                  TextOf(row_shapes_), " as in ", files_[0]);
    }
    file_rows_.push_back(static_cast<uint64_t>(shapes_.back()[0][0]));
    first_rows_.push_back(first_rows_.back() + file_rows_.back());
  }
  if (files_.empty()) throw Error(list_file, ": lists no files");
  for (const Shape& row : row_shapes_) row_floats_ += ShapeCount(row);
}

std::unique_ptr<RecordReader> Hdf5Source::MakeReader(bool) {
  return std::make_unique<Reader>(*this);
}

}  // namespace millrace::inline data
