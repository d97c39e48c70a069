// Layers as tables of functions.
#include "millrace/layer.h"

#include <algorithm>
#include <climits>
#include <set>

#include "capi/arrays.h"
#include "capi/tables.h"
#include "capi/texts.h"

using millrace::Call;
using millrace::Given;
using millrace::GivenText;
using millrace::ValueOf;

// What the functions of a layer may see and do at the moment.
struct millrace_layer {
  enum class Step { kCreate, kReshape, kForward, kBackward };

  virtual ~millrace_layer() = default;
  virtual const millrace::Layer& layer() const = 0;
  virtual int IsTraining() const = 0;
  virtual double Number(const std::string& key, double otherwise) const = 0;
  virtual std::string Text(const std::string& key, const std::string& otherwise) const = 0;
  virtual std::vector<millrace::Param>& Params() = 0;
  virtual void Add(const millrace::Shape& shape,
                   const millrace::caffe::FillerParameter& filler) = 0;

  // Throws Error unless `function` is called within this step.
  void ExpectStep(const char* function, Step expected, const char* name) const {
    if (step != expected) throw millrace::Error(function, ": expected a call within ", name);
  }

  // Blobs have their memory once the whole net is built.
  bool HasData() const { return step == Step::kForward || step == Step::kBackward; }

  Step step = Step::kCreate;
  const millrace::Blobs *bottom = nullptr, *top = nullptr;
  const std::vector<bool>* propagate_down = nullptr;
  millrace::Texts texts;
};

namespace millrace::inline capi {
namespace {

// A table, with texts of its own.
struct LayerTable {
  explicit LayerTable(const char* function, const millrace_layer_type* given)
      : type(Taken(function, "millrace_layer_type", given)),
        name(CheckedName(function, type.name)),
        parameters(ListOf(type.parameters)) {
    CheckFunction(function, "forward", type.forward);
    CheckArity(function, "bottom", type.min_bottom, type.max_bottom);
    CheckArity(function, "top", type.min_top, type.max_top);
  }

  static void CheckArity(const char* function, const char* what, int min, int max) {
    if (min >= 0 && (max == -1 || max >= min)) return;
    throw Error(function, ": min_", what, " is ", min, " and max_", what, " is ", max,
                ", expected 0 or more, and that or more, or -1");
  }

  const millrace_layer_type type;
  const std::string name;
  const std::vector<std::string> parameters;
};

class TableLayer : public Layer, private millrace_layer {
 public:
  TableLayer(std::shared_ptr<const LayerTable> table, const caffe::LayerParameter& param,
             const LayerContext& context)
      : Layer(param, context), table_(std::move(table)), type_(table_->type) {}

  Arity arity() const override {
    const auto most = [](int max) { return max == -1 ? INT_MAX : max; };
    return {type_.min_bottom, most(type_.max_bottom), type_.min_top, most(type_.max_top)};
  }
  std::set<std::string> custom_params() const override {
    return {table_->parameters.begin(), table_->parameters.end()};
  }
  float DefaultLossWeight(int top) const override { return top == 0 ? type_.loss_weight : 0; }
  bool AllowBackward(int bottom) const override {
    return type_.backward != nullptr && (bottom >= 64 || (type_.no_gradient >> bottom & 1) == 0);
  }
  bool MayWorkInPlace() const override { return type_.works_in_place != 0; }

  void SetUp(const Blobs& bottom, const Blobs& top) override {
    Use(Step::kCreate, &bottom, &top);
    state_ = MakeState(table_->name, type_.create, type_.destroy,
                       static_cast<millrace_layer*>(this), type_.user);
  }

  void Reshape(const Blobs& bottom, const Blobs& top) override {
    if (type_.reshape == nullptr) {
      for (size_t i = 0; i < top.size(); ++i) {
        if (i >= bottom.size()) {
          throw Error("layer type ", table_->name, " has no function reshape, and top ", i,
                      " has no bottom of that number");
        }
        if (top[i] != bottom[i]) top[i]->ReshapeLike(*bottom[i]);
      }
      return;
    }
    Use(Step::kReshape, &bottom, &top);
    Run("reshape", type_.reshape);
  }

