// Small databases for tests of the data module.
#ifndef MILLRACE_TEST_DATA_TEST_DB_H_
#define MILLRACE_TEST_DATA_TEST_DB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "data/batch_stream.h"
#include "proto/caffe.pb.h"

namespace millrace::test {

// A datum whose pixels are determined by its label.
caffe::Datum ByteDatum(int label, int channels = 1, int height = 2, int width = 3);

// A datum as convert_imageset --encoded makes it: `file` is a JPEG or PNG, valid or not.
caffe::Datum EncodedDatum(int label, const std::string& file);

// `number` formatted with "%08d".
std::string KeyOf(uint64_t number);

// Writes an LMDB at `path` with the keys KeyOf(0), KeyOf(1), ...
void WriteDb(const std::string& path, const std::vector<caffe::Datum>& datums);
// Like WriteDb, for records that are not datums.
void WriteRawDb(const std::string& path, const std::vector<std::string>& values);
// Writes ByteDatums with the labels first, first+1, ... first+count-1.
void WriteLabels(const std::string& path, int count, int first = 0);

// The label of a record written by WriteDb or WriteLabels.
int LabelOf(const RecordView& record);
std::vector<int> LabelsOf(const Batch& batch);

// Options of a stream over the databases at `paths`.
BatchStreamOptions StreamOver(const std::vector<std::string>& paths, uint64_t batch_size);

}  // namespace millrace::test

#endif  // MILLRACE_TEST_DATA_TEST_DB_H_
