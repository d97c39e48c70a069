"""Well-known nets, from their published descriptions.

NETS has for each name: a function that returns the Net, and its parameters. All read list files of
images in a folder (see `generate`), whose names the functions get with the batch size:
  classes.txt   colour images of 10 classes
  digits.txt    grey images, 28 x 28, of 10 classes
  pairs.txt     two grey images above each other; label 1: of the same class
  scenes.txt, masks.txt   colour images, and the class of each of their pixels
"""

from prototxt import MSRA, Net, Word, constant, gaussian
from ssd import ssd300, ssd300_deploy

CLASSES = 10
MEAN = 118.0


def images(net, folder, batch, size, crop):
    """The input of a classifier: the same images in training, with crops and mirrors, and tests."""
    for phase in ("TRAIN", "TEST"):
        net.images("data", f"{folder}/classes.txt", batch, size, phase, crop, mean=MEAN,
                   mirror=phase == "TRAIN")
    return "data"


# ---- LeNet and the nets for CIFAR-10 ----

def lenet(folder, batch):
    """LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition,
    1998, in Caffe's variant."""
    net = Net("LeNet")
    for phase in ("TRAIN", "TEST"):
        net.images("data", f"{folder}/digits.txt", batch, 28, phase, grey=True, scale=1 / 256)
    x = net.pool("pool1", net.conv("conv1", "data", 20, 5), 2, 2)
    x = net.pool("pool2", net.conv("conv2", x, 50, 5), 2, 2)
    x = net.relu(net.inner("ip1", x, 500))
    net.classify(net.inner("ip2", x, CLASSES))
    return net


def cifar10_quick(folder, batch):
    """Krizhevsky's small net for CIFAR-10 (cuda-convnet, 2012)."""
    net = Net("CIFAR10_quick")
    images(net, folder, batch, 32, None)
    x = net.relu(net.pool("pool1", net.conv("conv1", "data", 32, 5, pad=2, weights=gaussian(1e-4)),
                          3, 2))
    x = net.relu(net.conv("conv2", x, 32, 5, pad=2, weights=gaussian(0.01)))
    x = net.pool("pool2", x, 3, 2, kind="AVE")
    x = net.relu(net.conv("conv3", x, 64, 5, pad=2, weights=gaussian(0.01)))
    x = net.pool("pool3", x, 3, 2, kind="AVE")
    x = net.inner("ip1", x, 64, weights=gaussian(0.1))
    net.classify(net.inner("ip2", x, CLASSES, weights=gaussian(0.1)))
    return net


def cifar10_full(folder, batch, sigmoid=False):
    """Krizhevsky's larger net for CIFAR-10 (cuda-convnet, 2012); with sigmoids, and with batch
    normalisation before them, the net on which Caffe shows what the latter does."""
    net = Net("CIFAR10_full" + ("_sigmoid_bn" if sigmoid else ""))
    images(net, folder, batch, 32, None)
    x = "data"
    for i, (outputs, std, kind) in enumerate(
            [(32, 1e-4, "MAX"), (32, 0.01, "AVE"), (64, 0.01, "AVE")], 1):
        x = net.conv(f"conv{i}", x, outputs, 5, pad=2, weights=gaussian(std), bias=not sigmoid)
        if sigmoid:
            x = net.pool(f"pool{i}", x, 3, 2, kind=kind)
            x = net.add("BatchNorm", f"bn{i}", x)
            x = net.add("Sigmoid", f"sigmoid{i}", x)
        elif kind == "MAX":
            x = net.lrn(f"norm{i}", net.relu(net.pool(f"pool{i}", x, 3, 2, kind=kind)), 3, 5e-5)
        else:
            x = net.pool(f"pool{i}", net.relu(x), 3, 2, kind=kind)
            if i == 2:
                x = net.lrn(f"norm{i}", x, 3, 5e-5)
    net.classify(net.inner("ip1", x, CLASSES, weights=gaussian(0.01)))
    return net


def cifar10_full_sigmoid(folder, batch):
    return cifar10_full(folder, batch, sigmoid=True)


# ---- ImageNet, 2012 to 2014 ----

