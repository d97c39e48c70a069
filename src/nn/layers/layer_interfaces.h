// Interfaces of layers that nets and solvers ask for with dynamic_cast.
#ifndef MILLRACE_NN_LAYERS_LAYER_INTERFACES_H_
#define MILLRACE_NN_LAYERS_LAYER_INTERFACES_H_

#include "millrace/layer.h"

namespace millrace::inline nn {

// What backward passes read of the values of blobs. Values that none reads need no memory of their
// own after the forward pass.

enum class ValuesRead { kNone, kBottoms, kAll };

// Mix-in for layers whose backward pass reads the values of some of their blobs only.
class BackwardReads {
 public:
  virtual ~BackwardReads() = default;
  // Called for a layer that has been set up, fused with others or not. kAll includes the values of
  // tops.
  virtual ValuesRead BackwardValues(const Blobs& bottom, const Blobs& top) const = 0;
};

// Layer fusion: the passes of one layer do the work of the layers behind it, too.

// Mix-in for layers that compute the layers behind them in their own passes.
class FusesNext {
 public:
  virtual ~FusesNext() = default;
  // Offers `next`, which works in place on the layer's only top right behind it and behind all that
  // it is fused with already. True: from now on this layer's forward pass leaves in the top what
  // `next` would, and the passes of `next` do only the rest. Call after both have been set up and
  // between iterations.
  virtual bool TryFuse(Layer* next) = 0;
  // All layers work on their own again.
  virtual void UnfuseAll() = 0;
};

// The part of a forward pass that recorded work cannot repeat: numbers of the host that differ from
// pass to pass.

// Mix-in for layers whose forward pass begins on the host, such as with a new random key or a count
// of batches. All other work that their passes enqueue is the same each time, so it can be recorded
// as a graph (device/work_graph.h).
class PreparesPass {
 public:
  virtual ~PreparesPass() = default;
  // Prepares the next forward pass; may enqueue work. Part of Forward, unless the caller does it.
  virtual void PreparePass() = 0;
  // True: from now on the caller of Forward calls PreparePass before it.
  void set_prepared_by_caller(bool by_caller) { by_caller_ = by_caller; }

 protected:
  void PrepareInForward() {
    if (!by_caller_) PreparePass();
  }

 private:
  bool by_caller_ = false;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_LAYER_INTERFACES_H_