  void Forward(const Blobs& bottom, const Blobs& top) override {
    Use(Step::kForward, &bottom, &top);
    Run("forward", type_.forward);
  }

  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override {
    if (type_.backward == nullptr) return;
    // The first to compute a gradient in an iteration overwrites it; the function adds.
    for (const Param& param : params_) {
      if (!param.wanted || *param.has_gradient) continue;
      std::fill_n(param.blob->diff(), param.blob->count(), 0.0f);
    }
    Use(Step::kBackward, &bottom, &top);
    this->propagate_down = &propagate_down;
    Run("backward", type_.backward);
    for (const Param& param : params_) {
      if (param.wanted) *param.has_gradient = true;
    }
  }

 private:
  void Use(Step now, const Blobs* bottoms, const Blobs* tops) {
    step = now;
    this->bottom = bottoms;
    this->top = tops;
  }

  void Run(const char* what, int (*function)(millrace_layer*, void*)) {
    Callback(StrCat("layer type ", table_->name, ": ", what), function,
             static_cast<millrace_layer*>(this), state_.get());
  }

  const Layer& layer() const override { return *this; }
  int IsTraining() const override { return context_.phase == caffe::TRAIN; }
  double Number(const std::string& key, double otherwise) const override {
    ExpectKey("layer type ", *table_, key);
    return CustomNumber(key, otherwise);
  }
  std::string Text(const std::string& key, const std::string& otherwise) const override {
    ExpectKey("layer type ", *table_, key);
    return CustomText(key, otherwise);
  }
  std::vector<Param>& Params() override { return params_; }
  void Add(const Shape& shape, const caffe::FillerParameter& filler) override {
    AddParam(shape, filler);
  }

  const std::shared_ptr<const LayerTable> table_;
  const millrace_layer_type& type_;
  State state_{nullptr, &DestroyNothing};
};

const Blobs& Now(const char* function, const Blobs* blobs) {
  return Given(function, "the layer's list of blobs", blobs);
}

}  // namespace
}  // namespace millrace::inline capi

int millrace_register_layer(const millrace_layer_type* type) {
  const char* const function = __func__;
  return Call(function, [&] {
    const auto table = std::make_shared<const millrace::LayerTable>(function, type);
    millrace::LayerRegistry::Get().Register(
        table->name, millrace::DeviceType::kCpu,
        [table](const millrace::caffe::LayerParameter& param,
                const millrace::LayerContext& context) -> std::unique_ptr<millrace::Layer> {
          return std::make_unique<millrace::TableLayer>(table, param, context);
        });
  });
}

const char* millrace_layer_name(millrace_layer* layer) {
  const char* const function = __func__;
  return ValueOf(function, static_cast<const char*>(nullptr),
                 [&] { return Given(function, "layer", layer).layer().name().c_str(); });
}

int millrace_layer_is_training(millrace_layer* layer) {
  const char* const function = __func__;
  return Call(function, [&]() -> int { return Given(function, "layer", layer).IsTraining(); });
}

int millrace_layer_number(millrace_layer* layer, const char* key, double otherwise,
                          double* number) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "number", number);
    *number = Given(function, "layer", layer).Number(GivenText(function, "key", key), otherwise);
  });
}

const char* millrace_layer_text(millrace_layer* layer, const char* key, const char* otherwise) {
  const char* const function = __func__;
  return ValueOf(function, static_cast<const char*>(nullptr), [&] {
    return Given(function, "layer", layer)
        .texts.Keep(layer->Text(GivenText(function, "key", key), millrace::TextOrNone(otherwise)));
  });
}

size_t millrace_layer_bottom_count(millrace_layer* layer) {
  const char* const function = __func__;
  return ValueOf(function, size_t{0}, [&] {
    return millrace::Now(function, Given(function, "layer", layer).bottom).size();
  });
}

