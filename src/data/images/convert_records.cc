#include "data/images/convert_records.h"

#include <glog/logging.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/rng.h"
#include "data/images/image_list.h"
#include "data/images/jpeg_decoder.h"
#include "data/images/png_decoder.h"
#include "data/images/resize.h"
#include "proto/caffe.pb.h"

namespace millrace::inline data {
namespace {

// Images that are decoded before they are written, together.
constexpr size_t kBlock = 256;
constexpr uint64_t kProgress = 1000;

struct Result {
  ImageRecord record;
  std::string error;   // why there is no record; "": there is one
  bool fatal = false;  // a ConversionError
};

// Decodes with several threads.
class Decoders {
 public:
  Decoders(const ImageRecordOptions& options, int threads, const MakeRecord& make)
      : makers_(static_cast<size_t>(std::max(1, threads)), ImageRecordMaker(options)),
        make_(make) {}

  // The records [first, first + count).
  std::vector<Result> Decode(size_t first, size_t count) {
    std::vector<Result> results(count);
    std::atomic<size_t> next{0};
    const auto work = [&](ImageRecordMaker* maker) {
      for (size_t i; (i = next++) < count;) {
        try {
          results[i].record = make_(first + i, maker);
        } catch (const std::exception& error) {
          results[i].error = error.what();
          results[i].fatal = dynamic_cast<const ConversionError*>(&error) != nullptr;
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
  const MakeRecord& make_;
};

// Names are cut where LMDB's limit of keys requires it; their numbers keep them apart.
std::string KeyOf(uint64_t number, const std::string& name) {
  constexpr size_t kMaxKeyBytes = 511;
  char digits[32];
  snprintf(digits, sizeof(digits), "%08llu", static_cast<unsigned long long>(number));
  return StrCat(digits, "_", name).substr(0, kMaxKeyBytes);
}

}  // namespace

ImageRecordOptions RecordOptions(const ConvertImagesOptions& options) {
  const int height = options.resize_height, width = options.resize_width;
  if ((height == 0) != (width == 0) || height < 0 || width < 0 || height > kMaxResizedSide ||
      width > kMaxResizedSide) {
    throw Error("--resize_height=", height, " and --resize_width=", width,
                ": expected both or neither, 1 to ", kMaxResizedSide);
  }
  for (const int side : {options.min_dim, options.max_dim}) {
    if (side < 0 || side > kMaxResizedSide) {
      throw Error("--min_dim=", options.min_dim, " and --max_dim=", options.max_dim,
                  ": expected 0 to ", kMaxResizedSide);
    }
  }
  ImageRecordOptions record;
  record.gray = options.gray;
  record.height = height, record.width = width;
  record.min_dim = options.min_dim, record.max_dim = options.max_dim;
  record.encoded = options.encoded;
  if (options.encode_type.empty()) return record;
  record.encoded = true;
  try {
    record.format = ParseImageFormat(options.encode_type);
  } catch (const Error& error) {
    throw Error("--encode_type: ", error.what());
  }
  return record;
}

std::vector<size_t> RecordOrder(size_t count, const ConvertImagesOptions& options) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  if (!options.shuffle) return order;
  Rng rng(options.seed, {kRngShuffle});
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
  return order;
}

ConvertImagesResult ConvertRecords(const std::string& root_folder, const std::string& list_file,
                                   const std::string& output, const std::vector<std::string>& names,
                                   const MakeRecord& make, const ConvertImagesOptions& options) {
  Decoders decoders(RecordOptions(options), options.threads, make);
  LOG(INFO) << list_file << ": " << names.size() << " images";
  const auto writer = CreateDatabase(output, options.kind);
  ConvertImagesResult result;
  std::string first_size;
  for (size_t begin = 0; begin < names.size(); begin += kBlock) {
    const std::vector<Result> block =
        decoders.Decode(begin, std::min(kBlock, names.size() - begin));
    for (size_t i = 0; i < block.size(); ++i) {
      const Result& image = block[i];
      const std::string& name = names[begin + i];
      if (!image.error.empty()) {
        const std::string error = image.error + HintOfRootFolder(root_folder);
        if (options.strict || image.fatal) throw Error(error);
        LOG(WARNING) << "skipped: " << error;
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
        LOG(INFO) << "Processed " << result.converted << " of " << names.size() << " images";
      }
    }
  }
  if (result.converted == 0)
    throw Error(list_file, ": none of its images can be used", HintOfRootFolder(root_folder));
  writer->Commit();
  return result;
}

namespace {

// The format of a file that can be decoded, whatever its name; none: one that is read only.
std::optional<ImageFormat> FormatOf(const std::string& bytes) {
  if (IsPng(bytes)) return ImageFormat::kPng;
  if (IsJpeg(bytes)) return ImageFormat::kJpeg;
  return std::nullopt;
}

}  // namespace

ImageRecordMaker::ImageRecordMaker(const ImageRecordOptions& options)
    : options_(options), decoder_(options.gray ? ImageColor::kGray : ImageColor::kColor) {}

std::pair<int, int> ImageRecordMaker::SizeOf(int height, int width) const {
  if (options_.min_dim == 0 && options_.max_dim == 0) {
    return options_.height > 0 ? std::pair(options_.height, options_.width)
                               : std::pair(height, width);
  }
  float factor = 1;
  const int shorter = std::min(height, width), longer = std::max(height, width);
  if (options_.min_dim > 0 && shorter < options_.min_dim) {
    factor = static_cast<float>(options_.min_dim) / static_cast<float>(shorter);
  }
  if (options_.max_dim > 0 &&
      static_cast<int64_t>(factor * static_cast<float>(longer)) > options_.max_dim) {
    factor = static_cast<float>(options_.max_dim) / static_cast<float>(longer);
  }
  const auto scaled = [&](int side) {
    return std::max(1, static_cast<int>(std::lrint(double{factor} * side)));
  };
  return {scaled(height), scaled(width)};
}

ImageRecord ImageRecordMaker::Make(const std::string& file, int32_t label) {
  std::string bytes = ReadFile(file);
  caffe::Datum datum;
  datum.set_label(label);
  try {
    const Image* image = &decoder_.Decode(bytes);
    if (decoder_.ends_early()) LOG(WARNING) << file << ": " << kEndsEarly;
    const int file_height = image->height, file_width = image->width;
    const auto [height, width] = SizeOf(file_height, file_width);
    const bool resizes = options_.height > 0 || height != file_height || width != file_width;
    if (resizes) {
      resizer_.Resize(*image, height, width, &resized_);
      image = &resized_;
    }
    const std::string size = StrCat(image->channels, " x ", image->height, " x ", image->width);
    if (options_.encoded) {
      const std::optional<ImageFormat> own = FormatOf(bytes);
      const std::optional<ImageFormat> format = options_.format ? options_.format : own;
      const bool unchanged = !resizes && format == own;
      datum.set_encoded(true);
      datum.set_data(unchanged ? std::move(bytes)
                               : EncodeImage(*image, format.value_or(ImageFormat::kPng)));
    } else {
      datum.set_channels(image->channels);
      datum.set_height(image->height);
      datum.set_width(image->width);
      datum.set_data(image->values.data(), image->values.size());
      datum.set_encoded(false);
    }
    return {datum.SerializeAsString(), size, file_height, file_width};
  } catch (const Error& error) {
    throw Error(file, ": ", error.what());
  }
}

}  // namespace millrace::inline data
