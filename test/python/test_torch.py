"""millrace.torch: PyTorch models in a cluster."""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import millrace
from conftest import SECONDS, wait_until

torch = pytest.importorskip("torch", reason="no module torch: install python3-torch")
F = torch.nn.functional


def small_net(channels=4):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Conv2d(1, channels, 3), torch.nn.BatchNorm2d(channels),
                               torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(channels * 6 * 6, 5))


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), **{"lr": 0.05, "momentum": 0.9, **options})


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(16, 1, 8, 8, generator=generator)
    return images, images.reshape(16, -1)[:, :5].argmax(1)


def step(model, optimizer, seed):
    images, labels = batch(seed)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return float(loss.detach())


@pytest.fixture
def join(two_nodes):
    """join(node, model, optimizer): the run of a node that has joined; it leaves after the test."""
    runs = []

    def joined(node, model, optimizer, topology=two_nodes, **options):
        runs.append(millrace.torch.join(topology, node=node, model=model, optimizer=optimizer,
                                        seconds=SECONDS, **options))
        return runs[-1]
    yield joined
    for run in runs:
        if not run._ended:
            run.leave()


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_alone_a_run_computes_what_pytorch_computes(join):
    plain, model = small_net(), small_net()
    plain_optimizer, optimizer = sgd(plain), sgd(model)
    parameters = list(model.parameters())
    run = join("a", model, optimizer)
    assert run.optimizer is optimizer and run.nodes == 1 and run.is_leader
    for i in range(20):
        assert step(model, optimizer, i) == step(plain, plain_optimizer, i)
    assert run.iterations == 20
    assert all(one is other for one, other in zip(parameters, model.parameters()))
    run.finish()
    assert same(model.state_dict(), plain.state_dict())
    assert same(run.merged_state_dict(), plain.state_dict())


def test_models_meet_by_a_registry(etcd, segments):
    runs, models = [], [small_net(), small_net()]
    with torch.no_grad():
        models[0][0].bias.fill_(7)
    for place, model in zip(("127.0.0.2", "127.0.0.3"), models):
        runs.append(millrace.torch.join(
            segments, model=model, optimizer=sgd(model), seconds=SECONDS, nodes="1:4",
            rendezvous=f"etcd://{etcd}/run?lease=5&address={place}"))
    assert runs[1].nodes == 2 and same(models[0].state_dict(), models[1].state_dict())
    for run in runs:
        run.leave()


def test_parameters_and_buffers_lie_in_one_array(join):
    model = small_net()
    run = join("a", model, sgd(model))
    begin = run._own.ctypes.data
    tensors = list(model.parameters()) + [model[1].running_mean, model[1].running_var]
    pointers = sorted(tensor.data_ptr() for tensor in tensors)
    assert len(set(pointers)) == len(tensors)
    assert all(begin <= pointer < begin + run._own.nbytes and pointer % 64 == 0
               for pointer in pointers)
    model[4].bias.data[2] = 17
    assert np.count_nonzero(run._own == 17) == 1


def test_a_late_node_takes_model_and_statistics_of_the_run(join):
    first, second = small_net(), small_net()
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(1)
    optimizer = sgd(first)
    a = join("a", first, optimizer, iteration=40)
    for i in range(5):
        step(first, optimizer, i)
    a.merged_state_dict()  # steps of a node alone are merged ten times a second
    b = join("b", second, sgd(second))
    expected = first.state_dict()
    for key, tensor in second.state_dict().items():
        assert key == "1.num_batches_tracked" or torch.equal(tensor, expected[key]), key
    assert b.iterations == 45
    step(second, b.optimizer, 9)
    b.leave()
    wait_until(lambda: a.iterations == 46)
    step(first, optimizer, 9)  # takes what b has sent
    assert not torch.equal(first[0].weight, small_net()[0].weight)
    a.finish()


