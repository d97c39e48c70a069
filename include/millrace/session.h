// Training under a program's own control: a session is a solver, as a solver file describes it, or
// several that learn together, which the program steps.
//
//   auto session = millrace::Session::Open("solver.prototxt");
//   while (const auto step = session->Step()) {
//     if (step->iteration % 100 == 0) std::cout << step->loss << "\n";
//   }
//   session->Snapshot();
//
// The library installs no signal handlers, parses no flags and never ends the process. It logs with
// glog, which the program may set up.
//
// If mpirun or srun has started the program and the solver file has a synchronous strategy, the
// sessions of all processes step together (docs/learning.md). An error of one of them is then an
// Error of Open or Step in all. MPI connects a process once: only its first such session.
#ifndef MILLRACE_SESSION_H_
#define MILLRACE_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/export.h"
#include "millrace/net.h"

namespace millrace::caffe {
class SolverParameter;
}

namespace millrace {

class Device;
class MetricsRegistry;

struct SessionOptions {
  std::vector<std::string> weights;  // .caffemodel files to start from
  // .solverstate to continue; excludes `weights`. In a cluster, data position and momentum come
  // from this node's own part beside it, if there is one.
  std::string snapshot;
  std::string topology;  // path of a topology file; "": no cluster
  std::string node;      // this node's name there; "": chosen by rank
  // Longest time that Open waits, in a cluster, for the run's weights.
  double join_seconds = 60;
  // Shard i of n of the training records; 0 of 0: the topology's shard, or all records.
  uint64_t shard_index = 0, shard_count = 0;
  // Gets the metrics of the session, and is published under the net's name (millrace/metrics.h);
  // outlives the session. Null: the session's metrics are not read.
  MetricsRegistry* metrics = nullptr;
  // The nets have plain_blobs (NetOptions), for programs that read and write between layers.
  bool plain_blobs = false;
  // The nets get plain_blobs with the first call that needs them: Net::blob of one that the net
  // does not compute in row-major order, single layers, a change of shapes. Until then a step takes
  // no longer than without. What a step has computed stays, but a backward pass of the program's
  // needs a forward pass before it. Nets with layers of type Python have them from the beginning.
  bool plain_blobs_on_use = false;
  // Step goes on after max_iter, which then only counts for the learning rate. Not in a cluster.
  bool past_max_iter = false;
  // Number of solvers on processors; unset: 1, or 0 if there are GPUs. All solvers, those of GPUs
  // included, learn together by the strategy of the solver file, each on a thread of its own but
  // the first, which computes on the caller's. Net, OnGradients and ApplyUpdate are those of the
  // first on a processor. Nets with MemoryData have one solver.
  std::optional<int> solvers = {};
  // GPUs with a solver each: "0,2" or "all"; as RunOptions::gpus without a usable GPU. Links
  // stream the progress of each between its own replica of the weights and weights(), while no
  // solver waits (docs/design.md).
  std::string gpus = "";
  // Arithmetic of GPUs: "auto", "fp32", "tf32" or "bf16", as --precision of `millrace train`.
  std::string precision = "auto";
  // Devices of the program's own (millrace/device.h) with a solver each, before those of `gpus`.
  std::vector<Device*> devices = {};
  // Nodes join and leave by a registry, as ClusterOptions.rendezvous and nodes; `node` is then "",
  // and `topology` names segments only, or is "". Open waits for the registry for a minute.
  std::string rendezvous = "", nodes = "";
};

// One iteration of each solver of a session.
struct SessionStep {
  // The number of the last one, from 0, over all solvers and all nodes of a cluster. Solvers that
  // step together have an iteration in common.
  int64_t iteration = 0;
  float loss = 0;           // the mean over solvers and iter_size passes, before the update
  float learning_rate = 0;  // of the last one's update
};

// One value that a test net reports, averaged over its batches.
struct TestOutput {
  std::string name;  // of the blob; repeated for each of its values
  double mean = 0;
};

// One thread at a time uses a session. A process may have several.
class MILLRACE_API Session {
 public:
  // Reads the solver file and its nets, opens the data, and fills, loads or resumes the weights. In
  // a cluster, also starts this node's segments and blocks until it has the run's weights. Throws
  // Error with one line that names file, field and expectation; also if the run's weights have not
  // arrived within `join_seconds`.
  static std::unique_ptr<Session> Open(const std::string& solver_file,
                                       const SessionOptions& options = {});
  // The same for the text of a solver file; `name` stands for the file in messages and, without its
  // extension, as snapshot prefix.
  static std::unique_ptr<Session> OpenText(const std::string& text, const std::string& name,
                                           const SessionOptions& options = {});
  // Leaves the cluster at once, without handing over; call Finish or Leave first. Processes that
  // step with this one have an error without Finish.
  virtual ~Session() = default;

