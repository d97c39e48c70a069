// Pairs of images: lists, sources and readers.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_PAIRS_H_
#define MILLRACE_DATA_IMAGES_IMAGE_PAIRS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/image_decoder.h"
#include "data/images/resize.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

// List files of images with labels for each pixel, as DenseImageData and ImageSegData layers read
// them: a line per image, of words separated by white space,
//
//   IMAGE LABEL_IMAGE   two names (kImage)
//   IMAGE LABEL         a name, and the label of all pixels, 0 to 255 (kNumber)
//   IMAGE               a name; a second word is ignored (kNone)
//
// Lines of white space only are ignored.

enum class PairLabels { kImage, kNumber, kNone };

struct ImagePair {
  std::string image;  // a name relative to a root folder
  std::string label;  // such a name, a number, or "", as PairLabels says
};

// The pairs of `text`, in order. Throws Error naming `file` and the line if a line is none of those
// above, or if there are no lines.
std::vector<ImagePair> ParseImagePairs(std::string_view text, const std::string& file,
                                       PairLabels labels = PairLabels::kImage);

// The pairs of images, or images with labels, of a list file as records, read from the image files
// on demand.

// The contents of the two files of a record of an ImagePairSource, views of its bytes. `label` is
// the label's digits or "" where pairs have no label image.
struct ImagePairFiles {
  std::string_view image, label;
};
ImagePairFiles FilesOfPair(std::string_view record);

// Keys are the names of the images. Thread-safe.
class ImagePairSource : public DataSource {
 public:
  // `root_folder` is put before every name, as it is. Throws Error naming the file if `list_file`
  // cannot be read or parsed.
  ImagePairSource(const std::string& list_file, const std::string& root_folder,
                  PairLabels labels = PairLabels::kImage);

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return pairs_.size(); }
  // The readers read the image files of a record.
  std::unique_ptr<RecordReader> MakeReader(bool random_access) override;

 private:
  class Reader;

  const std::string path_, root_folder_;
  const PairLabels labels_;
  const std::vector<ImagePair> pairs_;
};

// Decodes the records of an ImagePairSource: an image, and an image of labels of the same size or a
// whole fraction of it.

// Used by one thread at a time.
class ImagePairReader {
 public:
  struct Settings {
    PairLabels labels = PairLabels::kImage;
    bool is_color = true;
    int height = 0, width = 0;  // 0: images keep their sizes
    int divide_labels = 1;      // label images are so much smaller; above 1 only with a height
    uint8_t no_label = 0;       // of all pixels with kNone
  };

  explicit ImagePairReader(const Settings& settings);

  // Decodes and resizes both images of a record of list `source`, label images to their nearest
  // pixels. Throws Error, without the name of the record, if one cannot be decoded or if their
  // sizes differ.
  void Read(std::string_view source, const RecordView& record);

  // Results of the last Read.
  const Image& image() const { return image_; }
  const Image& label() const { return label_; }

 private:
  void ReadLabel(std::string_view label);

  const Settings settings_;
  ImageDecoder decoder_, label_decoder_;
  Resampler resampler_;
  Image image_, label_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_IMAGES_IMAGE_PAIRS_H_
