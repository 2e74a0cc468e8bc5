"""PyTorch on two cards, a process each: one of

    two_cards.py ddp|all-reduce|share

The first process starts the second, and prints what both agree on."""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402

STEPS = 10


def join(rank, where):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="file://" + where, rank=rank,
                            world_size=2)


def ddp(rank, where):
    """Data-parallel training: the loss of each rank's last step."""
    join(rank, where)
    torch.manual_seed(3)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(
        nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda(rank),
        device_ids=[rank])
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        rows = 64 + 16 * (step % 3)
        batch = torch.randn(rows, 512, generator=generator).cuda(rank)
        loss = (net(batch) - 1).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    both = [torch.zeros_like(loss) for _ in range(2)]
    dist.all_gather(both, loss.detach())
    if not rank:
        print("result first=%.17g second=%.17g" % tuple(
            part.item() for part in both), flush=True)
    dist.destroy_process_group()


def all_reduce(rank, where):
    """Sums of whole numbers, exact in any order, small and large."""
    join(rank, where)
    for size in (1, 1000, 300_000, 5_000_000, 50_000_000):
        for turn in range(3):
            data = (torch.arange(size, device="cuda") % 251).float()
            data += rank + turn
            dist.all_reduce(data)
            if not rank:
                print("result size=%d turn=%d sum=%.0f" % (
                    size, turn, data.double().sum().item()), flush=True)
            del data
    dist.destroy_process_group()


def receive(pipe):
    """The other process: has the tensor open on its card, and copies it."""
    torch.cuda.set_device(1)
    while True:
        tensor = pipe.recv()
        if tensor is None:
            return
        here = tensor.to("cuda:1", copy=True)
        tensor.add_(1)
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
        pipe.send(here.double().sum().item())
        del tensor, here


def share():
    """Tensors of the first card in a process that works on the second."""
    here, there = mp.Pipe()
    other = mp.Process(target=receive, args=(there,), daemon=True)
    other.start()
    for size in (3, 1000, 300_000, 5_000_000, 60_000_000):
        tensor = (torch.arange(size, device="cuda:0") % 251).float()
        try:
            here.send(tensor)
            seen = "%.0f" % here.recv()
        except Exception as error:
            seen = type(error).__name__
        print("result size=%d seen=%s after=%.0f" % (
            size, seen, tensor.double().sum().item()), flush=True)
    here.send(None)
    other.join(60)
    print("result exit=%s" % other.exitcode)


def main():
    import tempfile
    mp.set_start_method("spawn")
    if sys.argv[1] == "share":
        share()
        return
    work = {"ddp": ddp, "all-reduce": all_reduce}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        where = os.path.join(folder, "meeting")
        other = mp.Process(target=work, args=(1, where), daemon=True)
        other.start()
        work(0, where)
        other.join(60)
        if other.exitcode:
            sys.exit("the second rank ended with %s" % other.exitcode)


if __name__ == "__main__":
    main()
