// Classifies images with a trained net:
//   classify DEPLOY.prototxt MODEL.caffemodel IMAGE...
// The net has one input, of one image, and its output has a score for each class, as in
// examples/fashion_mnist/lenet_deploy.prototxt. Images are PGM or PPM files with 8 bits per
// channel, as large as the input. Their values are divided by 256.
#include <millrace/net.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

// The values of an image in the order of a blob: channels, rows, columns.
std::vector<float> Image(const std::string& path, const millrace::Shape& shape) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw millrace::Error(path, ": cannot be opened");
  std::string magic;
  int64_t width = 0, height = 0;
  int most = 0;
  file >> magic >> width >> height >> most;
  const int64_t channels = magic == "P5" ? 1 : magic == "P6" ? 3 : 0;
  if (millrace::Shape{1, channels, height, width} != shape || most != 255 ||
      !std::isspace(file.get())) {
    throw millrace::Error(path, ": expected a PGM or PPM image of shape ",
                          millrace::ShapeText(shape));
  }
  std::string pixels(millrace::ShapeCount(shape), 0);
  if (!file.read(pixels.data(), static_cast<std::streamsize>(pixels.size()))) {
    throw millrace::Error(path, ": ends early");
  }
  std::vector<float> values;
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (size_t at = channel; at < pixels.size(); at += channels) {
      values.push_back(static_cast<float>(static_cast<unsigned char>(pixels[at])) / 256);
    }
  }
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: classify DEPLOY.prototxt MODEL.caffemodel IMAGE...\n");
    return 1;
  }
  try {
    const auto net = millrace::Net::Open(argv[1]);
    net->LoadWeights(argv[2]);
    if (net->inputs().size() != 1 || net->outputs().size() != 1) {
      throw millrace::Error(argv[1], ": expected a net with one input and one output");
    }
    const millrace::NetBlob input = net->inputs()[0], output = net->outputs()[0];
    for (int i = 3; i < argc; ++i) {
      net->SetInput(input.name, Image(argv[i], input.shape));
      net->Forward();
      const std::vector<float> scores = net->Values(output.name);
      const auto best = std::max_element(scores.begin(), scores.end());
      std::printf("%s: class %d, score %.3f\n", argv[i], static_cast<int>(best - scores.begin()),
                  *best);
    }
  } catch (const millrace::Error& error) {
    std::fprintf(stderr, "classify: %s\n", error.what());
    return 1;
  }
}
