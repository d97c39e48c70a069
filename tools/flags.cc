#include "tools/flags.h"

#include <dlfcn.h>
#include <gflags/gflags.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/registration.h"
#include "base/text/parse.h"
#include "capi/load_plugin.h"

DEFINE_string(model, "", "the net: a prototxt file");
DEFINE_string(weights, "", "start weights: .caffemodel files, separated by commas");
DEFINE_string(shm, "", "keep the weights at /dev/shm/NAME, where other processes join them");
DEFINE_string(gpu, "",
              "GPUs by number, separated by commas, or all (default: none). On a machine without "
              "GPUs, a warning, and the CPU");
DEFINE_string(precision, "auto",
              "arithmetic of matrix products and convolutions on GPUs: fp32; on tensor cores, "
              "faster and with factors of fewer bits, tf32 (10 of mantissa) or bf16 (7); or auto: "
              "convolutions in tf32 where the GPU has it, the rest in fp32");
DEFINE_bool(gpu_fused_bias, true,
            "on GPUs, add the bias of an inner product while its result is written, where cuBLASLt "
            "can");
DEFINE_double(gpu_measure_seconds, millrace::kDefaultMeasureSeconds,
              "time that each net on a GPU may spend at its start on measuring algorithms of "
              "convolutions, which are kept for later runs; 0: cuDNN's heuristics choose");
DEFINE_bool(gpu_transform, true,
            "copy images to GPUs as bytes, and mirror them, subtract the mean and scale there");
DEFINE_bool(json, false, "print the result as JSON");
DEFINE_int32(iterations, 50, "how many batches to run");
DEFINE_string(phase, "", "which phase of the net to use: TRAIN or TEST");
DEFINE_int32(level, 0, "the net state's level, for include and exclude rules");
DEFINE_string(plugins, "",
              "shared libraries with layers, transports and the like, by commas; "
              "python: for layers in Python; FILE.py: for all that the file registers");
DEFINE_string(stage, "", "the net state's stages, separated by commas");
DEFINE_string(rendezvous, "",
              "registry by which nodes join and leave: etcd://HOST:PORT[,HOST:PORT...]/RUN, or "
              "etcds:// with TLS; the topology then has segments only, or is left out");
DEFINE_string(nodes, "",
              "with --rendezvous: the run begins with MIN nodes and has MAX at most, as MIN:MAX");
DEFINE_string(rendezvous_address, "",
              "IP address of this node for the others (default: that from which it reaches etcd)");
DEFINE_string(rendezvous_user, "", "user of etcd");
DEFINE_string(rendezvous_password_file, "", "file with that user's password");
DECLARE_string(authorities);

namespace millrace {

void RequireFlag(const char* name, const std::string& value) {
  if (value.empty()) throw Error("--", name, " is missing");
}

GpuSettings GpuSettingsFromFlags() {
  if (!(FLAGS_gpu_measure_seconds >= 0)) {
    throw Error("--gpu_measure_seconds=", FLAGS_gpu_measure_seconds, ": expected at least 0");
  }
  return {.precision = ParseGpuPrecision(FLAGS_precision),
          .fused_bias = FLAGS_gpu_fused_bias,
          .measure_seconds = FLAGS_gpu_measure_seconds,
          .transform_images = FLAGS_gpu_transform};
}

std::vector<std::string> SplitList(const std::string& text) { return SplitWords(text, ','); }

RendezvousOptions RendezvousFromFlags() {
  return {.url = FLAGS_rendezvous,
          .nodes = FLAGS_nodes,
          .user = FLAGS_rendezvous_user,
          .password_file = FLAGS_rendezvous_password_file,
          .authorities = FLAGS_authorities,
          .address = FLAGS_rendezvous_address};
}

caffe::NetState NetStateFromFlags(const caffe::NetParameter& net, caffe::Phase default_value) {
  caffe::NetState state = net.state();
  state.set_phase(default_value);
  if (!FLAGS_phase.empty()) {
    caffe::Phase phase;
    if (!caffe::Phase_Parse(FLAGS_phase, &phase)) {
      throw Error("--phase=", FLAGS_phase, ": expected TRAIN or TEST");
    }
    state.set_phase(phase);
  }
  state.set_level(FLAGS_level);
  for (const std::string& stage : SplitList(FLAGS_stage)) state.add_stage(stage);
  return state;
}

caffe::NetState TrainStateFromFlags() {
  caffe::NetState state;
  if (!gflags::GetCommandLineFlagInfoOrDie("level").is_default) state.set_level(FLAGS_level);
  for (const std::string& stage : SplitList(FLAGS_stage)) state.add_stage(stage);
  return state;
}

namespace {

// The library that the Python module millrace has for programs: in a folder of PYTHONPATH, beside
// the program, or where it was installed.
std::string PythonPlugin() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  const char* const path = getenv("PYTHONPATH");
  std::istringstream parts(path == nullptr ? "" : path);
  for (std::string folder; std::getline(parts, folder, ':');) folders.emplace_back(folder);
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  folders.push_back(here / "python");
  for (const fs::directory_entry& entry : fs::directory_iterator(here / "../lib", ignored)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    folders.push_back(entry.path() / "dist-packages");
    folders.push_back(entry.path() / "site-packages");
  }
  for (const fs::path& folder : folders) {
    const fs::path file = fs::absolute(folder) / "millrace/python_layers.so";
    if (fs::exists(file, ignored)) return file.string();
  }
  throw Error("--plugins=python: there is no millrace/python_layers.so in PYTHONPATH, ",
              (here / "python").string(), " and ", (here / "../lib").lexically_normal().string(),
              "/python3*: expected the Python module millrace (docs/python.md)");
}

// Runs a file of Python, which registers parts. `library`: of PythonPlugin.
void ImportPython(const std::string& library, const std::string& file) {
  if (!std::filesystem::exists(file)) throw Error(file, ": No such file or directory");
  using Import = void (*)(const char* path);
  const auto import = reinterpret_cast<Import>(dlsym(RTLD_DEFAULT, "millrace_import_python"));
  if (import == nullptr) throw Error(library, ": is of another version than the program");
  import(file.c_str());
  CheckRegistrations();
}

}  // namespace

void LoadPlugins() {
  CheckRegistrations();
  for (const std::string& plugin : SplitList(FLAGS_plugins)) {
    const bool is_python = plugin.ends_with(".py");
    const std::string library = is_python || plugin == "python" ? PythonPlugin() : plugin;
    try {
      LoadPlugin(library);
      if (is_python) ImportPython(library, plugin);
    } catch (const Error& error) {
      throw Error("--plugins: ", error.what());
    }
  }
}

}  // namespace millrace
