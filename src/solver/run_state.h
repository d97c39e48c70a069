// The state of the rules by which solvers share weights, in snapshots (proto/run_state.proto): the
// weights that solvers have of their own, outer momentum, and counters. With it, a continued run
// goes on as if it had not been interrupted, where one is repeatable.
#ifndef MILLRACE_SOLVER_RUN_STATE_H_
#define MILLRACE_SOLVER_RUN_STATE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/caffe.pb.h"
#include "proto/run_state.pb.h"

namespace millrace::inline solver {

// The number of the field in caffe.SolverState, whose own message does not declare it.
inline constexpr int kRunStateField = 10005;

// The state that `state` carries; none if it has none. Throws Error, which begins with `path`, if
// it is damaged.
std::optional<RunState> RunStateOf(const caffe::SolverState& state, const std::string& path);
// Puts `run` into `state`, in place of one that it has.
void SetRunState(const RunState& run, caffe::SolverState* state);

// All arrays of a state, those of solvers after the common ones, in an order that depends on their
// numbers only.
std::vector<StateArray*> ArraysOf(RunState* run);

// `part` is a RunState or a SolverPart.
template <typename Part>
void AddArray(const std::string& name, std::span<const float> values, Part* part) {
  StateArray* const array = part->add_array();
  array->set_name(name);
  array->mutable_value()->Assign(values.begin(), values.end());
}

template <typename Part>
void AddNumbers(const std::string& name, std::span<const double> values, Part* part) {
  StateNumbers* const numbers = part->add_numbers();
  numbers->set_name(name);
  numbers->mutable_value()->Assign(values.begin(), values.end());
}

// Reads the state of one solver, or that of all. Errors begin with the file and the field.
class StateReader {
 public:
  // Both outlive this object. `what`: "FILE: run_state" or "FILE: run_state.solver[0]".
  StateReader(const RunState& run, std::string what)
      : arrays_(&run.array()), numbers_(&run.numbers()), what_(std::move(what)) {}
  StateReader(const SolverPart& part, std::string what)
      : arrays_(&part.array()), numbers_(&part.numbers()), what_(std::move(what)) {}

  // Throws Error if there is no array `name` of so many floats.
  std::span<const float> Array(const std::string& name, size_t size) const;
  // Throws Error if there are no such numbers, or one is not finite.
  std::span<const double> Numbers(const std::string& name, size_t count) const;
  // The same of whole numbers from 0 to 2^53.
  std::vector<int64_t> Counts(const std::string& name, size_t count) const;

 private:
  const google::protobuf::RepeatedPtrField<StateArray>* arrays_;
  const google::protobuf::RepeatedPtrField<StateNumbers>* numbers_;
  const std::string what_;
};

// The state of a run that goes on, and the file that holds it.
struct ContinuedState {
  const RunState* run = nullptr;  // null: there is none
  std::string path;

  StateReader Shared() const { return {*run, path + ": run_state"}; }
  StateReader OfSolver(int solver) const;
};

// Expects that a state fits the run that continues it. `rule`: "" if the run has no rule with
// state. `weights`: none if they are not known yet. Throws Error.
void CheckRunState(const ContinuedState& state, const std::string& rule, int solvers,
                   std::optional<int64_t> weights);

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_RUN_STATE_H_
