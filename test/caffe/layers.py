"""One small net for each layer that Caffe 1.0 has: both programs train it from the same weights.

A net is: images -> convolution -> blob "x" {16, 4, 10, 10} -> the layers under test -> blob "y" ->
inner product -> softmax loss. So the layers get a gradient and pass one on, and the momentum of the
convolution after one iteration shows whether it is right.
"""
import re

from studies import Study

DATA = """
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.01 mean_value: 100 }
  data_param { source: "data/mnist/mnist_train_lmdb" batch_size: 16 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "x" convolution_param {
  num_output: 4 kernel_size: 10 stride: 2 weight_filler { type: "xavier" } bias_filler { type: "uniform" min: -0.5 max: 0.5 } } }
"""
SCORES = """
layer { name: "ip" type: "InnerProduct" bottom: "y" top: "scores" inner_product_param {
  num_output: 10 weight_filler { type: "xavier" } } }
"""
LOSS = """
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
"""
FILLERS = 'weight_filler { type: "xavier" } bias_filler { type: "uniform" min: -0.2 max: 0.2 }'


def layer(kind, param="", bottoms="x", tops="y", name=None):
    ends = "".join(f' bottom: "{b}"' for b in bottoms.split())
    ends += "".join(f' top: "{t}"' for t in tops.split())
    return f'layer {{ name: "{name or (tops or bottoms).split()[0] + "_" + kind}" type: "{kind}"{ends} {param} }}\n'


def again(outputs=4, top="z", kernel=10):
    """A second convolution of the data, like the first."""
    return layer("Convolution", f"convolution_param {{ num_output: {outputs} kernel_size: {kernel} "
                 f"stride: 2 {FILLERS} }}", "data", top)


def units(count, bottom="x", top="y"):
    return layer("InnerProduct", f"inner_product_param {{ num_output: {count} {FILLERS} }}", bottom,
                 top)


SEQUENCE = (layer("Reshape", "reshape_param { shape { dim: 4 dim: 4 dim: -1 } }", "x", "steps") +
            """layer { name: "cont" type: "DummyData" top: "cont" dummy_data_param {
  shape { dim: 4 dim: 4 } data_filler { type: "constant" value: 1 } } }
""")
BACK = layer("Reshape", "reshape_param { shape { dim: 16 dim: -1 } }", "h", "y")
RECURRENT = f"recurrent_param {{ num_output: 6 {FILLERS} }}"

