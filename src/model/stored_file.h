#ifndef MILLRACE_MODEL_STORED_FILE_H_
#define MILLRACE_MODEL_STORED_FILE_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/blob.h"

namespace millrace::inline model {

// Statistics of an array of floats.

// Sums in double precision. Not-finite values are counted and otherwise left out.
class ValueStats {
 public:
  void Add(double value) {
    if (std::isnan(value)) {
      ++nans_;
    } else if (std::isinf(value)) {
      ++infinities_;
    } else {
      // Welford's method (1962): exact for large means as well.
      ++count_;
      const double difference = value - mean_;
      mean_ += difference / static_cast<double>(count_);
      squares_ += difference * (value - mean_);
      if (count_ == 1 || value < min_) min_ = value;
      if (count_ == 1 || value > max_) max_ = value;
    }
  }

  // Numbers of values.
  int64_t count() const { return count_ + nans_ + infinities_; }
  int64_t nans() const { return nans_; }
  int64_t infinities() const { return infinities_; }
  // Statistics of the finite values; NaN if there are none.
  double min() const { return OrNan(min_); }
  double max() const { return OrNan(max_); }
  double mean() const { return OrNan(mean_); }
  // The square root of the mean squared distance from the mean.
  double std() const { return OrNan(std::sqrt(squares_ / static_cast<double>(count_))); }

 private:
  double OrNan(double value) const { return count_ > 0 ? value : NAN; }

  int64_t count_ = 0, nans_ = 0, infinities_ = 0;
  double mean_ = 0, squares_ = 0, min_ = 0, max_ = 0;
};

// What a file of weights, of a solver's state, or of an image mean holds.

// An array of a file.
struct StoredArray {
  std::string name;  // "conv1[0]" of a layer's first blob, "history[3]", "mean"
  Shape shape;
  int64_t bytes = 0;  // of the values
  ValueStats values;
  ValueStats diffs;  // of the gradients; empty if the file has none
};

struct StoredLayer {
  std::string name;
  std::string type;  // "" in HDF5 files, which do not store it
  std::vector<StoredArray> blobs;
};

// The history of one solver.
struct StoredHistory {
  int solver = 0;
  int64_t updates = -1;  // that it holds, for rules that count them; -1: not stored
  std::vector<StoredArray> arrays;
};

struct StoredFile {
  enum class Kind { kModel, kState, kMean };

  std::string path;
  Kind kind = Kind::kModel;
  bool is_hdf5 = false;
  int64_t file_bytes = 0;

  // ---- A model's ----
  std::string net_name;             // "" in HDF5 files
  std::string earlier_format;       // "V1 layers" and the like; "" for today's
  std::vector<StoredLayer> layers;  // with or without blobs
  // ---- A state's ----
  int64_t iteration = 0;
  int64_t current_step = 0;
  std::string model_path;  // of the weights
  bool has_seed = false;   // Caffe's own files have none
  uint64_t seed = 0;
  std::vector<StoredHistory> histories;     // by solver
  std::vector<std::string> data_positions;  // "layer 'data': batch 500 of 64"
  // ---- A mean's ----
  StoredArray mean;

  // All arrays, in the order of the file.
  std::vector<const StoredArray*> Arrays() const;
};

// Reads a .caffemodel, .solverstate, their .h5 forms, or a mean file (.binaryproto). What the file
// holds decides, not its name. Throws Error naming the file if it is none of them.
StoredFile ReadStoredFile(const std::string& path);

// For people: a heading, and a table with a line for each array.
std::string StoredFileText(const StoredFile& file);
// A JSON object. Numbers that are not finite are null.
std::string StoredFileJson(const StoredFile& file);

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_STORED_FILE_H_