def test_frozen_parameters_stay_out_of_the_array(join):
    def net(add=0.0, frozen=True):
        model = small_net()
        model[4].weight.data.add_(add)
        model[4].weight.requires_grad_(not frozen)
        return model
    first, second, other = net(), net(), net(add=1)
    a = join("a", first, sgd(first))
    assert a._own.size < first[4].weight.numel()
    with pytest.raises(millrace.Error, match="has another net"):
        join("b", other, sgd(other))
    b = join("b", second, sgd(second))
    step(first, a.optimizer, 0)
    assert torch.equal(first[4].weight, second[4].weight)
    b.leave()
    first[4].weight.requires_grad_(True)
    with pytest.raises(millrace.Error, match="^4.weight: was frozen at join and is not exchanged"):
        step(first, a.optimizer, 1)
    a.leave()
    a = join("a", first, a.optimizer, frozen=True)
    b = join("b", other, sgd(other), frozen=True)
    assert torch.equal(first[4].weight, other[4].weight)
    other[4].weight.requires_grad_(True)
    step(other, b.optimizer, 0)


def train(run, seed, steps):
    losses = []
    while run.iterations < steps or not losses:
        losses.append(step(run.model, run.optimizer, seed + 2 * len(losses)))
    run.finish()
    return losses


def test_two_nodes_learn_and_end_with_the_same_weights(join):
    models = [small_net(16), small_net(16)]
    # A small rate, with which the net learns however late the progress of the other node arrives.
    runs = [join(name, model, sgd(model, lr=0.02, momentum=0.5))
            for name, model in zip("ab", models)]
    torch.set_num_threads(1)
    with ThreadPoolExecutor(2) as pool:
        losses = [each.result(SECONDS) for each in
                  [pool.submit(train, run, seed, 400) for seed, run in enumerate(runs)]]
    assert runs[0].iterations == runs[1].iterations >= 400
    for key, tensor in models[0].state_dict().items():
        if key != "1.num_batches_tracked":
            assert torch.equal(tensor, models[1].state_dict()[key]), key
    tests = [batch(10 ** 6 + i) for i in range(16)]
    images, labels = (torch.cat(each) for each in zip(*tests))
    models[0].eval()
    assert float(F.cross_entropy(models[0](images), labels)) < 0.7 * losses[0][0]


def test_other_models_are_refused(join):
    model = small_net()
    join("a", model, sgd(model))
    layers = list(small_net())
    other = torch.nn.Sequential(*layers[:4])
    other.add_module("last", layers[4])
    before = other.last.weight.data_ptr()
    optimizer = sgd(other)
    plain_step = optimizer.step
    with pytest.raises(millrace.Error, match="has another net: as many parameters, under other"):
        join("b", other, optimizer)
    assert other.last.weight.data_ptr() == before and optimizer.step == plain_step


@pytest.mark.parametrize("change, message", [
    (lambda m: m[4].double(), "^4.weight: torch.float64 given, expected float32, bfloat16 or"),
    (lambda m: setattr(m[4], "weight", torch.nn.Parameter(m[4].weight.to("meta"))),
     "^4.weight: on meta, expected a model on the CPU"),
    (lambda m: m.append(torch.nn.LazyLinear(3)), "^5.weight: not initialized, expected a forward"),
    (lambda m: setattr(m[4], "more", torch.nn.Parameter(m[4].weight.data[1:])),
     "^4.more shares a part of the memory of 4.weight"),
])
def test_models_that_cannot_join(two_nodes, change, message):
    model = small_net()
    optimizer = sgd(model)
    change(model)
    with pytest.raises(millrace.Error, match=message):
        millrace.torch.join(two_nodes, node="a", model=model, optimizer=optimizer)


