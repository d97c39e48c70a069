// The bytes of a .solverstate or .caffemodel: they are refused with one line
// that names the file, or give a state that can be asked about and restored.
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "solver/sgd.h"
#include "solver/snapshot.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

// A file in memory that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content) : fd_(memfd_create("fuzz", 0)) {
    if (write(fd_, content.data(), content.size()) != static_cast<ssize_t>(content.size())) abort();
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return Cat("/proc/self/fd/", fd_); }

 private:
  const int fd_;
};

// Whether `body` succeeds, or throws an Error that begins with `path`.
template <typename Body>
bool SucceedsOrNames(const std::string& path, Body body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    return std::string(error.what()).rfind(path, 0) == 0;
  }
}

void AddBlob(const Shape& shape, caffe::BlobProto* blob) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    blob->mutable_shape()->add_dim(dim);
    count *= dim;
  }
  for (int64_t i = 0; i < count; ++i) blob->add_data(0.5f * static_cast<float>(i));
}

}  // namespace

std::vector<std::string> Corpus() {
  caffe::SolverState state;
  state.set_iter(1000);
  state.set_learned_net("/dev/null");
  state.set_current_step(1);
  state.set_seed(12345);
  AddBlob({3, 4}, state.add_history());
  AddBlob({3}, state.add_history());
  caffe::SolverState several = state;
  *several.add_solver_history()->mutable_history() = state.history();
  caffe::StreamPosition* position = several.add_stream();
  position->set_layer("data");
  position->set_next_batch(9);
  position->add_outstanding(8);
  caffe::SolverState legacy = state;
  legacy.mutable_history(1)->clear_shape();
  legacy.mutable_history(1)->set_num(1);
  legacy.mutable_history(1)->set_channels(1);
  legacy.mutable_history(1)->set_height(1);
  legacy.mutable_history(1)->set_width(3);
  caffe::NetParameter model;
  model.set_name("n");
  model.add_layer()->set_name("ip");
  AddBlob({3, 4}, model.mutable_layer(0)->add_blobs());
  caffe::NetParameter old;
  old.add_layers()->set_name("ip");
  AddBlob({3, 4}, old.mutable_layers(0)->add_blobs());
  return {state.SerializeAsString(), several.SerializeAsString(), legacy.SerializeAsString(),
          model.SerializeAsString(), old.SerializeAsString()};
}

bool Target(const std::string& input) {
  const MemoryFile file(input);
  const std::string path = file.path();
  const bool as_state = SucceedsOrNames(path, [&] {
    const ResumePoint point = LoadResumePoint(path);
    for (int solvers = 1; solvers < 4; ++solvers) ResumeNotice(point, solvers);
    for (int solver = 0; solver < point.solvers() && solver < 4; ++solver) {
      SgdRule rule({}, {{"ip/0", {3, 4}, 0, 12, 1, 1}, {"ip/1", {3}, 16, 3, 1, 1}}, 32);
      RestoreHistory(point, solver, &rule);
    }
  });
  const bool as_model = SucceedsOrNames(path, [&] { LoadModel(path); });
  return as_state && as_model;
}

}  // namespace millrace::fuzz
