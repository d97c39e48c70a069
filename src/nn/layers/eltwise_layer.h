// Combines blobs of one shape, value by value:
//   SUM:  top = sum over k of coeff_k bottom[k]     dE/dbottom[k] = coeff_k dE/dtop
//   PROD: top = product over k of bottom[k]         dE/dbottom[k] = dE/dtop * product over j != k
//                                                                   of bottom[j]
//   MAX:  top = the largest bottom[k]               dE/dbottom[k] = dE/dtop where k was chosen,
//   else 0
// coeff_k is 1 by default. Among equal largest values of the first two bottoms the second is
// chosen; a later bottom is chosen only if it is larger. With stable_prod_grad: false the product
// of the others is computed as top / bottom[k], which is faster with many bottoms and not finite
// where bottom[k] is 0. The bottoms may have any memory order; they all get that of the first.
//
// MAX ignores coefficients, as Caffe does. PROD and MAX may work in place on the first bottom. (A
// SUM may not: Caffe sets its top to 0 first, and so leaves that bottom out.)
#ifndef MILLRACE_NN_LAYERS_ELTWISE_LAYER_H_
#define MILLRACE_NN_LAYERS_ELTWISE_LAYER_H_

#include <limits>

#include "millrace/layer.h"
#include "nn/layers/backward_reads.h"
#include "nn/layers/kept_bottom.h"

namespace millrace::inline nn {

class EltwiseLayer : public Layer, public BackwardReads {
 public:
  EltwiseLayer(const caffe::LayerParameter& param, const LayerContext& context)
      : Layer(param, context), kept_(memory()) {}

  bool MayWorkInPlace() const override {
    return param_.eltwise_param().operation() != caffe::EltwiseParameter::SUM;
  }
  Arity arity() const override { return {2, std::numeric_limits<int>::max(), 1, 1}; }
  std::set<std::string> fields() const override { return {"eltwise_param"}; }
  Layout BottomLayout(int i, const Blob& bottom) const override;

  void SetUp(const Blobs& bottom, const Blobs& top) override;
  void Reshape(const Blobs& bottom, const Blobs& top) override;
  void Forward(const Blobs& bottom, const Blobs& top) override;
  void Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                const Blobs& bottom) override;
  ValuesRead BackwardValues(const Blobs&, const Blobs&) const override {
    const bool product = operation_ == caffe::EltwiseParameter::PROD;
    return product ? ValuesRead::kAll : ValuesRead::kNone;
  }

 private:
  void ForwardSum(const Blobs& bottom, Blob* top);
  void ForwardProduct(const Blobs& bottom, Blob* top);
  void ForwardMax(const Blobs& bottom, Blob* top);
  void BackwardProduct(const Blob& top, size_t k, const Blobs& bottom);

  caffe::EltwiseParameter::EltwiseOp operation_ = caffe::EltwiseParameter::SUM;
  std::vector<float> coeff_;
  mutable Layout layout_ = Layout::kPlain;  // of the first bottom
  KeptBottom kept_;                         // PROD: of the first bottom
  Buffer chosen_;                           // MAX: int32_t, number of the chosen bottom per value
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_ELTWISE_LAYER_H_