def test_other_bad_arguments(two_nodes):
    model, other = small_net(), torch.nn.Linear(3, 2)
    with pytest.raises(millrace.Error, match=r"a parameter of shape \(2, 3\) is not one"):
        millrace.torch.join(two_nodes, node="a", model=model, optimizer=sgd(other))
    empty = torch.nn.ReLU()
    with pytest.raises(millrace.Error, match="model: expected a parameter"):
        millrace.torch.join(two_nodes, node="a", model=empty, optimizer=sgd(other))


def test_a_parameter_that_moves_is_an_error(join):
    model = small_net()
    run = join("a", model, sgd(model))
    step(model, run.optimizer, 0)
    model[4].weight.data = model[4].weight.data.clone()
    with pytest.raises(millrace.Error, match=r"^4.weight: replaced or moved since join"):
        step(model, run.optimizer, 1)
    with pytest.raises(millrace.Error, match="optimizer: in a run already"):
        millrace.torch.join("x", node="a", model=model, optimizer=run.optimizer)


def test_tied_parameters_stay_tied(join):
    model = torch.nn.ModuleDict({name: torch.nn.Linear(6, 6) for name in "abc"})
    model["b"].weight = model["a"].weight
    model["c"].weight.data = model["a"].weight.data  # another parameter, the same memory
    optimizer = sgd(model)
    join("a", model, optimizer)
    assert model["b"].weight is model["a"].weight
    assert model["c"].weight.data_ptr() == model["a"].weight.data_ptr()
    before = model["c"].weight.clone()
    model["a"](torch.ones(1, 6)).sum().backward()
    optimizer.step()
    assert not torch.equal(before, model["c"].weight)


def test_groups_schedulers_and_accumulation(join):
    def optimizer_of(model):
        return torch.optim.Adam([{"params": model[0].parameters(), "lr": 0.01},
                                 {"params": list(model[1].parameters())
                                  + list(model[4].parameters())}], lr=0.002)

    def loop(model, optimizer, schedulers):
        rates = []
        for i in range(12):
            images, labels = batch(i)
            F.cross_entropy(model(images), labels).backward()
            if i % 3 == 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=i > 6)
                for scheduler in schedulers:
                    scheduler.step()
            rates.append([group["lr"] for group in optimizer.param_groups])
        return rates

    def early(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def late(optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    plain, model = small_net(), small_net()
    plain_optimizer, optimizer = optimizer_of(plain), optimizer_of(model)
    schedulers = [early(optimizer)]
    run = join("a", model, optimizer)
    schedulers.append(late(run.optimizer))
    expected = loop(plain, plain_optimizer, [early(plain_optimizer), late(plain_optimizer)])
    assert loop(model, optimizer, schedulers) == expected
    assert run.iterations == 4
    assert same(model.state_dict(), plain.state_dict())


def test_closures(join):
    plain, model = small_net(), small_net()
    results = []
    for net in (plain, model):
        optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)
        if net is model:
            run = join("a", net, optimizer)
        images, labels = batch(0)

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images), labels)
            loss.backward()
            return loss
        results.append([float(optimizer.step(closure)) for _ in range(3)])
    assert results[0] == results[1] and results[0][2] < results[0][0]
    assert run.iterations == 3 and same(model.state_dict(), plain.state_dict())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_parameters_have_float32_copies(join, dtype):
    def net():
        torch.manual_seed(5)
        return torch.nn.Linear(8, 4).to(dtype)
    first = net()
    optimizer = torch.optim.SGD(first.parameters(), lr=1e-5, momentum=0.9)
    gradient = torch.ones(4, 8, dtype=dtype)
    first.weight.grad = gradient.clone()
    optimizer.step()  # state from before the run stays
    start = first.weight.detach().float()
    a = join("a", first, optimizer)
    for _ in range(10):
        first.weight.grad = gradient.clone()
        first.bias.grad = None
        optimizer.step()
    # Each step is far smaller than the distance between two half numbers.
    moved = start - optimizer.param_groups[0]["params"][0].detach()
    assert optimizer.param_groups[0]["params"][0].dtype == torch.float32
    expected = 1e-5 * sum(1 + sum(0.9 ** j for j in range(1, i + 2)) for i in range(10))
    torch.testing.assert_close(moved, torch.full_like(moved, expected), rtol=1e-2, atol=1e-7)
    assert torch.equal(first.weight, (start - moved).to(dtype))
    optimizer.zero_grad()
    assert first.weight.grad is None
    state = a.state_dict()
    assert state["model"]["weight"].dtype == torch.float32
    a.merged_state_dict()  # merges the steps of a node alone
    second = net()
    b = join("b", second, torch.optim.SGD(second.parameters(), lr=1e-5))
    assert torch.equal(second.weight, first.weight) and second.weight.dtype == dtype
    b.leave()
    a.leave()
    assert optimizer.param_groups[0]["params"][0] is first.weight
    third = net()
    other = torch.optim.SGD(third.parameters(), lr=1e-5, momentum=0.9)
    again = join("a", third, other, state=state)
    assert again.iterations == 10
    assert torch.equal(other.param_groups[0]["params"][0], state["model"]["weight"])


