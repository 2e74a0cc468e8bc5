"""Ways of using PyTorch that lean on its memory: one of

    torch_ways.py compile|graph|loader|generate|pluggable|mempool

Small models with seeded weights; the last line has their losses or tokens. The
last two know of gpupool where it is preloaded, and use PyTorch's own allocator
where it is not."""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
from torch import nn  # noqa: E402


def model(width=256):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                         nn.Linear(4 * width, width)).cuda()


def batches(count, width=256):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(64, width, generator=generator) for _ in range(count)]


def compiled():
    """torch.compile in the mode that makes CUDA graphs, training."""
    net = model()
    step = torch.compile(net, mode="reduce-overhead")
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    for batch in batches(12):
        torch.compiler.cudagraph_mark_step_begin()
        loss = (step(batch.cuda()) - 1).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    print("result loss=%.17g" % loss.item())


def graph():
    """torch.cuda.graph: a training step, replayed. Where the capture is
    refused, whose words those are."""
    net = model()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    data = batches(12)
    static = torch.zeros_like(data[0], device="cuda")

    def step():
        optimiser.zero_grad(set_to_none=False)
        loss = (net(static) - 1).square().mean()
        loss.backward()
        optimiser.step()
        return loss

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(captured):
            loss = step()
    except Exception as error:
        print("result refused=%s" % type(error).__name__)
        sys.stdout.flush()
        os._exit(0)  # what is left of the capture is nobody's business
    for batch in data:
        static.copy_(batch)
        captured.replay()
    print("result loss=%.17g" % loss.item())


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(256, generator=generator)


def loader():
    """Four forked workers, pinned batches, copies that do not wait."""
    net = model()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    data = torch.utils.data.DataLoader(
        Numbers(), batch_size=64, num_workers=4, pin_memory=True,
        multiprocessing_context="fork", persistent_workers=True)
    total = 0.0
    for _ in range(2):
        for batch in data:
            loss = (net(batch.cuda(non_blocking=True)) - 1).square().mean()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            total += loss.item()
    print("result loss=%.17g total=%.17g" % (loss.item(), total))


def generate():
    """transformers' generate, greedy, of random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(7)
    net = GPT2LMHeadModel(GPT2Config(
        n_layer=4, n_head=8, n_embd=256, vocab_size=1000, bos_token_id=1,
        eos_token_id=None, pad_token_id=0)).cuda().eval()
    prompt = torch.arange(2, 34, device="cuda").reshape(2, 16)
    tokens = net.generate(prompt, attention_mask=torch.ones_like(prompt),
                          max_new_tokens=100, do_sample=False)
    weights = torch.arange(1, tokens.numel() + 1, device="cuda")
    print("result shape=%s tokens=%d" % (
        "x".join(map(str, tokens.shape)),
        int((tokens.flatten() * weights).sum())))


def trained():
    """Losses of a network whose batches a stream of its own brings."""
    net = model()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    total = 0.0
    for batch in batches(30):
        with torch.cuda.stream(side):
            data = batch.cuda(non_blocking=True) * 0.5
        main.wait_stream(side)
        data.record_stream(main)
        loss = (net(data) - 1).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        total += loss.item()
    return "loss=%.17g total=%.17g" % (loss.item(), total)


def door():
    """gpupool's for PyTorch; None in a plain run."""
    path = os.environ.get("LD_PRELOAD")
    return path and torch.cuda.memory.CUDAPluggableAllocator(
        path, "gpupool_torch_alloc", "gpupool_torch_free")


def pluggable():
    """All tensors by the door."""
    allocator = door()
    if allocator:
        torch.cuda.memory.change_current_allocator(allocator)
    print("result " + trained())


def mempool():
    """A pool within PyTorch's cache whose memory comes by the door; in the end
    it has to say that there is not so much."""
    if not hasattr(torch.cuda, "MemPool"):
        print("result lacks=torch.cuda.MemPool")
        return
    allocator = door()
    pool = torch.cuda.MemPool(allocator.allocator() if allocator else None)
    refused = "nothing"
    with torch.cuda.use_mem_pool(pool):
        losses = trained()
        try:
            torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            refused = "OutOfMemoryError"
    print("result %s refused=%s" % (losses, refused))


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    {"compile": compiled, "graph": graph, "loader": loader,
     "generate": generate, "pluggable": pluggable,
     "mempool": mempool}[sys.argv[1]]()