# name: the layers from "x" to "y".
BETWEEN = {
    "sigmoid": layer("Sigmoid"),
    "sigmoid_in_place": layer("Sigmoid", "", "x", "x") + layer("Split", "", "x", "y"),
    "tanh": layer("TanH"),
    "elu": layer("ELU", "elu_param { alpha: 0.7 }"),
    "absval": layer("AbsVal"),
    "power": layer("Power", "power_param { power: 2 scale: 0.5 shift: 3 }"),
    "power_linear": layer("Power", "power_param { scale: -0.5 shift: 3 }"),
    "exp": layer("Exp", "exp_param { base: 2 scale: 0.3 shift: 0.1 }"),
    "exp_e": layer("Exp", "exp_param { scale: 0.2 }"),
    "log": layer("AbsVal", "", "x", "a") + layer("Log", "log_param { base: 10 scale: 2 shift: 1 }", "a"),
    "bnll": layer("BNLL"),
    "threshold": layer("Threshold", "threshold_param { threshold: 0.2 }", "data"),
    "prelu": layer("PReLU"),
    "prelu_shared": layer("PReLU", 'prelu_param { channel_shared: true filler { value: 0.1 } }', "x", "x") +
                    layer("Split", "", "x", "y"),
    "scale": layer("Scale", 'scale_param { bias_term: true filler { type: "uniform" min: 0.5 max: 2 } }'),
    "scale_axes": layer("Scale", 'scale_param { axis: 2 num_axes: 2 filler { type: "uniform" min: 0.5 max: 2 } }'),
    "scale_two": again() + layer("Scale", "scale_param { axis: 0 }", "x z"),
    "bias": layer("Bias", 'bias_param { filler { type: "uniform" min: -1 max: 1 } }'),
    "bias_two": again() + layer("Bias", "bias_param { axis: 0 }", "x z"),
    "batch_norm": layer("BatchNorm"),
    "batch_norm_scale": layer("BatchNorm", "batch_norm_param { moving_average_fraction: 0.9 eps: 1e-3 }", "x", "x") +
                        layer("Scale", "scale_param { bias_term: true }"),
    "mvn": layer("MVN"),
    "mvn_across": layer("MVN", "mvn_param { across_channels: true normalize_variance: false }"),
    "lrn_across": layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 k: 1.5 }"),
    "lrn_within_k": layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 k: 3 norm_region: WITHIN_CHANNEL }"),
    "lrn_within": layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }"),
    "deconvolution": layer("Deconvolution", f"convolution_param {{ num_output: 3 kernel_size: 4 stride: 2 pad: 1 {FILLERS} }}"),
    "deconvolution_groups": layer("Deconvolution", "convolution_param { num_output: 4 group: 4 kernel_size: 4 stride: 2 "
                                  'bias_term: false weight_filler { type: "bilinear" } }'),
    "convolution_dilated": layer("Convolution", f"convolution_param {{ num_output: 3 kernel_size: 3 dilation: 2 {FILLERS} }}"),
    "convolution_depthwise": layer("Convolution", f"convolution_param {{ num_output: 8 group: 4 kernel_size: 3 pad: 1 {FILLERS} }}"),
    "convolution_exceeding": layer("Convolution", f"convolution_param {{ num_output: 3 kernel_size: 12 stride: 3 {FILLERS} }}"),
    "convolution_nd": layer("Convolution", f"convolution_param {{ num_output: 3 kernel_size: 3 force_nd_im2col: true {FILLERS} }}"),
    "convolution_3d": layer("Reshape", "reshape_param { shape { dim: 0 dim: 1 dim: 4 dim: 10 dim: 10 } }", "x", "v") +
                      layer("Convolution", f"convolution_param {{ num_output: 3 kernel_size: 2 kernel_size: 3 kernel_size: 3 pad: 1 pad: 0 pad: 1 stride: 1 stride: 2 stride: 2 {FILLERS} }}", "v"),
    "convolution_1d": layer("Reshape", "reshape_param { shape { dim: 0 dim: 0 dim: -1 } }", "x", "v") +
                      layer("Convolution", f"convolution_param {{ num_output: 3 kernel_size: 5 stride: 2 {FILLERS} }}", "v"),
    "im2col": layer("Im2col", "convolution_param { kernel_size: 3 stride: 2 pad: 1 }"),
    "pooling_wide": layer("Pooling", "pooling_param { kernel_size: 3 stride: 4 }"),
    "pooling_average_overhang": layer("Pooling", "pooling_param { pool: AVE kernel_size: 4 stride: 3 pad: 2 }"),
    "spp": layer("SPP", "spp_param { pyramid_height: 3 }"),
    "spp_average": layer("SPP", "spp_param { pyramid_height: 2 pool: AVE }"),
    "concat": again(3) + layer("Concat", "", "x z"),
    "concat_rows": again(4) + layer("Concat", "concat_param { axis: 2 }", "x z"),
    "slice": layer("Slice", "slice_param { slice_point: 1 }", "x", "a b") + layer("Concat", "concat_param { axis: 1 }", "b a"),
    "slice_equal": layer("Slice", "slice_param { axis: 3 }", "x", "a b") + layer("Eltwise", "", "a b"),
    "eltwise_sum": again() + layer("Eltwise", "eltwise_param { coeff: 0.5 coeff: -1 }", "x z"),
    "eltwise_product": again() + layer("Eltwise", "eltwise_param { operation: PROD }", "x z"),
    "eltwise_quotient": again() + layer("Eltwise", "eltwise_param { operation: PROD stable_prod_grad: false }", "x z"),
    "eltwise_max_coefficients": again() + layer("Eltwise", "eltwise_param { operation: MAX coeff: 2 coeff: -1 }", "x z"),
    "eltwise_max": again() + layer("Eltwise", "eltwise_param { operation: MAX }", "x z"),
    "flatten": layer("Flatten", "flatten_param { axis: 1 end_axis: 2 }"),
    "reshape": layer("Reshape", "reshape_param { shape { dim: 2 dim: -1 } axis: 1 num_axes: 2 }"),
    "crop": again(4, "z", 14) + layer("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", "x z"),
    "reduction_sum": layer("Reduction", "reduction_param { axis: 2 coeff: 0.1 }"),
    "reduction_absolute": layer("Reduction", "reduction_param { operation: ASUM axis: 2 coeff: 0.1 }"),
    "reduction_squares": layer("Reduction", "reduction_param { operation: SUMSQ axis: 2 coeff: 0.1 }"),
    "reduction_mean": layer("Reduction", "reduction_param { operation: MEAN axis: 3 }"),
    "tile": layer("Tile", "tile_param { axis: 1 tiles: 3 }"),
    "embed": layer("Embed", f"embed_param {{ input_dim: 10 num_output: 400 {FILLERS} }}", "label", "e") +
             layer("Flatten", "", "x", "f") + layer("Eltwise", "", "e f"),
    "argmax": layer("ArgMax", "argmax_param { axis: 1 }", "data", "a") + layer("Flatten", "", "x", "y") +
              layer("Silence", "", "a", ""),
    "silence": again() + layer("Split", "", "x", "y") + layer("Silence", "", "z", ""),
    "dropout_test": layer("Dropout", "include { phase: TEST }", "x", "x") + layer("Split", "", "x", "y"),
    "parameter_shared": "".join(
        layer("InnerProduct", f'param {{ name: "w" }} inner_product_param {{ num_output: 400 bias_term: false {FILLERS} }}'.replace(
            ' bias_filler { type: "uniform" min: -0.2 max: 0.2 }', ""), bottom, top)
        for bottom, top in (("x", "a"), ("a", "y"))),
    "lstm": SEQUENCE + layer("LSTM", RECURRENT, "steps cont", "h") + BACK,
    "lstm_static": SEQUENCE + layer("LSTM", RECURRENT, "steps cont s", "h").replace(
        "layer {", layer("Slice", "slice_param { axis: 0 slice_point: 4 }", "x", "s rest") +
        layer("Silence", "", "rest", "") + "layer {", 1) + BACK,
    "rnn": SEQUENCE + layer("RNN", RECURRENT, "steps cont", "h") + BACK,
}