def test_a_run_continues_from_its_state(join):
    whole = small_net()
    optimizer = sgd(whole)
    for i in range(8):
        step(whole, optimizer, i)
    first = small_net()
    run = join("a", first, sgd(first), iteration=100)
    for i in range(4):
        step(first, run.optimizer, i)
    state = run.state_dict()
    step(first, run.optimizer, 77)
    run.load_state_dict(state)  # back
    second = small_net()
    late = join("b", second, sgd(second))
    with pytest.raises(millrace.Error, match="load_state_dict: 2 nodes are in sync"):
        late.load_state_dict(state)
    late.leave()
    for i in range(4, 8):
        step(first, run.optimizer, i)
    run.finish()
    assert run.iterations == 109
    assert same(first.state_dict(), whole.state_dict())
    third = small_net()
    run = join("a", third, sgd(third), state=state)
    assert run.iterations == 104
    for i in range(4, 8):
        step(third, run.optimizer, i)
    assert same(third.state_dict(), whole.state_dict())


def test_merged_values_are_a_copy_in_the_models_types(join):
    model = small_net()
    model.register_buffer("ids", torch.arange(3))
    run = join("a", model, sgd(model))
    step(model, run.optimizer, 0)
    merged = run.merged_state_dict()
    assert same(merged, model.state_dict())
    merged["4.weight"].zero_()
    merged["ids"].zero_()
    assert model[4].weight.any() and model.ids.any()


def test_a_step_that_is_not_finite_ends_both(join):
    first, second = small_net(), small_net()
    a, b = join("a", first, sgd(first)), join("b", second, sgd(second))
    with pytest.raises(millrace.Error, match="^4.bias: the step has made a value that is not f"):
        with b:
            second[4].bias.grad = torch.full((5,), float("nan"))
            b.optimizer.step()
    assert torch.isfinite(second[4].bias).all()  # the last good ones
    with pytest.raises(millrace.Error, match="node b ended with a loss that is not finite"):
        a.finish()


def test_the_end_of_a_block_ends_the_run(join, capfd):
    first, second = small_net(), small_net()
    a, b = join("a", first, sgd(first)), join("b", second, sgd(second))
    with pytest.raises(KeyError):
        with b:
            raise KeyError("what is missing")
    seen = []
    wait_until(lambda: seen.append(capfd.readouterr().err) or
               "node b has failed: KeyError: 'what is missing'" in "".join(seen))
    with a:
        step(first, a.optimizer, 0)
    for call in (a.finish, a.leave, lambda: step(first, a.optimizer, 0), lambda: a.nodes):
        with pytest.raises(millrace.Error):
            call()
    assert a.iterations == 1
    # The model and its optimizer may begin another run.
    c = join("a", first, a.optimizer)
    step(first, c.optimizer, 0)
    assert c.iterations == 1