  // Gives a MemoryData layer of the train net, or of test net `test_net`, its next examples, as
  // Net::SetMemoryData does.
  virtual void SetMemoryData(const std::string& layer, std::span<const float> values,
                             std::span<const float> labels, std::optional<int> test_net = {}) = 0;
  virtual void SetMemoryData(const std::string& layer, std::span<const caffe::Datum> datums,
                             std::optional<int> test_net = {}) = 0;

  // Computes one iteration of each solver and applies its update; none once all nodes together have
  // begun max_iter iterations, or a stop condition of the solver file is met: conditions see each
  // step and each Test. Throws Error for bad data, a loss that is not finite (the weights are then
  // unchanged), or a failure of a segment. In a cluster the other nodes then learn of the error,
  // and no longer wait for this node.
  virtual std::optional<SessionStep> Step() = 0;
  // Iterations completed, by all nodes.
  virtual int64_t iteration() const = 0;

  // The live weights of all parameters, 64-byte aligned arrays with zeros between them; constant
  // address. The program may change them between steps; in a cluster use Step() only. With a
  // strategy that gives each solver weights of its own, those of the first; Test, Snapshot, Finish
  // and Leave merge them first, and test and save the merged ones. Weights on GPUs stream to and
  // from these; the same functions wait until all progress of the GPUs is here.
  virtual std::span<float> weights() = 0;
  virtual std::vector<WeightArray> arrays() const = 0;
  // The train net of the first solver on a processor. Its blobs hold the values and gradients of
  // the last step. Without such a solver, a train net on the host with weights(), for passes of the
  // program's own: what steps compute stays on the GPUs.
  virtual const Net& net() const = 0;
  // The same to run passes of its own between steps, and test nets by index. Those share the
  // weights of the train net: their own weights() is empty, and layers() shows them. Throws Error
  // if there is no such net.
  virtual Net& net() = 0;
  virtual int test_nets() const = 0;
  virtual Net& test_net(int index) = 0;

  // Updates the weights from the gradients that net() holds, as Step does, with the learning rate
  // of iteration(), which stays. Throws Error in a cluster, with GPUs, or where solvers step
  // together.
  virtual void ApplyUpdate() = 0;
  // The learning rate of the next iteration.
  virtual float learning_rate() const = 0;
  // The next iterations follow another schedule: base_lr, lr_policy and the fields that belong to
  // it of `param` (millrace/caffe.pb.h), whose other fields are ignored. Throws Error for a wrong
  // field.
  virtual void SetSchedule(const caffe::SolverParameter& param) = 0;
  // Step calls it when the gradients of an iteration are there, before their update. Throws Error
  // if there is no solver on a processor.
  virtual void OnGradients(std::function<void()> call) = 0;
  // Goes on from a .solverstate: weights, history, iteration, and before the first Step also the
  // position in the data. Throws Error for a bad file, or in a cluster.
  virtual void Restore(const std::string& snapshot) = 0;

  // Runs test net `index` of the solver file for its test_iter batches, in a cluster on the merged
  // weights. Throws Error if there is no such net.
  virtual std::vector<TestOutput> Test(int index = 0) = 0;
  // Writes PREFIX_iter_N.caffemodel and .solverstate, with the prefix and in the format of the
  // solver file, and in a cluster this node's own part; returns the path of the .solverstate.
  // Throws Error naming the file, or if a synchronous strategy has not merged in the last
  // iteration. Of processes that step together, only the leader calls it.
  virtual std::string Snapshot() = 0;

  // ---- In a cluster, or where processes step together; else Finish and Leave only merge. ----

  // Whether this node is the leader, or this process the first: the one that tests and saves for
  // all.
  virtual bool is_leader() const = 0;
  // Waits until all nodes in the cluster have ended the schedule and have the same weights, then
  // leaves. Nodes that have not started, are dead or unresponsive are not awaited. Throws
  // Error if a segment has failed; and, after leaving, with the names of the nodes, if others go on
  // for 30 s and three times their longest iteration, end with other weights, or ended with a loss
  // that is not finite. Processes that step together all call it, and it waits for them.
  virtual void Finish() = 0;
  // Sends this node's unsent progress, then leaves. The other nodes continue. Processes that step
  // together cannot go on without this one, and have an error.
  virtual void Leave() = 0;

 protected:
  Session() = default;
};

}  // namespace millrace

#endif  // MILLRACE_SESSION_H_