def alex_features(net, data, pool_first):
    """The layers of AlexNet up to its last dropout. Caffe's variant, CaffeNet, pools before it
    normalises; the published net normalises first."""
    x = net.relu(net.conv("conv1", data, 96, 11, 4, weights=gaussian(0.01)))
    for i in (1, 2):
        if pool_first:
            x = net.lrn(f"norm{i}", net.pool(f"pool{i}", x, 3, 2))
        else:
            x = net.pool(f"pool{i}", net.lrn(f"norm{i}", x), 3, 2)
        if i == 1:
            x = net.relu(net.conv("conv2", x, 256, 5, pad=2, group=2, weights=gaussian(0.01),
                                  bias_value=0.1))
    x = net.relu(net.conv("conv3", x, 384, 3, pad=1, weights=gaussian(0.01)))
    x = net.relu(net.conv("conv4", x, 384, 3, pad=1, group=2, weights=gaussian(0.01),
                          bias_value=0.1))
    x = net.relu(net.conv("conv5", x, 256, 3, pad=1, group=2, weights=gaussian(0.01),
                          bias_value=0.1))
    x = net.pool("pool5", x, 3, 2)
    for i in (6, 7):
        x = net.dropout(net.relu(net.inner(f"fc{i}", x, 4096, gaussian(0.005), 0.1)))
    return x


def alexnet(folder, batch):
    """Krizhevsky, Sutskever, Hinton: ImageNet classification with deep convolutional neural
    networks, NIPS 2012."""
    net = Net("AlexNet")
    x = alex_features(net, images(net, folder, batch, 256, 227), pool_first=False)
    net.classify(net.inner("fc8", x, 1000, gaussian(0.01)))
    return net


def caffenet(folder, batch):
    """AlexNet as Caffe's authors trained it: pooling before normalisation."""
    net = Net("CaffeNet")
    x = alex_features(net, images(net, folder, batch, 256, 227), pool_first=True)
    net.classify(net.inner("fc8", x, 1000, gaussian(0.01)))
    return net


def rcnn(folder, batch):
    """Girshick, Donahue, Darrell, Malik: Rich feature hierarchies for accurate object detection and
    semantic segmentation, CVPR 2014: CaffeNet's features and 200 classes of regions."""
    net = Net("R-CNN-ilsvrc13")
    x = alex_features(net, images(net, folder, batch, 227, None), pool_first=True)
    net.classify(net.inner("fc-rcnn", x, 200, gaussian(0.01)))
    return net


def vgg_features(net, data, counts):
    x = data
    for block, (count, outputs) in enumerate(zip(counts, (64, 128, 256, 512, 512)), 1):
        for i in range(1, count + 1):
            x = net.relu(net.conv(f"conv{block}_{i}", x, outputs, 3, pad=1))
        x = net.pool(f"pool{block}", x, 2, 2)
    return x


def vgg(folder, batch, name, counts):
    """Simonyan, Zisserman: Very deep convolutional networks for large-scale image recognition,
    ICLR 2015, configurations D and E."""
    net = Net(name, MSRA)
    x = vgg_features(net, images(net, folder, batch, 256, 224), counts)
    for i in (6, 7):
        x = net.dropout(net.relu(net.inner(f"fc{i}", x, 4096, gaussian(0.005))))
    net.classify(net.inner("fc8", x, 1000, gaussian(0.005)))
    return net


def vgg16(folder, batch):
    return vgg(folder, batch, "VGG_16", (2, 2, 3, 3, 3))


def vgg19(folder, batch):
    return vgg(folder, batch, "VGG_19", (2, 2, 4, 4, 4))


