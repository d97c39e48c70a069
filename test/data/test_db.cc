#include "test/data/test_db.h"

#include <cstdio>

#include "data/datum_view.h"
#include "data/lmdb_database.h"

namespace millrace::test {

caffe::Datum ByteDatum(int label, int channels, int height, int width) {
  caffe::Datum datum;
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_label(label);
  for (int i = 0; i < channels * height * width; ++i) {
    datum.mutable_data()->push_back(static_cast<char>(label * 31 + i * 7));
  }
  return datum;
}

caffe::Datum EncodedDatum(int label, const std::string& file) {
  caffe::Datum datum;
  datum.set_label(label);
  datum.set_encoded(true);
  datum.set_data(file);
  return datum;
}

std::string KeyOf(uint64_t number) {
  char key[32];
  snprintf(key, sizeof(key), "%08llu", static_cast<unsigned long long>(number));
  return key;
}

void WriteRawDb(const std::string& path, const std::vector<std::string>& values) {
  LmdbWriter writer(path);
  for (size_t i = 0; i < values.size(); ++i) writer.Add(KeyOf(i), values[i]);
  writer.Commit();
}

void WriteDb(const std::string& path, const std::vector<caffe::Datum>& datums) {
  std::vector<std::string> values;
  for (const caffe::Datum& datum : datums) values.push_back(datum.SerializeAsString());
  WriteRawDb(path, values);
}

void WriteLabels(const std::string& path, int count, int first) {
  std::vector<caffe::Datum> datums;
  for (int i = 0; i < count; ++i) datums.push_back(ByteDatum(first + i));
  WriteDb(path, datums);
}

int LabelOf(const RecordView& record) { return ReadDatum("test", record.key, record.value).label; }

std::vector<int> LabelsOf(const Batch& batch) {
  std::vector<int> labels;
  for (const RecordView& record : batch.records) labels.push_back(LabelOf(record));
  return labels;
}

BatchStreamOptions StreamOver(const std::vector<std::string>& paths, uint64_t batch_size) {
  BatchStreamOptions options;
  options.layer = "data";
  for (const std::string& path : paths) options.sources.push_back(LmdbDatabase::Open(path));
  options.batch_size = batch_size;
  return options;
}

}  // namespace millrace::test
