// Writes blobs of a net, as they are after each of a number of forward passes, to databases or HDF5
// files.
#ifndef MILLRACE_MODEL_EXTRACT_FEATURES_H_
#define MILLRACE_MODEL_EXTRACT_FEATURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nn/net.h"

namespace millrace::inline model {

// A blob, and the database or file that receives it.
struct FeatureOutput {
  std::string blob;
  std::string path;
};

// "lmdb", "leveldb" or "hdf5", as text of the flag --backend.
// Runs `batches` forward passes of `net`, whose weights are bound. Returns the number of records
// written of each blob. Databases appear complete or not at all; an HDF5 file that exists is
// replaced. Throws Error before the first pass if a blob or the backend is not known, or if an
// output exists.
std::vector<int64_t> ExtractFeatures(BuiltNet* net, const std::vector<FeatureOutput>& outputs,
                                     const std::string& backend, int batches);

// Where `blob` goes if only the prefix of all outputs is given: "PREFIX_BLOB" for a database, with
// '_' for each '/' of the blob's name; for HDF5 "PREFIX.h5" for all blobs, or the prefix itself if
// that ends in ".h5".
std::string FeaturePath(const std::string& prefix, const std::string& blob,
                        const std::string& backend);

}  // namespace millrace::inline model

#endif  // MILLRACE_MODEL_EXTRACT_FEATURES_H_