# name: the layers from "x" to the losses.
TO_LOSS = {
    "euclidean_loss": units(10) + """layer { name: "target" type: "DummyData" top: "target" dummy_data_param {
  shape { dim: 16 dim: 10 } data_filler { type: "constant" value: 0.5 } } }
""" + layer("EuclideanLoss", "", "y target", "loss"),
    "sigmoid_cross_entropy": units(784) + layer("Flatten", "", "data", "f") +
                             layer("Threshold", "", "f", "t") +
                             layer("SigmoidCrossEntropyLoss", "loss_weight: 0.01", "y t", "loss"),
    "hinge_loss": units(10) + layer("HingeLoss", "", "y label", "loss"),
    "hinge_loss_squared": units(10) + layer("HingeLoss", "hinge_loss_param { norm: L2 }", "y label", "loss"),
    "contrastive_loss": units(3) + units(3, "data", "z") +
                        layer("Threshold", "threshold_param { threshold: 4.5 }", "label", "same") +
                        layer("ContrastiveLoss", "contrastive_loss_param { margin: 2 }", "y z same", "loss"),
    "contrastive_loss_legacy": units(3) + units(3, "data", "z") +
                               layer("Threshold", "threshold_param { threshold: 4.5 }", "label", "same") +
                               layer("ContrastiveLoss", "contrastive_loss_param { margin: 9 legacy_version: true }", "y z same", "loss"),
    "multinomial_loss": units(10) + layer("Softmax", "", "y", "p") +
                        layer("MultinomialLogisticLoss", "", "p label", "loss"),
    "infogain_loss": units(10) + """layer { name: "h" type: "DummyData" top: "h" dummy_data_param {
  shape { dim: 1 dim: 1 dim: 10 dim: 10 } data_filler { type: "constant" value: 0.1 } } }
""" + layer("InfogainLoss", "", "y label h", "loss"),
    "softmax_loss_ignores": units(10) + layer("SoftmaxWithLoss", "loss_param { ignore_label: 3 }", "y label", "loss"),
    "softmax_loss_full": units(10) + layer("SoftmaxWithLoss", "loss_param { ignore_label: 3 normalization: FULL } loss_weight: 0.5", "y label", "loss"),
    "softmax_loss_none": units(10) + layer("SoftmaxWithLoss", "loss_param { normalization: NONE } loss_weight: 0.05", "y label", "loss"),
    "two_losses": units(10) + units(10, "x", "z") + layer("SoftmaxWithLoss", "", "y label", "loss") +
                  layer("HingeLoss", "loss_weight: 0.1", "z label", "second"),
}

