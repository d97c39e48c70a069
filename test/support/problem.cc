#include "test/support/problem.h"

#include <algorithm>
#include <filesystem>

#include "base/rng.h"
#include "data/convert.h"
#include "proto/parse.h"

namespace millrace::test {
namespace {

std::string BigEndian(std::initializer_list<uint32_t> numbers) {
  std::string bytes;
  for (uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

std::string DataLayer(const std::string& phase, const std::vector<std::string>& sources, int batch,
                      const std::string& data_fields, const std::string& transform_fields) {
  std::string listed;
  for (const std::string& source : sources) listed += StrCat(" source: '", source, "'");
  return StrCat("layer { name: 'images' type: 'Data' top: 'data' top: 'label' include { phase: ",
                phase, " }\n  transform_param { scale: 0.0078125 mean_value: 128 ",
                transform_fields, " }\n  data_param {", listed, " batch_size: ", batch,
                " backend: LMDB ", data_fields, " } }\n");
}

std::string InnerProduct(const std::string& name, const std::string& bottom, int outputs) {
  return StrCat("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                name, "'\n  param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }\n",
                "  inner_product_param { num_output: ", outputs,
                " weight_filler { type: 'xavier' } } }\n");
}

}  // namespace

std::vector<uint8_t> Images::Pixels() const {
  const int area = side * side;
  std::vector<double> patterns(classes * area);
  Rng pattern(pattern_seed, {1});
  for (double& value : patterns) value = pattern.Below(2) ? 178 : 78;
  std::vector<uint8_t> pixels;
  pixels.reserve(size_t(count) * area);
  Rng rng(noise_seed, {2});
  for (int i = 0; i < count; ++i) {
    const double* shown = &patterns[(i % classes) * area];
    for (int p = 0; p < area; ++p) {
      const double value = shown[p] + noise * (2 * rng.Uniform() - 1);
      pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
    }
  }
  return pixels;
}

std::vector<uint8_t> Images::Labels() const {
  std::vector<uint8_t> labels(count);
  for (int i = 0; i < count; ++i) labels[i] = static_cast<uint8_t>(first_label + i % classes);
  return labels;
}

void Images::WriteIdx(const std::string& image_file, const std::string& label_file) const {
  const auto n = static_cast<uint32_t>(count), s = static_cast<uint32_t>(side);
  const std::vector<uint8_t> pixels = Pixels(), labels = Labels();
  WriteFile(image_file, BigEndian({0x803, n, s, s}) + std::string(pixels.begin(), pixels.end()));
  WriteFile(label_file, BigEndian({0x801, n}) + std::string(labels.begin(), labels.end()));
}

void Images::WriteDatabase(const std::string& path) const {
  TempDir folder;
  WriteIdx(folder / "images", folder / "labels");
  ConvertMnist(folder / "images", folder / "labels", path);
}

std::string SmallNet::Text() const {
  std::string text = "name: 'small'\n" +
                     DataLayer("TRAIN", train_sources, batch, data_fields, transform_fields) +
                     DataLayer("TEST", test_sources, test_batch, "", "");
  if (convolution) {
    text +=
        "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n"
        "  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'\n"
        "  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }\n";
  }
  text += InnerProduct("hidden", convolution ? "pool" : "data", hidden);
  text += "layer { name: 'relu' type: 'ReLU' bottom: 'hidden' top: 'hidden' }\n";
  if (dropout) text += "layer { name: 'drop' type: 'Dropout' bottom: 'hidden' top: 'hidden' }\n";
  text += InnerProduct("scores", "hidden", classes);
  return text +
         "layer { name: 'accuracy' type: 'Accuracy' bottom: 'scores' bottom: 'label' "
         "top: 'accuracy' include { phase: TEST } }\n"
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label' "
         "top: 'loss' }\n" +
         more_layers;
}

std::string OverflowingText(const SmallNet& net) {
  const std::string top = "top: 'loss'";
  std::string text = net.Text();
  text.replace(text.find(top), top.size(), top + " loss_weight: inf");
  return text;
}

Workspace::Workspace() : Workspace(Images()) {}

Workspace::Workspace(const Images& train) {
  train.WriteDatabase(folder_ / "train_lmdb");
  Images test = train;
  test.count = train.count / 2;
  test.noise_seed = train.noise_seed + 1;
  test.WriteDatabase(folder_ / "test_lmdb");
  SmallNet net = Net();
  net.classes = train.classes;
  WriteNet(net);
}

SmallNet Workspace::Net() const {
  SmallNet net;
  net.train_sources = {folder_ / "train_lmdb"};
  net.test_sources = {folder_ / "test_lmdb"};
  return net;
}

caffe::SolverParameter Workspace::Solver(int iterations) {
  caffe::SolverParameter solver;
  solver.set_max_iter(iterations);
  solver.set_base_lr(0.05f);
  solver.set_lr_policy("fixed");
  solver.set_momentum(0.9f);
  solver.set_weight_decay(0.001f);
  solver.set_random_seed(7);
  solver.set_display(1);
  return solver;
}

caffe::SolverParameter Workspace::Tested(caffe::SolverParameter solver, int interval) {
  solver.add_test_iter(2);
  solver.set_test_interval(interval);
  return solver;
}

std::vector<caffe::SolverParameter> Workspace::AdaptiveSolvers(int iterations) {
  std::vector<caffe::SolverParameter> solvers;
  const auto add = [&](const char* type, float rate) -> caffe::SolverParameter& {
    solvers.push_back(Solver(iterations));
    solvers.back().set_type(type);
    solvers.back().set_base_lr(rate);
    solvers.back().clear_momentum();
    return solvers.back();
  };
  add("AdaGrad", 0.05f);
  add("RMSProp", 0.005f).set_rms_decay(0.9f);
  caffe::SolverParameter& adadelta = add("AdaDelta", 1);
  adadelta.set_momentum(0.95f);
  adadelta.set_delta(1e-4f);
  add("Adam", 0.005f).set_momentum(0.9f);
  return solvers;
}

std::string Workspace::Write(const std::string& name, caffe::SolverParameter solver) const {
  if (!solver.has_net()) solver.set_net(folder_ / "net.prototxt");
  if (!solver.has_snapshot_prefix()) solver.set_snapshot_prefix(folder_ / name);
  const std::string path = folder_ / (name + ".prototxt");
  SaveText(path, solver);
  return path;
}

std::string Workspace::Snapshot(const std::string& name, int64_t iteration) const {
  return StrCat(folder_ / name, "_iter_", iteration);
}

std::vector<std::string> Workspace::FilesWith(const std::string& prefix) const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace::test