def test_negative_variances_become_zero(join):
    model = small_net()
    run = join("a", model, sgd(model))
    run._member.add(np.where(run._shared == 1, np.float32(-3), np.float32(0)))
    step(model, run.optimizer, 0)
    run.merged_state_dict()  # takes what others have added
    assert (model[1].running_var == 0).any() and (model[1].running_var >= 0).all()


def test_a_gradient_scaler_skips_steps_that_overflow(join):
    if not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this PyTorch has no GradScaler for the CPU")
    model = small_net()
    run = join("a", model, sgd(model))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for infinite in (False, True, False):
        images, labels = batch(0)
        run.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        if infinite:
            model[4].bias.grad[0] = float("inf")
        scaler.step(run.optimizer)
        scaler.update()
    assert run.iterations == 2


def test_channels_last_and_compiled_models(join):
    def net():
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.Flatten(),
                                   torch.nn.Linear(16, 2)).to(memory_format=torch.channels_last)
    first, second = net(), net()
    a = join("a", first, sgd(first))
    assert first[0].weight.is_contiguous(memory_format=torch.channels_last)
    model = second
    if hasattr(torch, "compile"):
        model = torch.compile(second)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    b = join("b", model, optimizer)  # under the same names
    images = torch.ones(3, 2, 4, 4)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(images).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    b.leave()
    wait_until(lambda: a.iterations == 5)
    a.finish()
    assert torch.equal(first[0].weight, second[0].weight)


def test_workers_of_a_data_loader_do_not_disturb_the_run(join):
    model = small_net()
    run = join("a", model, sgd(model))
    images = torch.cat([batch(i)[0] for i in range(4)])
    labels = torch.cat([batch(i)[1] for i in range(4)])
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), 16,
                                         num_workers=2)
    for some, classes in loader:
        run.optimizer.zero_grad()
        F.cross_entropy(model(some), classes).backward()
        run.optimizer.step()
    assert run.iterations == 4


def test_a_blobs_data_is_shared_by_dlpack(write):
    net = millrace.Net(write("net.prototxt", """layer { name: 'in' type: 'Input' top: 'x'
        input_param { shape { dim: 2 dim: 3 } } }"""))
    blob = net.blobs["x"]
    tensor = torch.from_dlpack(blob.data)
    tensor[1, 2] = 5
    assert blob.data[1, 2] == 5 and tensor.data_ptr() == blob.data.ctypes.data
    del net, blob
    assert tensor[1, 2] == 5  # the tensor keeps the memory


class Recording(torch.optim.SGD):
    """Keeps the learning rates of its steps."""

    def __init__(self, parameters, **options):
        super().__init__(parameters, **options)
        self.rates = []

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


def test_three_nodes_multiply_the_rates_of_their_steps_alone(join, three_nodes):
    models = [small_net() for _ in range(3)]
    optimizers = [Recording(model.parameters(), lr=0.01) for model in models]
    runs = [join(name, model, optimizer, topology=three_nodes)
            for name, model, optimizer in zip("abc", models, optimizers)]
    wait_until(lambda: all(run.nodes == 3 for run in runs))
    schedulers = [torch.optim.lr_scheduler.StepLR(each, 5, 0.5) for each in optimizers]
    given = []

    def steps():
        for model, optimizer, scheduler in zip(models, optimizers, schedulers):
            given.append(optimizer.param_groups[0]["lr"])
            step(model, optimizer, len(given))
            assert optimizer.param_groups[0]["lr"] == given[-1]
            if len(given) <= 60:
                scheduler.step()
        return all(each.rates[-1] > given[-1] for each in optimizers)
    wait_until(steps)
    assert given[0] == 0.01 and given[-1] < 0.001
    for i, optimizer in enumerate(optimizers):
        for rate, own in zip(optimizer.rates, given[i::3]):
            assert own <= rate <= 3.0001 * own