# A net in the format before 2014's change.
V1 = """
layers { name: "data" type: DATA top: "data" top: "label" data_param {
  source: "data/mnist/mnist_train_lmdb" batch_size: 16 backend: LMDB scale: 0.01 } }
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "x" blobs_lr: 1 blobs_lr: 2 weight_decay: 1
  weight_decay: 0 convolution_param { num_output: 4 kernel_size: 10 stride: 2 weight_filler { type: "xavier" } } }
layers { name: "relu" type: RELU bottom: "x" top: "x" }
layers { name: "ip" type: INNER_PRODUCT bottom: "x" top: "y" inner_product_param {
  num_output: 10 weight_filler { type: "xavier" } } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "y" bottom: "label" top: "loss" }
"""

SOLVERS = {
    "adagrad": {"type": "AdaGrad", "base_lr": 0.01, "momentum": 0.0, "delta": 1e-6},
    "rmsprop": {"type": "RMSProp", "base_lr": 0.001, "momentum": 0.0, "rms_decay": 0.9},
    "adadelta": {"type": "AdaDelta", "base_lr": 1.0, "momentum": 0.95, "delta": 1e-6},
    "adam": {"type": "Adam", "base_lr": 0.001, "momentum": 0.9, "momentum2": 0.99},
    "adam_old": {"solver_type": "ADAM", "base_lr": 0.001, "clip_gradients": 0.1},
}


# Learning rates of those that 0.01 lets diverge.
RATES = {"power": 1e-4, "power_linear": 1e-3, "reduction_sum": 1e-3, "reduction_absolute": 1e-3,
         "reduction_squares": 1e-4, "euclidean_loss": 1e-3, "hinge_loss_squared": 1e-4,
         "contrastive_loss": 1e-4, "contrastive_loss_legacy": 1e-5}


def study(name, text, solver=None):
    rate = RATES.get(name.removeprefix("layer_"), 0.01)
    return Study(name, "", "grey", 10, 0, 0, curve_only=True, text=text,
                 solver={"lr_policy": "fixed", "base_lr": rate, **(solver or {})})


def data_for(name):
    """Where the layer takes the mean away, a bias before it has no gradient but rounding errors."""
    if not re.match("batch_norm|mvn", name):
        return DATA
    return re.sub(r"bias_filler {[^}]*}", "bias_term: false", DATA)


LAYER_STUDIES = (
    [study(f"layer_{name}", data_for(name) + text + SCORES + LOSS) for name, text in BETWEEN.items()] +
    [study(f"layer_{name}", DATA + text) for name, text in TO_LOSS.items()] +
    [study("format_v1", V1)] +
    [study(f"solver_{name}", DATA + layer("ReLU", "", "x", "y") + SCORES + LOSS, solver)
     for name, solver in SOLVERS.items()])