def googlenet(folder, batch):
    """Szegedy and others: Going deeper with convolutions, CVPR 2015, with both auxiliary
    classifiers."""
    net = Net("GoogLeNet")

    def conv(name, bottom, outputs, kernel, stride=1, pad=0):
        return net.relu(net.conv(name, bottom, outputs, kernel, stride, pad, bias_value=0.2))

    def inception(name, x, one, reduce3, three, reduce5, five, proj):
        at = f"inception_{name}"
        branches = [
            conv(f"{at}/1x1", x, one, 1),
            conv(f"{at}/3x3", conv(f"{at}/3x3_reduce", x, reduce3, 1), three, 3, pad=1),
            conv(f"{at}/5x5", conv(f"{at}/5x5_reduce", x, reduce5, 1), five, 5, pad=2),
            conv(f"{at}/pool_proj", net.pool(f"{at}/pool", x, 3, 1, 1), proj, 1)]
        return net.add("Concat", f"{at}/output", branches)

    def auxiliary(number, x):
        x = net.pool(f"loss{number}/ave_pool", x, 5, 3, kind="AVE")
        x = conv(f"loss{number}/conv", x, 128, 1)
        x = net.dropout(net.relu(net.inner(f"loss{number}/fc", x, 1024, bias_value=0.2)), 0.7)
        x = net.inner(f"loss{number}/classifier", x, 1000)
        net.classify(x, loss=f"loss{number}/loss", weight=0.3, accuracy=None)

    x = images(net, folder, batch, 256, 224)
    x = net.lrn("pool1/norm1", net.pool("pool1/3x3_s2", conv("conv1/7x7_s2", x, 64, 7, 2, 3), 3, 2))
    x = conv("conv2/3x3", conv("conv2/3x3_reduce", x, 64, 1), 192, 3, pad=1)
    x = net.pool("pool2/3x3_s2", net.lrn("conv2/norm2", x), 3, 2)
    x = inception("3a", x, 64, 96, 128, 16, 32, 32)
    x = inception("3b", x, 128, 128, 192, 32, 96, 64)
    x = inception("4a", net.pool("pool3/3x3_s2", x, 3, 2), 192, 96, 208, 16, 48, 64)
    auxiliary(1, x)
    x = inception("4b", x, 160, 112, 224, 24, 64, 64)
    x = inception("4c", x, 128, 128, 256, 24, 64, 64)
    x = inception("4d", x, 112, 144, 288, 32, 64, 64)
    auxiliary(2, x)
    x = inception("4e", x, 256, 160, 320, 32, 128, 128)
    x = inception("5a", net.pool("pool4/3x3_s2", x, 3, 2), 256, 160, 320, 32, 128, 128)
    x = inception("5b", x, 384, 192, 384, 48, 128, 128)
    x = net.dropout(net.pool("pool5/7x7_s1", x, 7, 1, kind="AVE"), 0.4)
    net.classify(net.inner("loss3/classifier", x, 1000), loss="loss3/loss3", weight=1)
    return net


# ---- Residual and compact nets ----

def resnet(folder, batch, depth, counts):
    """He, Zhang, Ren, Sun: Deep residual learning for image recognition, CVPR 2016: bottleneck
    blocks, the stride in their first convolution."""
    net = Net(f"ResNet-{depth}", MSRA)

    def conv(name, x, outputs, kernel, stride=1, pad=0):
        return net.norm(name, net.conv(f"res{name}", x, outputs, kernel, stride, pad, bias=False))

    def block(name, x, outputs, stride, project):
        shortcut = conv(f"{name}_branch1", x, 4 * outputs, 1, stride) if project else x
        y = net.relu(conv(f"{name}_branch2a", x, outputs, 1, stride))
        y = net.relu(conv(f"{name}_branch2b", y, outputs, 3, pad=1))
        y = conv(f"{name}_branch2c", y, 4 * outputs, 1)
        return net.relu(net.add("Eltwise", f"res{name}", [shortcut, y]))

    x = images(net, folder, batch, 256, 224)
    x = net.relu(net.norm("_conv1", net.conv("conv1", x, 64, 7, 2, 3, bias=False)))
    x = net.pool("pool1", x, 3, 2)
    for stage, count in enumerate(counts, 2):
        for i in range(count):
            letter = chr(ord("a") + i) if count <= 26 else ("a" if i == 0 else f"b{i}")
            x = block(f"{stage}{letter}", x, 16 << stage, 2 if i == 0 and stage > 2 else 1, i == 0)
    x = net.pool("pool5", x, 7, 1, kind="AVE")
    net.classify(net.inner("fc1000", x, 1000))
    return net


