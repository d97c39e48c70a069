#include "solver/run_state.h"

#include <cmath>

#include "base/error.h"
#include "base/text/format.h"

namespace millrace::inline solver {

std::optional<RunState> RunStateOf(const caffe::SolverState& state, const std::string& path) {
  const google::protobuf::UnknownFieldSet& fields = state.GetReflection()->GetUnknownFields(state);
  std::optional<RunState> run;
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() != kRunStateField) continue;
    run.emplace();
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED ||
        !run->ParseFromString(field.length_delimited())) {
      throw Error(path, ": run_state: damaged, expected the state of a merge rule");
    }
  }
  return run;
}

void SetRunState(const RunState& run, caffe::SolverState* state) {
  google::protobuf::UnknownFieldSet* const fields =
      state->GetReflection()->MutableUnknownFields(state);
  fields->DeleteByNumber(kRunStateField);
  run.SerializeToString(fields->AddLengthDelimited(kRunStateField));
}

std::vector<StateArray*> ArraysOf(RunState* run) {
  std::vector<StateArray*> arrays;
  for (StateArray& array : *run->mutable_array()) arrays.push_back(&array);
  for (SolverPart& part : *run->mutable_solver()) {
    for (StateArray& array : *part.mutable_array()) arrays.push_back(&array);
  }
  return arrays;
}

std::span<const float> StateReader::Array(const std::string& name, size_t size) const {
  for (const StateArray& array : *arrays_) {
    if (array.name() != name) continue;
    const auto stored = static_cast<size_t>(array.value_size());
    if (stored == size) return {array.value().data(), stored};
    throw Error(what_, ".", name, ": ", stored, " floats stored, expected ", size);
  }
  throw Error(what_, ".", name, ": missing, expected ", size, " floats");
}

std::span<const double> StateReader::Numbers(const std::string& name, size_t count) const {
  for (const StateNumbers& numbers : *numbers_) {
    if (numbers.name() != name) continue;
    const auto stored = static_cast<size_t>(numbers.value_size());
    if (stored != count) {
      throw Error(what_, ".", name, ": ", stored, " numbers stored, expected ", count);
    }
    for (const double value : numbers.value()) {
      if (std::isfinite(value)) continue;
      throw Error(what_, ".", name, ": ", value, " stored, expected a finite number");
    }
    return {numbers.value().data(), stored};
  }
  throw Error(what_, ".", name, ": missing, expected ", count, " numbers");
}

std::vector<int64_t> StateReader::Counts(const std::string& name, size_t count) const {
  constexpr double kMax = 9007199254740992;  // 2^53
  std::vector<int64_t> counts;
  for (const double value : Numbers(name, count)) {
    if (!(value >= 0 && value <= kMax && value == std::floor(value))) {
      throw Error(what_, ".", name, ": ", value, " stored, expected a whole number >= 0");
    }
    counts.push_back(static_cast<int64_t>(value));
  }
  return counts;
}

StateReader ContinuedState::OfSolver(int solver) const {
  return {run->solver(solver), StrCat(path, ": run_state.solver[", solver, "]")};
}

void CheckRunState(const ContinuedState& state, const std::string& rule, int solvers,
                   std::optional<int64_t> weights) {
  const RunState& run = *state.run;
  const std::string field = state.path + ": run_state.";
  if (run.rule() != rule) {
    const auto named = [](const std::string& name) {
      return name.empty() ? std::string("none") : Quoted(name);
    };
    throw Error(field, "rule: ", named(run.rule()), " stored, expected ", named(rule),
                ", that of the solver file; its model alone can begin another run");
  }
  if (run.solvers() != solvers) {
    throw Error(field, "solvers: ", run.solvers(), " stored, expected ", solvers,
                ", those of this run");
  }
  if (weights && run.weights() != *weights) {
    throw Error(field, "weights: ", run.weights(), " floats stored, expected ", *weights,
                ", those of the net");
  }
  if (run.solver_size() != solvers) {
    throw Error(field, "solver: ", run.solver_size(), " parts stored, expected ", solvers);
  }
}

}  // namespace millrace::inline solver
