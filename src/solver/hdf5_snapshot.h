// Caffe's HDF5 snapshots. A model holds its blobs as data/LAYER/INDEX and, if gradients are saved,
// diff/LAYER/INDEX; an array that several layers share is in the first of them only. A state holds
// iter, learned_net, current_step, and the blobs of solver 0 as history/INDEX. What Caffe has no
// place for is in a group that it does not read:
//   millrace/state             the other fields of SolverState, in text form
//   millrace/history/SOLVER/I  the blobs of solvers 1, 2, ...
//   millrace/run               the state of the merge rule (proto/run_state.proto), in text form
//   and
//                              without the values of its arrays
//   millrace/array/I           these values, in the order of ArraysOf (solver/run_state.h)
//   millrace/updates           by solver, the updates that its history holds (BlobProto.updates);
//                              -1 where it does not say
#ifndef MILLRACE_SOLVER_HDF5_SNAPSHOT_H_
#define MILLRACE_SOLVER_HDF5_SNAPSHOT_H_

#include <optional>
#include <string>

#include "proto/caffe.pb.h"
#include "proto/run_state.pb.h"

namespace millrace::inline solver {

// All functions throw Error, which begins with the path.

// Why a file cannot hold the weights of these layers by their names; "" if it can. Values are not
// needed. A name with slashes is a path of groups, so that the weights of one layer may lie where
// another one needs a group.
std::string WhyNotHdf5(const caffe::NetParameter& model);

// Writes a file atomically.
void SaveHdf5Model(const std::string& path, const caffe::NetParameter& model);
// `run`: the state of the merge rule; null: there is none.
void SaveHdf5State(const std::string& path, const caffe::SolverState& state,
                   const RunState* run = nullptr);

// Layers have their names and blobs only, in the order of their names. A blob that the file lacks
// before one that it has is left without shape and values.
caffe::NetParameter LoadHdf5Model(const std::string& path);
// `run`: receives the state of a merge rule, if there is one; may be null.
caffe::SolverState LoadHdf5State(const std::string& path, std::optional<RunState>* run = nullptr);

}  // namespace millrace::inline solver

#endif  // MILLRACE_SOLVER_HDF5_SNAPSHOT_H_
