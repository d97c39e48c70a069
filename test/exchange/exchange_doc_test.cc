// Checks docs/images/exchange-states.svg: the executor reaches every state in the picture.
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "exchange/kernels/host_executor.h"
#include "test/exchange/replica.h"

namespace millrace {
namespace {

constexpr const char* kPicture = "docs/images/exchange-states.svg";

// The texts of this class in the picture, from top to bottom.
std::vector<std::string> Texts(const std::string& of_class) {
  std::vector<std::string> texts;
  std::istringstream in(ReadFile(kPicture));
  const std::string attribute = "class=\"" + of_class + "\"";
  for (std::string line; std::getline(in, line);) {
    if (line.find(attribute) == std::string::npos) continue;
    const size_t begin = line.find('>') + 1;
    texts.push_back(line.substr(begin, line.find('<', begin) - begin));
  }
  return texts;
}

// One chunk of one float at the master or at the worker.
class End {
 public:
  End() : replica_(1, 1), executor_(MakeHostExecutor(replica_.arrays)) {}
  float& w() { return *replica_.arrays.weights; }
  float base() const { return *replica_.arrays.base; }
  float pending() const { return *replica_.arrays.pending; }
  // Returns the value that the operation wrote to `out`.
  float Run(ChunkOp op, const float* in = nullptr) {
    float out = 0;
    op.in = reinterpret_cast<const std::byte*>(in);
    op.in_bytes = in ? sizeof(*in) : 0;
    op.out = reinterpret_cast<std::byte*>(&out);
    op.out_bytes = sizeof(out);
    executor_->Run({&op, 1});
    result_ = op.result;
    return out;
  }
  uint8_t result() const { return result_; }

 private:
  test::Replica replica_;
  std::unique_ptr<ChunkExecutor> executor_;
  uint8_t result_ = 0;
};

// The two ends and their states so far, in the notation of the picture.
class Pair {
 public:
  std::vector<std::string> master_states, worker_states;
  End master, worker;

  void Note(bool of_master) {
    std::ostringstream text;
    if (of_master) {
      text << "w " << master.w();
      master_states.push_back(text.str());
    } else {
      text << "w " << worker.w() << ", base " << worker.base() << ", pending " << worker.pending();
      worker_states.push_back(text.str());
    }
  }
  void MasterSolver(float step) {
    master.w() += step;
    Note(true);
  }
  void WorkerSolver(float step) {
    worker.w() += step;
    Note(false);
  }
  // Returns the diff that the worker takes; 0: none.
  float Position(bool acknowledged, bool take) {
    const float position = master.Run({.kind = ChunkOpKind::kRead});
    const float d = worker.Run(
        {.kind = ChunkOpKind::kExchange, .acknowledged = acknowledged, .take = take}, &position);
    Note(false);
    return worker.result() & kNonZero ? d : 0;
  }
  void Merge(float d) {
    master.Run({.kind = ChunkOpKind::kMerge}, &d);
    Note(true);
  }
};

TEST(ExchangeDoc, AChunksStatesAreAsInThePicture) {
  Pair pair;
  pair.master.w() = 10;
  pair.Note(true);
  const float first = pair.master.Run({.kind = ChunkOpKind::kRead});
  pair.worker.Run({.kind = ChunkOpKind::kLoad}, &first);
  pair.Note(false);

  pair.MasterSolver(1);
  pair.WorkerSolver(3);
  EXPECT_EQ(pair.Position(false, true), 3);  // diff 1, lost
  pair.MasterSolver(1);
  pair.WorkerSolver(2);
  EXPECT_EQ(pair.Position(false, false), 0);  // bit 0: not merged
  const float again = pair.worker.Run({.kind = ChunkOpKind::kEncodePending});
  EXPECT_EQ(again, 3);
  pair.Merge(again);
  pair.Note(true);  // the duplicate
  const float second = pair.Position(true, true);
  EXPECT_EQ(second, 2);  // diff 2
  pair.Merge(second);
  EXPECT_EQ(pair.Position(true, true), 0);
  pair.Note(true);   // position acknowledgement
  pair.Note(false);  // duplicate of position 4, dropped

  EXPECT_EQ(Texts("master"), pair.master_states);
  EXPECT_EQ(Texts("worker"), pair.worker_states);
  EXPECT_EQ(pair.master.w(), pair.worker.w());
}

}  // namespace
}  // namespace millrace
