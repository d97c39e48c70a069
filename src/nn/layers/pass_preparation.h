// The part of a forward pass that recorded work cannot repeat: numbers of the host that differ from
// pass to pass.
#ifndef MILLRACE_NN_LAYERS_PASS_PREPARATION_H_
#define MILLRACE_NN_LAYERS_PASS_PREPARATION_H_

namespace millrace::inline nn {

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

#endif  // MILLRACE_NN_LAYERS_PASS_PREPARATION_H_
