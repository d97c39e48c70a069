// Window files of any bytes: they give windows of the images listed, each of which has a place in
// the output or is refused, or one line that names the file.
#include "data/window/window_file.h"
#include "test/fuzz/support/files.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

bool IsPlaced(const Window& window) {
  constexpr int kHeight = 20, kWidth = 30;
  for (const WindowCrop& crop : {WindowCrop{7, 0, false}, WindowCrop{7, 3, false},
                                 WindowCrop{8, 0, true}, WindowCrop{8, 2, true}}) {
    WindowPlace place;
    place.x1 = window.x1, place.y1 = window.y1, place.x2 = window.x2, place.y2 = window.y2;
    try {
      place = PlaceWindow(crop, true, kHeight, kWidth, place);
    } catch (const Error&) {
      continue;
    }
    if (place.x1 < 0 || place.y1 < 0 || place.x1 > place.x2 || place.y1 > place.y2) return false;
    if (place.x2 >= kWidth || place.y2 >= kHeight || place.pad_x < 0 || place.pad_y < 0)
      return false;
    if (place.pad_x + place.width > crop.size || place.pad_y + place.height > crop.size)
      return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> Corpus() {
  return {"# 0\na.jpg\n3\n20\n30\n2\n7 0.9 1 2 11 12\n2 0.3 0 0 29 19\n# 1\nb\n1\n8\n9\n0\n",
          "# 0 x 3 2 2 1 1 1e-3 -5 -5 500 500", "#", "",
          "# 0 x 3 2 2 1 1 0.5 -16777216 0 16777216 0"};
}

bool Target(const std::string& input) {
  try {
    const WindowFile file = ParseWindowFile(input, "windows", 0.5f, 0.25f);
    for (const auto* windows : {&file.objects, &file.background}) {
      for (const Window& window : *windows) {
        if (window.image >= file.images.size() || !IsPlaced(window)) return false;
        if ((window.label > 0) != (windows == &file.objects)) return false;
      }
    }
    return !file.images.empty();
  } catch (const Error& error) {
    return IsOneLineNaming(error, {"windows"});
  }
}

}  // namespace millrace::fuzz
