// A data source: records from a text file with one record per line, "label,value,value,...".
//   layer { type: "Data" ... data_param { source: "csv:points.csv" batch_size: 32 } }
#include <millrace/caffe.pb.h>
#include <millrace/data_source.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

class CsvSource : public millrace::DataSource {
 public:
  explicit CsvSource(const std::string& path) : path_(path) {
    std::ifstream file(path);
    if (!file) throw millrace::Error(path, ": cannot be opened");
    for (std::string line; std::getline(file, line);) records_.push_back(Parsed(line));
    if (records_.empty()) throw millrace::Error(path, ": is empty, expected a record per line");
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return records_.size(); }
  std::unique_ptr<millrace::RecordReader> MakeReader(bool) override {
    return std::make_unique<Reader>(*this);
  }

 private:
  struct Record {
    std::string key, value;
  };

  class Reader : public millrace::RecordReader {
   public:
    explicit Reader(const CsvSource& source) : source_(source) {}
    millrace::RecordView At(uint64_t index) override {
      const Record& record = source_.records_[index];
      return {record.key, record.value};
    }

   private:
    const CsvSource& source_;
  };

  // The values become a datum of one row with a channel per value.
  Record Parsed(const std::string& line) const {
    const std::string where = path_ + ":" + std::to_string(records_.size() + 1);
    millrace::caffe::Datum datum;
    const char* at = line.c_str();
    for (bool first = true;; first = false) {
      char* end = nullptr;
      const double value = std::strtod(at, &end);
      if (end == at || (*end != ',' && *end != '\0')) {
        throw millrace::Error(where, ": expected numbers separated by commas");
      }
      if (first) {
        datum.set_label(static_cast<int>(value));
      } else {
        datum.add_float_data(static_cast<float>(value));
      }
      if (*end == '\0') break;
      at = end + 1;
    }
    datum.set_channels(datum.float_data_size());
    datum.set_height(1);
    datum.set_width(1);
    return {where, datum.SerializeAsString()};
  }

  const std::string path_;
  std::vector<Record> records_;
};

const millrace::RegisterDataSource registered("csv", [](const std::string& path) {
  return std::make_shared<CsvSource>(path);
});

}  // namespace