def resnet50(folder, batch):
    return resnet(folder, batch, 50, (3, 4, 6, 3))


def resnet101(folder, batch):
    return resnet(folder, batch, 101, (3, 4, 23, 3))


def resnet152(folder, batch):
    return resnet(folder, batch, 152, (3, 8, 36, 3))


def squeezenet(folder, batch):
    """Iandola and others: SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, 2016,
    version 1.1."""
    net = Net("SqueezeNet-v1.1")

    def fire(number, x, squeeze, expand):
        at = f"fire{number}"
        x = net.relu(net.conv(f"{at}/squeeze1x1", x, squeeze, 1))
        return net.add("Concat", f"{at}/concat", [
            net.relu(net.conv(f"{at}/expand1x1", x, expand, 1)),
            net.relu(net.conv(f"{at}/expand3x3", x, expand, 3, pad=1))])

    x = images(net, folder, batch, 256, 227)
    x = net.pool("pool1", net.relu(net.conv("conv1", x, 64, 3, 2)), 3, 2)
    x = net.pool("pool3", fire(3, fire(2, x, 16, 64), 16, 64), 3, 2)
    x = net.pool("pool5", fire(5, fire(4, x, 32, 128), 32, 128), 3, 2)
    x = fire(7, fire(6, x, 48, 192), 48, 192)
    x = net.dropout(fire(9, fire(8, x, 64, 256), 64, 256))
    x = net.relu(net.conv("conv10", x, 1000, 1, weights=gaussian(0.01)))
    net.classify(net.pool("pool10", x, kind="AVE"))
    return net


def mobilenet(folder, batch):
    """Howard and others: MobileNets: efficient convolutional neural networks for mobile vision
    applications, 2017, version 1."""
    net = Net("MobileNet", MSRA)

    def conv(name, x, outputs, kernel, stride=1, pad=0, group=None):
        x = net.conv(name, x, outputs, kernel, stride, pad, group, bias=False)
        return net.relu(net.norm(f"_{name}", x))

    x = conv("conv1", images(net, folder, batch, 256, 224), 32, 3, 2, 1)
    inputs = 32
    plan = [("2_1", 64, 1), ("2_2", 128, 2), ("3_1", 128, 1), ("3_2", 256, 2), ("4_1", 256, 1),
            ("4_2", 512, 2)] + [(f"5_{i}", 512, 1) for i in range(1, 6)] + [
                ("5_6", 1024, 2), ("6", 1024, 1)]
    for name, outputs, stride in plan:
        x = conv(f"conv{name}/dw", x, inputs, 3, stride, 1, group=inputs)
        x = conv(f"conv{name}/sep", x, outputs, 1)
        inputs = outputs
    x = net.conv("fc7", net.pool("pool6", x, kind="AVE"), 1000, 1)
    net.classify(net.add("Flatten", "scores", x))
    return net


def densenet121(folder, batch):
    """Huang, Liu, van der Maaten, Weinberger: Densely connected convolutional networks, CVPR 2017,
    growth 32."""
    net = Net("DenseNet-121", MSRA)

    def normalised(name, x):
        """A normalised copy: other layers read `x` as well."""
        net.add("BatchNorm", f"{name}/bn", x)
        net.add("Scale", f"{name}/scale", f"{name}/bn", f"{name}/bn",
                scale_param={"bias_term": True})
        return net.relu(f"{name}/bn")

    x = net.conv("conv1", images(net, folder, batch, 256, 224), 64, 7, 2, 3, bias=False)
    x = net.pool("pool1", net.relu(net.norm("_conv1", x)), 3, 2, 1)
    channels = 64
    for stage, count in enumerate((6, 12, 24, 16), 2):
        for i in range(1, count + 1):
            at = f"conv{stage}_{i}"
            y = net.conv(f"{at}/x1", normalised(f"{at}/x1", x), 128, 1, bias=False)
            y = net.conv(f"{at}/x2", normalised(f"{at}/x2", y), 32, 3, pad=1, bias=False)
            x = net.add("Concat", f"concat_{stage}_{i}", [x, y])
            channels += 32
        if stage < 5:
            channels //= 2
            at = f"conv{stage}_blk"
            x = net.conv(at, normalised(at, x), channels, 1, bias=False)
            x = net.pool(f"pool{stage}", x, 2, 2, kind="AVE")
    x = net.pool("pool5", normalised("conv5_blk", x), kind="AVE")
    net.classify(net.add("Flatten", "scores", net.conv("fc6", x, 1000, 1)))
    return net


