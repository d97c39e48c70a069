// Attaches to damaged weight buffers: an Error or success, never a crash.
//
// A file is mostly zeros, so an input is the concatenation of its other parts: the header, some
// process entries, some solver entries, some weights.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/files/file.h"
#include "test/fuzz/support/fuzz.h"
#include "test/support/fake_clock.h"
#include "weights/weight_buffer.h"

namespace millrace::fuzz {
namespace {

struct Part {
  size_t offset, bytes;
};
constexpr Part kParts[] = {{0, 136},
                           {offsetof(ShmHeader, processes), 192},
                           {offsetof(ShmHeader, solvers), 128},
                           {kShmArrayOffset, 128}};

const std::string& Name() {
  static const std::string name = StrCat("millrace-fuzz-", getpid());
  return name;
}

std::string Path() { return "/dev/shm/" + Name(); }

ParamLayout SmallLayout() {
  ParamLayout layout;
  layout.Add("ip/0", {3, 5});
  layout.Add("ip/1", {3});
  return layout;
}

// Convert between file and input. A short input makes a short file; bytes beyond the last part are
// appended.
std::string Pack(const std::string& file) {
  std::string input;
  for (const Part& part : kParts) input += file.substr(part.offset, part.bytes);
  return input;
}

std::string Unpack(const std::string& input) {
  std::string file;
  size_t at = 0;
  for (const Part& part : kParts) {
    if (at >= input.size() && at > 0) break;
    file.resize(part.offset);
    file += input.substr(at, part.bytes);
    at += part.bytes;
  }
  if (at < input.size()) file += input.substr(at);
  return file;
}

void Place(const std::string& file) {
  unlink(Path().c_str());
  const int fd = open(Path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw Error(Path(), ": ", ErrnoText(errno));
  const ssize_t put = write(fd, file.data(), file.size());
  close(fd);
  if (put != static_cast<ssize_t>(file.size())) throw Error(Path(), ": cannot be written");
}

// A wait that ends immediately.
JoinWait NoWait() {
  JoinWait wait;
  auto clock = std::make_shared<test::FakeClock>();
  wait.clock = clock;
  wait.pause = [clock] { clock->AdvanceSeconds(60); };
  return wait;
}

void Use(WeightBuffer* buffer) {
  volatile float sum = 0;
  for (int64_t i = 0; i < buffer->size(); ++i) sum = sum + buffer->data()[i];
  const int slot = buffer->clock().RegisterSolver();
  buffer->clock().Claim(1000);
  buffer->clock().Done(slot);
  buffer->clock().global();
  buffer->StopTraining();
}

template <typename Attach>
void Try(const std::string& file, Attach attach) {
  Place(file);
  try {
    Use(attach().get());
  } catch (const Error&) {
    // Rejected.
  }
  unlink(Path().c_str());
}

}  // namespace

std::vector<std::string> Corpus() {
  unlink(Path().c_str());
  auto buffer = WeightBuffer::JoinTraining(Name(), SmallLayout());
  const std::string initialising = Pack(ReadFile(Path()));
  buffer->data()[0] = 1;
  buffer->clock().StartAt(100);
  buffer->clock().RegisterSolver();
  buffer->Publish();
  auto reader = WeightBuffer::AttachReader(Name(), nullptr);
  const std::string ready = Pack(ReadFile(Path()));
  buffer->StopTraining();
  const std::string ending = Pack(ReadFile(Path()));
  // A seed that no process can attach to would test only the rejection of files.
  Place(Unpack(ready));
  WeightBuffer::JoinTraining(Name(), SmallLayout(), NoWait());
  return {ready, ready, initialising, ending};
}

bool Target(const std::string& input) {
  const std::string file = Unpack(input);
  Try(file, [] { return WeightBuffer::JoinTraining(Name(), SmallLayout(), NoWait()); });
  Try(file, [] { return WeightBuffer::AttachReader(Name(), nullptr, NoWait()); });
  return true;
}

}  // namespace millrace::fuzz
