// Decodes the records of an ImagePairSource: an image, and an image of labels of the same size or a
// whole fraction of it.
#ifndef MILLRACE_DATA_IMAGES_IMAGE_PAIR_READER_H_
#define MILLRACE_DATA_IMAGES_IMAGE_PAIR_READER_H_

#include "data/image_decoder.h"
#include "data/images/image_pair_source.h"
#include "data/images/resample.h"
#include "millrace/data_source.h"

namespace millrace::inline data {

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

  // Of the last Read.
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

#endif  // MILLRACE_DATA_IMAGES_IMAGE_PAIR_READER_H_