# ---- Other tasks ----

def fcn8s(folder, batch):
    """Long, Shelhamer, Darrell: Fully convolutional networks for semantic segmentation, CVPR 2015:
    VGG-16 with strides of 8, 21 classes per pixel."""
    net = Net("FCN-8s", MSRA)
    net.images("data", f"{folder}/scenes.txt", batch, 128, mean=MEAN, label="scene")
    net.images("label", f"{folder}/masks.txt", batch, 128, grey=True, label="mask")
    net.add("Silence", "unused", ["scene", "mask"], [])
    x = "data"
    pools = []
    for block, (count, outputs) in enumerate(zip((2, 2, 3, 3, 3), (64, 128, 256, 512, 512)), 1):
        for i in range(1, count + 1):
            pad = 100 if (block, i) == (1, 1) else 1  # so that even small images have an output
            x = net.relu(net.conv(f"conv{block}_{i}", x, outputs, 3, pad=pad))
        x = net.pool(f"pool{block}", x, 2, 2)
        pools.append(x)
    x = net.dropout(net.relu(net.conv("fc6", x, 4096, 7)))
    x = net.dropout(net.relu(net.conv("fc7", x, 4096, 1)))
    bilinear = {"type": "bilinear"}

    def up(name, bottom, kernel, stride):
        return net.conv(name, bottom, 21, kernel, stride, bias=False, weights=bilinear,
                        params=[{"lr_mult": 0}], kind="Deconvolution", group=21)

    def fuse(number, pool, x, offset):
        score = net.conv(f"score_pool{number}", pool, 21, 1, weights=constant())
        score = net.add("Crop", f"score_pool{number}c", [score, x],
                        crop_param={"axis": 2, "offset": offset})
        return net.add("Eltwise", f"fuse_pool{number}", [x, score])

    x = up("upscore2", net.conv("score_fr", x, 21, 1, weights=gaussian(0.01)), 4, 2)
    x = up("upscore_pool4", fuse(4, pools[3], x, 5), 4, 2)
    x = up("upscore8", fuse(3, pools[2], x, 9), 16, 8)
    x = net.add("Crop", "score", [x, "data"], crop_param={"axis": 2, "offset": 31})
    net.add("SoftmaxWithLoss", "loss", [x, "label"],
            loss_param={"ignore_label": 255, "normalization": Word("VALID")})
    net.add("Accuracy", "accuracy", [x, "label"], include={"phase": Word("TEST")},
            accuracy_param={"ignore_label": 255})
    return net


def siamese(folder, batch):
    """Hadsell, Chopra, LeCun: Dimensionality reduction by learning an invariant mapping, CVPR 2006:
    two copies of a net with the same weights."""
    net = Net("siamese")
    net.layers.append({
        "name": "pairs", "type": "ImageData", "top": ["pairs", "same"],
        "transform_param": {"scale": 1 / 256},
        "image_data_param": {"source": f"{folder}/pairs.txt", "batch_size": batch,
                             "is_color": False}})
    net.add("Slice", "slice", "pairs", ["first", "second"],
            slice_param={"axis": 2, "slice_point": 28})
    ends = []
    for suffix, x in (("", "first"), ("_p", "second")):
        def shared(name):
            return [{"name": f"{name}_w", "lr_mult": 1}, {"name": f"{name}_b", "lr_mult": 2}]

        for i, outputs in ((1, 20), (2, 50)):
            x = net.conv(f"conv{i}{suffix}", x, outputs, 5, params=shared(f"conv{i}"))
            x = net.pool(f"pool{i}{suffix}", x, 2, 2)
        x = net.relu(net.inner(f"ip1{suffix}", x, 500, params=shared("ip1")))
        x = net.inner(f"ip2{suffix}", x, 10, params=shared("ip2"))
        ends.append(net.inner(f"feat{suffix}", x, 2, params=shared("feat")))
    net.add("ContrastiveLoss", "loss", ends + ["same"], contrastive_loss_param={"margin": 1})
    return net


