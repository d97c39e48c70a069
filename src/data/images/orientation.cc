#include "data/images/orientation.h"

#include <cstdint>
#include <cstring>

namespace millrace::inline data {
namespace {

constexpr int kUpright = 1;

// Numbers of a TIFF structure, in either order of bytes.
class TiffNumbers {
 public:
  explicit TiffNumbers(std::string_view bytes) : bytes_(bytes), little_(bytes.starts_with("II")) {}

  bool IsTiff() const {
    return (bytes_.starts_with("II") || bytes_.starts_with("MM")) && Has(0, 8) && At(2, 2) == 42;
  }
  bool Has(uint64_t at, uint64_t size) const {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }
  // The number of `size` bytes, which Has() them.
  uint32_t At(uint64_t at, int size) const {
    uint32_t number = 0;
    for (int i = 0; i < size; ++i) {
      const auto byte = static_cast<uint8_t>(bytes_[at + (little_ ? size - 1 - i : i)]);
      number = number << 8 | byte;
    }
    return number;
  }

 private:
  const std::string_view bytes_;
  const bool little_;
};

}  // namespace

int ExifOrientation(std::string_view tiff) {
  constexpr uint32_t kOrientation = 0x0112;
  constexpr int kEntryBytes = 12, kValueAt = 8;
  const TiffNumbers numbers(tiff);
  if (!numbers.IsTiff()) return kUpright;
  const uint64_t directory = numbers.At(4, 4);
  if (!numbers.Has(directory, 2)) return kUpright;
  const uint32_t entries = numbers.At(directory, 2);
  for (uint64_t i = 0, at = directory + 2; i < entries; ++i, at += kEntryBytes) {
    if (!numbers.Has(at, kEntryBytes)) return kUpright;
    if (numbers.At(at, 2) != kOrientation) continue;
    const uint32_t value = numbers.At(at + kValueAt, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

void MakeUpright(int orientation, Image* image) {
  if (orientation <= kUpright || orientation > 8) return;
  const bool transposed = orientation >= 5;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool from_below = orientation == 3 || orientation == 4 || orientation >= 7;
  const size_t channels = image->channels, width = image->width;
  Image upright;
  ResizeImage(image->channels, transposed ? image->width : image->height,
              transposed ? image->height : image->width, &upright);
  uint8_t* out = upright.values.data();
  for (int y = 0; y < upright.height; ++y) {
    const int row = from_below ? upright.height - 1 - y : y;
    for (int x = 0; x < upright.width; ++x, out += channels) {
      const int column = from_right ? upright.width - 1 - x : x;
      const size_t pixel = transposed ? column * width + row : row * width + column;
      memcpy(out, &image->values[pixel * channels], channels);
    }
  }
  *image = std::move(upright);
}

}  // namespace millrace::inline data
