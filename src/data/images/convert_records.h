// Makes a database of the records of many image files, with several threads.
#ifndef MILLRACE_DATA_IMAGES_CONVERT_RECORDS_H_
#define MILLRACE_DATA_IMAGES_CONVERT_RECORDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/database.h"
#include "data/images/convert_images.h"
#include "data/images/image_record.h"

namespace millrace::inline data {

// Thrown by a MakeRecord: ends the conversion even if images that cannot be used are skipped.
class ConversionError : public Error {
 public:
  using Error::Error;
};

// Makes record `index`; called by several threads at a time, each with a maker of its own. Throws
// Error naming the file if it cannot be used.
using MakeRecord = std::function<ImageRecord(size_t index, ImageRecordMaker* maker)>;

// What records are made like. Throws Error naming the flag.
ImageRecordOptions RecordOptions(const ConvertImagesOptions& options);

// The order of `count` records: 0, 1, ..., or shuffled, as `options` say.
std::vector<size_t> RecordOrder(size_t count, const ConvertImagesOptions& options);

// Writes a record for each name to database `output`, with keys "%08d_NAME". `list_file` and
// `root_folder` are named in errors. See ConvertImages.
ConvertImagesResult ConvertRecords(const std::string& root_folder, const std::string& list_file,
                                   const std::string& output, const std::vector<std::string>& names,
                                   const MakeRecord& make, const ConvertImagesOptions& options);

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_CONVERT_RECORDS_H_