def autoencoder(folder, batch):
    """Hinton, Salakhutdinov: Reducing the dimensionality of data with neural networks, Science
    2006: 784, 1000, 500, 250, 30 units and back."""
    net = Net("MNISTAutoencoder", {"type": "gaussian", "std": 1, "sparse": 15})
    net.images("data", f"{folder}/digits.txt", batch, 28, grey=True, scale=1 / 256)
    net.add("Silence", "unused", "label", [])
    x = target = net.add("Flatten", "flatdata", "data")
    for i, units in enumerate((1000, 500, 250, 30), 1):
        x = net.inner(f"encode{i}", x, units)
        if units != 30:
            x = net.add("Sigmoid", f"encode{i}neuron", x)
    for i, units in ((4, 250), (3, 500), (2, 1000)):
        x = net.add("Sigmoid", f"decode{i}neuron", net.inner(f"decode{i}", x, units))
    x = net.inner("decode1", x, 784)
    net.add("SigmoidCrossEntropyLoss", "cross_entropy_loss", [x, target], loss_weight=1)
    x = net.add("Sigmoid", "decode1neuron", x)
    net.add("EuclideanLoss", "l2_error", [x, target], loss_weight=0)
    return net


def lrcn(folder, batch, steps=4):
    """Donahue and others: Long-term recurrent convolutional networks for visual recognition and
    description, CVPR 2015: CaffeNet's features of `steps` frames, an LSTM, a class per frame."""
    net = Net("lrcn")
    x = images(net, folder, batch * steps, 240, 227)
    x = alex_features(net, x, pool_first=True)
    over_time = {"shape": {"dim": [steps, batch, 4096]}}
    x = net.add("Reshape", "frames", x, reshape_param=over_time)
    label = net.add("Reshape", "labels", "label",
                    reshape_param={"shape": {"dim": [steps, batch]}})
    cont = net.filled("cont", (steps, batch), 1)
    x = net.add("LSTM", "lstm1", [x, cont], recurrent_param={
        "num_output": 256, "weight_filler": {"type": "uniform", "min": -0.01, "max": 0.01},
        "bias_filler": constant()})
    x = net.inner("fc8-final", net.dropout(x), CLASSES, gaussian(0.01), axis=2)
    net.add("SoftmaxWithLoss", "loss", [x, label], softmax_param={"axis": 2})
    net.add("Accuracy", "accuracy", [x, label], accuracy_param={"axis": 2},
            include={"phase": Word("TEST")})
    return net


# By name: the function, the images of a batch, the learning rate.
NETS = {
    "lenet": (lenet, 16, 0.01),
    "cifar10_quick": (cifar10_quick, 16, 0.001),
    "cifar10_full": (cifar10_full, 16, 0.001),
    "cifar10_full_sigmoid": (cifar10_full_sigmoid, 16, 0.001),
    "caffenet": (caffenet, 4, 0.001),
    "alexnet": (alexnet, 4, 0.001),
    "googlenet": (googlenet, 2, 0.001),
    "rcnn": (rcnn, 4, 0.001),
    "vgg16": (vgg16, 1, 0.0001),
    "vgg19": (vgg19, 1, 0.0001),
    "resnet50": (resnet50, 2, 0.001),
    "resnet101": (resnet101, 2, 0.001),
    "resnet152": (resnet152, 2, 0.001),
    "squeezenet": (squeezenet, 4, 0.001),
    "mobilenet": (mobilenet, 2, 0.001),
    "densenet121": (densenet121, 2, 0.001),
    "fcn8s": (fcn8s, 1, 1e-6),
    "siamese": (siamese, 16, 0.001),
    "autoencoder": (autoencoder, 16, 0.001),
    "lrcn": (lrcn, 1, 0.001),
    "ssd300": (ssd300, 1, 0.0001),
}

# By name: a function that returns the form of the net that only computes, where that is another one.
DEPLOY = {"ssd300": ssd300_deploy}
