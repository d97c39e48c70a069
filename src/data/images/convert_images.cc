#include "data/images/convert_images.h"

#include <glog/logging.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"
#include "data/images/image_list.h"
#include "data/images/image_record.h"

namespace millrace {
namespace {

// Images that are decoded before they are written, together.
constexpr size_t kBlock = 256;
constexpr uint64_t kProgress = 1000;

struct Result {
  ImageRecord record;
  std::string error;  // why there is no record; "": there is one
};

// Decodes with several threads.
class Decoders {
 public:
  Decoders(const ImageRecordOptions& options, int threads)
      : makers_(static_cast<size_t>(std::max(1, threads)), ImageRecordMaker(options)) {}

  // The records of `count` images from `first` on.
  std::vector<Result> Decode(const std::string& root_folder, const ListedImage* first,
                             size_t count) {
    std::vector<Result> results(count);
    std::atomic<size_t> next{0};
    const auto work = [&](ImageRecordMaker* maker) {
      for (size_t i; (i = next++) < count;) {
        try {
          results[i].record = maker->Make(root_folder + first[i].name, first[i].label);
        } catch (const std::exception& error) {
          results[i].error = error.what();
        }
      }
    };
    std::vector<std::jthread> helpers;
    for (size_t i = 1; i < makers_.size(); ++i) helpers.emplace_back(work, &makers_[i]);
    work(&makers_[0]);
    helpers.clear();  // joins
    return results;
  }

 private:
  std::vector<ImageRecordMaker> makers_;
};

ImageRecordOptions RecordOptions(const ConvertImagesOptions& options) {
  constexpr int kLongestSide = 1 << 14;
  const int height = options.resize_height, width = options.resize_width;
  if ((height == 0) != (width == 0) || height < 0 || width < 0 || height > kLongestSide ||
      width > kLongestSide) {
    throw Error("--resize_height=", height, " and --resize_width=", width,
                ": expected both or neither, 1 to ", kLongestSide);
  }
  ImageRecordOptions record{options.gray, height, width, options.encoded, {}};
  if (options.encode_type.empty()) return record;
  record.encoded = true;
  try {
    record.format = ParseImageFormat(options.encode_type);
  } catch (const Error& error) {
    throw Error("--encode_type: ", error.what());
  }
  return record;
}

std::string KeyOf(uint64_t number, const std::string& name) {
  char digits[32];
  snprintf(digits, sizeof(digits), "%08llu", static_cast<unsigned long long>(number));
  return StrCat(digits, "_", name);
}

}  // namespace

ConvertImagesResult ConvertImages(const std::string& root_folder, const std::string& list_file,
                                  const std::string& output, const ConvertImagesOptions& options) {
  Decoders decoders(RecordOptions(options), options.threads);
  std::vector<ListedImage> images = ParseImageList(ReadFile(list_file), list_file);
  if (options.shuffle) {
    Rng rng(options.seed, {kRngShuffle});
    for (size_t i = images.size(); i > 1; --i) std::swap(images[i - 1], images[rng.Below(i)]);
  }
  LOG(INFO) << list_file << ": " << images.size() << " images";
  const auto writer = CreateDatabase(output, options.kind);
  ConvertImagesResult result;
  std::string first_size;
  for (size_t begin = 0; begin < images.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, images.size() - begin);
    const std::vector<Result> block = decoders.Decode(root_folder, &images[begin], count);
    for (size_t i = 0; i < count; ++i) {
      const Result& image = block[i];
      const std::string& name = images[begin + i].name;
      if (!image.error.empty()) {
        if (options.strict) throw Error(image.error);
        LOG(WARNING) << "skipped: " << image.error;
        ++result.skipped;
        continue;
      }
      if (first_size.empty()) first_size = image.record.size;
      if (options.check_size && image.record.size != first_size) {
        throw Error(root_folder, name, ": is ", image.record.size, ", expected ", first_size,
                    " like the first image");
      }
      writer->Add(KeyOf(begin + i, name), image.record.bytes);
      if (++result.converted % kProgress == 0) {
        LOG(INFO) << "Processed " << result.converted << " of " << images.size() << " images";
      }
    }
  }
  if (result.converted == 0) throw Error(list_file, ": none of its images can be used");
  writer->Commit();
  return result;
}

}  // namespace millrace