int millrace_layer_bottom(millrace_layer* layer, size_t index, millrace_array* array) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::CheckResult(function, "millrace_array", array);
    const millrace::Blobs& blobs = millrace::Now(function, Given(function, "layer", layer).bottom);
    const millrace::Blob& blob = *millrace::At(function, blobs, index);
    const bool propagates =
        layer->step == millrace_layer::Step::kBackward && (*layer->propagate_down)[index];
    const std::string& name = layer->layer().param().bottom(static_cast<int>(index));
    millrace::Give(millrace::ArrayOf(layer->texts.Keep(name), blob, layer->HasData(), propagates),
                   array);
  });
}

size_t millrace_layer_top_count(millrace_layer* layer) {
  const char* const function = __func__;
  return ValueOf(function, size_t{0}, [&] {
    return millrace::Now(function, Given(function, "layer", layer).top).size();
  });
}

int millrace_layer_top(millrace_layer* layer, size_t index, millrace_array* array) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::CheckResult(function, "millrace_array", array);
    const millrace::Blobs& blobs = millrace::Now(function, Given(function, "layer", layer).top);
    const millrace::Blob& blob = *millrace::At(function, blobs, index);
    const std::string& name = layer->layer().param().top(static_cast<int>(index));
    millrace::Give(millrace::ArrayOf(layer->texts.Keep(name), blob, layer->HasData(),
                                     layer->step == millrace_layer::Step::kBackward),
                   array);
  });
}

int millrace_layer_parameter(millrace_layer* layer, size_t index, millrace_array* array) {
  const char* const function = __func__;
  return Call(function, [&] {
    millrace::CheckResult(function, "millrace_array", array);
    const millrace::Param& param =
        millrace::At(function, Given(function, "layer", layer).Params(), index);
    const std::string name = millrace::StrCat(layer->layer().name(), "/", index);
    millrace::Give(millrace::ArrayOf(layer->texts.Keep(name), *param.blob, layer->HasData(),
                                     layer->step == millrace_layer::Step::kBackward),
                   array);
  });
}

int millrace_layer_set_shape(millrace_layer* layer, size_t top, const int64_t* shape, int axes) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "layer", layer).ExpectStep(function, millrace_layer::Step::kReshape, "reshape");
    const millrace::Shape lengths = millrace::ShapeFrom(function, shape, axes);
    millrace::At(function, *layer->top, top)->Reshape(lengths);
  });
}

int millrace_layer_propagates(millrace_layer* layer, size_t bottom) {
  const char* const function = __func__;
  return Call(function, [&]() -> int {
    Given(function, "layer", layer)
        .ExpectStep(function, millrace_layer::Step::kBackward, "backward");
    const std::vector<bool>& all = *layer->propagate_down;
    if (bottom < all.size()) return all[bottom];
    throw millrace::Error(function, ": bottom is ", bottom, ", expected less than ", all.size());
  });
}

int millrace_layer_learns(millrace_layer* layer, size_t parameter) {
  const char* const function = __func__;
  return Call(function, [&]() -> int {
    return millrace::At(function, Given(function, "layer", layer).Params(), parameter).wanted;
  });
}

int millrace_layer_add_parameter(millrace_layer* layer, const int64_t* shape, int axes,
                                 const millrace_filler* given) {
  const char* const function = __func__;
  return Call(function, [&] {
    Given(function, "layer", layer).ExpectStep(function, millrace_layer::Step::kCreate, "create");
    const millrace::Shape lengths = millrace::ShapeFrom(function, shape, axes);
    millrace::caffe::FillerParameter filler;  // zeros
    if (given != nullptr) {
      const millrace_filler taken = millrace::Taken(function, "millrace_filler", given);
      if (taken.type != nullptr) filler.set_type(taken.type);
      filler.set_value(taken.value);
      filler.set_min(taken.min);
      filler.set_max(taken.max);
      filler.set_mean(taken.mean);
      filler.set_std(taken.std);
    }
    layer->Add(lengths, filler);
  });
}
