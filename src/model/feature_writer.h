// Where the values of a blob go, batch by batch.
#ifndef MILLRACE_MODEL_FEATURE_WRITER_H_
#define MILLRACE_MODEL_FEATURE_WRITER_H_

#include <memory>
#include <string>
#include <vector>

#include "data/database.h"
#include "millrace/blob.h"

namespace millrace::inline model {

// Used by one thread.
class FeatureWriter {
 public:
  virtual ~FeatureWriter() = default;
  FeatureWriter(const FeatureWriter&) = delete;
  FeatureWriter& operator=(const FeatureWriter&) = delete;

  // Adds a blob of one batch: `values` of `shape`, row-major, whose first axis counts records. A
  // scalar is one record. Throws Error naming the file.
  virtual void Add(const Shape& shape, const std::vector<float>& values) = 0;
  // Completes the file. Nothing may be added afterwards.
  virtual void Commit() = 0;

 protected:
  FeatureWriter() = default;
};

// A database of Datums with channels, height, width and float_data. As in Caffe's extract_features,
// the keys are the numbers of the records, of 10 digits, and axes that a blob lacks have size 1.
// Blobs with more than 4 axes are refused: a Datum has no place for them. `blob`: for errors.
std::unique_ptr<FeatureWriter> MakeDatabaseFeatures(const std::string& path, DatabaseKind kind,
                                                    const std::string& blob);

// The dataset `blob` of an HDF5 file, with the axes of the blob. Several blobs may go to one file.
// A '/' in the name makes a group.
std::unique_ptr<FeatureWriter> MakeHdf5Features(const std::string& path, const std::string& blob);

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_FEATURE_WRITER_H_
