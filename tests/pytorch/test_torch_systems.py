"""Two processes, compiled steps, and the GPU kernel: slow, or for machines that have what they need."""

import os

import pytest

pytest.importorskip("torch.optim", reason="torch is not installed")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from finitesum.constraints import L1Ball
from finitesum.torch import HB, AdaHB, EpochT, fused_cuda, heavy_ball

BOTH = pytest.mark.parametrize("optimizer_class", [AdaHB, HB])
INTERPRETED = fused_cuda.HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"
HAS_CUDA = torch.cuda.is_available()

needs_kernel = pytest.mark.skipif(
    not (HAS_CUDA and fused_cuda.HAS_TRITON) and not INTERPRETED,
    reason="needs a CUDA device with Triton, or Triton and TRITON_INTERPRET=1",
)
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="needs a CUDA device")
needs_patience = pytest.mark.skipif(
    os.environ.get("FINITESUM_SLOW") != "1", reason="compiles for some 40 s: set FINITESUM_SLOW=1"
)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(6, 16, 5, generator=generator), torch.randn(6, 16, 3, generator=generator)


def train(net, optimizer, inputs, targets):
    for x, y in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()


def one_rank(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    net = torch.nn.parallel.DistributedDataParallel(network())
    optimizer = AdaHB(net.parameters(), lr=0.05, steps_per_epoch=3)
    inputs, targets = data()
    half = slice(8 * rank, 8 * rank + 8)
    train(net, optimizer, inputs[:, half], targets[:, half])
    torch.save(net.module.state_dict(), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
def test_two_processes_equal_one(tmp_path):
    mp.spawn(one_rank, (str(tmp_path),), nprocs=2)
    net = network()
    train(net, AdaHB(net.parameters(), lr=0.05, steps_per_epoch=3), *data())
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for name, value in net.state_dict().items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(value, first[name], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@needs_patience
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("optimizer_class", "options"),
    [
        (AdaHB, {}),
        (AdaHB, {"capturable": True}),
        (AdaHB, {"foreach": False}),
        (AdaHB, {"fused": True}),
        (AdaHB, {"constraint": L1Ball(1.0)}),
        (AdaHB, {"steps_per_epoch": None}),
        (HB, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ],
    ids=str,
)
def test_compiled_steps_equal_eager_ones_and_compile_twice(optimizer_class, options):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    eager, compiled = (torch.nn.Parameter(torch.ones(4, 3)) for _ in range(2))
    options = {"steps_per_epoch": 3, **options}
    a, b = optimizer_class([eager], **options), optimizer_class([compiled], **options)
    schedulers = [EpochT(o) for o in (a, b)] if options["steps_per_epoch"] is None else []
    step = torch.compile(b.step)
    for k in range(40):
        eager.grad = torch.randn(4, 3)
        compiled.grad = eager.grad.clone()
        a.step()
        step()
        for scheduler in schedulers if k % 4 == 3 else []:
            scheduler.step()
    torch.testing.assert_close(eager, compiled, rtol=1e-5, atol=1e-6)
    # With states made, with states given; and once more where t is a number of the group.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3


@pytest.fixture
def kernel_device(monkeypatch):
    """A CUDA device, or the CPU with the kernel's interpreter in place of the compiled loops."""
    if HAS_CUDA and not INTERPRETED:
        return "cuda"
    monkeypatch.setattr(heavy_ball, "fused_update_cpu", fused_cuda.fused_update_cuda)
    return "cpu"


@needs_kernel
@pytest.mark.filterwarnings("ignore::UserWarning")
@BOTH
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.1, "maximize": True},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "capturable": True},
    ],
    ids=str,
)
def test_gpu_kernels_equal_the_reference(optimizer_class, dtype, options, kernel_device, monkeypatch):
    """Parameters updated together, one that counts as large, and one whose gradient lies otherwise than its state."""
    monkeypatch.setattr(fused_cuda, "SMALL", 2050)
    if dtype == torch.bfloat16 and kernel_device == "cpu":
        pytest.skip("Triton's interpreter truncates to bfloat16 where the device rounds")
    shapes = [(70, 30), (5,), (), (0,), (41, 50), (8, 6)]
    n_steps = 100 if kernel_device == "cuda" else 5

    def run(**how):
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(s, dtype=dtype).to(kernel_device)) for s in shapes]
        image = torch.randn(2, 3, 4, 5, dtype=dtype).to(kernel_device, memory_format=torch.channels_last)
        params.append(torch.nn.Parameter(image))
        optimizer = optimizer_class(params, lr=0.02, steps_per_epoch=2, **how, **options)
        for _ in range(n_steps):
            for p in params:
                p.grad = torch.randn(p.shape, dtype=dtype).to(kernel_device)
            params[5].grad = torch.randn(6, 8, dtype=dtype).to(kernel_device).T
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in params])

    tolerance = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(run(fused=True), run(foreach=False), rtol=tolerance, atol=tolerance)


@needs_cuda
@BOTH
@pytest.mark.parametrize("how", [{}, {"foreach": False}, {"fused": True}], ids=str)
def test_captured_graph_equals_eager_steps(optimizer_class, how):
    def fresh():
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(n, device="cuda")) for n in (100, 1, 3000)]
        for w in params:
            w.grad = torch.randn_like(w)
        return params, optimizer_class(params, steps_per_epoch=2, capturable=True, **how)

    eager, optimizer = fresh()
    for _ in range(10):
        optimizer.step()
    captured, other = fresh()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            other.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        other.step()
    for _ in range(7):
        graph.replay()
    torch.testing.assert_close(captured, eager, rtol=1e-5, atol=1e-6)


@needs_cuda
def test_streams_have_tables_of_their_own():
    """Two streams that update in turns what neither waits for: the other's tables may not be there yet."""
    params = [[torch.nn.Parameter(torch.zeros(100, device="cuda")) for _ in range(5)] for _ in range(2)]
    optimizers = [AdaHB(own, lr=1.0, steps_per_epoch=2, fused=True) for own in params]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(50):
        for own, optimizer, stream in zip(params, optimizers, streams, strict=True):
            with torch.cuda.stream(stream):
                for w in own:
                    w.grad = torch.ones_like(w)
                optimizer.step()
    torch.cuda.synchronize()
    torch.testing.assert_close(params[0], params[1], rtol=0, atol=0)
    assert all(bool((w < 0).all()) for own in params for w in own)


@needs_cuda
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
@BOTH
def test_capture_without_capturable_is_refused(optimizer_class):
    w = torch.nn.Parameter(torch.randn(10, device="cuda"))
    w.grad = torch.randn(10, device="cuda")
    optimizer = optimizer_class([w], steps_per_epoch=2)
    optimizer.step()
    with pytest.raises(RuntimeError, match="capturable=True"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        optimizer.step()


@needs_cuda
@BOTH
def test_state_moves_between_devices(optimizer_class):
    def run(w, optimizer):
        for _ in range(5):
            w.grad = torch.ones_like(w)
            optimizer.step()

    w = torch.nn.Parameter(torch.ones(10))
    optimizer = optimizer_class([w], steps_per_epoch=2)
    run(w, optimizer)
    other = torch.nn.Parameter(w.detach().cuda())
    loaded = optimizer_class([other], steps_per_epoch=2)
    loaded.load_state_dict(optimizer.state_dict())
    assert loaded.state[other]["step"].device.type == "cpu"
    assert loaded.state[other]["momentum_buffer"].device.type == "cuda"
    run(w, optimizer)
    run(other, loaded)
    torch.testing.assert_close(other.cpu(), w, rtol=1e-5, atol=1e-6)
