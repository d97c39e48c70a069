#include "proto/upgrade.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"

namespace millrace::inline proto {
namespace {

using caffe::NetParameter;

bool HasOldTransformations(const NetParameter& net) {
  return std::any_of(net.layers().begin(), net.layers().end(), HasTransformationFields);
}

bool IsOldBatchNorm(const caffe::LayerParameter& layer) {
  return layer.type() == "BatchNorm" && layer.param_size() == 3 &&
         std::any_of(layer.param().begin(), layer.param().end(), [](const auto& spec) {
           return !spec.has_lr_mult() || spec.lr_mult() != 0 || !spec.has_decay_mult() ||
                  spec.decay_mult() != 0;
         });
}

bool HasOldBatchNorm(const NetParameter& net) {
  return std::any_of(net.layer().begin(), net.layer().end(), IsOldBatchNorm);
}

void UpgradeOldLayers(const SourceMap& source, NetParameter* net, NetUpgrade* upgrade) {
  if (net->layer_size() > 0) {
    throw Error(source.Where("layers"),
                ": layers: the net has `layers` (the format before August 2014) and `layer`, "
                "expected one of them");
  }
  std::vector<int> indices(net->layers_size());
  std::iota(indices.begin(), indices.end(), 0);
  if (HasV0Layers(*net)) {
    upgrade->changes.push_back("V0 layers");
    UpgradeV0Layers(source, net, &indices, &upgrade->problems);
  } else {
    upgrade->changes.push_back("V1 layers");
  }
  if (HasOldTransformations(*net)) {
    upgrade->changes.push_back("transformation fields of data layers");
    for (auto& layer : *net->mutable_layers()) MoveTransformationFields(&layer);
  }
  std::set<int> crops;
  for (auto& layer : *net->mutable_layers()) {
    if (layer.type() == caffe::V1LayerParameter::CROP) crops.insert(net->layer_size());
    *net->add_layer() = UpgradeV1Layer(&layer);
  }
  net->clear_layers();
  try {
    SetCropOffsets(crops, net);
  } catch (const FieldError& error) {
    throw Located(source, error);
  }
  for (int index : indices) upgrade->layer_paths.push_back(StrCat("layers[", index, "]"));
}

// The Input layer for the input fields, which give a shape, or four dimensions, per input.
caffe::LayerParameter InputLayer(const SourceMap& source, const NetParameter& net,
                                 NetUpgrade* upgrade) {
  const bool by_shape = net.input_shape_size() > 0;
  const int expected = by_shape ? net.input_size() : 4 * net.input_size();
  const int given = by_shape ? net.input_shape_size() : net.input_dim_size();
  const char* field = by_shape ? "input_shape" : "input_dim";
  if (given > expected) {
    upgrade->ignored.push_back(StrCat(source.Where(field), ": ", field, ": ", given - expected,
                                      " ignored, beyond those of the ", net.input_size(),
                                      " input blobs"));
  }
  if (given < expected) {
    throw Error(source.Where(field), ": ", field, ": ", given, " given, expected ", expected,
                " for ", net.input_size(), " input blobs");
  }
  caffe::LayerParameter layer;
  layer.set_name("input");
  layer.set_type("Input");
  for (int i = 0; i < net.input_size(); ++i) {
    layer.add_top(net.input(i));
    caffe::BlobShape* shape = layer.mutable_input_param()->add_shape();
    if (by_shape) {
      *shape = net.input_shape(i);
    } else {
      for (int axis = 0; axis < 4; ++axis) shape->add_dim(net.input_dim(4 * i + axis));
    }
  }
  return layer;
}

void UpgradeInputs(const SourceMap& source, NetParameter* net, NetUpgrade* upgrade) {
  if (net->input_shape_size() > 0 || net->input_dim_size() > 0) {
    *net->add_layer() = InputLayer(source, *net, upgrade);
    for (int i = net->layer_size() - 1; i > 0; --i) {
      net->mutable_layer()->SwapElements(i - 1, i);
    }
    upgrade->layer_paths.insert(upgrade->layer_paths.begin(), "input");
  }
  net->clear_input();
  net->clear_input_shape();
  net->clear_input_dim();
}

}  // namespace

bool NeedsUpgrade(const NetParameter& net) {
  return net.layers_size() > 0 || net.input_size() > 0 || HasOldBatchNorm(net);
}

NetUpgrade UpgradeNet(const SourceMap& source, NetParameter* net) {
  NetUpgrade upgrade;
  if (net->layers_size() > 0) {
    UpgradeOldLayers(source, net, &upgrade);
  } else {
    for (int i = 0; i < net->layer_size(); ++i) {
      upgrade.layer_paths.push_back(StrCat("layer[", i, "]"));
    }
  }
  if (net->input_size() > 0) {
    upgrade.changes.push_back("input fields");
    UpgradeInputs(source, net, &upgrade);
  }
  if (HasOldBatchNorm(*net)) {
    upgrade.changes.push_back("BatchNorm layers that train their statistics");
    for (auto& layer : *net->mutable_layer()) {
      if (!IsOldBatchNorm(layer)) continue;
      for (caffe::ParamSpec& spec : *layer.mutable_param()) {
        spec.set_lr_mult(0);
        spec.set_decay_mult(0);
      }
    }
  }
  return upgrade;
}

using caffe::SolverParameter;

const char* TypeNameOf(SolverParameter::SolverType type) {
  switch (type) {
    case SolverParameter::SGD:
      return "SGD";
    case SolverParameter::NESTEROV:
      return "Nesterov";
    case SolverParameter::ADAGRAD:
      return "AdaGrad";
    case SolverParameter::RMSPROP:
      return "RMSProp";
    case SolverParameter::ADADELTA:
      return "AdaDelta";
    case SolverParameter::ADAM:
      return "Adam";
  }
  return "";  // the parser of a closed enumeration admits no other number
}

bool UpgradeSolver(SolverParameter* solver) {
  if (!solver->has_solver_type()) return false;
  if (solver->has_type()) {
    throw FieldError("solver_type", SolverParameter::SolverType_Name(solver->solver_type()),
                     " given beside type: \"", solver->type(), "\", expected one of them");
  }
  solver->set_type(TypeNameOf(solver->solver_type()));
  solver->clear_solver_type();
  return true;
}

}  // namespace millrace::inline proto
